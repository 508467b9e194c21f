/** What each test of the contract works with: a fresh store, a clock that it moves itself, and short ways to say things. */
import assert from "node:assert/strict";
import type { Random } from "../../../model/clock.ts";
import type { Command } from "../../../model/command.ts";
import type { TidingsEvent } from "../../../model/event.ts";
import type {
  Change,
  ChangeOutcome,
  ClaimOutcome,
  ClaimRequest,
  Engine,
  JobRecord,
  LogEntry,
  StartRequest,
} from "../../engine.ts";
import { createManualClock, type ManualClock } from "../manual-clock.ts";
import { createSeededRandom } from "../seeded-random.ts";

/** Opens a fresh, empty store that measures time by this clock. */
export type OpenEngine = (ports: { readonly clock: ManualClock; readonly random: Random }) => Promise<Engine>;

/** The functions of the test runner: those of vitest, of `node:test`, or any like them. */
export interface TestFunctions {
  describe(name: string, body: () => void): unknown;
  test(name: string, body: () => Promise<void>): unknown;
}

/** The lease of claims that do not say otherwise. */
export const LEASE_MS = 10_000;
export const ALICE = "alice";
export const BOB = "bob";

export interface World {
  readonly engine: Engine;
  readonly clock: ManualClock;
  /** Starts a job of Alice's; a fresh id unless given. */
  start(part?: Partial<StartRequest>): Promise<JobRecord>;
  claim(part?: Partial<ClaimRequest>): Promise<ClaimOutcome>;
  /** Starts and claims a job of Alice's. */
  running(part?: Partial<StartRequest>): Promise<JobRecord>;
  /** Applies a change to a job, whoever holds it, or under the record's claim. */
  apply(record: JobRecord, change: Partial<Change>): Promise<ChangeOutcome>;
  /** Applies a command that must be applied. */
  run(record: JobRecord, command: Command): Promise<JobRecord>;
  /** All events of Alice's log, or of the jobs named. */
  story(jobId?: string): Promise<readonly LogEntry[]>;
}

export interface Contract {
  test(name: string, body: (world: World) => Promise<void>): void;
}

export const PROGRESS: Command = progressTo(10);
export const COMPLETE: Command = { type: "complete", resultResourceId: "job://x/result", reports: [] };
export const FAIL: Command = {
  type: "fail",
  error: { code: "HANDLER_FAILED", message: "It broke.", retryable: true },
};
export const CANCEL: Command = { type: "cancel", canceledBy: "user", reason: "changed my mind" };

export function progressTo(...percentages: number[]): Command {
  const reports = percentages.map((percentage) => ({ percentage, stage: "Work", stageKey: "work" }));
  return { type: "progress", reports };
}

export function retryIn(delayMs: number): Command {
  return {
    type: "retry",
    delayMs,
    error: { code: "HANDLER_FAILED", message: "It broke.", retryable: true },
  };
}

/** An event that concerns no job. */
export function published(eventId: string, fields: Partial<TidingsEvent> = {}): TidingsEvent {
  return {
    eventId,
    type: "resource.updated",
    timestamp: "2030-01-01T00:00:00.000Z",
    resourceId: "resource:feed",
    changeType: "snapshot_ready",
    ...fields,
  } as TidingsEvent;
}

export function typesOf(entries: readonly LogEntry[]): string[] {
  return entries.map(({ event }) => event.type);
}

/** A field of an event's payload. */
export function fieldOf(entry: LogEntry | undefined, name: string): unknown {
  return (entry?.event as Readonly<Record<string, unknown>> | undefined)?.[name];
}

export async function rejectsWith(code: string, promise: Promise<unknown>): Promise<void> {
  await assert.rejects(promise, (error: { code?: string }) => {
    assert.equal(error.code, code);
    return true;
  });
}

/** A contract whose tests each open a store of their own and close it again. */
export function createContract(open: OpenEngine, { test }: TestFunctions): Contract {
  return {
    test(name, body) {
      test(name, async () => {
        const clock = createManualClock();
        const engine = await open({ clock, random: createSeededRandom(1) });
        try {
          await body(createWorld(engine, clock));
        } finally {
          await engine.close();
        }
      });
    },
  };
}

function createWorld(engine: Engine, clock: ManualClock): World {
  let ids = 0;
  const world: World = {
    engine,
    clock,
    async start(part = {}) {
      ids += 1;
      const outcome = await engine.start({
        owner: ALICE,
        jobId: `job_${ids}`,
        jobType: "work",
        input: { size: 1 },
        digest: "digest",
        maxAttempts: 3,
        ...part,
      });
      assert.equal(outcome.outcome, "created");
      return (outcome as { record: JobRecord }).record;
    },
    claim: (part = {}) =>
      engine.claim({
        holder: "holder",
        goneHolders: [],
        jobTypes: ["work"],
        leaseMs: LEASE_MS,
        limit: 100,
        ...part,
      }),
    async running(part) {
      const { job } = await world.start(part);
      const { records } = await world.claim();
      const record = records.find((claimed) => claimed.job.jobId === job.jobId);
      assert.ok(record, "the job that was just started can be claimed");
      return record;
    },
    apply: ({ owner, job }, change) => engine.apply({ owner, jobId: job.jobId, ...change }),
    async run(record, command) {
      const outcome = await world.apply(record, { command });
      assert.equal(outcome.outcome, "applied");
      return (outcome as { record: JobRecord }).record;
    },
    async story(jobId) {
      const filter = jobId === undefined ? {} : { jobIds: [jobId] };
      return (await engine.read(ALICE, filter, 0, 100_000)).entries;
    },
  };
  return world;
}
