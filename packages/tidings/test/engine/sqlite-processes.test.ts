import { once } from "node:events";
import { expect, onTestFinished, test } from "vitest";
import type { Engine, LogEntry } from "../../src/engine/engine.ts";
import { loadDatabase } from "../../src/engine/sqlite/driver.ts";
import { createSqliteEngine } from "../../src/engine/sqlite/engine.ts";
import { systemClock, systemRandom } from "../../src/engine/system-clock.ts";
import { makeFolder } from "./folder.ts";
import { startNeighbour } from "./spawn.ts";

async function open(path: string): Promise<Engine> {
  const engine = await createSqliteEngine({ path, clock: systemClock, random: systemRandom });
  onTestFinished(() => engine.close());
  return engine;
}

function job(jobId: string) {
  return { owner: "alice", jobId, jobType: "work", input: {}, digest: "", maxAttempts: 3 };
}

test("another process notices a commit within 250 ms", async () => {
  const path = `${makeFolder()}/jobs.db`;
  const engine = await open(path);
  const neighbour = startNeighbour("watch", path);
  expect(await neighbour.next()).toBe("ready");
  const delays: number[] = [];
  for (let index = 0; index < 5; index += 1) {
    const outcome = await engine.start(job(`job_${index}`));
    const committedAt = systemClock.monotonic();
    if (outcome.outcome !== "created") throw new Error(outcome.outcome);
    while (((await neighbour.next()) as number) < outcome.record.position);
    delays.push(systemClock.monotonic() - committedAt);
  }
  delays.sort((a, b) => a - b);
  // The middle one: a busy machine may hold up any single one.
  expect(delays[2]).toBeLessThan(250);
});

test("a process that writes itself still wakes its watchers for what others committed just before", async () => {
  const path = `${makeFolder()}/jobs.db`;
  const [here, there] = [await open(path), await open(path)];
  const woken = new Set<string>();
  const both = new Promise<void>((resolve) => {
    for (const owner of ["alice", "bob"]) {
      here.watch(owner, () => {
        woken.add(owner);
        if (woken.size === 2) resolve();
      });
    }
  });
  await there.start({ ...job("there"), owner: "bob" });
  await here.start(job("here"));
  // Not by the poll: the write looked before it began.
  expect(woken).toEqual(new Set(["alice", "bob"]));
  await both;
});

test("what one process remembers of a job gives way to what another has written", async () => {
  const path = `${makeFolder()}/jobs.db`;
  const [here, there] = [await open(path), await open(path)];
  await here.start(job("job_1"));
  const claim = { goneHolders: [], jobTypes: ["work"], leaseMs: 60_000, limit: 1 };
  await here.claim({ ...claim, holder: "here" });
  const report = (engine: Engine, percentage: number) =>
    engine.apply({
      owner: "alice",
      jobId: "job_1",
      fence: 1,
      command: { type: "progress", reports: [{ percentage, stage: "Working", stageKey: "work" }] },
    });
  for (const [engine, percentage] of [
    [here, 10],
    [here, 20],
    [there, 30],
    [here, 40],
    [there, 50],
  ] as const) {
    const outcome = await report(engine, percentage);
    expect(outcome.outcome).toBe("applied");
    expect(outcome).toMatchObject({ record: { job: { percentage } }, entries: [{ event: { percentage } }] });
  }
  const { entries } = await here.read("alice", { jobIds: ["job_1"] }, 0, 100);
  expect(entries.map(({ event }) => event.seq)).toEqual([1, 2, 3, 4, 5, 6, 7]);

  await there.apply({ owner: "alice", jobId: "job_1", command: { type: "cancel", canceledBy: "user" } });
  expect((await report(here, 60)).outcome).toBe("stale");
});

test("two processes never claim one job", async () => {
  const path = `${makeFolder()}/jobs.db`;
  const engine = await open(path);
  const ids = Array.from({ length: 120 }, (_, index) => `job_${index}`);
  await Promise.all(ids.map((jobId) => engine.start(job(jobId))));
  const neighbour = startNeighbour("claim", path);
  expect(await neighbour.next()).toBe("ready");
  neighbour.process.stdin.write("go\n");
  const ours: string[] = [];
  // Begin together: the neighbour's first claim is there.
  const theirs = [(await neighbour.next()) as string];
  for (;;) {
    const claim = { holder: "here", goneHolders: [], jobTypes: ["work"], leaseMs: 60_000, limit: 3 };
    const { records } = await engine.claim(claim);
    if (records.length === 0) break;
    ours.push(...records.map((record) => record.job.jobId));
  }
  for (let word = await neighbour.next(); word !== "done"; word = await neighbour.next()) {
    theirs.push(word as string);
  }
  expect([...ours, ...theirs].sort()).toEqual(ids.sort());
  expect(await engine.holders()).toContain("neighbour");
});

