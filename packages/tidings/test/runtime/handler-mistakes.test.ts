/** Handlers and programs that make mistakes: none of them loses, forges or ends anything that is not theirs. */
import {
  createTidings,
  defineJob,
  fromCloudEvent,
  PermanentError,
  RetryAfter,
  type Tidings,
  toCloudEvent,
} from "tidings";
import { createManualClock } from "tidings/testing";
import { afterEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { createMemoryEngine } from "../../src/engine/memory/index.ts";
import { systemClock, systemRandom } from "../../src/engine/system-clock.ts";
import { signalOf, storyOf, typesOf } from "./story.ts";

let tidings: Tidings | undefined;
afterEach(() => tidings?.close({ graceMs: 0 }));

const nothing = z.object({});
const updated = {
  type: "resource.updated",
  resourceId: "resource:feed",
  changeType: "snapshot_ready",
} as const;

describe("a handler that forgets to await", () => {
  test("loses nothing that it said before it returned", async () => {
    const job = defineJob("hasty", {
      input: nothing,
      run(_input, { emit, checkpoint }) {
        void emit(updated);
        void checkpoint({ row: 1 }, (transaction) => transaction.append("rows", [1]));
        void emit(updated);
      },
    });
    tidings = await createTidings({ store: "memory:", jobs: [job] });
    const { jobId } = await tidings.start(job, {});
    const types = typesOf(await storyOf(tidings, jobId));
    expect(types.filter((type) => type === "resource.updated").length).toBe(2);
    expect((await tidings.items("local", jobId, "rows", { offset: 0, limit: 9 })).items).toEqual([1]);
  });

  test("does not end the process when somebody cancels its job", async () => {
    const began = signalOf();
    const go = signalOf();
    const unhandled: unknown[] = [];
    const listen = (reason: unknown): void => void unhandled.push(reason);
    process.on("unhandledRejection", listen);
    const job = defineJob("hasty", {
      input: nothing,
      async run(_input, { emit, progress, log, checkpoint }) {
        began.resolve();
        await go.promise;
        void emit(updated);
        void progress("work", 0.5);
        void log("info", "still here");
        void checkpoint({});
      },
    });
    tidings = await createTidings({ store: "memory:", jobs: [job] });
    const { jobId } = await tidings.start(job, {});
    await began.promise;
    await tidings.cancel("local", jobId, { canceledBy: "user" });
    go.resolve();
    // Rejections are announced after the microtasks of the turn in which they were left alone.
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
    process.off("unhandledRejection", listen);
    expect(unhandled).toEqual([]);
  });
});

describe("a handler that says what only the runtime may say", () => {
  test("forges no id, job, time or place of an event", async () => {
    const job = defineJob("forger", {
      input: nothing,
      async run(_input, { emit }) {
        await emit({
          ...updated,
          eventId: "evt_forged",
          jobId: "victim",
          seq: 1,
          timestamp: "2001-01-01T00:00:00.000Z",
        } as never);
      },
    });
    tidings = await createTidings({ store: "memory:", jobs: [job] });
    const { jobId } = await tidings.start(job, {});
    const story = await storyOf(tidings, jobId);
    const event = story.find(({ type }) => type === "resource.updated");
    expect(event).toMatchObject({ jobId, seq: 3, eventId: `evt_${jobId}_3` });
    expect(event?.timestamp).not.toContain("2001");
    expect((await tidings.read({ owner: "local", jobIds: ["victim"] })).events).toEqual([]);
  });

  test.each(["WORKER_STOPPED", "WORKER_LOST"])(
    "runs as often as its attempts allow when it asks for another one with %s, which would not count",
    async (code) => {
      let runs = 0;
      const job = defineJob("stubborn", {
        input: nothing,
        attempts: 2,
        run() {
          runs += 1;
          throw new RetryAfter(1, "Once more.", { code });
        },
      });
      tidings = await createTidings({ store: "memory:", jobs: [job] });
      const { jobId } = await tidings.start(job, {});
      const end = (await storyOf(tidings, jobId)).at(-1);
      expect(end).toMatchObject({
        type: "job.failed",
        error: { code: "HANDLER_FAILED", message: "Once more." },
      });
      expect(runs).toBe(2);
    },
  );

  test.each(["JOB_CANCELED", "LEASE_LOST", "WORKER_STOPPED", "WORKER_LOST"])(
    "ends its job as failed when it throws %s itself, under a code that a handler may have",
    async (code) => {
      const job = defineJob("pretender", {
        input: nothing,
        run() {
          throw new PermanentError(code, "It says so itself.");
        },
      });
      tidings = await createTidings({ store: "memory:", jobs: [job] });
      const { jobId } = await tidings.start(job, {});
      const end = (await storyOf(tidings, jobId)).at(-1);
      expect(end).toMatchObject({ type: "job.failed", error: { code: "HANDLER_FAILED" } });
    },
  );
});

describe("numbers of a job", () => {
  test("survive a checkpoint that failed", async () => {
    const job = defineJob("counting", {
      input: nothing,
      async run(_input, { count, checkpoint }) {
        count({ read: 7, refused: 1 });
        await checkpoint({}, () => {
          throw new Error("the batch is bad");
        }).catch(() => count({ refused: 2 }));
      },
    });
    tidings = await createTidings({ store: "memory:", jobs: [job] });
    const { jobId } = await tidings.start(job, {});
    await storyOf(tidings, jobId);
    expect((await tidings.get("local", jobId)).counts).toEqual({ read: 7, refused: 2 });
  });
});

describe("an event that no reader would take", () => {
  const job = defineJob("plain", { input: nothing, run: () => undefined });

  test("is refused where it would be written: an empty correlation id starts nothing", async () => {
    tidings = await createTidings({ store: "memory:", jobs: [job] });
    await expect(tidings.start(job, {}, { correlationId: "" })).rejects.toMatchObject({ code: "BAD_INPUT" });
    await expect(tidings.start(job, {}, { idempotencyKey: "" })).rejects.toMatchObject({ code: "BAD_INPUT" });
    expect((await tidings.list("local")).jobs).toEqual([]);
  });

  test("ends the job readably when its result has no address", async () => {
    const nameless = defineJob("nameless", {
      input: nothing,
      resultResource: () => "",
      run: () => ({ result: 1 }),
    });
    tidings = await createTidings({ store: "memory:", jobs: [nameless] });
    const { jobId } = await tidings.start(nameless, {});
    expect((await storyOf(tidings, jobId)).at(-1)).toMatchObject({
      type: "job.failed",
      error: { code: "BAD_EVENT" },
    });
  });

  test("cannot be defined: a stage without a text", () => {
    const define = () =>
      defineJob("mute", { input: nothing, stages: { a: { end: 100, label: "" } }, run: () => undefined });
    expect(define).toThrow(expect.objectContaining({ code: "BAD_DEFINITION" }));
  });

  test("cannot be published under a job's name", async () => {
    tidings = await createTidings({ store: "memory:", jobs: [job] });
    const forged = { ...updated, jobId: "victim", seq: 1 } as never;
    await expect(tidings.publish(forged, {})).rejects.toMatchObject({ code: "BAD_EVENT" });
  });
});

describe("publishing again", () => {
  test("gives back the event as it stands in the log, not the repeat", async () => {
    const clock = createManualClock();
    tidings = await createTidings({ store: "memory:", jobs: [], clock });
    const first = await tidings.publish(updated, { eventId: "evt_1" });
    clock.advance(5_000);
    expect(await tidings.publish({ ...updated, changeType: "other" }, { eventId: "evt_1" })).toEqual(first);
  });
});

describe("input and settings that cannot be kept", () => {
  test("are told in a sentence: input that is no JSON, a lease without an end", async () => {
    const job = defineJob("any", { input: z.any(), run: () => undefined });
    tidings = await createTidings({ store: "memory:", jobs: [job] });
    const circular: Record<string, unknown> = {};
    circular.self = circular;
    for (const input of [circular, 1n, { n: 1n }]) {
      await expect(tidings.start(job, input)).rejects.toMatchObject({ code: "BAD_INPUT" });
    }
    const endless = createTidings({ store: "memory:", jobs: [], leaseMs: Number.POSITIVE_INFINITY });
    await expect(endless).rejects.toMatchObject({ code: "BAD_DEFINITION" });
  });
});

describe("a reader of a store that is closed", () => {
  test("is told so instead of waiting for ever", async () => {
    const job = defineJob("plain", { input: nothing, run: () => undefined });
    const closing = await createTidings({ store: "memory:", jobs: [job] });
    const { jobId } = await closing.start(job, {});
    await storyOf(closing, jobId);
    const waiting = storyOf(closing, jobId, () => false);
    await closing.close();
    await expect(waiting).rejects.toMatchObject({ code: "STORE_CLOSED" });
  });
});

describe("a store that fails", () => {
  test("tells the owner of a job nothing of the machine that it stands on", async () => {
    const engine = createMemoryEngine({ clock: systemClock, random: systemRandom });
    const job = defineJob("unlucky", {
      input: nothing,
      attempts: 1,
      async run(_input, { checkpoint }) {
        await checkpoint({}, () => {
          const error = new PermanentError(
            "STORE_FAILED",
            'The store "/srv/secret/jobs.db" failed: disk full.',
          );
          throw error;
        });
      },
    });
    tidings = await createTidings({ store: engine, jobs: [job] });
    const { jobId } = await tidings.start(job, {});
    const story = await storyOf(tidings, jobId);
    expect(JSON.stringify(story)).not.toContain("/srv");
    expect(story.at(-1)?.error).toMatchObject({ code: "STORE_FAILED" });
  });
});

describe("projections", () => {
  test("are public: a story goes out as CloudEvents and comes back as it was", async () => {
    const job = defineJob("plain", { input: nothing, run: () => ({ summary: "done" }) });
    tidings = await createTidings({ store: "memory:", jobs: [job] });
    const { jobId } = await tidings.start(job, {}, { correlationId: "run-1" });
    for (const event of await storyOf(tidings, jobId)) {
      expect(fromCloudEvent(JSON.parse(JSON.stringify(toCloudEvent(event))))).toEqual({
        kind: "event",
        event,
      });
    }
  });
});
