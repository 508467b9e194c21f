/** Attempts in processes of their own: what harms the handler's process harms nobody else. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { createTidings, defineJob, EFFECTS_COLLECTION, type Tidings } from "tidings";
import { describe, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { makeFolder } from "../../engine/folder.ts";
import { open, storyOf, typesOf } from "../story.ts";
import * as jobs from "./jobs.ts";

interface World {
  readonly tidings: Tidings;
  readonly server: ChildProcess;
  readonly output: () => { readonly stdout: string; readonly stderr: string };
  restart(): ChildProcess;
}

function startServer(
  store: string,
  leaseMs: number,
  written: { stdout: string; stderr: string },
): ChildProcess {
  const server = fork(fileURLToPath(new URL("./server.ts", import.meta.url)), [store, String(leaseMs)], {
    execArgv: ["--import", import.meta.resolve("tsx"), "--conditions=@tidings/source"],
    stdio: ["ignore", "pipe", "pipe", "ipc"],
  });
  server.stdout?.on("data", (chunk) => (written.stdout += chunk));
  server.stderr?.on("data", (chunk) => (written.stderr += chunk));
  onTestFinished(() => void server.kill("SIGKILL"));
  return server;
}

/** The worker is another process; here jobs are only started and looked at. */
async function openWorld(leaseMs = 10_000): Promise<World> {
  const store = `sqlite:${makeFolder()}/jobs.db`;
  const tidings = await open({ store, jobs: Object.values(jobs), concurrency: 0 });
  const written = { stdout: "", stderr: "" };
  return {
    tidings,
    server: startServer(store, leaseMs, written),
    output: () => written,
    restart: () => startServer(store, leaseMs, written),
  };
}

/** The process that a story says its handler runs in. */
async function pidOf(tidings: Tidings, jobId: string): Promise<number> {
  const story = await storyOf(tidings, jobId, ({ type }) => type === "system.log");
  return Number(/pid (\d+)/.exec(String(story.at(-1)?.message))?.[1]);
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Looks again and again until it holds; the test's own time limit ends it. */
async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 20));
}

test("an isolated job tells its story, keeps what it adds and ends like any other", async () => {
  const { tidings, server } = await openWorld();
  const { jobId } = await tidings.start(jobs.healthy, {});
  const story = await storyOf(tidings, jobId);
  expect(typesOf(story)).toEqual([
    "job.created",
    "job.started",
    "job.progress",
    "job.progress",
    "job.completed",
  ]);
  const snapshot = await tidings.get("local", jobId);
  expect(snapshot).toMatchObject({ status: "completed", attempt: 1, counts: { rows: 2 } });
  const { pid } = (await tidings.result("local", jobId)) as { pid: number };
  expect(pid).not.toBe(server.pid);
  await until(() => !isAlive(pid));
  const gifts = await tidings.items("local", jobId, "gifts", { offset: 0, limit: 10 });
  expect(gifts.items).toEqual([{ key: `${jobId}:mail to ann` }]);
  const effects = await tidings.items("local", jobId, EFFECTS_COLLECTION, { offset: 0, limit: 10 });
  expect(effects.items).toEqual([
    { item: "mail to ann", key: `${jobId}:mail to ann` },
    { item: "mail to bob", key: `${jobId}:mail to bob` },
  ]);
});

describe("FC-38: a poison job", () => {
  test.each([
    ["exits", jobs.exits],
    ["exits at row 50", jobs.exitsAtRow50],
  ])("that %s is started three times, then fails with the reason", async (_, job) => {
    const { tidings } = await openWorld();
    const { jobId } = await tidings.start(job, {});
    const story = await storyOf(tidings, jobId);
    expect(typesOf(story).filter((type) => type === "job.started")).toHaveLength(3);
    expect(story.at(-1)).toMatchObject({
      type: "job.failed",
      error: {
        code: "HANDLER_CRASHED",
        message: `The process of attempt 3 of job "${jobId}" exited with code 137.`,
      },
    });
  });

  test("does not keep twenty healthy jobs behind it from ending, nor the server from answering", async () => {
    const { tidings, server } = await openWorld();
    const poison = await tidings.start(jobs.loops, {});
    await tidings.start(jobs.exits, {});
    const healthy = [];
    for (let count = 0; count < 20; count += 1) healthy.push(await tidings.start(jobs.healthy, {}));
    for (const { jobId } of healthy) {
      expect(typesOf(await storyOf(tidings, jobId)).at(-1)).toBe("job.completed");
    }
    const story = await storyOf(tidings, poison.jobId);
    expect(story.at(-1)).toMatchObject({ type: "job.failed", error: { code: "JOB_TIMEOUT" } });
    expect(typesOf(story).filter((type) => type === "job.started")).toHaveLength(3);
    await once(server, "message");
    expect(server.exitCode).toBeNull();
  }, 60_000);

  test("that loops is ended by a cancel, and its process with it", async () => {
    const { tidings } = await openWorld();
    const { jobId } = await tidings.start(jobs.spins, {});
    const pid = await pidOf(tidings, jobId);
    await tidings.cancel("local", jobId, { canceledBy: "user" });
    expect((await tidings.get("local", jobId)).status).toBe("canceled");
    await until(() => !isAlive(pid));
  });

  test("that runs out of memory fails readably, alone", async () => {
    const { tidings, server } = await openWorld();
    const { jobId } = await tidings.start(jobs.eats, {});
    const story = await storyOf(tidings, jobId);
    expect(story.at(-1)).toMatchObject({
      type: "job.failed",
      error: {
        code: "HANDLER_CRASHED",
        message: expect.stringMatching(/SIGABRT, as happens when memory runs out|code 134/),
      },
    });
    await once(server, "message");
  });

  test("that throws where nobody awaits it fails alone", async () => {
    const { tidings, server } = await openWorld();
    const { jobId } = await tidings.start(jobs.throwsLater, {});
    expect((await storyOf(tidings, jobId)).at(-1)).toMatchObject({
      type: "job.failed",
      error: {
        code: "HANDLER_CRASHED",
        message: expect.stringMatching(
          /exited with code 1 by an error that nobody awaited: nobody awaits this$/,
        ),
      },
    });
    await once(server, "message");
  });
});

