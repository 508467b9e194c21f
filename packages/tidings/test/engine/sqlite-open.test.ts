import { chmodSync, existsSync, mkdirSync, statSync, writeFileSync } from "node:fs";
import { expect, onTestFinished, test } from "vitest";
import type { Engine } from "../../src/engine/engine.ts";
import { openEngine } from "../../src/engine/open-engine.ts";
import { type Database, loadDatabase } from "../../src/engine/sqlite/driver.ts";
import { BUSY_LIMIT_MS } from "../../src/engine/sqlite/fault.ts";
import { systemClock, systemRandom } from "../../src/engine/system-clock.ts";
import { createManualClock } from "../../src/testing/index.ts";
import { makeFolder } from "./folder.ts";

const ports = { clock: systemClock, random: systemRandom };

async function open(path: string): Promise<Engine> {
  const engine = await openEngine(`sqlite:${path}`, ports);
  onTestFinished(() => engine.close());
  return engine;
}

async function openRaw(path: string): Promise<Database> {
  const DatabaseSync = await loadDatabase();
  const database = new DatabaseSync(path);
  onTestFinished(() => {
    try {
      database.close();
    } catch {
      // Closed by the test already.
    }
  });
  return database;
}

const JOB = { owner: "alice", jobId: "job", jobType: "work", input: {}, digest: "", maxAttempts: 3 };

test("a store is what its text says", async () => {
  const memory = await openEngine("memory:", ports);
  expect(memory.name).toBe("memory");
  const path = `${makeFolder()}/jobs.db`;
  expect((await open(path)).name).toBe("sqlite");
  for (const store of ["", "memory", "sqlite:", "sqlite: ", "postgres://x", "jobs.db", "sqlite::memory:"]) {
    await expect(openEngine(store, ports)).rejects.toMatchObject({
      code: "BAD_DEFINITION",
      hint: expect.stringContaining("memory:"),
    });
  }
});

test("missing folders are made", async () => {
  const path = `${makeFolder()}/a/b/jobs.db`;
  await open(path);
  expect(existsSync(path)).toBe(true);
});

test("a store is found again as it was left, with the same secret", async () => {
  const path = `${makeFolder()}/jobs.db`;
  const first = await openEngine(`sqlite:${path}`, ports);
  await first.start(JOB);
  const before = await first.get("alice", "job");
  await first.close();
  const second = await open(path);
  expect(await second.get("alice", "job")).toEqual(before);
  expect(second.secret).toEqual(first.secret);
});

test("commits are synced to disk and pass through a write-ahead log", async () => {
  const path = `${makeFolder()}/jobs.db`;
  const engine = await open(path);
  const settings = await engine.transaction("alice", (transaction) => {
    const database = transaction.sql as Database;
    return ["journal_mode", "synchronous", "foreign_keys", "user_version"].map(
      (name) => Object.values(database.prepare(`PRAGMA ${name}`).get() ?? {})[0],
    );
  });
  expect(settings).toEqual(["wal", 2, 0, 2]);
});

test("a store of the first version is brought up to date: what its owners keep is counted", async () => {
  const path = `${makeFolder()}/jobs.db`;
  const first = await openEngine(`sqlite:${path}`, ports);
  await first.start(JOB);
  const [record] = (
    await first.claim({ holder: "h", goneHolders: [], jobTypes: ["work"], leaseMs: 9e9, limit: 1 })
  ).records;
  await first.apply({
    owner: "alice",
    jobId: "job",
    fence: record?.fence ?? 0,
    checkpoint: "ä",
    write: async (transaction) => {
      await transaction.append("gifts", ["ä", "b"]);
      await transaction.put("key", "value");
    },
  });
  const over = { ...JOB, jobId: "two", queue: { jobs: 9, bytes: 9e9, storedBytes: 1 } };
  const counted = await first.start(over);
  expect(counted).toMatchObject({ outcome: "over" });
  await first.close();
  expect(existsSync(`${path}-wal`) && statSync(`${path}-wal`).size > 0).toBe(false);

  const database = await openRaw(path);
  const added = database
    .prepare("SELECT type, name FROM sqlite_schema WHERE type = 'trigger' OR name LIKE '%_of_owner'")
    .all();
  for (const { type, name } of added) database.exec(`DROP ${type} ${name}`);
  database.exec("DROP TABLE tidings_usage; PRAGMA user_version = 1");
  database.close();
  const second = await open(path);
  expect(await second.start(over)).toEqual(counted);
});

