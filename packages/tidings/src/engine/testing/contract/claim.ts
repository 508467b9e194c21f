import assert from "node:assert/strict";
import type { ErrorInfo } from "../../../model/error.ts";
import { ALICE, BOB, CANCEL, type Contract, fieldOf, LEASE_MS, PROGRESS, retryIn, typesOf } from "./world.ts";

export function describeClaim({ test }: Contract): void {
  test("a claim gives the oldest jobs first, up to its limit, with their input", async ({ start, claim }) => {
    const ids: string[] = [];
    for (const size of [1, 2, 3]) ids.push((await start({ input: { size } })).job.jobId);
    const first = await claim({ limit: 2 });
    assert.deepEqual(
      first.records.map(({ job, input }) => [job.jobId, input]),
      [
        [ids[0], { size: 1 }],
        [ids[1], { size: 2 }],
      ],
    );
    assert.equal(first.nextInMs, 0);
    const second = await claim({ limit: 2 });
    assert.deepEqual(
      second.records.map(({ job }) => job.jobId),
      [ids[2]],
    );
  });

  test("a claimed job runs, job.started written, under a new fence", async ({ start, claim, story }) => {
    const before = await start({ summary: "One email" });
    const [record] = (await claim()).records;
    assert.equal(record?.job.status, "running");
    assert.equal(record?.job.attempt, 1);
    assert.ok(record !== undefined && record.fence > before.fence);
    const entries = await story();
    assert.deepEqual(typesOf(entries), ["job.created", "job.started"]);
    assert.equal(fieldOf(entries[1], "summary"), "One email");
    assert.equal(record?.position, entries[1]?.position);
  });

  test("a claim takes jobs of its types only, of every owner", async ({ start, claim }) => {
    await start({ jobType: "other" });
    await start({ owner: BOB });
    const { records, nextInMs } = await claim();
    assert.deepEqual(
      records.map(({ owner, job }) => [owner, job.jobType]),
      [[BOB, "work"]],
    );
    assert.equal(nextInMs, undefined);
    assert.deepEqual((await claim({ jobTypes: [] })).records, []);
  });

  test("claims at the same time never give a job twice", async ({ start, claim }) => {
    for (let index = 0; index < 50; index += 1) await start();
    const outcomes = await Promise.all(
      Array.from({ length: 20 }, (_, index) => claim({ holder: `holder-${index}`, limit: 3 })),
    );
    const ids = outcomes.flatMap(({ records }) => records.map(({ job }) => job.jobId));
    assert.equal(ids.length, 50);
    assert.equal(new Set(ids).size, 50);
  });

  test("a job that is tried again waits for its delay", async ({ clock, running, run, claim }) => {
    const record = await running();
    await run(record, retryIn(5_000));
    assert.deepEqual(await claim(), { records: [], nextInMs: 5_000 });
    clock.advance(4_999);
    assert.deepEqual(await claim(), { records: [], nextInMs: 1 });
    clock.advance(1);
    const [again] = (await claim()).records;
    assert.equal(again?.job.attempt, 2);
    assert.ok(again !== undefined && again.fence > record.fence);
  });

  test("a lease that ran out gives the job to the next claim, and its loss stands in the story", async ({
    clock,
    running,
    claim,
    story,
  }) => {
    const record = await running();
    clock.advance(LEASE_MS - 1);
    assert.deepEqual((await claim()).nextInMs, 1);
    clock.advance(1);
    const [again] = (await claim({ holder: "another" })).records;
    assert.equal(again?.job.jobId, record.job.jobId);
    assert.equal(again?.job.attempt, 2);
    assert.equal(again?.job.failures, 1);
    assert.ok(again !== undefined && again.fence > record.fence);
    const entries = await story();
    assert.deepEqual(typesOf(entries), ["job.created", "job.started", "job.retrying", "job.started"]);
    assert.equal((fieldOf(entries[2], "error") as ErrorInfo).code, "WORKER_LOST");
    assert.equal(fieldOf(entries[2], "delaySeconds"), 0);
  });

  test("a job that is lost as often as it may be tried fails", async ({ clock, start, claim, engine }) => {
    const { job } = await start({ maxAttempts: 2 });
    for (const attempt of [1, 2]) {
      assert.equal((await claim()).records[0]?.job.attempt, attempt);
      clock.advance(LEASE_MS);
    }
    assert.deepEqual(await claim(), { records: [] });
    const ended = await engine.get(ALICE, job.jobId);
    assert.equal(ended?.job.status, "failed");
    assert.equal(ended?.job.error?.code, "WORKER_LOST");
    assert.deepEqual(await engine.holders(), []);
  });

  test("a job that fails on the way does not use up the claim's limit", async ({ clock, start, claim }) => {
    await start({ maxAttempts: 1 });
    await claim();
    clock.advance(LEASE_MS);
    const { job } = await start();
    assert.deepEqual(
      (await claim({ limit: 1 })).records.map((record) => record.job.jobId),
      [job.jobId],
    );
  });

  test("jobs of holders that are gone are taken at once", async ({ running, claim, engine }) => {
    const record = await running();
    assert.deepEqual(await engine.holders(), ["holder"]);
    assert.deepEqual((await claim({ holder: "new", goneHolders: ["someone else"] })).records, []);
    const [again] = (await claim({ holder: "new", goneHolders: ["holder"] })).records;
    assert.equal(again?.job.jobId, record.job.jobId);
    assert.deepEqual(await engine.holders(), ["new"]);
  });

  test("a renewed lease holds from then on", async ({ clock, running, claim, engine }) => {
    const { owner, job, fence } = await running();
    const lease = { owner, jobId: job.jobId, fence };
    for (let index = 0; index < 5; index += 1) {
      clock.advance(LEASE_MS - 1);
      assert.deepEqual(await engine.renew([lease], LEASE_MS), []);
      assert.deepEqual((await claim()).records, []);
    }
    clock.advance(LEASE_MS);
    assert.equal((await claim()).records.length, 1);
  });

  test("renewing names the leases that are lost", async ({ clock, running, run, claim, engine }) => {
    const leaseOf = (record: { owner: string; job: { jobId: string }; fence: number }) => ({
      owner: record.owner,
      jobId: record.job.jobId,
      fence: record.fence,
    });
    const kept = leaseOf(await running());
    const canceled = await running();
    await run(canceled, CANCEL);
    const retried = await running();
    await run(retried, retryIn(60_000));
    const stolen = await running();
    clock.advance(LEASE_MS - 1);
    assert.deepEqual(await engine.renew([kept], LEASE_MS), []);
    clock.advance(1);
    await claim({ holder: "thief" });
    const lost = [
      leaseOf(canceled),
      leaseOf(retried),
      leaseOf(stolen),
      { ...kept, owner: BOB },
      { ...kept, jobId: "unknown" },
      { ...kept, fence: 7 },
    ];
    assert.deepEqual(await engine.renew([kept, ...lost], LEASE_MS), lost);
  });

  test("a lease that ran out but that nobody took may still be renewed", async ({
    clock,
    running,
    engine,
    claim,
  }) => {
    const { owner, job, fence } = await running();
    clock.advance(LEASE_MS * 3);
    assert.deepEqual(await engine.renew([{ owner, jobId: job.jobId, fence }], LEASE_MS), []);
    assert.deepEqual((await claim()).records, []);
  });

  test("a wall clock that steps by an hour loses no healthy lease and keeps no dead one", async ({
    clock,
    start,
    claim,
    running,
    engine,
  }) => {
    for (const hours of [1, -1, -1, 1]) {
      const { owner, job, fence } = await running();
      clock.step(hours * 3_600_000);
      assert.deepEqual((await claim()).records, []);
      assert.deepEqual(await engine.renew([{ owner, jobId: job.jobId, fence }], LEASE_MS), []);
      clock.advance(LEASE_MS);
      assert.equal((await claim()).records.length, 1);
      await engine.apply({ owner, jobId: job.jobId, command: CANCEL });
    }
    await start();
    assert.equal((await claim()).records.length, 1);
  });

  test("the times of a story never run backwards, whatever the wall clock does", async ({
    clock,
    running,
    run,
    story,
  }) => {
    const record = await running();
    clock.step(-3_600_000);
    await run(record, PROGRESS);
    clock.step(7_200_000);
    await run(record, retryIn(0));
    clock.step(-86_400_000);
    await run(record, CANCEL);
    const times = (await story(record.job.jobId)).map(({ event }) => event.timestamp);
    assert.deepEqual(times, [...times].sort());
  });
}
