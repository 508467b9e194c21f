/**
 * One run of a handler, from its start to its end, with the kills of a plan.
 *
 *   start ──▶ life 1: runtime over the store ──kill at commit n──▶ life 2 … ──▶ end ──▶ outcome
 *                                              │ nothing flushed, the lease runs out, the store is opened anew
 *
 * The runtime's clock stands still while the handler works, so that the same handler commits the same way in every run.
 */
import type { Engine, JobRecord } from "../engine/engine.ts";
import { createFaultEngine, type FaultEngine, type Write } from "../engine/testing/fault-engine.ts";
import { createManualClock, type ManualClock } from "../engine/testing/manual-clock.ts";
import { createSeededRandom } from "../engine/testing/seeded-random.ts";
import { TidingsError } from "../model/error.ts";
import type { TidingsEvent } from "../model/event.ts";
import { hasEnded, type Job } from "../model/job.ts";
import { reduce } from "../model/reduce.ts";
import { createTidings } from "../runtime/create-tidings.ts";
import type { AnyJobDefinition } from "../runtime/define-job.ts";
import type { Tidings } from "../runtime/tidings.ts";
import { type CrashStore, type Names, noting, type OpenCrashStore } from "./crash-store.ts";
import type { CrashOutcome } from "./difference.ts";
import { type Effects, lives } from "./effects.ts";

/** Where a process is killed: right before or right after a commit of its life, counted from 1. */
export interface Kill {
  readonly when: "before" | "after";
  readonly commit: number;
}

export interface RunOptions {
  readonly job: AnyJobDefinition;
  readonly input: unknown;
  readonly owner: string;
  readonly openStore: OpenCrashStore;
  /** The kills of the first life, the second life, … */
  readonly kills: readonly Kill[];
  readonly effects: Effects | undefined;
  readonly observe: ((world: CrashWorld) => unknown) | undefined;
  readonly onOpen: ((tidings: Tidings) => void) | undefined;
  /** In milliseconds of real time. */
  readonly timeoutMs: number;
}

/** What `observe` looks at, after the end of the job. */
export interface CrashWorld {
  readonly tidings: Tidings;
  readonly owner: string;
  readonly jobId: string;
}

export interface Run {
  readonly outcome: CrashOutcome;
  /** What was committed in each life, in words. */
  readonly commits: readonly (readonly string[])[];
}

const LEASE_MS = 10_000;
/** Far more than any worker sleeps. */
const STEP_MS = 1_000;
const PAGE = 1_000;

export async function runOnce(options: RunOptions): Promise<Run> {
  const store = await options.openStore();
  try {
    return await runIn(store, options);
  } finally {
    await store.remove();
  }
}

async function runIn(store: CrashStore, options: RunOptions): Promise<Run> {
  const { job, input, owner, kills, effects, observe, onOpen } = options;
  const clock = createManualClock();
  // The same ids in every run: what a handler makes of them can be compared.
  const ports = { clock, random: createSeededRandom(1) };
  const names: Names = { collections: new Set(), keys: new Set() };
  const commits: string[][] = [];
  effects?.forget();

  const starter = await createTidings({
    store: await store.open(ports),
    jobs: [job],
    concurrency: 0,
    ...ports,
  });
  const { jobId } = await starter.start(job, input, { owner }).finally(() => starter.close());

  for (let life = 0; ; life += 1) {
    const kill = kills[life];
    const inner = noting(await store.open(ports), names);
    const written: string[] = [];
    commits.push(written);
    const isCommit = ({ change }: Write) => change === undefined || change.jobId === jobId;
    const engine = createFaultEngine(inner, {
      rules: kill === undefined ? [] : [ruleOf(kill, isCommit)],
      onWrite(write) {
        if (COMMITS.includes(write.method) && isCommit(write)) written.push(describe(write));
      },
    });
    const tidings = await createTidings({
      store: engine,
      jobs: [mortal(job, engine, kills.length)],
      leaseMs: LEASE_MS,
      onError: () => undefined,
      ...ports,
    });
    onOpen?.(tidings);
    try {
      await untilEndOrDeath(engine, inner, clock, options, jobId);
      if (!engine.dead) {
        const outcome = await outcomeOf(inner, owner, jobId, names);
        const observed = await observe?.({ tidings, owner, jobId });
        return { outcome: { ...outcome, observed, effects: [...(effects?.seen ?? [])] }, commits };
      }
    } finally {
      // A dead process holds no file and no timer, but ours lives on.
      engine.kill();
      const closed = tidings.close({ graceMs: 0 });
      await engine.close();
      await closed;
    }
    clock.advance(LEASE_MS + 1);
  }
}

const COMMITS: readonly Write["method"][] = ["apply", "transaction", "publish"];

