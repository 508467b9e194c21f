/**
 * How fast engines are: transitions (one event of progress, durable) at growing concurrency, and replay. SQLite is
 * compared within the same run with the bare driver doing one UPDATE and one INSERT per commit. Prints JSON lines.
 *
 * Run: node --import tsx --conditions=@tidings/source bench/engine.ts [transitions] [folder]
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Engine } from "../packages/tidings/src/engine/engine.ts";
import { openEngine } from "../packages/tidings/src/engine/open-engine.ts";
import { loadDatabase } from "../packages/tidings/src/engine/sqlite/driver.ts";
import { systemClock, systemRandom } from "../packages/tidings/src/engine/system-clock.ts";

const transitions = Number(process.argv[2] ?? 10_000);
const folder = mkdtempSync(join(process.argv[3] ?? tmpdir(), "tidings-bench-"));
const ports = { clock: systemClock, random: systemRandom };

interface Pace {
  readonly perSecond: number;
  /** Microseconds of CPU for each. */
  readonly cpuMicros: number;
}

function say(line: Record<string, unknown>): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

async function measure(count: number, work: () => Promise<void> | void): Promise<Pace> {
  const cpu = process.cpuUsage();
  const begun = process.hrtime.bigint();
  await work();
  const seconds = Number(process.hrtime.bigint() - begun) / 1e9;
  const { user, system } = process.cpuUsage(cpu);
  return {
    perSecond: Math.round(count / seconds),
    cpuMicros: Math.round(((user + system) / count) * 10) / 10,
  };
}

/** `concurrency` jobs, each changed one step after the other. */
async function transition(engine: Engine, concurrency: number, count: number): Promise<void> {
  const jobs = Array.from({ length: concurrency }, (_, index) => `c${concurrency}_${index}`);
  await Promise.all(
    jobs.map((jobId) =>
      engine.start({ owner: "o", jobId, jobType: "work", input: {}, digest: "", maxAttempts: 3 }),
    ),
  );
  const claim = { holder: "h", goneHolders: [], jobTypes: ["work"], leaseMs: 600_000, limit: concurrency };
  const { records } = await engine.claim(claim);
  const each = Math.floor(count / concurrency);
  await Promise.all(
    records.map(async ({ owner, job, fence }) => {
      for (let step = 1; step <= each; step += 1) {
        const percentage = (step / (each + 1)) * 100;
        await engine.apply({
          owner,
          jobId: job.jobId,
          fence,
          command: { type: "progress", reports: [{ percentage, stage: "Working", stageKey: "work" }] },
        });
      }
    }),
  );
}

async function replay(engine: Engine): Promise<number> {
  let rows = 0;
  for (let after = 0; ; ) {
    const { entries, through } = await engine.read("o", {}, after, 1_000);
    if (entries.length === 0) return rows;
    rows += entries.length;
    after = through;
  }
}

/** What no engine on this driver can beat: the two statements alone, `perCommit` times in each commit. */
async function bare(perCommit: number, count: number): Promise<Pace> {
  const DatabaseSync = await loadDatabase();
  const database = new DatabaseSync(join(folder, `bare-${perCommit}.db`));
  database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
  database.exec("CREATE TABLE job (id TEXT PRIMARY KEY, seq INTEGER, body TEXT)");
  database.exec("CREATE TABLE event (position INTEGER PRIMARY KEY, job TEXT, seq INTEGER, body TEXT)");
  database.exec("CREATE INDEX event_job ON event (job)");
  const body = JSON.stringify({ type: "job.progress", stage: "Working", padding: "x".repeat(150) });
  for (let index = 0; index < perCommit; index += 1) {
    database.prepare("INSERT INTO job VALUES (?, 0, ?)").run(`j${index}`, body);
  }
  const update = database.prepare("UPDATE job SET seq = ?, body = ? WHERE id = ? AND seq = ?");
  const insert = database.prepare("INSERT INTO event (job, seq, body) VALUES (?, ?, ?)");
  const begin = database.prepare("BEGIN IMMEDIATE");
  const commit = database.prepare("COMMIT");
  const pace = await measure(count, () => {
    for (let seq = 1; seq <= count / perCommit; seq += 1) {
      begin.run();
      for (let index = 0; index < perCommit; index += 1) {
        update.run(seq, body, `j${index}`, seq - 1);
        insert.run(`j${index}`, seq, body);
      }
      commit.run();
    }
  });
  database.close();
  return pace;
}

try {
  for (const store of ["memory:", `sqlite:${join(folder, "jobs.db")}`]) {
    const engine = await openEngine(store, ports);
    for (const concurrency of [1, 8, 32, 128]) {
      const count = concurrency === 1 ? transitions / 5 : transitions;
      const pace = await measure(count, () => transition(engine, concurrency, count));
      const floor = engine.name === "sqlite" ? await bare(concurrency, count) : undefined;
      say({
        measure: "transitions",
        engine: engine.name,
        concurrency,
        ...pace,
        ...(floor === undefined
          ? {}
          : {
              barePerSecond: floor.perSecond,
              bareCpuMicros: floor.cpuMicros,
              ratio: Math.round((pace.perSecond / floor.perSecond) * 100) / 100,
            }),
      });
    }
    let rows = 0;
    const pace = await measure(transitions * 3.2, async () => {
      rows = await replay(engine);
    });
    say({ measure: "replay", engine: engine.name, rows, ...pace });
    await engine.close();
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