test("of two processes that cancel and complete one job exactly one ends it", async () => {
  const path = `${makeFolder()}/jobs.db`;
  const engine = await open(path);
  const ids = Array.from({ length: 100 }, (_, index) => `job_${index}`);
  await Promise.all(ids.map((jobId) => engine.start(job(jobId))));
  const claim = { holder: "here", goneHolders: [], jobTypes: ["work"], leaseMs: 60_000, limit: 100 };
  const { records } = await engine.claim(claim);
  const neighbour = startNeighbour("cancel", path);
  expect(await neighbour.next()).toBe("ready");
  neighbour.process.stdin.write("go\n");
  // Begin together: the neighbour's first change is there.
  const theirs = [await neighbour.next()];
  const ours: string[] = [];
  for (const { fence, job: claimed } of records) {
    const command = { type: "complete", resultResourceId: "job://x/result", reports: [] } as const;
    const { outcome } = await engine.apply({ owner: "alice", jobId: claimed.jobId, fence, command });
    ours.push(outcome);
  }
  for (let word = theirs[0]; word !== "unknown"; theirs.push(word)) word = await neighbour.next();
  const wonBy = (outcomes: readonly unknown[]) => outcomes.filter((outcome) => outcome === "applied").length;
  expect(wonBy(ours) + wonBy(theirs)).toBe(ids.length);
  const { entries } = await engine.read("alice", {}, 0, 10_000);
  for (const jobId of ids) {
    const types = entries.filter(({ event }) => event.jobId === jobId).map(({ event }) => event.type);
    expect(types.slice(0, 2)).toEqual(["job.created", "job.started"]);
    expect(types.slice(2)).toHaveLength(1);
    const ending = types[2] === "job.canceled" ? "canceled" : "completed";
    expect((await engine.get("alice", jobId))?.job.status).toBe(ending);
  }
});

test("after kill -9 of a writing process the file is whole and holds everything acknowledged", async () => {
  const path = `${makeFolder()}/jobs.db`;
  const engine = await open(path);
  await engine.start(job("job"));
  for (let round = 1; round <= 3; round += 1) {
    const neighbour = startNeighbour("write", path);
    const acknowledged: LogEntry[] = [];
    for (let index = 0; index < 100; index += 1) acknowledged.push((await neighbour.next()) as LogEntry);
    neighbour.process.kill("SIGKILL");
    for (let entry = await neighbour.next(); entry !== undefined; entry = await neighbour.next()) {
      acknowledged.push(entry as LogEntry);
    }
    await once(neighbour.process, "close");
    const { entries } = await engine.read("alice", { jobIds: ["job"] }, 0, 1_000_000);
    const byPosition = new Map(entries.map((entry) => [entry.position, entry]));
    for (const entry of acknowledged) expect(byPosition.get(entry.position)).toEqual(entry);
    expect(entries.map(({ event }) => event.seq)).toEqual(entries.map((_, index) => index + 1));
    const record = await engine.get("alice", "job");
    expect(record?.job.seq).toBe(entries.length);
    // One commit holds the event and the item.
    expect((await engine.items("alice", "job", "written", 0, 0)).total).toBe(entries.length - 1);
  }
  const DatabaseSync = await loadDatabase();
  const database = new DatabaseSync(path);
  expect(database.prepare("PRAGMA integrity_check").get()).toEqual({ integrity_check: "ok" });
  database.close();
});

test("a process that writes without a pause leaves room for others", async () => {
  const path = `${makeFolder()}/jobs.db`;
  const engine = await open(path);
  await engine.start(job("job"));
  const neighbour = startNeighbour("write", path);
  await neighbour.next();
  for (let index = 0; index < 20; index += 1) {
    expect((await engine.start(job(`job_${index}`))).outcome).toBe("created");
  }
});

test("a write waits while another process holds the file, and the process stays responsive", async () => {
  const path = `${makeFolder()}/jobs.db`;
  const [here, there] = [await open(path), await open(path)];
  let release = () => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  const inside = new Promise<void>((entered) => {
    void there.transaction("alice", async () => {
      entered();
      await held;
    });
  });
  await inside;
  let done = false;
  const waiting = here.start(job("job")).then((outcome) => {
    done = true;
    return outcome;
  });
  // Reads go on meanwhile.
  for (let index = 0; index < 50; index += 1) expect(await here.get("alice", "job")).toBeUndefined();
  expect(done).toBe(false);
  release();
  expect((await waiting).outcome).toBe("created");
});
