/**
 * What goes on beside a store that is being tidied: lone transitions, or the tail of a long log. Runs in the process of
 * the bench, and as a process of its own: `prune-neighbour.ts write|tail STORE`; it stops at any message and answers with
 * what it measured.
 */
import type { Engine } from "../packages/tidings/src/engine/engine.ts";
import { openEngine } from "../packages/tidings/src/engine/open-engine.ts";
import { systemClock, systemRandom } from "../packages/tidings/src/engine/system-clock.ts";

const REST_MS = 10;
const PAGE = 256;
/** In percent. */
const STEP = 1e-4;

/** The log that is read, and whose jobs the bench removes. */
export const CROWD = "crowd";

/** Milliseconds of each transition, one after the other. */
export async function write(engine: Engine, name: string, signal: AbortSignal): Promise<number[]> {
  const start = { owner: name, jobId: name, jobType: name, input: {}, digest: "", maxAttempts: 3 };
  await engine.start(start);
  const claim = { holder: name, goneHolders: [], jobTypes: [name], leaseMs: 3_600_000, limit: 1 };
  const { fence } = (await engine.claim(claim)).records[0]!;
  const spent: number[] = [];
  while (!signal.aborted) {
    const report = { percentage: (spent.length + 1) * STEP, stage: "Matching gifts", stageKey: "match" };
    const begun = performance.now();
    await engine.apply({
      owner: name,
      jobId: name,
      fence,
      command: { type: "progress", reports: [report] },
    });
    spent.push(performance.now() - begun);
    await new Promise<void>((resolve) => void setTimeout(resolve, REST_MS));
  }
  return spent;
}

/** Milliseconds of each page of the log, read from its beginning again and again. */
export async function tail(engine: Engine, signal: AbortSignal): Promise<number[]> {
  const spent: number[] = [];
  for (let after = 0; !signal.aborted; ) {
    const begun = performance.now();
    const { entries, through } = await engine.read(CROWD, {}, after, PAGE);
    spent.push(performance.now() - begun);
    after = entries.length < PAGE ? 0 : through;
    await new Promise<void>((resolve) => void setTimeout(resolve, REST_MS));
  }
  return spent;
}

const [task, store] = process.argv.slice(2);
if (process.send !== undefined && (task === "write" || task === "tail") && store !== undefined) {
  const engine = await openEngine(store, { clock: systemClock, random: systemRandom });
  const stop = new AbortController();
  process.once("message", () => stop.abort());
  process.once("disconnect", () => process.exit());
  process.send("ready");
  const spent =
    task === "write"
      ? await write(engine, `neighbour-${process.pid}`, stop.signal)
      : await tail(engine, stop.signal);
  await engine.close();
  process.send(spent);
  process.disconnect();
}
