/** `tidings` beside a running program, on the same SQLite file. */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { defineJob, type Tidings } from "tidings";
import { beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { loadDatabase } from "../../src/engine/sqlite/driver.ts";
import { makeFolder } from "../engine/folder.ts";
import { open, signalOf, storyOf } from "../runtime/story.ts";
import { runCommand, startCommand } from "./command.ts";

const input = z.object({});
let goOn = signalOf();

const work = defineJob("work", {
  input,
  async run(_, { progress, effectKey, checkpoint }) {
    effectKey("mail to ann");
    await progress("work", 0.4);
    await checkpoint(1);
    return { summary: "done \u001b[31min red\u202e" };
  },
});
const fails = defineJob("fails", {
  input,
  attempts: 1,
  run() {
    throw new Error("no luck");
  },
});
const told = defineJob("told", {
  input,
  attempts: 5,
  idPrefix: "run_",
  counts: { rows: 0 },
  summary: () => "Counting rows",
  run(_, { count, attempt }) {
    count({ rows: 7 });
    return { summary: `${attempt} of 1` };
  },
});
const waits = defineJob("waits", {
  input,
  async run(_, { signal, progress }) {
    await progress("work", 0.2);
    await Promise.race([goOn.promise, new Promise((_, reject) => signal.addEventListener("abort", reject))]);
  },
});

let tidings: Tidings;
let store: string;
beforeEach(async () => {
  goOn = signalOf();
  store = `sqlite:${makeFolder()}/jobs.db`;
  tidings = await open({ store, jobs: [work, fails, waits, told] });
});

async function ended(job: typeof work | typeof fails | typeof told, owner = "local"): Promise<string> {
  const { jobId } = await tidings.start(job, {}, { owner });
  await storyOf(tidings, jobId, undefined, owner);
  return jobId;
}

describe("a file that is no store of this version", () => {
  async function change(path: string, sql: string): Promise<void> {
    const DatabaseSync = await loadDatabase();
    const database = new DatabaseSync(path);
    database.exec(sql);
    database.close();
  }

  test("another program's database is refused in a sentence and left as it is, byte for byte", async () => {
    const path = `${makeFolder()}/foreign.db`;
    await change(path, "CREATE TABLE orders (id TEXT); INSERT INTO orders VALUES ('one')");
    const before = readFileSync(path);
    for (const [verb, ...options] of [
      ["inspect"],
      ["tail"],
      ["prune", "--older-than", "1h"],
      ["cancel", "job"],
    ]) {
      const { code, stdout, stderr } = await runCommand([
        verb ?? "",
        ...options,
        "--store",
        `sqlite:${path}`,
      ]);
      expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
      expect(JSON.parse(stderr).error).toMatchObject({
        code: "STORE_NOT_FOUND",
        message: `The file "${path}" is a database, but no store of Tidings.`,
      });
    }
    const { code, lines } = await runCommand(["doctor", "--store", `sqlite:${path}`]);
    expect(code).toBe(1);
    expect(lines.at(-1)).toMatchObject({ level: "problem", about: "schema" });
    expect(readFileSync(path).equals(before)).toBe(true);
    expect(readdirSync(dirname(path))).toEqual(["foreign.db"]);
  }, 60_000);

  test("an older server's store is not brought up to date by who only looks", async () => {
    await tidings.close();
    const path = store.slice("sqlite:".length);
    await change(path, "PRAGMA user_version = 1");
    const { code, stderr } = await runCommand(["inspect", "--store", store]);
    expect(code).toBe(1);
    expect(JSON.parse(stderr).error).toMatchObject({
      code: "STORE_TOO_OLD",
      message: expect.stringContaining("it was left as it is"),
    });
    const { lines } = await runCommand(["doctor", "--store", store]);
    const schema = lines.find(({ about }) => about === "schema");
    expect(schema).toMatchObject({ level: "warning", message: expect.stringContaining("has version 1") });
    await change(path, "PRAGMA user_version = 99");
    const tooNew = await runCommand(["inspect", "--store", store]);
    expect(JSON.parse(tooNew.stderr).error).toMatchObject({ code: "STORE_TOO_NEW" });
  }, 60_000);

  test("a text file is refused in a sentence, by doctor too", async () => {
    const path = `${makeFolder()}/notes.txt`;
    writeFileSync(path, "a note\n".repeat(1_000));
    for (const verb of ["inspect", "doctor"]) {
      const { code, stderr } = await runCommand([verb, "--store", `sqlite:${path}`]);
      expect(code).toBe(1);
      expect(JSON.parse(stderr).error).toMatchObject({
        code: "STORE_FAILED",
        message: expect.stringContaining("the file is not an SQLite database"),
      });
    }
  });
});

describe("tidings inspect", () => {
  test("lists the owner's jobs, newest first, one JSON object per line in a pipe", async () => {
    const first = await ended(work);
    const second = await ended(fails);
    await ended(work, "bob");
    const { code, lines, stderr } = await runCommand(["inspect", "--store", store]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(lines.map(({ jobId, status }) => [jobId, status])).toEqual([
      [second, "failed"],
      [first, "completed"],
    ]);
    const bobs = await runCommand(["inspect", "--owner", "bob", "--status", "completed"], {
      TIDINGS_STORE: store,
    });
    expect(bobs.lines).toHaveLength(1);
  });

  test("says everything about a job: its state, its outside effects with their keys, its story", async () => {
    const jobId = await ended(work);
    const { lines } = await runCommand(["inspect", jobId, "--events", "--store", store]);
    expect(lines[0]).toMatchObject({
      job: { jobId, status: "completed", attempt: 1 },
      effects: [{ key: `${jobId}:mail to ann`, item: "mail to ann" }],
      readers: [],
    });
    const types = lines.slice(1).map(({ event }) => (event as { type: string }).type);
    expect(types[0]).toBe("job.created");
    expect(types.at(-1)).toBe("job.completed");
  });

  test("prints nothing that acts on a terminal", async () => {
    const jobId = await ended(work);
    const { stdout, lines } = await runCommand(["inspect", jobId, "--store", store]);
    expect(stdout).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/);
    expect(lines[0]).toMatchObject({ job: { summary: "done \u001b[31min red\u202e" } });
  });

  test("does not sweep, work or make a store: looking changes nothing", async () => {
    const { jobId } = await tidings.start(waits, {});
    await storyOf(tidings, jobId, ({ type }) => type === "job.progress");
    const before = await tidings.head("local");
    await runCommand(["inspect", "--store", store]);
    expect(await tidings.head("local")).toBe(before);
    const missing = await runCommand(["inspect", "--store", `sqlite:${makeFolder()}/none.db`]);
    expect(missing.code).toBe(1);
    expect(JSON.parse(missing.stderr)).toMatchObject({ error: { code: "STORE_NOT_FOUND" } });
    goOn.resolve();
  });
});

describe("tidings tail", () => {
  test("follows a job that another process runs, to its end", async () => {
    const { jobId } = await tidings.start(waits, {});
    const running = startCommand(["tail", jobId, "--store", store]);
    await running.until(3);
    goOn.resolve();
    const { code, lines } = await running.ended;
    expect(code).toBe(0);
    const events = lines.map(({ event }) => event as { type: string; seq: number });
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1));
    expect(events.at(-1)?.type).toBe("job.completed");
  });

  test("ends with 1 when the job failed, and goes on behind a cursor", async () => {
    const jobId = await ended(fails);
    const all = await runCommand(["tail", jobId, "--store", store]);
    expect(all.code).toBe(1);
    const cursor = String(all.lines[0]?.cursor);
    const rest = await runCommand(["tail", jobId, "--after", cursor, "--store", store]);
    expect(rest.lines).toEqual(all.lines.slice(1));
    const last = String(all.lines.at(-1)?.cursor);
    expect(await runCommand(["tail", jobId, "--after", last, "--store", store])).toMatchObject({
      code: 1,
      stdout: "",
    });
  });

  test("interrupted, it ends with 130 and says how to go on", async () => {
    const { jobId } = await tidings.start(waits, {});
    const running = startCommand(["tail", jobId, "--store", store]);
    await running.until(3);
    running.interrupt();
    const { code, stderr, lines } = await running.ended;
    expect(code).toBe(130);
    expect(stderr).toBe(`Go on with: tidings tail ${jobId} --after ${String(lines.at(-1)?.cursor)}\n`);
    goOn.resolve();
  });

  test("without a job it tells everything that happens from now on", async () => {
    await ended(work);
    const running = startCommand(["tail", "--store", store]);
    // Whatever it hears first came after it began.
    let jobId = "";
    while (jobId === "" || !(await hasLine(running))) jobId = await ended(work);
    running.interrupt();
    const { lines } = await running.ended;
    expect(lines.length).toBeGreaterThan(0);
  });
});

