import { createTidings, defineJob } from "tidings";
import { createManualClock } from "tidings/testing";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { createMemoryEngine } from "../../src/engine/memory/index.ts";
import { systemClock, systemRandom } from "../../src/engine/system-clock.ts";
import { advancing, open, signalOf, storyOf, typesOf } from "./story.ts";

const nothing = z.object({});
const by = { canceledBy: "user", reason: "changed my mind" };

describe("cancel", () => {
  test.each(["throws", "returns", "ignores it"] as const)(
    "stops a running handler that %s on abort; nothing follows the ending",
    async (habit) => {
      const began = signalOf();
      const aborted = signalOf();
      const job = defineJob("long", {
        input: nothing,
        async run(_input, { signal, checkpoint }) {
          began.resolve();
          await new Promise<void>((resolve) =>
            signal.addEventListener("abort", () => resolve(), { once: true }),
          );
          aborted.resolve();
          if (habit === "throws") throw signal.reason;
          if (habit === "returns") return { summary: "too late" };
          await checkpoint({}, (transaction) => transaction.append("rows", ["late"])).catch(() => undefined);
          return { summary: "too late" };
        },
      });
      const tidings = await open({ store: "memory:", jobs: [job] });
      const { jobId } = await tidings.start(job, {});
      await began.promise;
      const canceled = await tidings.cancel("local", jobId, by);
      expect(canceled).toMatchObject({ status: "canceled", canceledBy: "user", reason: "changed my mind" });
      await aborted.promise;
      expect(typesOf(await storyOf(tidings, jobId))).toEqual(["job.created", "job.started", "job.canceled"]);
      expect(await tidings.cancel("local", jobId, { canceledBy: "somebody else" })).toEqual(canceled);
      expect((await tidings.items("local", jobId, "rows", { offset: 0, limit: 1 })).total).toBe(0);
    },
  );

  test("reaches a job that waits for a worker, and one that waits for its next attempt", async () => {
    const clock = createManualClock();
    const job = defineJob("flaky", {
      input: nothing,
      run() {
        throw new Error("no luck");
      },
    });
    const tidings = await open({ store: "memory:", jobs: [job], clock });
    const { jobId } = await tidings.start(job, {});
    await storyOf(tidings, jobId, ({ type }) => type === "job.retrying");
    await tidings.cancel("local", jobId, by);
    clock.advance(600_000);
    expect(typesOf(await storyOf(tidings, jobId))).toEqual([
      "job.created",
      "job.started",
      "job.retrying",
      "job.canceled",
    ]);

    const idle = await open({ store: "memory:", jobs: [job], concurrency: 0 });
    const waiting = await idle.start(job, {});
    expect(await idle.cancel("local", waiting.jobId, by)).toMatchObject({ status: "canceled", attempt: 0 });
  });

  test("answers with the ending of a job that ended first, unchanged", async () => {
    const job = defineJob("quick", { input: nothing, run: () => ({ summary: "done" }) });
    const tidings = await open({ store: "memory:", jobs: [job] });
    const { jobId } = await tidings.start(job, {});
    await storyOf(tidings, jobId);
    const ended = await tidings.get("local", jobId);
    expect(await tidings.cancel("local", jobId, by)).toEqual(ended);
  });

  test("by another process stops the handler here within a second", async () => {
    const engine = createMemoryEngine({ clock: systemClock, random: systemRandom });
    const began = signalOf();
    const aborted = signalOf();
    const job = defineJob("long", {
      input: nothing,
      async run(_input, { signal }) {
        began.resolve();
        await new Promise<void>((resolve) =>
          signal.addEventListener("abort", () => resolve(), { once: true }),
        );
        aborted.resolve();
      },
    });
    const worker = await open({ store: engine, jobs: [job] });
    const server = await open({ store: engine, jobs: [job], concurrency: 0 });
    const { jobId } = await server.start(job, {});
    await began.promise;
    const canceledAt = performance.now();
    await server.cancel("local", jobId, by);
    await aborted.promise;
    expect(performance.now() - canceledAt).toBeLessThan(1_000);
    expect(typesOf(await storyOf(worker, jobId))).toEqual(["job.created", "job.started", "job.canceled"]);
  });
});

