/** Failures that people reported of systems like this one, each shown to be impossible here. */
import { defineJob, PermanentError, type Tidings } from "tidings";
import type { Source, SourceItem } from "tidings/client";
import { follow } from "tidings/client";
import { createManualClock, type ManualClock } from "tidings/testing";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import type { Engine } from "../../src/engine/engine.ts";
import { createMemoryEngine } from "../../src/engine/memory/index.ts";
import { createSqliteEngine } from "../../src/engine/sqlite/index.ts";
import { systemClock, systemRandom } from "../../src/engine/system-clock.ts";
import { makeFolder } from "../engine/folder.ts";
import { advancing, isEnding, open, signalOf, storyOf, typesOf } from "./story.ts";

const nothing = z.object({});

/** A follower's source that reads the log itself. */
function logSource(tidings: Tidings): Source {
  return {
    async *open({ jobId, after, signal }) {
      const request = { owner: "local", jobIds: [jobId], signal, ...(after === undefined ? {} : { after }) };
      for await (const item of tidings.tail(request)) {
        yield item.kind === "gap"
          ? ({ kind: "snapshot", snapshot: await tidings.get("local", jobId) } satisfies SourceItem)
          : ({ kind: "event", event: item.event, cursor: item.cursor } satisfies SourceItem);
      }
    },
  };
}

async function allOf<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

describe("FC-08: the caller times out although progress flows, and the work goes on unseen", () => {
  const clockwork = (clock: ManualClock, seconds: number) =>
    defineJob("clockwork", {
      input: nothing,
      attempts: 2,
      stages: { count: 100 },
      async run(_input, { progress, signal }) {
        for (let second = 1; second <= seconds; second += 1) {
          await new Promise<void>((resolve) => void clock.after(1_000, resolve));
          if (signal.aborted) return;
          await progress("count", Math.min(second / 90, 1));
        }
        return { summary: "done" };
      },
    });

  test("(a) a start answers at once, and the follower of a job of 90 s sees its end", async () => {
    const clock = createManualClock();
    const job = clockwork(clock, 90);
    const tidings = await open({ store: "memory:", jobs: [job], clock });
    const begunAt = clock.monotonic();
    const { jobId } = await tidings.start(job, {});
    expect(clock.monotonic()).toBe(begunAt);
    const followed = follow({ jobId, source: logSource(tidings), clock, giveUpAfterMs: 60_000 });
    const seen = await advancing(clock, allOf(followed));
    expect(seen.at(-1)?.type).toBe("job.completed");
    expect(clock.monotonic() - begunAt).toBeGreaterThanOrEqual(90_000);
  });

  test("(b) a caller who gave up finds the job again, by its id and by its key, ended once", async () => {
    const clock = createManualClock();
    const job = clockwork(clock, 90);
    const tidings = await open({ store: "memory:", jobs: [job], clock });
    const start = () => tidings.start(job, {}, { idempotencyKey: "my list" });
    const { jobId } = await start();
    const patience = new AbortController();
    clock.after(60_000, () => patience.abort());
    const seen = await advancing(
      clock,
      allOf(follow({ jobId, source: logSource(tidings), clock, signal: patience.signal })),
    );
    expect(seen.some(isEnding)).toBe(false);
    expect(await start()).toMatchObject({ jobId, status: "running" });
    const story = await advancing(clock, storyOf(tidings, jobId));
    expect(typesOf(story.filter(isEnding))).toEqual(["job.completed"]);
    expect(await start()).toMatchObject({ jobId, status: "completed" });
  });

  test("(c) a handler that sends progress for ever is ended, and so is whoever follows it", async () => {
    const clock = createManualClock();
    const endless = { ...clockwork(clock, Number.POSITIVE_INFINITY), timeoutMs: 90_000 };
    const tidings = await open({ store: "memory:", jobs: [endless], clock });
    const { jobId } = await tidings.start(endless, {});
    const followed = follow({ jobId, source: logSource(tidings), clock });
    const seen = await advancing(clock, allOf(followed));
    expect(seen.at(-1)).toMatchObject({ type: "job.failed", error: { code: "JOB_TIMEOUT" } });
    expect(typesOf(seen).filter((type) => type === "job.started")).toHaveLength(2);
  });
});