test("a new store opened many times at once is made once", async () => {
  const path = `${makeFolder()}/jobs.db`;
  const engines = await Promise.all(Array.from({ length: 5 }, () => open(path)));
  expect(new Set(engines.map(({ secret }) => Buffer.from(secret).toString("hex"))).size).toBe(1);
  const outcomes = await Promise.all(engines.map((engine) => engine.start({ ...JOB, key: "k" })));
  expect(outcomes.filter(({ outcome }) => outcome === "created")).toHaveLength(1);
});

test("tables of the application's own may live in the same file and share a transaction", async () => {
  const path = `${makeFolder()}/jobs.db`;
  const database = await openRaw(path);
  database.exec("CREATE TABLE orders (id TEXT PRIMARY KEY)");
  database.close();
  const engine = await open(path);
  const insert = (id: string, then: () => void) =>
    engine.transaction("alice", async (transaction) => {
      (transaction.sql as Database).prepare("INSERT INTO orders VALUES (?)").run(id);
      await transaction.put("last", id);
      then();
    });
  await insert("one", () => {});
  const failure = await insert("one", () => {}).catch((error: Error) => error);
  // What the callback's own statement threw is not dressed up.
  expect(failure).toMatchObject({ message: expect.stringContaining("UNIQUE") });
  await expect(
    insert("two", () => {
      throw new Error("no");
    }),
  ).rejects.toThrow("no");
  const rows = await engine.transaction("alice", (transaction) =>
    (transaction.sql as Database).prepare("SELECT id FROM orders").all(),
  );
  expect(rows).toEqual([{ id: "one" }]);
});

test("a store that a newer version wrote is refused in one sentence", async () => {
  const path = `${makeFolder()}/jobs.db`;
  const database = await openRaw(path);
  database.exec("PRAGMA user_version = 99");
  database.close();
  await expect(openEngine(`sqlite:${path}`, ports)).rejects.toMatchObject({
    code: "STORE_TOO_NEW",
    message: `The store "${path}" has version 99, but this program knows only versions up to 2.`,
  });
});

test("a database whose version another program counts is refused in one sentence and left as it is", async () => {
  const path = `${makeFolder()}/jobs.db`;
  const database = await openRaw(path);
  database.exec("CREATE TABLE orders (id TEXT); PRAGMA user_version = 1");
  await expect(openEngine(`sqlite:${path}`, ports)).rejects.toMatchObject({
    code: "STORE_FAILED",
    message: expect.stringContaining("the file is another program's, which numbers its own tables"),
  });
  expect(database.prepare("SELECT name FROM sqlite_schema").all()).toEqual([{ name: "orders" }]);
});

test("a file that is no database is refused in one sentence and left as it is", async () => {
  const path = `${makeFolder()}/jobs.db`;
  writeFileSync(path, "employee_id,full_name\n".repeat(100));
  await expect(openEngine(`sqlite:${path}`, ports)).rejects.toMatchObject({
    code: "STORE_FAILED",
    message: `The store "${path}" failed, so it was not opened: the file is not an SQLite database.`,
  });
});

test("a path that cannot be made or opened is refused in one sentence", async () => {
  const folder = makeFolder();
  writeFileSync(`${folder}/file`, "");
  mkdirSync(`${folder}/folder.db`);
  for (const path of [`${folder}/file/jobs.db`, `${folder}/folder.db`, `${folder}/a\0b.db`]) {
    await expect(openEngine(`sqlite:${path}`, ports)).rejects.toMatchObject({
      code: "STORE_FAILED",
      message: expect.stringContaining(`The store "${path}" failed, so it was not opened: `),
    });
  }
});

// The superuser may write everywhere.
test.skipIf(process.getuid?.() === 0)(
  "a folder that may not be written is refused in one sentence",
  async () => {
    const folder = makeFolder();
    chmodSync(folder, 0o555);
    await expect(openEngine(`sqlite:${folder}/jobs.db`, ports)).rejects.toMatchObject({
      code: "STORE_FAILED",
    });
    chmodSync(folder, 0o755);
  },
);

