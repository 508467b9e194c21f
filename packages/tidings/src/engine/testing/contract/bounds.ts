import assert from "node:assert/strict";
import { reduce } from "../../../model/reduce.ts";
import type { ChangeLimits } from "../../engine.ts";
import {
  ALICE,
  BOB,
  CANCEL,
  COMPLETE,
  type Contract,
  progressTo,
  published,
  rejectsWith,
  typesOf,
} from "./world.ts";

const HOUR_MS = 3_600_000;
const NONE: ChangeLimits = {
  eventBytes: Number.POSITIVE_INFINITY,
  checkpointBytes: Number.POSITIVE_INFINITY,
  resultBytes: Number.POSITIVE_INFINITY,
  itemBytes: Number.POSITIVE_INFINITY,
  events: Number.POSITIVE_INFINITY,
};
const at = (percentage: number, stageKey: string) => ({ percentage, stage: stageKey, stageKey });

export function describeBounds({ test }: Contract): void {
  test("security 21: a start beyond the owner's queue is refused, and other owners are not", async ({
    engine,
    start,
    claim,
    story,
  }) => {
    const queue = { jobs: 2, bytes: 1_000_000 };
    await start({ queue });
    await start({ queue });
    const events = (await story()).length;
    const request = { jobId: "third", jobType: "work", input: {}, digest: "", maxAttempts: 1, queue };
    const outcome = await engine.start({ ...request, owner: ALICE });
    assert.equal(outcome.outcome, "full");
    assert.equal((outcome as { jobs: number }).jobs, 2);
    assert.equal(await engine.get(ALICE, "third"), undefined);
    assert.equal((await story()).length, events);
    assert.equal((await engine.start({ ...request, owner: BOB })).outcome, "created");
    // What runs does not wait any more.
    await claim();
    assert.equal((await engine.start({ ...request, owner: ALICE })).outcome, "created");
  });

  test("of many starts at once only as many are taken as the queue holds", async ({ engine }) => {
    const outcomes = await Promise.all(
      Array.from({ length: 30 }, (_, index) =>
        engine.start({
          owner: ALICE,
          jobId: `job_${index}`,
          jobType: "work",
          input: {},
          digest: "",
          maxAttempts: 1,
          queue: { jobs: 7, bytes: 1_000_000 },
        }),
      ),
    );
    assert.equal(outcomes.filter(({ outcome }) => outcome === "created").length, 7);
  });

  test("a queue is bounded by the bytes of its inputs too, but always takes one job", async ({ engine }) => {
    const queue = { jobs: 100, bytes: 100 };
    const request = { owner: ALICE, jobType: "work", digest: "", maxAttempts: 1, queue };
    const large = await engine.start({ ...request, jobId: "large", input: "x".repeat(200) });
    assert.equal(large.outcome, "created");
    const second = await engine.start({ ...request, jobId: "second", input: "x" });
    assert.deepEqual(second, { outcome: "full", jobs: 1, bytes: 202 });
  });

  test("a full queue still knows what it has: a repeated key is answered", async ({ engine, start }) => {
    const queue = { jobs: 1, bytes: 1_000_000 };
    const { job } = await start({ key: "k", queue });
    const again = { jobId: "again", jobType: "work", input: {}, digest: "digest", maxAttempts: 1 };
    const outcome = await engine.start({ ...again, owner: ALICE, key: "k", queue });
    assert.equal(outcome.outcome, "existing");
    assert.equal((outcome as { record: { job: { jobId: string } } }).record.job.jobId, job.jobId);
  });

  test("what is larger than its limit is refused with PAYLOAD_TOO_LARGE, and nothing is changed", async ({
    engine,
    running,
    apply,
    story,
  }) => {
    const record = await running();
    const before = await story();
    const large = "x".repeat(1_000);
    const event = { type: "system.log", source: "work", level: "info", message: large } as const;
    const changes = [
      { limits: { ...NONE, checkpointBytes: 1_000 }, checkpoint: large },
      { limits: { ...NONE, resultBytes: 1_000 }, command: COMPLETE, result: large },
      { limits: { ...NONE, eventBytes: 1_000 }, command: { type: "inform", events: [event] } as const },
      {
        limits: { ...NONE, itemBytes: 1_000 },
        write: (transaction: { append(name: string, items: readonly unknown[]): Promise<void> }) =>
          transaction.append("gifts", ["small", large]),
      },
    ];
    for (const change of changes) await rejectsWith("PAYLOAD_TOO_LARGE", apply(record, change));
    assert.deepEqual(await story(), before);
    const { total } = await engine.items(ALICE, record.job.jobId, "gifts", 0, 10);
    assert.equal(total, 0);
    for (const change of changes) {
      const outcome = await apply(record, { ...change, limits: NONE });
      assert.notEqual(outcome.outcome, "unknown");
    }
  });

  test("bytes are counted, not characters", async ({ running, apply }) => {
    const record = await running();
    const limits = { ...NONE, checkpointBytes: 12 };
    assert.equal((await apply(record, { checkpoint: "x".repeat(10), limits })).outcome, "applied");
    await rejectsWith("PAYLOAD_TOO_LARGE", apply(record, { checkpoint: "ä".repeat(6), limits }));
  });

  test("a story that is long enough takes no more than its ending", async ({ running, apply, story }) => {
    const record = await running();
    const limits = { ...NONE, events: 4 };
    await apply(record, { command: progressTo(10, 20), limits });
    await rejectsWith("TOO_MANY_EVENTS", apply(record, { command: progressTo(30), limits }));
    assert.equal((await apply(record, { command: COMPLETE, limits })).outcome, "applied");
    assert.equal(typesOf(await story()).at(-1), "job.completed");
  });

  test("values expire, and are gone for their readers at once", async ({ engine, clock }) => {
    await engine.transaction(ALICE, async (values) => {
      await values.put("short", 1, { expiresInMs: 1_000 });
      await values.put("long", 2);
    });
    const both = () => engine.transaction(ALICE, async (v) => [await v.get("short"), await v.get("long")]);
    clock.advance(999);
    assert.deepEqual(await both(), [1, 2]);
    clock.advance(1);
    assert.deepEqual(await both(), [undefined, 2]);
    await engine.prune({});
    assert.deepEqual(await both(), [undefined, 2]);
    await engine.transaction(ALICE, (values) => values.put("short", 3));
    clock.advance(HOUR_MS);
    assert.deepEqual(await both(), [3, 2]);
  });

  test("values are listed by the beginning of their keys, in order, as far as they are there", async ({
    engine,
    clock,
  }) => {
    const keys = ["reader/b", "reader/a", "reader/\0odd", 'reader/"', "reader", "read", "z", "reader/gone"];
    await engine.transaction(BOB, (values) => values.put("reader/c", "Bob's"));
    const listed = await engine.transaction(ALICE, async (values) => {
      for (const key of keys) await values.put(key, key, { expiresInMs: key.endsWith("gone") ? 1 : HOUR_MS });
      return values.list("reader/", 10);
    });
    assert.equal(listed.length, 5);
    clock.advance(1);
    const found = await engine.transaction(ALICE, (values) => values.list("reader/", 10));
    const wanted = ["reader/\0odd", 'reader/"', "reader/a", "reader/b"];
    assert.deepEqual(
      found,
      wanted.map((key) => ({ key, value: key })),
    );
    const few = await engine.transaction(ALICE, (values) => values.list("reader/", 2));
    assert.deepEqual(few, found.slice(0, 2));
  });

  test("a store that holds too much loses the jobs that ended first, and none that goes on", async ({
    engine,
    clock,
    start,
    running,
    run,
  }) => {
    const goesOn = await running({ input: "x".repeat(100_000) });
    const ended: string[] = [];
    for (let index = 0; index < 40; index += 1) {
      const { job } = await start({ input: `${index}`.padEnd(50_000, "x") });
      await run({ ...goesOn, job }, CANCEL);
      ended.push(job.jobId);
      clock.advance(1_000);
    }
    const removed = await engine.prune({ maxBytes: 1_000_000 });
    assert.ok(removed.jobs > 10 && removed.jobs < 40, `${removed.jobs} jobs were removed`);
    const left = (await engine.list(ALICE, { limit: 100 })).map(({ job }) => job.jobId);
    assert.deepEqual(left.reverse(), [goesOn.job.jobId, ...ended.slice(removed.jobs)]);
    const again = await engine.prune({ maxBytes: 1_000_000 });
    assert.equal(again.jobs, 0);
    await engine.prune({ maxBytes: 1 });
    assert.equal((await engine.list(ALICE, { limit: 100 })).length, 1);
  });

  test("then it loses the oldest events that concern no job", async ({ engine, running }) => {
    const record = await running();
    const events = Array.from({ length: 4_000 }, (_, index) => published(`evt_${index}`));
    await engine.publish(ALICE, events);
    const removed = await engine.prune({ maxBytes: 500_000 });
    assert.ok(removed.events > 0 && removed.events < 4_000, `${removed.events} events were removed`);
    const { entries } = await engine.read(ALICE, {}, 0, 10_000);
    assert.equal(entries.at(-1)?.event.eventId, "evt_3999");
    assert.ok(await engine.get(ALICE, record.job.jobId));
  });

  test("the story of a job that ended is compacted: it folds to the same job, and readers hear of the gap", async ({
    engine,
    clock,
    running,
    run,
    story,
  }) => {
    const record = await running();
    const { jobId } = record.job;
    for (const percentage of [1, 5, 10])
      await run(record, { type: "progress", reports: [at(percentage, "parse")] });
    for (const percentage of [20, 60, 70])
      await run(record, { type: "progress", reports: [at(percentage, "match")] });
    const { job } = await run(record, COMPLETE);
    clock.advance(HOUR_MS - 1);
    assert.equal((await engine.prune({ compactAfterMs: HOUR_MS })).events, 0);
    clock.advance(1);
    assert.equal((await engine.prune({ compactAfterMs: HOUR_MS })).events, 4);
    assert.equal((await engine.prune({ compactAfterMs: HOUR_MS })).events, 0);

    const events = (await story(jobId)).map(({ event }) => event);
    assert.deepEqual(
      events.map((event) => ("percentage" in event ? event.percentage : event.type)),
      ["job.created", "job.started", 10, 70, "job.completed"],
    );
    assert.deepEqual(
      events.reduce<typeof job | undefined>((folded, event) => reduce(folded, event), undefined),
      job,
    );
    const filter = { jobIds: [jobId] };
    assert.equal((await engine.read(ALICE, filter, record.birth, 100)).truncated, true);
    assert.equal(
      (await engine.read(ALICE, filter, (await engine.get(ALICE, jobId))?.position ?? 0, 1)).truncated,
      false,
    );
  });

  test("a long story is compacted and removed like a short one", async ({
    engine,
    clock,
    running,
    run,
    apply,
    story,
  }) => {
    const record = await running();
    const { jobId } = record.job;
    for (const [stageKey, first] of [
      ["parse", 1],
      ["match", 40],
    ] as const) {
      const reports = Array.from({ length: 300 }, (_, index) => at(first + index / 10, stageKey));
      await run(record, { type: "progress", reports });
    }
    for (let count = 0; count < 200; count += 1) {
      await apply(record, { write: (transaction) => transaction.append("gifts", [count]) });
    }
    await run(record, COMPLETE);
    clock.advance(HOUR_MS);
    assert.deepEqual(await engine.prune({ compactAfterMs: HOUR_MS }), { jobs: 0, events: 598 });
    assert.deepEqual(
      (await story(jobId)).map(({ event }) => ("percentage" in event ? event.percentage : event.type)),
      ["job.created", "job.started", 30.9, 69.9, "job.completed"],
    );
    const long = await running();
    const reports = Array.from({ length: 700 }, (_, index) => at(1 + index / 10, "parse"));
    await run(long, { type: "progress", reports });
    await run(long, COMPLETE);
    clock.advance(1);
    assert.deepEqual(await engine.prune({ olderThanMs: 1 }), { jobs: 2, events: 5 + 703 });
    assert.deepEqual(await story(), []);
    assert.equal((await engine.items(ALICE, jobId, "gifts", 0, 1)).total, 0);
  });

  test("a job that goes on keeps its whole story", async ({ engine, clock, running, run }) => {
    const record = await running();
    for (const percentage of [1, 5, 10])
      await run(record, { type: "progress", reports: [at(percentage, "parse")] });
    clock.advance(24 * HOUR_MS);
    assert.equal((await engine.prune({ compactAfterMs: HOUR_MS })).events, 0);
  });
}