describe("FC-30: the real error of a failed job is thrown away", () => {
  test.each([
    {
      ending: "an error that the handler means, with a code and a hint",
      thrown: new PermanentError("SOURCE_EMPTY", "The source holds no rows.", {
        hint: "Fill it first.",
        data: { token: "secret-token" },
        cause: new Error("secret-cause"),
      }),
      error: {
        code: "SOURCE_EMPTY",
        message: "The source holds no rows.",
        hint: "Fill it first.",
        retryable: false,
      },
    },
    {
      ending: "an error that the handler did not expect",
      thrown: new TypeError("rows is not iterable"),
      error: { code: "HANDLER_FAILED", message: "rows is not iterable", retryable: true },
    },
  ])(
    "$ending reads the same in the snapshot, the event and the follower, without a stack",
    async ({ thrown, error }) => {
      const job = defineJob("failing", {
        input: nothing,
        attempts: 1,
        run() {
          throw thrown;
        },
      });
      const tidings = await open({ store: "memory:", jobs: [job] });
      const { jobId } = await tidings.start(job, {});
      const story = follow(job, { source: logSource(tidings), jobId });
      for await (const _ of story);
      const event = (await storyOf(tidings, jobId)).at(-1);
      const snapshot = await tidings.get("local", jobId);
      expect(event?.error).toEqual(error);
      expect(snapshot.error).toEqual(error);
      expect(story.job?.error).toEqual(error);
      expect(JSON.stringify([event, snapshot, story.job])).not.toMatch(/secret|reported-failures|at run/);
    },
  );
});

describe.each(["memory", "sqlite"])("FC-39: the completed event never comes (%s)", (name) => {
  test("every waiter learns of 1,000 completions from the state, whenever it comes; what was trimmed is signalled", async () => {
    const ports = { clock: systemClock, random: systemRandom };
    const engine: Engine =
      name === "memory"
        ? createMemoryEngine(ports)
        : await createSqliteEngine({ path: `${makeFolder()}/log.db`, ...ports });
    const job = defineJob("quick", {
      input: z.object({ n: z.int() }),
      run: ({ n }) => ({ summary: `job ${n}` }),
    });
    const tidings = await open({ store: engine, jobs: [job], concurrency: 16 });
    const early = signalOf<string>();
    const before = early.promise.then((jobId) => summaryOf(tidings, jobId));
    const answers = await Promise.all(Array.from({ length: 1_000 }, (_, n) => tidings.start(job, { n })));
    const ids = answers.map(({ jobId }) => jobId);
    early.resolve(ids[0] ?? "");
    expect(await before).toBe("job 0");
    // All have ended; waiters who come now find events, …
    await Promise.all(ids.map((jobId) => storyOf(tidings, jobId)));
    expect(await summaryOf(tidings, ids[1] ?? "")).toBe("job 1");
    // … and after trimming, the state.
    await engine.prune({ keepEvents: 100 });
    const page = await tidings.read({ owner: "local", after: answers[0]?.cursor ?? "" });
    expect(page.truncated).toBe(true);
    expect(page.events.length).toBeLessThanOrEqual(100);
    expect(await summaryOf(tidings, ids[2] ?? "")).toBe("job 2");
    const statuses = await Promise.all(ids.map(async (jobId) => (await tidings.get("local", jobId)).status));
    expect(statuses.filter((status) => status === "completed").length).toBe(1_000);
  });

  async function summaryOf(tidings: Tidings, jobId: string): Promise<string | undefined> {
    const story = follow({ source: logSource(tidings), jobId });
    for await (const _ of story);
    return story.job?.summary;
  }
});

describe("FC-15: an event is lost between the backlog and what comes live", () => {
  test("a reader whose first read is held open while the job ends still gets the ending, once", async () => {
    const engine = createMemoryEngine({ clock: systemClock, random: systemRandom });
    const held = signalOf();
    const reading = signalOf();
    let holds = true;
    const slow: Engine = {
      ...engine,
      async read(...request) {
        const result = await engine.read(...request);
        if (holds && request[3] > 1) {
          holds = false;
          reading.resolve();
          await held.promise;
        }
        return result;
      },
    };
    const go = signalOf();
    const job = defineJob("job", { input: nothing, run: () => go.promise });
    const tidings = await open({ store: slow, jobs: [job] });
    const { jobId } = await tidings.start(job, {});
    const told = storyOf(tidings, jobId);
    await reading.promise;
    go.resolve();
    await storyOf(tidings, jobId);
    held.resolve();
    const story = await told;
    expect(typesOf(story).at(-1)).toBe("job.completed");
    expect(story.map(({ seq }) => seq)).toEqual(story.map((_, index) => index + 1));
  });
});

