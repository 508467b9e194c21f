import assert from "node:assert/strict";
import type { JobRecord } from "../../engine.ts";
import { ALICE, BOB, CANCEL, COMPLETE, type Contract, published, type World } from "./world.ts";

const TEXT = "x".repeat(20_000);

/** A job of this size that ended at once. */
async function ended({ start, run, clock }: World, owner: string, input = TEXT): Promise<JobRecord> {
  const record = await run(await start({ owner, input }), CANCEL);
  clock.advance(1_000);
  return record;
}

async function idsOf({ engine }: World, owner: string): Promise<string[]> {
  const records = await engine.list(owner, { limit: 1_000 });
  return records.map(({ job }) => job.jobId).reverse();
}

/** What an owner keeps, as a start that is refused says it; for an owner that has nothing to lose. */
async function keptBy({ engine }: World, owner: string): Promise<number> {
  const queue = { jobs: 1_000, bytes: 1e9, storedBytes: 1 };
  const request = { owner, jobId: "refused", jobType: "work", input: {}, digest: "", maxAttempts: 1, queue };
  const outcome = await engine.start(request);
  assert.equal(outcome.outcome, "over");
  return (outcome as { bytes: number }).bytes;
}

export function describeShares({ test }: Contract): void {
  test("security 21: an owner that floods the store pushes out its own history, nobody else's", async (world) => {
    const { engine } = world;
    const bobs: string[] = [];
    for (let index = 0; index < 5; index += 1) bobs.push((await ended(world, BOB)).job.jobId);
    const events = (await engine.read(BOB, {}, 0, 100)).entries.length;
    const alices: string[] = [];
    for (let index = 0; index < 60; index += 1) alices.push((await ended(world, ALICE)).job.jobId);
    const { jobs } = await engine.prune({ maxBytes: 700_000 });
    assert.ok(jobs > 20 && jobs < 60, `${jobs} jobs were removed`);
    assert.deepEqual(await idsOf(world, BOB), bobs);
    assert.deepEqual(await idsOf(world, ALICE), alices.slice(jobs));
    const log = await engine.read(BOB, {}, 0, 100);
    assert.deepEqual([log.entries.length, log.truncated], [events, false]);
  });

  test("what cannot be removed of one owner is not made up for by others that keep less than their share", async (world) => {
    const { engine, start } = world;
    const bobs = [(await ended(world, BOB)).job.jobId, (await ended(world, BOB)).job.jobId];
    for (let index = 0; index < 40; index += 1) await start({ owner: ALICE, input: TEXT });
    assert.equal((await engine.prune({ maxBytes: 400_000 })).jobs, 0);
    assert.deepEqual(await idsOf(world, BOB), bobs);
    // Below anybody's share everything goes that may.
    assert.equal((await engine.prune({ maxBytes: 1 })).jobs, 2);
  });

  test("owners that keep alike lose alike", async (world) => {
    for (let index = 0; index < 20; index += 1) {
      await ended(world, ALICE);
      await ended(world, BOB);
    }
    await world.engine.prune({ maxBytes: 500_000 });
    const left = [(await idsOf(world, ALICE)).length, (await idsOf(world, BOB)).length] as const;
    assert.ok(left[0] > 3 && left[1] > 3 && Math.abs(left[0] - left[1]) <= 2, `${left} jobs are left`);
  });

  test("each owner can be held to a size of its own: what ended first goes, and what goes on stays", async (world) => {
    const { engine, start, running } = world;
    const waiting = await start({ owner: BOB, input: TEXT });
    const goesOn = await running({ input: TEXT });
    await engine.publish(ALICE, [published("evt_1")]);
    const alices = [await ended(world, ALICE), await ended(world, ALICE), await ended(world, ALICE)];
    const bob = await ended(world, BOB);
    const [, second, third] = alices.map(({ job }) => job.jobId);
    assert.equal((await engine.prune({ perOwner: { bytes: 75_000, owner: ALICE } })).jobs, 1);
    assert.deepEqual(await idsOf(world, ALICE), [goesOn.job.jobId, second, third]);
    assert.equal((await engine.prune({ perOwner: { bytes: 75_000 } })).jobs, 0);
    // The events without a job go last.
    assert.deepEqual(await engine.prune({ perOwner: { bytes: 1 } }), { jobs: 3, events: 7 });
    assert.deepEqual(await idsOf(world, ALICE), [goesOn.job.jobId]);
    assert.deepEqual(await idsOf(world, BOB), [waiting.job.jobId]);
    assert.equal(await engine.get(BOB, bob.job.jobId), undefined);
  });

  test("a start of an owner that keeps as much as it may removes what ended first, as much as it needs", async (world) => {
    const { start, engine } = world;
    const queue = { jobs: 100, bytes: 1e9, storedBytes: 100_000 };
    const bob = await ended(world, BOB);
    const jobs: string[] = [];
    for (let index = 0; index < 4; index += 1) jobs.push((await ended(world, ALICE)).job.jobId);
    const small = await start({ input: "x", queue });
    assert.deepEqual(await idsOf(world, ALICE), [...jobs, small.job.jobId]);
    const large = await start({ input: TEXT, queue });
    assert.deepEqual(await idsOf(world, ALICE), [...jobs.slice(1), small.job.jobId, large.job.jobId]);
    assert.equal((await engine.read(ALICE, {}, 0, 1)).truncated, true);
    assert.ok(await engine.get(BOB, bob.job.jobId));
  });

  test("a start beyond what an owner may keep is refused while nothing of it has ended, and other owners are not", async (world) => {
    const { engine, start, run, claim } = world;
    const queue = { jobs: 100, bytes: 1e9, storedBytes: 50_000 };
    const request = { jobId: "third", jobType: "work", input: TEXT, digest: "", maxAttempts: 1, queue };
    await start({ input: TEXT, queue, key: "k" });
    await start({ input: TEXT, queue });
    const events = (await world.story()).length;
    const outcome = await engine.start({ ...request, owner: ALICE });
    assert.equal(outcome.outcome, "over");
    const { bytes } = outcome as { bytes: number };
    assert.ok(bytes > 40_000 && bytes < 50_000, `${bytes} bytes are kept`);
    assert.equal((await world.story()).length, events);
    assert.equal((await engine.start({ ...request, owner: BOB })).outcome, "created");
    // What exists is found all the same.
    const again = await engine.start({ ...request, owner: ALICE, digest: "digest", key: "k" });
    assert.equal(again.outcome, "existing");
    const { records } = await claim({ limit: 1 });
    await run(records[0]!, COMPLETE);
    assert.equal((await engine.start({ ...request, owner: ALICE })).outcome, "created");
  });

  test("many starts at once each get their room, as long as there is something to remove", async (world) => {
    const { start } = world;
    for (let index = 0; index < 10; index += 1) await ended(world, ALICE);
    const queue = { jobs: 100, bytes: 1e9, storedBytes: 250_000 };
    const records = await Promise.all(Array.from({ length: 9 }, () => start({ input: TEXT, queue })));
    const left = await idsOf(world, ALICE);
    assert.ok(records.every(({ job }) => left.includes(job.jobId)));
    assert.ok(left.length > 9 && left.length < 13, `${left.length} jobs are left`);
  });

  test("a first job is taken, however large", async ({ engine }) => {
    const queue = { jobs: 100, bytes: 1e9, storedBytes: 1 };
    const request = { owner: ALICE, jobId: "one", jobType: "work", input: TEXT, digest: "", maxAttempts: 1 };
    assert.equal((await engine.start({ ...request, queue })).outcome, "created");
  });

  test("everything is counted once, and what is removed or undone does not count any more", async (world) => {
    const { engine, clock, start, running, apply, run } = world;
    await start({ jobType: "other" });
    const before = await keptBy(world, ALICE);
    assert.ok(before > 0);
    const grows = async (text: number, change: () => Promise<unknown>) => {
      const small = await keptBy(world, ALICE);
      await change();
      const bytes = (await keptBy(world, ALICE)) - small;
      assert.ok(bytes >= text && bytes < text + 1_000, `${bytes} bytes for a text of ${text}`);
    };
    const record = await running();
    const long = "ä".repeat(5_000);
    await grows(10_000, () => apply(record, { checkpoint: long }));
    await grows(0, () => apply(record, { checkpoint: long }));
    await grows(20_000, () => apply(record, { write: (t) => t.append("gifts", [long, long]) }));
    await grows(10_000, () => engine.transaction(ALICE, (t) => t.put("a", long)));
    await grows(0, () => engine.transaction(ALICE, (t) => t.put("a", long, { expiresInMs: 1_000 })));
    const event = { type: "system.log", source: "work", level: "info", message: long } as const;
    await grows(10_000, () => apply(record, { command: { type: "inform", events: [event] } }));
    const undone = () =>
      apply(record, {
        checkpoint: "small",
        write: async (transaction) => {
          await transaction.append("gifts", [long]);
          await transaction.put("b", long);
          throw new Error("no");
        },
      });
    await grows(0, () => assert.rejects(undone(), { message: "no" }));
    await run(record, COMPLETE);
    clock.advance(1_000);
    await engine.prune({ olderThanMs: 1_000 });
    assert.equal(await keptBy(world, ALICE), before);
  });
}
