/** FC-36: a worker that stood still for longer than its lease finds that its job is another's. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { defineJob, type Tidings, type TidingsError } from "tidings";
import { createManualClock } from "tidings/testing";
import { expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import type { Engine } from "../../src/engine/engine.ts";
import { createMemoryEngine } from "../../src/engine/memory/index.ts";
import { systemRandom } from "../../src/engine/system-clock.ts";
import { makeFolder } from "../engine/folder.ts";
import { rows } from "./isolate/rows.ts";
import { advancing, open, signalOf, storyOf, typesOf } from "./story.ts";

interface Worker {
  readonly process: ChildProcess;
  readonly errors: string[];
}

async function startWorker(store: string): Promise<Worker> {
  const child = fork(fileURLToPath(new URL("./isolate/rows.ts", import.meta.url)), [store], {
    execArgv: ["--import", import.meta.resolve("tsx"), "--conditions=@tidings/source"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  const errors: string[] = [];
  child.on("message", (message: { error?: string }) => {
    if (message.error !== undefined) errors.push(message.error);
  });
  await once(child, "message");
  return { process: child, errors };
}

async function openWorld(): Promise<{ store: string; tidings: Tidings }> {
  const store = `sqlite:${makeFolder()}/jobs.db`;
  return { store, tidings: await open({ store, jobs: [rows], concurrency: 0 }) };
}

const isHalf = ({ type }: { type: string }) => type === "system.log";

/** One ending, every row once, and the result of the second attempt. */
async function expectWhole(tidings: Tidings, jobId: string, second: Worker): Promise<void> {
  const { items, total } = await tidings.items("local", jobId, "rows", { offset: 0, limit: 200 });
  expect(total).toBe(100);
  expect(items).toEqual(Array.from({ length: 100 }, (_, row) => ({ row })));
  const snapshot = await tidings.get("local", jobId);
  expect(snapshot).toMatchObject({ status: "completed", attempt: 2, summary: `by ${second.process.pid}` });
  const { events } = await tidings.read({ owner: "local", jobIds: [jobId], limit: 1_000 });
  expect(events.filter(({ event }) => event.type === "job.completed")).toHaveLength(1);
  expect(events.map(({ event }) => event.seq)).toEqual(events.map((_, index) => index + 1));
}

test("FC-36: stopped and woken again, its writes are refused", async () => {
  const { store, tidings } = await openWorld();
  const first = await startWorker(store);
  const { jobId } = await tidings.start(rows, { blockMs: 0 });
  await storyOf(tidings, jobId, isHalf);
  first.process.kill("SIGSTOP");
  const second = await startWorker(store);
  expect(typesOf(await storyOf(tidings, jobId)).at(-1)).toBe("job.completed");
  first.process.kill("SIGCONT");
  // It has found out once it takes another job.
  second.process.kill("SIGKILL");
  const next = await tidings.start(rows, { blockMs: 0 });
  await storyOf(tidings, next.jobId);
  await expectWhole(tidings, jobId, second);
  await expect.poll(() => first.errors).toContain("LEASE_LOST");
});

test("FC-36: with a blocked event loop, it is told so and its writes are refused", async () => {
  const { store, tidings } = await openWorld();
  const first = await startWorker(store);
  const { jobId } = await tidings.start(rows, { blockMs: 4_000 });
  await storyOf(tidings, jobId, isHalf);
  const second = await startWorker(store);
  expect(typesOf(await storyOf(tidings, jobId)).at(-1)).toBe("job.completed");
  second.process.kill("SIGKILL");
  const next = await tidings.start(rows, { blockMs: 0 });
  await storyOf(tidings, next.jobId);
  await expectWhole(tidings, jobId, second);
  await expect.poll(() => first.errors).toEqual(expect.arrayContaining(["LOOP_BLOCKED", "LEASE_LOST"]));
});

