/**
 * How fast the embedded engine is, as a share of what its driver can do at all. The baseline prepares the engine's own
 * two statements of a transition and its statement of a replay, on the same tables, with the same pragmas, the same
 * bytes and as many transitions in one commit; it has no state machine, no checks and no promises.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Engine, JobRecord, LogEntry } from "../packages/tidings/src/engine/engine.ts";
import { openEngine } from "../packages/tidings/src/engine/open-engine.ts";
import { type Database, loadDatabase } from "../packages/tidings/src/engine/sqlite/driver.ts";
import { SQL } from "../packages/tidings/src/engine/sqlite/sql.ts";
import { systemClock, systemRandom } from "../packages/tidings/src/engine/system-clock.ts";
import type { Command } from "../packages/tidings/src/model/command.ts";
import { median, percentile, type Report } from "./report.ts";

const OWNER = "o";
const ROUNDS = 5;
const TRANSITIONS = 20_000;
const ALONE = 1_000;
const EVENTS = 10_000;
/** In percent: small enough for all the steps of a run. */
const FIRST_STEP = 1e-4;
const ports = { clock: systemClock, random: systemRandom };

interface World {
  readonly engine: Engine;
  readonly records: readonly JobRecord[];
  /** One report of progress, a little further each time. */
  nextStep(): Command;
}

/** As many running jobs as there are transitions in flight. */
async function openWorld(path: string, jobs: number): Promise<World> {
  const engine = await openEngine(`sqlite:${path}`, ports);
  const ids = Array.from({ length: jobs }, (_, index) => `job_${index}`);
  await Promise.all(
    ids.map((jobId) =>
      engine.start({ owner: OWNER, jobId, jobType: "work", input: {}, digest: "", maxAttempts: 3 }),
    ),
  );
  const claim = { holder: "h", goneHolders: [], jobTypes: ["work"], leaseMs: 600_000, limit: jobs };
  const { records } = await engine.claim(claim);
  let steps = 0;
  return {
    engine,
    records,
    nextStep() {
      steps += 1;
      const report = { percentage: steps * FIRST_STEP, stage: "Matching gifts to people", stageKey: "match" };
      return { type: "progress", reports: [{ ...report, etaSeconds: 42 }] };
    },
  };
}

interface Raw {
  /** Changes every job once, in one commit. */
  commit(): void;
  replay(): number;
  close(): void;
}

/** The same statements on a file that the engine made, with nothing around them. */
async function openRaw(path: string, jobs: number): Promise<Raw> {
  const { engine, records, nextStep } = await openWorld(path, jobs);
  const [record] = records as [JobRecord];
  const change = { owner: OWNER, jobId: record.job.jobId, fence: record.fence, command: nextStep() };
  const outcome = await engine.apply(change);
  if (outcome.outcome !== "applied") throw new Error(`The baseline's job is ${outcome.outcome}.`);
  const [entry] = outcome.entries as [LogEntry];
  const [jobBefore, jobAfter] = around(outcome.record.job);
  const [eventBefore, eventAfter] = around(entry.event);
  await engine.close();

  const Database = await loadDatabase();
  const database: Database = new Database(path);
  database.exec(
    "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = OFF; PRAGMA journal_size_limit = 67108864",
  );
  const update = database.prepare(SQL.updateStory);
  const insert = database.prepare(SQL.insertEvent);
  const begin = database.prepare(SQL.beginWriting);
  const commit = database.prepare(SQL.commit);
  const select = database.prepare(SQL.eventsOfOwner);
  const row = database.prepare("SELECT fence, position FROM tidings_job WHERE owner = ? AND job_id = ?");
  const rows = records.map(({ job: { jobId } }) => ({
    jobId,
    fence: Number(row.get(OWNER, jobId)?.fence),
    position: Number(row.get(OWNER, jobId)?.position),
  }));
  let seq = 3;
  let steps = 0;
  return {
    commit() {
      seq += 1;
      begin.run();
      for (const each of rows) {
        steps += 1;
        const percentage = steps * FIRST_STEP;
        const job = `${jobBefore}${percentage}${jobAfter}`;
        const body = `${eventBefore}${percentage}${eventAfter}`;
        const event = [OWNER, each.jobId, seq, null, null, null, null, "job.progress", body] as const;
        const position = Number(insert.run(...event).lastInsertRowid);
        update.run(position, "{}", job, OWNER, each.jobId, each.fence, each.position);
        each.position = position;
      }
      commit.run();
    },
    replay: () => select.all(OWNER, 0, EVENTS).map(({ body: text }) => JSON.parse(text as string)).length,
    close: () => database.close(),
  };
}