async function hasLine(running: ReturnType<typeof startCommand>): Promise<boolean> {
  return Promise.race([
    running.until(1).then(() => true),
    new Promise<boolean>((resolve) => setImmediate(() => resolve(false))),
  ]);
}

describe("tidings cancel and retry", () => {
  test("a cancel stops the handler in the program that runs it", async () => {
    const { jobId } = await tidings.start(waits, {});
    await storyOf(tidings, jobId, ({ type }) => type === "job.progress");
    const { lines } = await runCommand(["cancel", jobId, "--reason", "not needed", "--store", store]);
    expect(lines).toMatchObject([
      { jobId, status: "canceled", canceledBy: "operator", reason: "not needed" },
    ]);
    expect((await storyOf(tidings, jobId)).at(-1)?.type).toBe("job.canceled");
  });

  test("a retry starts a successor that the running program takes, the same one when asked twice", async () => {
    const jobId = await ended(fails);
    const first = await runCommand(["retry", jobId, "--store", store]);
    const second = await runCommand(["retry", jobId, "--store", store]);
    const successor = String(first.lines[0]?.jobId);
    expect(second.lines[0]?.jobId).toBe(successor);
    expect((await storyOf(tidings, successor)).at(-1)?.type).toBe("job.failed");
    expect(await tidings.get("local", jobId)).toMatchObject({ retriedAs: successor });
  });

  test("a retry of a store starts the same as one of the program that defines the job", async () => {
    const jobs = [await ended(told), await ended(told)];
    const [here, there] = [
      (await tidings.retry("local", jobs[0] ?? "")).jobId,
      String((await runCommand(["retry", jobs[1] ?? "", "--store", store])).lines[0]?.jobId),
    ];
    const born = [];
    for (const jobId of [here, there]) {
      expect(jobId).toMatch(/^run_[\w-]{22}$/);
      const [created] = await storyOf(tidings, jobId);
      const {
        eventId: _id,
        timestamp: _at,
        jobId: _job,
        retryOf,
        ...event
      } = { retryOf: undefined, ...created };
      expect(jobs).toContain(retryOf);
      born.push(event);
    }
    expect(born[0]).toEqual(born[1]);
    expect(born[0]).toMatchObject({ type: "job.created", summary: "Counting rows" });
  });

  test("a job that has not ended is not retried, and the sentence says why", async () => {
    const { jobId } = await tidings.start(waits, {});
    const { code, stderr } = await runCommand(["retry", jobId, "--store", store]);
    goOn.resolve();
    expect(code).toBe(1);
    expect(JSON.parse(stderr).error).toMatchObject({ code: "JOB_NOT_ENDED", hint: expect.any(String) });
  });

  test("an unknown job is one sentence and exit code 1, alike for a foreign one", async () => {
    const foreign = await ended(work, "bob");
    const answers = [];
    for (const verb of ["cancel", "retry", "inspect", "tail"]) {
      for (const id of ["nope", foreign]) {
        const { code, stdout, stderr } = await runCommand([verb, id, "--store", store]);
        expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
        answers.push([verb, JSON.parse(stderr).error.code]);
      }
    }
    expect(new Set(answers.map(([, code]) => code))).toEqual(new Set(["JOB_NOT_FOUND"]));
  }, 60_000);
});

