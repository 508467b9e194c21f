import assert from "node:assert/strict";
import { openEngine } from "../../open-engine.ts";
import { createSeededRandom } from "../seeded-random.ts";
import {
  ALICE,
  BOB,
  CANCEL,
  COMPLETE,
  type Contract,
  PROGRESS,
  published,
  rejectsWith,
  typesOf,
} from "./world.ts";

const DAY_MS = 86_400_000;
/** How long an engine may take to notice what another process committed. */
const NOTICED_MS = 1_000;

export function describeLifetime({ test }: Contract): void {
  test("watchers of the owner and of anybody are woken by a commit, and nobody else", async ({
    engine,
    running,
    apply,
  }) => {
    const record = await running();
    const commits: [name: string, commit: () => Promise<unknown>][] = [
      ["apply", () => apply(record, { command: PROGRESS })],
      ["publish", () => engine.publish(ALICE, [published("evt_1")])],
      [
        "start",
        () =>
          engine.start({
            owner: ALICE,
            jobId: "new",
            jobType: "work",
            input: {},
            digest: "",
            maxAttempts: 1,
          }),
      ],
      [
        "claim",
        () => engine.claim({ holder: "h", goneHolders: [], jobTypes: ["work"], leaseMs: 1_000, limit: 1 }),
      ],
    ];
    for (const [name, commit] of commits) {
      let foreign = 0;
      const stops: (() => void)[] = [];
      const woken = [ALICE, ALICE, undefined].map(
        (owner) => new Promise<void>((resolve) => void stops.push(engine.watch(owner, resolve))),
      );
      stops.push(
        engine.watch(BOB, () => {
          foreign += 1;
        }),
      );
      await commit();
      await Promise.all(woken);
      assert.equal(foreign, 0, name);
      for (const stop of stops) stop();
    }
  });

  test("watchers are woken by events that another opener of the same store commits", async ({
    engine,
    clock,
  }) => {
    // A store that has no location has no other openers.
    if (engine.location === undefined) return;
    const another = await openEngine(engine.location, { clock, random: createSeededRandom(2) });
    try {
      for (const owner of [ALICE, undefined]) {
        let woken = false;
        let foreign = false;
        const stops = [
          engine.watch(owner, () => {
            woken = true;
          }),
          engine.watch(BOB, () => {
            foreign = true;
          }),
        ];
        await another.publish(ALICE, [published(`evt_${owner}`)]);
        // An engine may look for them every now and then, by its own clock.
        for (let waitedMs = 0; !woken && waitedMs < NOTICED_MS; waitedMs += 10) {
          clock.advance(10);
          await new Promise((resolve) => setImmediate(resolve));
        }
        assert.deepEqual({ woken, foreign }, { woken: true, foreign: false });
        for (const stop of stops) stop();
      }
    } finally {
      await another.close();
    }
  });

  test("a watcher that stopped is not woken, and one that throws disturbs nobody", async ({
    engine,
    start,
  }) => {
    let stopped = 0;
    const stop = engine.watch(ALICE, () => {
      stopped += 1;
    });
    stop();
    stop();
    engine.watch(ALICE, () => {
      throw new Error("a watcher's bug");
    });
    const woken = new Promise<void>((resolve) => void engine.watch(ALICE, resolve));
    await start();
    await woken;
    assert.equal(stopped, 0);
  });

  test("what a woken watcher reads holds the commit that woke it", async ({ engine, start }) => {
    let stop = () => {};
    const read = new Promise<readonly string[]>((resolve) => {
      stop = engine.watch(ALICE, () => {
        stop();
        resolve(engine.read(ALICE, {}, 0, 10).then(({ entries }) => typesOf(entries)));
      });
    });
    await start();
    assert.deepEqual(await read, ["job.created"]);
  });

  test("closing wakes who waits, so that nobody waits for what cannot come any more", async ({ engine }) => {
    const woken = new Promise<void>((resolve) => void engine.watch(ALICE, resolve));
    await engine.close();
    await woken;
  });

  test("pruning removes jobs that ended long ago, with everything of theirs", async ({
    clock,
    engine,
    running,
    run,
    apply,
    start,
  }) => {
    const old = await running({ key: "k", correlationId: "run-1" });
    await apply(old, { write: (transaction) => transaction.append("gifts", [1]) });
    await apply(old, { command: COMPLETE, result: "done" });
    clock.advance(DAY_MS);
    const young = await running();
    await run(young, COMPLETE);
    const alive = await start();
    assert.deepEqual(await engine.prune({ olderThanMs: DAY_MS + 1 }), { jobs: 0, events: 0 });
    assert.deepEqual(await engine.prune({ olderThanMs: DAY_MS }), { jobs: 1, events: 3 });
    assert.deepEqual(await engine.prune({ olderThanMs: DAY_MS }), { jobs: 0, events: 0 });
    assert.equal(await engine.get(ALICE, old.job.jobId), undefined);
    assert.equal(await engine.document(ALICE, old.job.jobId, "result"), undefined);
    assert.equal((await engine.items(ALICE, old.job.jobId, "gifts", 0, 1)).total, 0);
    const left = (await engine.list(ALICE, { limit: 10 })).map(({ job }) => job.jobId);
    assert.deepEqual(left, [alive.job.jobId, young.job.jobId]);
    // Its key is free again.
    await start({ key: "k" });
  });

  test("readers that were behind what was removed are told so, others are not", async ({
    clock,
    engine,
    running,
    run,
  }) => {
    const old = await running({ correlationId: "run-1" });
    const ended = await run(old, COMPLETE);
    clock.advance(DAY_MS);
    const young = await running();
    await engine.prune({ olderThanMs: DAY_MS });
    const isTruncated = async (filter: Parameters<typeof engine.read>[1], after: number) =>
      (await engine.read(ALICE, filter, after, 10)).truncated;
    for (const filter of [{}, { jobIds: [old.job.jobId] }, { correlationId: "run-1" }]) {
      assert.equal(await isTruncated(filter, 0), true);
      assert.equal(await isTruncated(filter, ended.position - 1), true);
      assert.equal(await isTruncated(filter, ended.position), false);
    }
    assert.equal(await isTruncated({ jobIds: [young.job.jobId] }, 0), false);
    assert.equal((await engine.read(BOB, {}, 0, 10)).truncated, false);
  });

  test("pruning removes events that concern no job by their age, and tells readers that were behind them", async ({
    clock,
    engine,
    start,
  }) => {
    const at = (ms: number) => new Date(ms).toISOString();
    const [old] = await engine.publish(ALICE, [published("evt_old", { timestamp: at(clock.now()) })]);
    const alive = await start();
    clock.advance(DAY_MS);
    await engine.publish(ALICE, [published("evt_young", { timestamp: at(clock.now()) })]);
    assert.deepEqual(await engine.prune({ olderThanMs: DAY_MS }), { jobs: 0, events: 1 });
    const { entries, truncated } = await engine.read(ALICE, {}, 0, 10);
    assert.deepEqual(
      entries.map(({ event }) => event.eventId),
      [`evt_${alive.job.jobId}_1`, "evt_young"],
    );
    assert.equal(truncated, true);
    assert.equal((await engine.read(ALICE, {}, old?.position ?? 0, 10)).truncated, false);
    // Its id is free again.
    await engine.publish(ALICE, [published("evt_old", { timestamp: at(clock.now()) })]);
    assert.equal((await engine.read(ALICE, {}, 0, 10)).entries.length, 3);
  });

  test("trimming keeps an owner's newest events, and those of jobs that have not ended", async ({
    engine,
    running,
    run,
    story,
  }) => {
    const alive = await running();
    await engine.publish(ALICE, [published("evt_1")]);
    const ended = await running();
    await run(ended, COMPLETE);
    await engine.publish(ALICE, [published("evt_2")]);
    await engine.publish(BOB, [published("evt_1")]);
    assert.deepEqual(await engine.prune({ keepEvents: 100 }), { jobs: 0, events: 0 });
    assert.deepEqual(await engine.prune({ keepEvents: 2 }), { jobs: 0, events: 3 });
    assert.deepEqual(
      (await story()).map(({ event }) => [event.jobId ?? event.eventId, event.type]),
      [
        [alive.job.jobId, "job.created"],
        [alive.job.jobId, "job.started"],
        [ended.job.jobId, "job.completed"],
        ["evt_2", "resource.updated"],
      ],
    );
    const isTruncated = async (filter: Parameters<typeof engine.read>[1]) =>
      (await engine.read(ALICE, filter, 0, 10)).truncated;
    assert.equal(await isTruncated({ jobIds: [ended.job.jobId] }), true);
    assert.equal(await isTruncated({ jobIds: [alive.job.jobId] }), false);
    assert.equal(await isTruncated({}), true);
    assert.equal((await engine.read(BOB, {}, 0, 10)).entries.length, 1);
    assert.equal((await engine.get(ALICE, ended.job.jobId))?.job.status, "completed");
  });

  test("positions go on rising after everything was removed", async ({ clock, engine, start, run }) => {
    const record = await start();
    const ended = await run(record, CANCEL);
    clock.advance(1);
    assert.deepEqual(await engine.prune({ olderThanMs: 0, keepEvents: 0 }), { jobs: 1, events: 2 });
    const { head, through, entries } = await engine.read(ALICE, {}, 0, 10);
    assert.deepEqual([head, through, entries], [ended.position, ended.position, []]);
    const next = await start();
    assert.ok(next.position > ended.position);
    assert.equal((await engine.read(ALICE, {}, ended.position, 10)).entries.length, 1);
  });

  test("much can be pruned at once", async ({ clock, engine, start, run }) => {
    for (let index = 0; index < 120; index += 1) await run(await start(), CANCEL);
    clock.advance(1);
    const timestamp = new Date(clock.now()).toISOString();
    await engine.publish(
      ALICE,
      Array.from({ length: 1_200 }, (_, index) => published(`evt_${index}`, { timestamp })),
    );
    assert.deepEqual(await engine.prune({ olderThanMs: 1, keepEvents: 100 }), {
      jobs: 120,
      events: 240 + 1_100,
    });
    assert.equal((await engine.read(ALICE, {}, 0, 10_000)).entries.length, 100);
  });

  test("closing finishes what was begun; later calls fail", async ({ engine }) => {
    const request = { owner: ALICE, jobType: "work", input: {}, digest: "", maxAttempts: 1 };
    const begun = Array.from({ length: 20 }, (_, index) =>
      engine.start({ ...request, jobId: `job_${index}` }),
    );
    const closing = engine.close();
    for (const { outcome } of await Promise.all(begun)) assert.equal(outcome, "created");
    await closing;
    await engine.close();
    const calls: (() => Promise<unknown>)[] = [
      () => engine.start({ ...request, jobId: "late" }),
      () => engine.claim({ holder: "h", goneHolders: [], jobTypes: [], leaseMs: 1, limit: 1 }),
      () => engine.renew([], 1),
      () => engine.apply({ owner: ALICE, jobId: "job_0" }),
      () => engine.get(ALICE, "job_0"),
      () => engine.document(ALICE, "job_0", "input"),
      () => engine.list(ALICE, { limit: 1 }),
      () => engine.read(ALICE, {}, 0, 1),
      () => engine.items(ALICE, "job_0", "c", 0, 1),
      () => engine.publish(ALICE, []),
      () => engine.transaction(ALICE, () => 1),
      () => engine.holders(),
      () => engine.prune({ keepEvents: 1 }),
    ];
    for (const call of calls) await rejectsWith("STORE_CLOSED", call());
    assert.throws(() => engine.watch(ALICE, () => {}), { code: "STORE_CLOSED" });
  });

  test("the secret is 16 bytes", async ({ engine }) => {
    assert.equal(engine.secret.length, 16);
  });
}