/** What stands before and behind the percentage: it is all that changes, and makes a row longer or shorter. */
function around(told: object): readonly [string, string] {
  const [before, after] = JSON.stringify(told).split(`"percentage":${FIRST_STEP}`);
  return [`${before}"percentage":`, after ?? ""];
}

async function transitionsPerSecond({ engine, records, nextStep }: World): Promise<number> {
  const each = Math.floor(TRANSITIONS / records.length);
  const before = await endOf(engine);
  const begun = performance.now();
  await Promise.all(
    records.map(async ({ owner, job: { jobId }, fence }) => {
      for (let step = 0; step < each; step += 1) {
        await engine.apply({ owner, jobId, fence, command: nextStep() });
      }
    }),
  );
  const seconds = (performance.now() - begun) / 1_000;
  const written = (await endOf(engine)) - before;
  if (written !== each * records.length) throw new Error(`Only ${written} events were written.`);
  return written / seconds;
}

async function endOf(engine: Engine): Promise<number> {
  return (await engine.read(OWNER, { jobIds: [] }, 0, 1)).head;
}

function rawPerSecond(raw: Raw, jobs: number): number {
  const commits = Math.floor(TRANSITIONS / jobs);
  const begun = performance.now();
  for (let count = 0; count < commits; count += 1) raw.commit();
  return (commits * jobs) / ((performance.now() - begun) / 1_000);
}

async function together(folder: string, size: number, report: Report): Promise<void> {
  const paces: number[] = [];
  const raws: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const world = await openWorld(join(folder, `engine-${size}-${round}.db`), size);
    const raw = await openRaw(join(folder, `raw-${size}-${round}.db`), size);
    // The first commits make the pages that all others write to again.
    await transitionsPerSecond(world);
    rawPerSecond(raw, size);
    paces.push(await transitionsPerSecond(world));
    raws.push(rawPerSecond(raw, size));
    await world.engine.close();
    raw.close();
  }
  const name = `SQLite, ${size} at a time`;
  report(name, "durable transitions", median(paces), "1/s");
  report(name, "raw statements", median(raws), "1/s");
  report(name, "of raw", median(paces) / median(raws), "ratio", { atLeast: 0.6 });
}

async function alone(folder: string, report: Report): Promise<void> {
  const { engine, records, nextStep } = await openWorld(join(folder, "engine-alone.db"), 1);
  const raw = await openRaw(join(folder, "raw-alone.db"), 1);
  const [{ owner, job, fence }] = records as [JobRecord];
  const spent: number[] = [];
  const rawSpent: number[] = [];
  // Turn by turn, so that both meet the same disk.
  for (let count = 0; count < ALONE; count += 1) {
    let begun = performance.now();
    await engine.apply({ owner, jobId: job.jobId, fence, command: nextStep() });
    spent.push(performance.now() - begun);
    begun = performance.now();
    raw.commit();
    rawSpent.push(performance.now() - begun);
  }
  await engine.close();
  raw.close();
  report("SQLite, one alone", "p50", percentile(spent, 50), "ms");
  report("SQLite, one alone", "p50 raw", percentile(rawSpent, 50), "ms");
  const ratio = percentile(spent, 50) / percentile(rawSpent, 50);
  report("SQLite, one alone", "times raw", ratio, "ratio", { atMost: 1.5 });
}

async function replay(folder: string, report: Report): Promise<void> {
  const path = join(folder, "replay.db");
  const raw = await openRaw(path, 100);
  for (let commits = 0; commits <= EVENTS / 100; commits += 1) raw.commit();
  const engine = await openEngine(`sqlite:${path}`, ports);
  const spent: number[] = [];
  const rawSpent: number[] = [];
  for (let round = 0; round < 21; round += 1) {
    let begun = performance.now();
    const { entries } = await engine.read(OWNER, {}, 0, EVENTS);
    spent.push(performance.now() - begun);
    begun = performance.now();
    const rows = raw.replay();
    rawSpent.push(performance.now() - begun);
    if (rows !== EVENTS || entries.length !== EVENTS) throw new Error(`${entries.length} and ${rows} rows.`);
  }
  await engine.close();
  raw.close();
  const name = `SQLite, replay of ${EVENTS} events`;
  report(name, "read and parsed in", median(spent), "ms", { atMost: 150 });
  report(name, "raw", median(rawSpent), "ms");
  report(name, "of raw", median(rawSpent) / median(spent), "ratio", { atLeast: 0.5 });
}

export async function benchEngine(report: Report): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "tidings-bench-"));
  try {
    for (const size of [8, 32, 128]) await together(folder, size, report);
    await alone(folder, report);
    await replay(folder, report);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
