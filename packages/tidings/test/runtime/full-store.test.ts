import { createTidings, defineJob, type JobContext, type Tidings } from "tidings";
import { createManualClock } from "tidings/testing";
import { expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import type { Database } from "../../src/engine/sqlite/driver.ts";
import { makeFolder } from "../engine/folder.ts";
import { advancing, signalOf, storyOf, typesOf } from "./story.ts";

/** A full disk, made by SQLite itself: the file may not grow beyond so many pages more. */
async function limitPages(tidings: Tidings, more: number): Promise<void> {
  await tidings.transaction("local", ({ sql }) => {
    const database = sql as Database;
    const pages = Number(database.prepare("PRAGMA page_count").get()?.page_count);
    database.exec(`PRAGMA max_page_count = ${pages + more}`);
  });
}

const grow = defineJob("grow", {
  input: z.object({ text: z.string() }),
  async run() {
    return { summary: "grown" };
  },
});

const BIG = "x".repeat(200_000);
const WAYS_TO_WRITE: Readonly<Record<string, (context: JobContext) => Promise<void>>> = {
  "its checkpoint": ({ checkpoint }) => checkpoint({ text: BIG }),
  "items beside its checkpoint": ({ checkpoint }) =>
    checkpoint({ done: 1 }, (transaction) => transaction.append("gifts", [BIG])),
  "a value beside its checkpoint": ({ checkpoint }) =>
    checkpoint({ done: 1 }, (transaction) => transaction.put("state", BIG)),
};

test.each(Object.entries(WAYS_TO_WRITE))(
  "FC-46: a full store refuses starts clearly, lets a job that writes %s wait, says that it is degraded, and recovers by itself",
  async (_, write) => {
    const clock = createManualClock();
    const errors: unknown[] = [];
    const goOn = signalOf();
    const begun = signalOf();
    const running = defineJob("running", {
      input: z.object({}),
      async run(_, context) {
        begun.resolve();
        await goOn.promise;
        await write(context);
        return { summary: "ended after all" };
      },
    });
    const tidings = await createTidings({
      store: `sqlite:${makeFolder()}/jobs.db`,
      jobs: [grow, running],
      clock,
      onError: (error) => errors.push(error),
    });
    onTestFinished(() => tidings.close({ graceMs: 0 }));
    const stop = new AbortController();
    const heard: string[] = [];
    const degraded = signalOf();
    const restored = signalOf();
    const listening = (async () => {
      for await (const item of tidings.tail({
        owner: "local",
        after: { from: "now" },
        signal: stop.signal,
      })) {
        if (item.kind !== "event" || !item.event.type.startsWith("system.")) continue;
        heard.push(item.event.type);
        if (item.event.type === "system.degraded") degraded.resolve();
        else restored.resolve();
      }
    })();

    const { jobId } = await tidings.start(running, {});
    await begun.promise;
    await limitPages(tidings, 8);
    expect(tidings.health()).toEqual({ status: "ok" });
    await expect(tidings.start(grow, { text: "x".repeat(300_000) })).rejects.toMatchObject({
      code: "STORE_FULL",
      retryable: true,
      hint: expect.stringContaining("Make room"),
    });
    await degraded.promise;
    expect(tidings.health()).toMatchObject({ status: "degraded", reason: expect.stringMatching(/full/) });

    // The running job meets the full store now, and waits.
    goOn.resolve();
    const ended = storyOf(tidings, jobId);
    for (let seconds = 0; seconds < 5; seconds += 1) {
      clock.advance(1_000);
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect((await tidings.get("local", jobId)).status).toBe("running");

    await limitPages(tidings, 1_000_000);
    expect(typesOf(await advancing(clock, ended)).at(-1)).toBe("job.completed");
    await advancing(clock, restored.promise);
    expect(tidings.health()).toEqual({ status: "ok" });
    expect(await tidings.get("local", jobId)).toMatchObject({ status: "completed", attempt: 1 });
    expect(heard).toEqual(["system.degraded", "system.restored"]);
    expect(errors).toMatchObject([{ code: "STORE_FULL" }]);
    const { jobId: later } = await tidings.start(grow, { text: "x".repeat(300_000) });
    expect(typesOf(await storyOf(tidings, later)).at(-1)).toBe("job.completed");
    stop.abort();
    await listening;
  },
);

test("FC-46: two hundred jobs of a large input each stay within the bytes that the store may hold", async () => {
  const clock = createManualClock();
  const retentionBytes = 8 * 1_024 * 1_024;
  const tidings = await createTidings({
    store: `sqlite:${makeFolder()}/jobs.db`,
    jobs: [grow],
    clock,
    retentionBytes,
  });
  onTestFinished(() => tidings.close({ graceMs: 0 }));
  for (let round = 0; round < 20; round += 1) {
    const jobs = await Promise.all(
      Array.from({ length: 10 }, () => tidings.start(grow, { text: "x".repeat(250_000) })),
    );
    for (const { jobId } of jobs) await storyOf(tidings, jobId);
    await tidings.prune({ maxBytes: retentionBytes });
  }
  const size = await tidings.transaction("local", ({ sql }) => {
    const database = sql as Database;
    const [pages, bytes] = ["page_count", "page_size"].map((name) =>
      Number(database.prepare(`PRAGMA ${name}`).get()?.[name]),
    );
    return (pages ?? 0) * (bytes ?? 0);
  });
  expect(size).toBeLessThan(retentionBytes * 1.5);
  const { jobs } = await tidings.list("local", { limit: 100 });
  expect(jobs.length).toBeGreaterThan(10);
  expect(jobs.length).toBeLessThan(40);
});

test("FC-46: an input that is too large is refused with the limit", async () => {
  const tidings = await createTidings({ store: "memory:", jobs: [grow], limits: { inputBytes: 1_000 } });
  onTestFinished(() => tidings.close({ graceMs: 0 }));
  await expect(tidings.start(grow, { text: "x".repeat(1_000) })).rejects.toMatchObject({
    code: "PAYLOAD_TOO_LARGE",
    message: 'The input of "grow" takes 1011 bytes, but at most 1000 are allowed.',
  });
});

test("security 21: the 1,001st waiting job is refused with the limit, and other owners are not", async () => {
  const tidings = await createTidings({ store: "memory:", jobs: [grow], concurrency: 0 });
  onTestFinished(() => tidings.close({ graceMs: 0 }));
  for (let count = 0; count < 1_000; count += 1) await tidings.start(grow, { text: "x" });
  await expect(tidings.start(grow, { text: "x" })).rejects.toMatchObject({
    code: "QUEUE_FULL",
    message: "1000 jobs are waiting already, and at most 1000 may; nothing was started.",
    data: { limit: 1_000, retryAfterMs: expect.any(Number) },
  });
  await tidings.start(grow, { text: "x" }, { owner: "bob" });
});

test("security 21: an owner whose jobs fill its bytes is refused with the limit until one ends; others are not", async () => {
  const storedBytesPerOwner = 20_000;
  const limits = { storedBytesPerOwner };
  const tidings = await createTidings({ store: "memory:", jobs: [grow], concurrency: 0, limits });
  onTestFinished(() => tidings.close({ graceMs: 0 }));
  const text = "x".repeat(15_000);
  const { jobId } = await tidings.start(grow, { text });
  await expect(tidings.start(grow, { text })).rejects.toMatchObject({
    code: "OWNER_FULL",
    retryable: true,
    message: expect.stringMatching(/keep 16\d{3} bytes already, and at most 20000 may be kept; nothing was/),
    data: { limit: storedBytesPerOwner, retryAfterMs: expect.any(Number) },
  });
  await tidings.start(grow, { text }, { owner: "bob" });
  await tidings.cancel("local", jobId, { canceledBy: "user" });
  const { jobId: next } = await tidings.start(grow, { text });
  expect((await tidings.list("local")).jobs.map(({ jobId }) => jobId)).toEqual([next]);
});

test("a handler that tells without end fails readably, once", async () => {
  const chatty = defineJob("chatty", {
    input: z.object({}),
    async run(_, { log }) {
      for (;;) await log("info", "still here");
    },
  });
  const tidings = await createTidings({ store: "memory:", jobs: [chatty], limits: { eventsPerJob: 50 } });
  onTestFinished(() => tidings.close({ graceMs: 0 }));
  const { jobId } = await tidings.start(chatty, {});
  const story = await storyOf(tidings, jobId);
  expect(story).toHaveLength(51);
  expect(story.at(-1)).toMatchObject({
    type: "job.failed",
    error: {
      code: "TOO_MANY_EVENTS",
      message: `Job "${jobId}" has told 50 events, and no more are allowed.`,
    },
  });
});
