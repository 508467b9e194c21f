import {
  type CustomEvent,
  createTidings,
  defineEvent,
  defineJob,
  PermanentError,
  RetryAfter,
  type Tidings,
} from "tidings";
import { createManualClock, createSeededRandom } from "tidings/testing";
import { afterEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { advancing, signalOf, storyOf, typesOf } from "./story.ts";

let tidings: Tidings | undefined;
afterEach(() => tidings?.close());

const nothing = z.object({});
const fourStages = { parse: 10, extract: 40, match: 70, assemble: 100 } as const;

describe("the story of a job", () => {
  test("is created, started, its stages' ends, completed, and carries the correlation on every event", async () => {
    const job = defineJob("report", {
      input: z.object({ rows: z.int() }),
      stages: fourStages,
      summary: ({ rows }) => `Reading ${rows} rows`,
      async run({ rows }, { progress, count }) {
        for (let row = 1; row <= rows; row += 1) await progress("match", row / rows);
        count({ rows });
        return { summary: "All read", result: { rows } };
      },
    });
    tidings = await createTidings({ store: "memory:", jobs: [job] });
    const { jobId, status, cursor } = await tidings.start(job, { rows: 7 }, { correlationId: "run-1" });
    expect({ jobId, status, cursor }).toEqual({
      jobId: expect.stringMatching(/^report_[0-9A-Za-z_-]{22,}$/),
      status: "pending",
      cursor: expect.stringMatching(/^[!-~]+$/),
    });

    const story = await storyOf(tidings, jobId);
    expect(typesOf(story).filter((type) => type !== "job.progress")).toEqual([
      "job.created",
      "job.started",
      "job.completed",
    ]);
    expect(story.map(({ seq }) => seq)).toEqual(story.map((_, index) => index + 1));
    expect(new Set(story.map(({ eventId }) => eventId)).size).toBe(story.length);
    expect(story.every((event) => event.correlationId === "run-1" && event.jobId === jobId)).toBe(true);
    const boundaries = story.filter((event) => [10, 40, 70, 100].includes(event.percentage as number));
    expect(boundaries.map(({ percentage, stageKey }) => [percentage, stageKey])).toEqual([
      [10, "parse"],
      [40, "extract"],
      [70, "match"],
      [100, "assemble"],
    ]);
    expect(await tidings.get("local", jobId)).toMatchObject({
      jobType: "report",
      status: "completed",
      percentage: 100,
      attempt: 1,
      counts: { rows: 7 },
      summary: "All read",
      resultResourceId: `job://${jobId}/result`,
    });
    expect(await tidings.result("local", jobId)).toEqual({ rows: 7 });
  });

  test("holds each stage's end exactly once although a handler reports nothing at all", async () => {
    const job = defineJob("silent", { input: nothing, stages: fourStages, run: () => undefined });
    tidings = await createTidings({ store: "memory:", jobs: [job] });
    const { jobId } = await tidings.start(job, {});
    const story = await storyOf(tidings, jobId);
    expect(story.filter(({ type }) => type === "job.progress").map(({ percentage }) => percentage)).toEqual([
      10, 40, 70, 100,
    ]);
  });

  test("coalesces reports in between to four a second, but never drops a stage's end", async () => {
    const clock = createManualClock();
    const reported = signalOf();
    const go = signalOf();
    const job = defineJob("chatty", {
      input: nothing,
      stages: { first: 50, second: 100 },
      async run(_input, { progress }) {
        for (let step = 1; step <= 100; step += 1) await progress("first", step / 1_000);
        reported.resolve();
        await go.promise;
        await progress("first", 1);
      },
    });
    tidings = await createTidings({ store: "memory:", jobs: [job], clock });
    const { jobId } = await tidings.start(job, {});
    await reported.promise;
    const percentages = async () =>
      (await tidings?.read({ owner: "local", jobIds: [jobId] }))?.events.flatMap(
        ({ event }) => (event as CustomEvent).percentage ?? [],
      );
    expect(await percentages()).toEqual([0.1]);
    clock.advance(250);
    await storyOf(tidings, jobId, ({ percentage }) => percentage === 5);
    go.resolve();
    const story = await storyOf(tidings, jobId);
    expect(story.flatMap(({ percentage }) => percentage ?? [])).toEqual([0.1, 5, 50, 100]);
  });

  test("refuses reports of several workers that do not rise (FC-05)", async () => {
    const job = defineJob("parallel", {
      input: nothing,
      stages: { only: 100 },
      async run(_input, { progress }) {
        await Promise.all([1, 1, 3, 2, 5, 5, 4, 8].map((done) => progress("only", done / 8)));
      },
    });
    tidings = await createTidings({ store: "memory:", jobs: [job] });
    const { jobId } = await tidings.start(job, {});
    const shown = (await storyOf(tidings, jobId)).flatMap(
      ({ percentage }) => (percentage as number | undefined) ?? [],
    );
    expect(shown).toEqual([...shown].sort((a, b) => a - b));
    expect(new Set(shown).size).toBe(shown.length);
    expect(shown.at(-1)).toBe(100);
  });

  test("takes informational events, types of the server's own and log lines, but no transition, from a handler", async () => {
    const paid = defineEvent("order.paid", { payload: z.object({ paymentId: z.string() }) });
    let refused: unknown;
    const job = defineJob("informing", {
      input: nothing,
      async run(_input, { emit, log }) {
        await emit({ type: "resource.updated", resourceId: "resource:feed", changeType: "snapshot_ready" });
        await emit({
          type: "system.degraded",
          source: "partner",
          message: "slow",
          since: "2026-12-01T10:00:00.000Z",
        });
        await emit(paid({ paymentId: "p-1" }));
        await log("info", "half way");
        refused = await emit({ type: "job.completed", resultResourceId: "x" } as never).catch(
          (error) => error.code,
        );
      },
    });
    tidings = await createTidings({ store: "memory:", jobs: [job] });
    const { jobId } = await tidings.start(job, {});
    const story = await storyOf(tidings, jobId);
    expect(typesOf(story).filter((type) => !type.startsWith("job."))).toEqual([
      "resource.updated",
      "system.degraded",
      "order.paid",
      "system.log",
    ]);
    expect(story.map(({ seq }) => seq)).toEqual(story.map((_, index) => index + 1));
    expect(refused).toBe("BAD_EVENT");
  });
});

describe("an attempt that fails", () => {
  test("is followed by another after a growing delay, until the attempts are used up; the error is readable", async () => {
    const clock = createManualClock();
    const job = defineJob("flaky", {
      input: nothing,
      attempts: 3,
      run() {
        throw new Error("the partner hung up");
      },
    });
    tidings = await createTidings({ store: "memory:", jobs: [job], clock, random: createSeededRandom(1) });
    const { jobId } = await tidings.start(job, {});
    for (const attempt of [1, 2]) {
      const retries = (event: CustomEvent) => event.type === "job.retrying" && event.attempt === attempt;
      const story = await advancing(clock, storyOf(tidings, jobId, retries));
      const retrying = story.at(-1);
      const delay = retrying?.delaySeconds as number;
      expect(delay).toBeGreaterThanOrEqual(attempt / 2);
      expect(delay).toBeLessThanOrEqual(attempt);
    }
    const story = await advancing(clock, storyOf(tidings, jobId));
    expect(typesOf(story)).toEqual([
      "job.created",
      "job.started",
      "job.retrying",
      "job.started",
      "job.retrying",
      "job.started",
      "job.failed",
    ]);
    expect(story.at(-1)?.error).toEqual({
      code: "HANDLER_FAILED",
      message: "the partner hung up",
      retryable: true,
    });
  });

  test("ends the job at once with PermanentError, its hint included", async () => {
    const job = defineJob("strict", {
      input: nothing,
      run() {
        throw new PermanentError("NO_EMAIL_COLUMN", "No column holds e-mail addresses.", {
          hint: "Add one.",
        });
      },
    });
    tidings = await createTidings({ store: "memory:", jobs: [job] });
    const { jobId } = await tidings.start(job, {});
    expect((await storyOf(tidings, jobId)).at(-1)?.error).toEqual({
      code: "NO_EMAIL_COLUMN",
      message: "No column holds e-mail addresses.",
      hint: "Add one.",
      retryable: false,
    });
  });

  test("waits as long as RetryAfter says, and goes on from its checkpoint without going back", async () => {
    const clock = createManualClock();
    const seen: unknown[] = [];
    const job = defineJob("resuming", {
      input: nothing,
      stages: { work: 100 },
      async run(_input, { progress, checkpoint, resumed, attempt }) {
        seen.push(resumed);
        await progress("work", attempt === 1 ? 0.5 : 0.2);
        await checkpoint({ row: 40 }, (job) => job.append("rows", [attempt]));
        if (attempt === 1)
          throw new RetryAfter(5_000, "The source asks for a pause.", { code: "SOURCE_BUSY" });
      },
    });
    tidings = await createTidings({ store: "memory:", jobs: [job], clock });
    const { jobId } = await tidings.start(job, {});
    const first = await storyOf(tidings, jobId, ({ type }) => type === "job.retrying");
    expect(first.at(-1)).toMatchObject({ delaySeconds: 5, error: { code: "SOURCE_BUSY" } });
    expect((await tidings.get("local", jobId)).percentage).toBe(50);
    const story = await advancing(clock, storyOf(tidings, jobId));
    expect(seen).toEqual([undefined, { row: 40 }]);
    expect(story.flatMap(({ percentage }) => percentage ?? [])).toEqual([50, 100]);
    expect((await tidings.items("local", jobId, "rows", { offset: 0, limit: 10 })).items).toEqual([1, 2]);
  });

  test.each([
    ["null", null, "The handler threw null."],
    ["undefined", undefined, "The handler threw undefined."],
    ["a text with NUL and line breaks", "a\u0000b\nc", "The handler threw a b c."],
    [
      "an object that refers to itself",
      (() => {
        const o: Record<string, unknown> = {};
        o.self = o;
        return o;
      })(),
      "The handler threw an object that is no error.",
    ],
    ["a huge message", new Error("x".repeat(1_000_000)), expect.stringMatching(/^x{1999}…$/)],
    [
      "an error whose message throws",
      Object.defineProperty(new Error(), "message", {
        get() {
          throw new Error("no");
        },
      }),
      "The handler threw something that cannot be read.",
    ],
  ])("ends readably when a handler throws %s", async (_name, thrown, message) => {
    const job = defineJob("odd", {
      input: nothing,
      attempts: 1,
      run() {
        throw thrown;
      },
    });
    tidings = await createTidings({ store: "memory:", jobs: [job] });
    const { jobId } = await tidings.start(job, {});
    expect((await storyOf(tidings, jobId)).at(-1)?.error).toEqual({
      code: "HANDLER_FAILED",
      message,
      retryable: true,
    });
  });

  test("ends the job when what the handler returned is no JSON", async () => {
    const job = defineJob("circular", {
      input: nothing,
      run() {
        const result: Record<string, unknown> = {};
        result.self = result;
        return { result };
      },
    });
    tidings = await createTidings({ store: "memory:", jobs: [job] });
    const { jobId } = await tidings.start(job, {});
    expect((await storyOf(tidings, jobId)).at(-1)).toMatchObject({
      type: "job.failed",
      error: { code: "BAD_INPUT" },
    });
  });

  test("counts as failed when it takes longer than its limit, although the handler never settles", async () => {
    const clock = createManualClock();
    const began = signalOf();
    const job = defineJob("stuck", {
      input: nothing,
      attempts: 1,
      timeoutMs: 60_000,
      run() {
        began.resolve();
        return new Promise<undefined>(() => undefined);
      },
    });
    tidings = await createTidings({ store: "memory:", jobs: [job], clock });
    const { jobId } = await tidings.start(job, {});
    await began.promise;
    clock.advance(60_000);
    expect((await storyOf(tidings, jobId)).at(-1)?.error).toMatchObject({ code: "JOB_TIMEOUT" });
  });
});
