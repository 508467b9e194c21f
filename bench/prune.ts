/**
 * How long others wait for one transition while 50 000 ended jobs are compacted and then removed: a writer in the same
 * process, and one in another, with and without a reader that tails the long log. Beside each the same without tidying.
 * The bound of the longest wait leaves room for the hiccups of the machine, which alone reach 160 ms.
 */
import { fork } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Engine } from "../packages/tidings/src/engine/engine.ts";
import { openEngine } from "../packages/tidings/src/engine/open-engine.ts";
import { systemClock, systemRandom } from "../packages/tidings/src/engine/system-clock.ts";
import type { Command } from "../packages/tidings/src/model/command.ts";
import { CROWD, write } from "./prune-neighbour.ts";
import { percentile, type Report } from "./report.ts";

const JOBS = Number(process.env.TIDINGS_BENCH_JOBS ?? 50_000);
const IDLE_MS = 3_000;
const ports = { clock: systemClock, random: systemRandom };

const STORY: readonly Command[] = [
  progress("parse", 2, 5, 8, 10),
  progress("match", 30, 50, 70),
  { type: "complete", resultResourceId: "job://x/result", reports: [] },
];

function progress(stageKey: string, ...percentages: number[]): Command {
  const reports = percentages.map((percentage) => ({
    percentage,
    stage: "Matching gifts to people",
    stageKey,
  }));
  return { type: "progress", reports };
}

async function seed(engine: Engine): Promise<void> {
  const name = (index: number) => `crowd_${index.toString(36).padStart(22, "0")}`;
  for (let index = 0; index < JOBS; index += 250) {
    const ids = Array.from({ length: Math.min(250, JOBS - index) }, (_, offset) => name(index + offset));
    const rest = { jobType: CROWD, input: { emails: ["ann@example.com"] }, digest: "", maxAttempts: 3 };
    await Promise.all(ids.map((jobId) => engine.start({ owner: CROWD, jobId, ...rest })));
    await engine.claim({ holder: "h", goneHolders: [], jobTypes: [CROWD], leaseMs: 3_600_000, limit: 250 });
    for (const command of STORY) {
      const result = { gifts: ["book", "tea"] };
      await Promise.all(ids.map((jobId) => engine.apply({ owner: CROWD, jobId, command, result })));
    }
  }
}

/** In a process of its own, until it is stopped. */
async function neighbour(task: "write" | "tail", store: string): Promise<() => Promise<number[]>> {
  const child = fork(fileURLToPath(new URL("prune-neighbour.ts", import.meta.url)), [task, store]);
  await once(child, "message");
  return async () => {
    const answer = once(child, "message");
    child.send("stop");
    const [spent] = (await answer) as [number[]];
    await once(child, "exit");
    return spent;
  };
}

interface Waits {
  readonly here: readonly number[];
  readonly elsewhere: readonly number[];
  readonly seconds: number;
}

let writers = 0;

async function waitsDuring(engine: Engine, store: string, work: () => Promise<unknown>): Promise<Waits> {
  const stopElsewhere = await neighbour("write", store);
  const stop = new AbortController();
  writers += 1;
  const here = write(engine, `here-${writers}`, stop.signal);
  const begun = performance.now();
  await work();
  const seconds = (performance.now() - begun) / 1_000;
  stop.abort();
  return { here: await here, elsewhere: await stopElsewhere(), seconds };
}

function say(report: Report, name: string, { here, elsewhere, seconds }: Waits, isGated: boolean): void {
  report(name, "took", seconds, "s");
  for (const [who, spent] of [
    ["same process", here],
    ["another process", elsewhere],
  ] as const) {
    report(name, `${who}, waits p99`, percentile(spent, 99), "ms", isGated ? { atMost: 50 } : {});
    report(name, `${who}, longest wait`, Math.max(...spent), "ms", isGated ? { atMost: 100 } : {});
  }
}

async function tidy(path: string, report: Report, suffix: string, isRead: boolean): Promise<void> {
  const store = `sqlite:${path}`;
  const engine = await openEngine(store, ports);
  const stopReading = isRead ? await neighbour("tail", store) : undefined;
  const idle = () => new Promise<void>((resolve) => void setTimeout(resolve, IDLE_MS));
  say(report, `SQLite, nothing to tidy${suffix}`, await waitsDuring(engine, store, idle), false);
  const compacting = await waitsDuring(engine, store, () => engine.prune({ compactAfterMs: 0 }));
  say(report, `SQLite, ${JOBS} jobs compacted${suffix}`, compacting, true);
  const removing = await waitsDuring(engine, store, async () => {
    const { jobs } = await engine.prune({ olderThanMs: 0 });
    if (jobs !== JOBS) throw new Error(`${jobs} jobs were removed.`);
  });
  say(report, `SQLite, ${JOBS} jobs removed${suffix}`, removing, true);
  await stopReading?.();
  await engine.close();
}

export async function benchPrune(report: Report): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "tidings-bench-"));
  try {
    const path = join(folder, "jobs.db");
    const engine = await openEngine(`sqlite:${path}`, ports);
    await seed(engine);
    await engine.close();
    copyFileSync(path, join(folder, "read.db"));
    await tidy(path, report, "", false);
    await tidy(join(folder, "read.db"), report, ", log being read", true);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