test("a worker whose loop was blocked does not take its own job from the handler that runs it", async () => {
  let runs = 0;
  let atOnce = 0;
  let mostAtOnce = 0;
  const quick = defineJob("quick", { input: z.object({}), run: () => ({}) });
  const blocked = defineJob("blocked", {
    input: z.object({}),
    async run(_, { checkpoint }) {
      runs += 1;
      mostAtOnce = Math.max(mostAtOnce, ++atOnce);
      const until = performance.now() + 500;
      while (performance.now() < until);
      // Its commit makes the worker claim, in the same transaction as the renewal that is late.
      const { jobId } = await tidings.start(quick, {});
      await storyOf(tidings, jobId);
      await checkpoint({ done: true });
      atOnce -= 1;
      return { summary: "done" };
    },
  });
  const told: string[] = [];
  const tidings = await open({
    store: `sqlite:${makeFolder()}/jobs.db`,
    jobs: [quick, blocked],
    leaseMs: 200,
    onError: (error) => void told.push((error as TidingsError).code),
  });
  const { jobId } = await tidings.start(blocked, {});
  const story = typesOf(await storyOf(tidings, jobId));
  expect(story).not.toContain("job.retrying");
  expect(story.at(-1)).toBe("job.completed");
  expect({ runs, mostAtOnce }).toEqual({ runs: 1, mostAtOnce: 1 });
  expect(told).toContain("LOOP_BLOCKED");
});

test("an attempt that was taken from a handler of this process begins when that handler has returned", async () => {
  const manual = createManualClock();
  const memory = createMemoryEngine({ clock: manual, random: systemRandom });
  let isLate = true;
  // Its renewals do not arrive, so that the worker's next claim finds the lease run out.
  const store: Engine = { ...memory, renew: async (leases, ms) => (isLate ? [] : memory.renew(leases, ms)) };
  const begun: number[] = [];
  const letGo = signalOf();
  const firstBegun = signalOf();
  const slow = defineJob("slow", {
    input: z.object({}),
    async run(_, { attempt }) {
      begun.push(attempt);
      if (attempt > 1) return { summary: `attempt ${attempt}` };
      firstBegun.resolve();
      await letGo.promise;
      return {};
    },
  });
  const tidings = await open({ store, jobs: [slow], clock: manual, leaseMs: 30_000, onError: () => {} });
  const { jobId } = await tidings.start(slow, {});
  await firstBegun.promise;
  await advancing(
    manual,
    storyOf(tidings, jobId, ({ type, attempt }) => type === "job.started" && attempt === 2),
  );
  isLate = false;
  expect(begun).toEqual([1]);
  letGo.resolve();
  expect((await storyOf(tidings, jobId)).at(-1)).toMatchObject({
    type: "job.completed",
    summary: "attempt 2",
  });
  expect(begun).toEqual([1, 2]);
});

test.each([
  { still: "its own", writes: 2, ending: "job.completed" },
  { still: "somebody else's", writes: 0, ending: "job.started" },
])(
  "held up for longer than its lease, a handler asks before it writes; the job is $still",
  async ({ still, writes, ending }) => {
    const manual = createManualClock();
    let heldUpMs = 0;
    const clock = { ...manual, monotonic: () => manual.monotonic() + heldUpMs };
    const engine = createMemoryEngine({ clock: manual, random: systemRandom });
    const calls: string[] = [];
    const store: Engine = {
      ...engine,
      async renew(leases, leaseMs) {
        calls.push("renew");
        return still === "its own" ? engine.renew(leases, leaseMs) : leases;
      },
      apply(change) {
        calls.push("apply");
        return engine.apply(change);
      },
    };
    const told: unknown[] = [];
    const returned = signalOf<unknown>();
    const slow = defineJob("slow", {
      input: z.object({}),
      async run(_, { checkpoint }) {
        heldUpMs = 60_000;
        await checkpoint({ row: 1 }).then(returned.resolve, (error: TidingsError) => {
          returned.resolve(error.code);
          throw error;
        });
      },
    });
    const tidings = await open({ store, jobs: [slow], clock, onError: (error) => void told.push(error) });
    const { jobId } = await tidings.start(slow, {});
    expect(await returned.promise).toBe(still === "its own" ? undefined : "LEASE_LOST");
    const story = await storyOf(tidings, jobId, ({ type }) => type === ending);
    expect(story.at(-1)?.type).toBe(ending);
    expect(calls[0]).toBe("renew");
    expect(calls.filter((call) => call === "apply")).toHaveLength(writes);
    expect(told).toEqual([
      expect.objectContaining({ code: "LOOP_BLOCKED", message: expect.stringContaining(jobId) }),
    ]);
  },
);