describe("an orderly shutdown", () => {
  test("hands the running job back at once, without using up an attempt", async () => {
    const engine = createMemoryEngine({ clock: systemClock, random: systemRandom });
    const began = signalOf();
    let attempts = 0;
    const job = defineJob("long", {
      input: nothing,
      attempts: 1,
      async run(_input, { signal }) {
        attempts += 1;
        if (attempts > 1) return { summary: "finished by the second process" };
        began.resolve();
        return new Promise((_resolve, reject) =>
          signal.addEventListener("abort", () => reject(signal.reason)),
        );
      },
    });
    // The store outlives the process: closing it is not part of handing back.
    const first = await createTidings({ store: { ...engine, close: async () => undefined }, jobs: [job] });
    const { jobId } = await first.start(job, {});
    await began.promise;
    await first.close();
    const second = await open({ store: engine, jobs: [job] });
    const story = await storyOf(second, jobId);
    expect(typesOf(story)).toEqual([
      "job.created",
      "job.started",
      "job.retrying",
      "job.started",
      "job.progress",
      "job.completed",
    ]);
    expect(story[2]).toMatchObject({ delaySeconds: 0, error: { code: "WORKER_STOPPED", retryable: true } });
  });
});

describe("a worker that was thought dead", () => {
  test("finds its writes refused and its handler aborted; the result is the successor's", async () => {
    const clock = createManualClock();
    const engine = createMemoryEngine({ clock, random: systemRandom });
    const began = signalOf();
    const go = signalOf();
    const refused = signalOf<string>();
    let runs = 0;
    const job = defineJob("paused", {
      input: nothing,
      async run(_input, { checkpoint, attempt }) {
        runs += 1;
        if (runs === 1) {
          began.resolve();
          await go.promise;
          await checkpoint({}, (transaction) => transaction.append("rows", ["stale"])).catch((error) =>
            refused.resolve(error.code),
          );
          return { summary: "stale" };
        }
        await checkpoint({}, (transaction) => transaction.append("rows", ["fresh"]));
        return { summary: `attempt ${attempt}` };
      },
    });
    // The first worker's renewals do not arrive, as if its process were stopped.
    const paused = await open({
      store: { ...engine, renew: async () => [] },
      jobs: [job],
      concurrency: 1,
      clock,
    });
    const { jobId } = await paused.start(job, {});
    await began.promise;
    const rescuer = await open({ store: engine, jobs: [job], clock });
    const story = await advancing(clock, storyOf(rescuer, jobId));
    go.resolve();
    expect(await refused.promise).toBe("LEASE_LOST");
    expect(story.find(({ type }) => type === "job.retrying")).toMatchObject({
      error: { code: "WORKER_LOST" },
    });
    expect(story.at(-1)).toMatchObject({ type: "job.completed", summary: "attempt 2" });
    expect((await rescuer.items("local", jobId, "rows", { offset: 0, limit: 9 })).items).toEqual(["fresh"]);
    expect(await storyOf(rescuer, jobId)).toEqual(story);
  });

  test("is not robbed of a healthy long job when somebody sets the clock (FC-44)", async () => {
    const clock = createManualClock();
    const began = signalOf();
    const go = signalOf();
    const job = defineJob("steady", {
      input: nothing,
      async run() {
        began.resolve();
        await go.promise;
      },
    });
    const tidings = await open({ store: "memory:", jobs: [job], clock });
    const { jobId } = await tidings.start(job, {});
    await began.promise;
    clock.step(3_600_000);
    clock.advance(1_000);
    clock.step(-7_200_000);
    clock.advance(1_000);
    go.resolve();
    const story = await storyOf(tidings, jobId);
    expect(typesOf(story)).toEqual(["job.created", "job.started", "job.progress", "job.completed"]);
    const times = story.map(({ timestamp }) => timestamp);
    expect(times).toEqual([...times].sort());
  });
});