test("an isolated handler that never leaves its transaction keeps nobody from writing for long", async () => {
  const { tidings } = await openWorld();
  const { jobId } = await tidings.start(jobs.hogs, {});
  const story = await storyOf(tidings, jobId);
  expect(story.at(-1)).toMatchObject({
    type: "job.failed",
    error: {
      code: "HANDLER_CRASHED",
      message: `The process of attempt 1 of job "${jobId}" was ended: it kept a transaction open for 5 s, while nobody else could write.`,
    },
  });
  expect((await tidings.items("local", jobId, "rows", { offset: 0, limit: 1 })).total).toBe(0);
  const { jobId: next } = await tidings.start(jobs.healthy, {});
  expect(typesOf(await storyOf(tidings, next)).at(-1)).toBe("job.completed");
});

test("what an isolated handler returns and cannot be kept fails it at once, as anywhere", async () => {
  const { tidings } = await openWorld();
  const { jobId } = await tidings.start(jobs.returnsNoJson, {});
  expect((await storyOf(tidings, jobId)).at(-1)).toMatchObject({
    type: "job.failed",
    error: { code: "BAD_INPUT", retryable: false },
  });
});

test("what an isolated handler throws on purpose means the same", async () => {
  const { tidings } = await openWorld();
  const refused = await tidings.start(jobs.refuses, {});
  expect((await storyOf(tidings, refused.jobId)).at(-1)).toMatchObject({
    type: "job.failed",
    error: {
      code: "NO_SUCH_SHOP",
      message: "The shop does not exist.",
      hint: "Choose another.",
      retryable: false,
    },
  });
  const waiting = await tidings.start(jobs.waits, {});
  const story = await storyOf(tidings, waiting.jobId);
  expect(story.find(({ type }) => type === "job.retrying")).toMatchObject({
    delaySeconds: 0.05,
    error: { code: "SHOP_BUSY" },
  });
  expect(story.at(-1)).toMatchObject({ type: "job.completed", summary: "the second time" });
});

test("an isolated job whose module cannot be loaded fails without a path of the machine; the operator reads it", async () => {
  const { tidings, output } = await openWorld();
  const { jobId } = await tidings.start(jobs.misplaced, {});
  expect((await storyOf(tidings, jobId)).at(-1)).toMatchObject({
    type: "job.failed",
    error: {
      code: "HANDLER_CRASHED",
      message: 'The module of the isolated job "misplaced" could not be loaded.',
    },
  });
  await until(() => output().stderr.includes("nowhere.ts"));
});

test("what an isolated handler prints never reaches the server's standard output", async () => {
  const { tidings, output } = await openWorld();
  const { jobId } = await tidings.start(jobs.prints, {});
  await storyOf(tidings, jobId);
  await until(() => output().stderr.includes("and another"));
  expect(output().stderr).toContain("a line on standard output");
  expect(output().stdout).toBe("");
});

test("a server that is killed leaves no process behind, and its job is taken up again", async () => {
  const { tidings, server, restart } = await openWorld(60_000);
  const { jobId } = await tidings.start(jobs.spins, {});
  const pid = await pidOf(tidings, jobId);
  server.kill("SIGKILL");
  await until(() => !isAlive(pid));
  restart();
  // Long before its lease has run out.
  const story = await storyOf(tidings, jobId, ({ type, attempt }) => type === "job.started" && attempt === 2);
  expect(story.find(({ type }) => type === "job.retrying")).toMatchObject({ error: { code: "WORKER_LOST" } });
});

test("a store in memory cannot be shared with a process: one sentence says so", async () => {
  await expect(createTidings({ store: "memory:", jobs: [jobs.healthy] })).rejects.toMatchObject({
    code: "BAD_DEFINITION",
    message:
      '"healthy" runs in a process of its own, which cannot open this store: its engine "memory" does not say where it lies.',
  });
});

test("a definition that cannot be isolated is refused in one sentence", () => {
  const define = (isolate: object) => () =>
    defineJob("odd", { input: z.object({}), isolate, run: () => undefined });
  expect(define({ maxMemoryMb: 1 })).toThrow('"odd" allows its process 1 MiB of memory');
  expect(define({ module: "https://example.com/jobs.js" })).toThrow(
    'The module that defines "odd" could not be found.',
  );
});