function ruleOf({ when, commit }: Kill, isCommit: (write: Write) => boolean) {
  return { fault: `die-${when}`, methods: COMMITS, when: isCommit, at: [commit] } as const;
}

/** The job as this life runs it: what a killed handler still does, it does to nobody. Kills cost it no attempts. */
function mortal(job: AnyJobDefinition, life: FaultEngine, kills: number): AnyJobDefinition {
  return {
    ...job,
    attempts: job.attempts + kills,
    run: (input, context) => lives.run(life, () => job.run(input, context)),
  };
}

/** Lets time pass only while the job waits for it: for a lease to run out, or for its next attempt. */
async function untilEndOrDeath(
  engine: FaultEngine,
  inner: Engine,
  clock: ManualClock,
  { owner, timeoutMs, kills }: RunOptions,
  jobId: string,
): Promise<void> {
  const givenUpAt = performance.now() + timeoutMs;
  const begun = await recordOf(inner, owner, jobId);
  let rung: () => void = () => undefined;
  const stopWatching = inner.watch(owner, () => rung());
  try {
    while (!engine.dead) {
      const committed = new Promise<void>((resolve) => {
        rung = resolve;
      });
      const { job, fence } = await recordOf(inner, owner, jobId);
      if (hasEnded(job.status)) {
        // A kill right after the last commit is on its way.
        await turn();
        return;
      }
      if (performance.now() > givenUpAt) {
        throw new TidingsError(
          "JOB_TIMEOUT",
          `The job had not ended after ${timeoutMs / 1000} s with ${kills.length} kills: it is ${job.status}, attempt ${job.attempt}.`,
          { hint: "Give a smaller input, or a longer timeoutMs." },
        );
      }
      if (job.status === "running" && fence > begun.fence) {
        await Promise.race([committed, engine.died, patience(givenUpAt)]);
      } else {
        clock.advance(STEP_MS);
        await turn();
      }
    }
  } finally {
    stopWatching();
  }
}

async function outcomeOf(
  engine: Engine,
  owner: string,
  jobId: string,
  names: Names,
): Promise<Omit<CrashOutcome, "observed" | "effects">> {
  const record = await recordOf(engine, owner, jobId);
  const folded = await foldOf(engine, owner, jobId);
  const collections: Record<string, readonly unknown[]> = {};
  for (const name of names.collections) collections[name] = await itemsOf(engine, owner, jobId, name);
  const values: Record<string, unknown> = {};
  await engine.transaction(owner, async (transaction) => {
    for (const key of names.keys) values[key] = await transaction.get(key);
  });
  return {
    status: folded.status,
    percentage: folded.percentage,
    summary: folded.summary,
    resultResourceId: folded.resultResourceId,
    error: folded.error === undefined ? undefined : `${folded.error.code}: ${folded.error.message}`,
    result: await engine.document(owner, jobId, "result"),
    counts: record.counts,
    collections,
    values,
  };
}

/** The job as every reader sees it: the fold of its events, which must be whole. */
async function foldOf(engine: Engine, owner: string, jobId: string): Promise<Job> {
  const events: TidingsEvent[] = [];
  for (let after = 0; ; ) {
    const { entries, through } = await engine.read(owner, { jobIds: [jobId] }, after, PAGE);
    events.push(...entries.map(({ event }) => event));
    if (entries.length < PAGE) break;
    after = through;
  }
  const gap = events.findIndex(({ seq }, index) => seq !== index + 1);
  const job = events.reduce<Job | undefined>((folded, event) => reduce(folded, event), undefined);
  if (gap < 0 && job !== undefined) return job;
  throw new TidingsError("INTERNAL", `The story of job ${jobId} has a gap at event ${gap + 1}.`);
}

async function itemsOf(engine: Engine, owner: string, jobId: string, name: string): Promise<unknown[]> {
  const items: unknown[] = [];
  for (;;) {
    const page = await engine.items(owner, jobId, name, items.length, PAGE);
    items.push(...page.items);
    if (page.items.length === 0 || items.length >= page.total) return items;
  }
}

async function recordOf(engine: Engine, owner: string, jobId: string): Promise<JobRecord> {
  const record = await engine.get(owner, jobId);
  if (record !== undefined) return record;
  throw new TidingsError("INTERNAL", `The store lost job ${jobId}.`);
}

function describe({ method, change }: Write): string {
  if (change?.checkpoint !== undefined) return "checkpoint";
  const command = change?.command;
  if (command === undefined) return method;
  switch (command.type) {
    case "progress":
      return `progress to ${command.reports.at(-1)?.percentage ?? 0} %`;
    case "inform":
      return `emit ${command.events.map(({ type }) => type).join(", ")}`;
    default:
      return command.type;
  }
}

function turn(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}

function patience(until: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, Math.max(1, Math.min(100, until - performance.now()))).unref();
  });
}