test("a write gives up with STORE_BUSY when the file is held for too long, and the next one succeeds", async () => {
  const path = `${makeFolder()}/jobs.db`;
  const clock = createManualClock();
  const engine = await openEngine(`sqlite:${path}`, { clock, random: systemRandom });
  onTestFinished(() => engine.close());
  const other = await openRaw(path);
  other.exec("BEGIN IMMEDIATE");
  let settled = false;
  const failed = engine.start(JOB).then(
    () => undefined,
    (error: unknown) => {
      settled = true;
      return error;
    },
  );
  for (let waitedMs = 0; !settled && waitedMs < BUSY_LIMIT_MS * 10; waitedMs += 50) {
    await new Promise((resolve) => setImmediate(resolve));
    clock.advance(50);
  }
  expect(await failed).toMatchObject({
    code: "STORE_BUSY",
    message: `The store "${path}" was held by another process for too long, so nothing was changed.`,
  });
  other.exec("ROLLBACK");
  expect((await engine.start(JOB)).outcome).toBe("created");
});

test("callbacks that take their time do not hold the file all together: it is let go after a second of them", async () => {
  const clock = createManualClock();
  const engine = await openEngine(`sqlite:${makeFolder()}/jobs.db`, { ...ports, clock });
  onTestFinished(() => engine.close());
  const order: string[] = [];
  const work = async (name: string) => {
    await engine.transaction("alice", async () => {
      order.push(`${name} begins`);
      clock.advance(600);
    });
    order.push(`${name} is kept`);
  };
  await Promise.all(["a", "b", "c"].map(work));
  expect(order).toEqual(["a begins", "b begins", "a is kept", "b is kept", "c begins", "c is kept"]);
});

test("leases and delays from before the machine restarted are over", async () => {
  const path = `${makeFolder()}/jobs.db`;
  const before = createManualClock({ monotonic: 1_000_000 });
  const first = await openEngine(`sqlite:${path}`, { clock: before, random: systemRandom });
  const claim = { holder: "h", goneHolders: [], jobTypes: ["work"], leaseMs: 10_000, limit: 10 };
  await first.start(JOB);
  await first.start({ ...JOB, jobId: "delayed" });
  await first.claim(claim);
  const error = { code: "HANDLER_FAILED", message: "It broke.", retryable: true };
  const command = { type: "retry", delayMs: 3_600_000, error } as const;
  await first.apply({ owner: "alice", jobId: "delayed", command });
  await first.close();
  const after = createManualClock({ monotonic: 5_000 });
  const second = await openEngine(`sqlite:${path}`, { clock: after, random: systemRandom });
  onTestFinished(() => second.close());
  const { records } = await second.claim(claim);
  expect(records.map(({ job }) => job.jobId)).toEqual(["job", "delayed"]);
});

test("a commit that fails leaves the engine usable, and a smaller write beside it succeeds", async () => {
  const path = `${makeFolder()}/jobs.db`;
  const engine = await open(path);
  await engine.start(JOB);
  // A full disk, made by SQLite itself: the file may not grow any further.
  await engine.transaction("alice", ({ sql }) => {
    const database = sql as Database;
    const pages = Object.values(database.prepare("PRAGMA page_count").get() ?? {})[0];
    database.exec(`PRAGMA max_page_count = ${Number(pages) + 4}`);
  });
  const [large, small] = await Promise.allSettled([
    engine.start({ ...JOB, jobId: "large", input: "x".repeat(1_000_000) }),
    engine.start({ ...JOB, jobId: "small" }),
  ]);
  expect(large).toMatchObject({
    status: "rejected",
    reason: {
      code: "STORE_FULL",
      message: `The store "${path}" is full, so nothing was changed.`,
    },
  });
  expect(small).toMatchObject({ status: "fulfilled", value: { outcome: "created" } });
  expect(await engine.get("alice", "large")).toBeUndefined();
  await engine.transaction("alice", ({ sql }) => (sql as Database).exec("PRAGMA max_page_count = 1000000"));
  const again = await engine.start({ ...JOB, jobId: "large", input: "x".repeat(1_000_000) });
  expect(again.outcome).toBe("created");
});