describe("FC-06: progress starts again at 0 after a retry", () => {
  test("the second attempt does not process again what was committed, and shows nothing below what was shown", async () => {
    const clock = createManualClock();
    const processed: number[] = [];
    const job = defineJob("import", {
      input: nothing,
      stages: { rows: 100 },
      async run(_input, { progress, checkpoint, resumed, attempt }) {
        for (let row = ((resumed as { row: number } | undefined)?.row ?? 0) + 1; row <= 100; row += 1) {
          processed.push(row);
          await checkpoint({ row });
          await progress("rows", row / 100);
          clock.advance(300);
          if (row === 40 && attempt === 1) throw new Error("the process stumbles");
        }
      },
    });
    const tidings = await open({ store: "memory:", jobs: [job], clock });
    const { jobId } = await tidings.start(job, {});
    await storyOf(tidings, jobId, ({ type }) => type === "job.retrying");
    expect((await tidings.get("local", jobId)).percentage).toBe(40);
    const shown = (await advancing(clock, storyOf(tidings, jobId))).flatMap(
      ({ percentage }) => (percentage as number | undefined) ?? [],
    );
    expect(processed).toEqual(Array.from({ length: 100 }, (_, index) => index + 1));
    expect(shown.slice(shown.indexOf(40) + 1).every((value) => value > 40)).toBe(true);
    expect(shown.at(-1)).toBe(100);
  });
});

describe("FC-31: a task is deleted while it is still working", () => {
  const MINUTE_MS = 60_000;
  test.each([
    { retentionMs: 0, goneAfterMinutes: 1 },
    { retentionMs: 2_000, goneAfterMinutes: 2 },
    { retentionMs: 2 ** 31, goneAfterMinutes: undefined },
    { retentionMs: 10 * 365 * 24 * 60 * MINUTE_MS, goneAfterMinutes: undefined },
    { retentionMs: Number.POSITIVE_INFINITY, goneAfterMinutes: undefined },
  ])(
    "kept for $retentionMs ms, a job can be read until it ends, and that long afterwards",
    async ({ retentionMs, goneAfterMinutes }) => {
      const clock = createManualClock();
      const go = signalOf();
      const job = defineJob("long", {
        input: nothing,
        run: () => go.promise.then(() => ({ summary: "done" })),
      });
      const tidings = await open({ store: "memory:", jobs: [job], clock, retentionMs });
      const { jobId } = await tidings.start(job, {});
      const told = storyOf(tidings, jobId);
      const passMinute = async () => {
        clock.advance(MINUTE_MS);
        await new Promise((resolve) => setImmediate(resolve));
      };
      for (let minute = 0; minute < 30; minute += 1) {
        await passMinute();
        expect(await tidings.get("local", jobId)).toMatchObject({ status: "running" });
      }
      go.resolve();
      expect(typesOf(await told).at(-1)).toBe("job.completed");
      expect(await tidings.get("local", jobId)).toMatchObject({ status: "completed" });
      for (let minute = 0; minute < (goneAfterMinutes ?? 30); minute += 1) await passMinute();
      const kept = await tidings.find("local", jobId);
      expect(kept?.status).toBe(goneAfterMinutes === undefined ? "completed" : undefined);
    },
  );
});

describe("FC-41: a repeated start makes a second job, or is silently ignored", () => {
  test("one key, one job: in parallel, after the end, and apart for other owners and other spellings", async () => {
    const job = defineJob("job", { input: z.object({ a: z.int(), b: z.int() }), run: () => undefined });
    const tidings = await open({ store: "memory:", jobs: [job] });
    const start = (input: { a: number; b: number }, idempotencyKey: string, owner = "local") =>
      tidings.start(job, input, { idempotencyKey, owner });
    const answers = await Promise.all(Array.from({ length: 100 }, () => start({ a: 1, b: 2 }, "key")));
    const [first] = answers;
    expect(new Set(answers.map(({ jobId }) => jobId)).size).toBe(1);
    await storyOf(tidings, first?.jobId ?? "");
    expect(await start({ b: 2, a: 1 }, "key")).toEqual({ ...first, status: "completed" });
    await expect(start({ a: 1, b: 3 }, "key")).rejects.toMatchObject({ code: "IDEMPOTENCY_CONFLICT" });
    const others = [
      await start({ a: 1, b: 2 }, "Key"),
      await start({ a: 1, b: 2 }, "key "),
      await start({ a: 1, b: 2 }, "key", "ada"),
    ];
    expect(new Set([first, ...others].map((answer) => answer?.jobId)).size).toBe(4);
    expect((await tidings.list("local")).jobs.length).toBe(3);
  });
});
