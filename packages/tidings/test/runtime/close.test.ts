/** The end of a process: bounded in the machine's time, whatever the store, the handlers and the clock do. */
import { createTidings, defineJob, openEngine } from "tidings";
import { createFaultEngine, createManualClock, createSeededRandom, type FaultRule } from "tidings/testing";
import { expect, onTestFinished, test, vi } from "vitest";
import { z } from "zod";
import type { Engine } from "../../src/engine/engine.ts";
import { advancing, signalOf, storyOf } from "./story.ts";

const nothing = z.object({});
const quick = defineJob("quick", { input: nothing, run: () => ({ summary: "done" }) });

/** A clock that stands still, and a store that outlives the processes on it. */
async function still() {
  const clock = createManualClock();
  const ports = { clock, random: createSeededRandom(1) };
  const engine = await openEngine("memory:", ports);
  onTestFinished(() => engine.close());
  const store: Engine = { ...engine, close: async () => undefined };
  return { clock, engine, store, ports };
}

const ends: FaultRule["when"] = ({ change }) => change?.command?.type === "complete";

async function timed(work: Promise<void>): Promise<number> {
  const begunAt = performance.now();
  await work;
  return performance.now() - begunAt;
}

test("ends although the store keeps an attempt's end and never says so, and the clock stands still", async () => {
  const { engine, store, ports } = await still();
  const mute = createFaultEngine(store, { rules: [{ fault: "die-after", methods: ["apply"], when: ends }] });
  const told: unknown[] = [];
  const options = { store: mute, jobs: [quick], onError: (error: unknown) => void told.push(error) };
  const tidings = await createTidings({ ...options, ...ports });
  const { jobId } = await tidings.start(quick, {});
  await mute.died;
  expect(await timed(tidings.close({ graceMs: 0 }))).toBeLessThan(5_000);
  expect(told).toMatchObject([{ code: "STORE_FAILED", message: expect.stringContaining(jobId) }]);
  expect((await engine.get("local", jobId))?.job.status).toBe("completed");
});

test("ends although a claim is never answered, and what that brings later is not begun", async () => {
  const { store, ports } = await still();
  const asked = signalOf();
  const answer = signalOf();
  let runs = 0;
  const job = defineJob("counted", { input: nothing, run });
  function run() {
    runs += 1;
  }
  const late: Engine = {
    ...store,
    async claim(request) {
      asked.resolve();
      await answer.promise;
      return store.claim(request);
    },
  };
  const told: unknown[] = [];
  const options = { store: late, jobs: [job], onError: (error: unknown) => void told.push(error) };
  const tidings = await createTidings({ ...options, ...ports });
  const { jobId } = await tidings.start(job, {});
  await asked.promise;
  expect(await timed(tidings.close({ graceMs: 0 }))).toBeLessThan(5_000);
  expect(told).toMatchObject([{ code: "STORE_FAILED" }]);
  const leased = signalOf();
  const stop = store.watch("local", leased.resolve);
  answer.resolve();
  await leased.promise;
  stop();
  await new Promise((resolve) => setImmediate(resolve));
  expect(runs).toBe(0);
  // Its holder is gone: the next one takes it at once.
  const next = await createTidings({ store, jobs: [job], ...ports });
  onTestFinished(() => next.close({ graceMs: 0 }));
  await advancing(ports.clock, storyOf(next, jobId));
  expect(runs).toBe(1);
});

test("an end that waits for its next try is written at once", async () => {
  const { engine, store, ports } = await still();
  const failed = signalOf();
  const flaky = createFaultEngine(store, {
    rules: [{ fault: "before", methods: ["apply"], when: ends, at: [1] }],
    onWrite: (write) => ends(write) && failed.resolve(),
  });
  const tidings = await createTidings({ store: flaky, jobs: [quick], ...ports });
  const { jobId } = await tidings.start(quick, {});
  await failed.promise;
  await tidings.close({ graceMs: 0 });
  expect((await engine.get("local", jobId))?.job).toMatchObject({ status: "completed", summary: "done" });
});

test("waits for a handler that does not return for its grace time, of whichever clock tells it first", async () => {
  const { clock, store, ports } = await still();
  const began = signalOf();
  const deaf = defineJob("deaf", {
    input: nothing,
    run() {
      began.resolve();
      return new Promise<void>(() => undefined);
    },
  });
  const first = await createTidings({ store, jobs: [deaf], ...ports });
  await first.start(deaf, {});
  await began.promise;
  expect(await timed(first.close({ graceMs: 200 }))).toBeGreaterThan(150);
  const second = await createTidings({ store, jobs: [deaf], ...ports });
  await second.start(deaf, {});
  expect(await timed(advancing(clock, second.close({ graceMs: 60_000 })))).toBeLessThan(5_000);
});

test("says so when the store itself does not close", async () => {
  const { store, ports } = await still();
  const stuck: Engine = { ...store, close: () => new Promise<void>(() => undefined) };
  const tidings = await createTidings({ store: stuck, jobs: [quick], ...ports });
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  const refused = expect(tidings.close({ graceMs: 0 })).rejects.toMatchObject({
    code: "STORE_FAILED",
    message: 'The store "memory" did not close within 10 s.',
  });
  await vi.advanceTimersByTimeAsync(10_000);
  await refused;
});