test("tidings prune removes what ended long enough ago, and nothing else", async () => {
  await ended(work);
  const none = await runCommand(["prune", "--older-than", "1h", "--store", store]);
  expect(none.lines).toEqual([{ jobs: 0, events: 0 }]);
  const all = await runCommand(["prune", "--older-than", "0s", "--store", store]);
  expect(all.lines).toMatchObject([{ jobs: 1 }]);
});

test("tidings prune keeps each owner's newest events, and what is missing is a gap of one shape everywhere", async () => {
  const jobId = await ended(work);
  const { lines } = await runCommand(["prune", "--keep-events", "2", "--store", store]);
  expect(lines).toMatchObject([{ jobs: 0 }]);
  const inspected = await runCommand(["inspect", jobId, "--events", "--store", store]);
  const tailed = await runCommand(["tail", jobId, "--store", store]);
  const gap = { gap: true, cursor: expect.any(String) };
  const rest = [{ event: { type: expect.any(String) } }, { event: { type: "job.completed" } }];
  expect(inspected.lines.slice(1)).toMatchObject([gap, ...rest]);
  expect(tailed.lines).toMatchObject([gap, ...rest]);
  const none = await runCommand(["prune", "--keep-events", "none", "--store", store]);
  expect(none).toMatchObject({ code: 2, stdout: "" });
}, 60_000);

test("tidings doctor finds a healthy store healthy", async () => {
  await ended(work);
  const { code, lines } = await runCommand(["doctor", "--store", store]);
  expect(lines.filter(({ level }) => level !== "ok")).toEqual([]);
  expect(lines.map(({ about }) => about)).toEqual([
    "node",
    "integrity",
    "schema",
    "journal",
    "size",
    "disk",
    "jobs",
  ]);
  expect(code).toBe(0);
});
