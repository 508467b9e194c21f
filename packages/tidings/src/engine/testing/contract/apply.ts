import assert from "node:assert/strict";
import {
  ALICE,
  CANCEL,
  COMPLETE,
  type Contract,
  FAIL,
  LEASE_MS,
  PROGRESS,
  progressTo,
  rejectsWith,
  retryIn,
  typesOf,
} from "./world.ts";

export function describeApply({ test }: Contract): void {
  test("a change writes the row and its events together", async ({ running, apply, engine, story }) => {
    const record = await running();
    const outcome = await apply(record, {
      fence: record.fence,
      command: progressTo(10, 40),
      counts: { rows: 7 },
      checkpoint: { row: 7 },
    });
    assert.equal(outcome.outcome, "applied");
    if (outcome.outcome !== "applied") return;
    assert.deepEqual(typesOf(outcome.entries), ["job.progress", "job.progress"]);
    assert.deepEqual(outcome.entries, (await story()).slice(2));
    assert.equal(outcome.record.job.percentage, 40);
    assert.equal(outcome.record.position, outcome.entries[1]?.position);
    const kept = await engine.get(ALICE, record.job.jobId);
    assert.deepEqual(kept, outcome.record);
    assert.deepEqual(kept?.counts, { rows: 7 });
    assert.deepEqual(await engine.document(ALICE, record.job.jobId, "checkpoint"), { row: 7 });
  });

  test("counts that a change leaves out keep their value", async ({ running, apply, engine }) => {
    const record = await running();
    await apply(record, { counts: { rows: 1, bad: 2 } });
    await apply(record, { counts: { rows: 3 } });
    assert.deepEqual((await engine.get(ALICE, record.job.jobId))?.counts, { rows: 3, bad: 2 });
  });

  test("counts that are no finite numbers are refused and change nothing", async ({
    running,
    apply,
    story,
  }) => {
    const record = await running();
    for (const rows of [Number.NaN, Number.POSITIVE_INFINITY]) {
      await rejectsWith("BAD_INPUT", apply(record, { counts: { rows }, command: PROGRESS }));
    }
    assert.equal((await story()).length, 2);
  });

  test("the result is kept with the end", async ({ running, apply, engine }) => {
    const record = await running();
    await apply(record, { command: PROGRESS, result: "too early" });
    assert.equal(await engine.document(ALICE, record.job.jobId, "result"), undefined);
    await apply(record, { command: COMPLETE, result: null });
    assert.equal((await engine.get(ALICE, record.job.jobId))?.job.status, "completed");
    assert.equal(await engine.document(ALICE, record.job.jobId, "result"), null);
  });

  test("a write under a claim that is over is stale and changes nothing", async ({
    clock,
    running,
    claim,
    apply,
    engine,
    story,
  }) => {
    const record = await running();
    clock.advance(LEASE_MS);
    const [current] = (await claim({ holder: "another" })).records;
    const before = await story();
    for (const command of [PROGRESS, COMPLETE, FAIL, retryIn(0)]) {
      const outcome = await apply(record, {
        fence: record.fence,
        command,
        counts: { rows: 1 },
        checkpoint: "stale",
        write: async (transaction) => {
          await transaction.put("stale", true);
          await transaction.append("stale", [1]);
        },
      });
      assert.equal(outcome.outcome, "stale");
    }
    assert.deepEqual(await story(), before);
    assert.deepEqual({ ...(await engine.get(ALICE, record.job.jobId)), input: current?.input }, current);
    assert.equal(await engine.document(ALICE, record.job.jobId, "checkpoint"), undefined);
    assert.equal(await engine.transaction(ALICE, (transaction) => transaction.get("stale")), undefined);
    assert.equal((await engine.items(ALICE, record.job.jobId, "stale", 0, 9)).total, 0);
  });

  test("a write under a claim is stale once the job ended or waits again", async ({
    running,
    run,
    apply,
  }) => {
    for (const command of [CANCEL, COMPLETE, retryIn(60_000)]) {
      const record = await running();
      await run(record, command);
      const outcome = await apply(record, { fence: record.fence, command: PROGRESS });
      assert.equal(outcome.outcome, "stale");
    }
  });

  test("a terminal state is final", async ({ running, run, apply, engine, story }) => {
    for (const ending of [COMPLETE, FAIL, CANCEL]) {
      const record = await running();
      const ended = await run(record, ending);
      const before = await story(record.job.jobId);
      for (const command of [{ type: "start" } as const, PROGRESS, retryIn(0), COMPLETE, FAIL, CANCEL]) {
        const outcome = await apply(record, { command });
        assert.equal(outcome.outcome, "refused");
        if (outcome.outcome === "refused") assert.equal(outcome.refusal, "JOB_ENDED");
      }
      assert.deepEqual((await engine.get(ALICE, record.job.jobId))?.job, ended.job);
      assert.deepEqual(await story(record.job.jobId), before);
    }
  });

  test("a refused change changes nothing else either", async ({ start, apply, engine }) => {
    const record = await start();
    let called = false;
    const outcome = await apply(record, {
      command: PROGRESS,
      counts: { rows: 1 },
      checkpoint: 1,
      write: () => {
        called = true;
      },
    });
    assert.equal(outcome.outcome, "refused");
    assert.equal(called, false);
    assert.deepEqual(await engine.get(ALICE, record.job.jobId), record);
    assert.equal(await engine.document(ALICE, record.job.jobId, "checkpoint"), undefined);
  });

  test("of a cancel and an end at the same time exactly one wins", async ({ running, apply, story }) => {
    for (let round = 0; round < 20; round += 1) {
      const record = await running();
      const changes = [{ command: CANCEL }, { command: COMPLETE, fence: record.fence }];
      const outcomes = await Promise.all(
        (round % 2 === 0 ? changes : changes.reverse()).map((change) => apply(record, change)),
      );
      assert.equal(outcomes.filter(({ outcome }) => outcome === "applied").length, 1);
      const endings = typesOf(await story(record.job.jobId)).filter((type) =>
        ["job.completed", "job.canceled"].includes(type),
      );
      assert.equal(endings.length, 1);
    }
  });

  test("what ends an attempt is written whatever the limits, and what follows it is not", async ({
    running,
    apply,
    story,
  }) => {
    const none = Number.POSITIVE_INFINITY;
    const limits = { checkpointBytes: none, resultBytes: none, itemBytes: none, eventBytes: 500, events: 2 };
    const error = { code: "HANDLER_FAILED", message: "x".repeat(1_000), retryable: true };
    for (const command of [
      { type: "retry", delayMs: 60_000, error } as const,
      { type: "fail", error } as const,
    ]) {
      const record = await running();
      assert.equal((await apply(record, { command, limits })).outcome, "applied");
      const event = { type: "system.log", source: "test", level: "info", message: "late" } as const;
      const late = apply(record, { command: { type: "inform", events: [event] }, limits });
      await rejectsWith("TOO_MANY_EVENTS", late);
      assert.equal((await story(record.job.jobId)).length, 3);
    }
  });

  test("a canceled job is not claimed again", async ({ clock, running, start, run, claim }) => {
    await run(await running(), CANCEL);
    await run(await start(), CANCEL);
    clock.advance(LEASE_MS * 2);
    assert.deepEqual(await claim(), { records: [] });
  });

  test("informational events may follow the end and leave the job as it ended", async ({
    running,
    run,
    story,
  }) => {
    const record = await running();
    const ended = await run(record, COMPLETE);
    const informed = await run(record, {
      type: "inform",
      events: [{ type: "resource.updated", resourceId: "resource:gifts", changeType: "snapshot_ready" }],
    });
    assert.equal(informed.job.status, "completed");
    assert.equal(informed.job.endedAt, ended.job.endedAt);
    assert.equal((await story(record.job.jobId)).at(-1)?.event.seq, informed.job.seq);
  });

  test("seq is contiguous and positions rise, however many write at once", async ({
    start,
    claim,
    engine,
    story,
  }) => {
    for (let index = 0; index < 5; index += 1) await start();
    const { records } = await claim();
    const writes = records.flatMap(({ owner, job, fence }) =>
      Array.from({ length: 20 }, (_, index) =>
        engine.apply({ owner, jobId: job.jobId, fence, command: progressTo(index + 1) }),
      ),
    );
    await Promise.all(writes);
    const entries = await story();
    for (const [index, entry] of entries.entries()) {
      assert.ok(index === 0 || entry.position > entries[index - 1]!.position);
    }
    for (const { job } of records) {
      const seqs = entries.filter(({ event }) => event.jobId === job.jobId).map(({ event }) => event.seq);
      assert.deepEqual(
        seqs,
        seqs.map((_, index) => index + 1),
      );
    }
  });

  test("an unknown job is unknown", async ({ engine }) => {
    assert.deepEqual(await engine.apply({ owner: ALICE, jobId: "unknown", command: CANCEL }), {
      outcome: "unknown",
    });
  });

  test("what is given out may be changed without changing what is kept", async ({
    running,
    apply,
    engine,
  }) => {
    const record = await running({ input: { list: [1] } });
    const checkpoint = { list: [1] };
    await apply(record, { checkpoint });
    checkpoint.list.push(2);
    const documents = () =>
      Promise.all(
        (["input", "checkpoint"] as const).map((name) => engine.document(ALICE, record.job.jobId, name)),
      );
    for (const given of await documents()) (given as { list: number[] }).list.push(2);
    const [entry] = (await engine.read(ALICE, {}, 0, 1)).entries;
    (entry?.event as { type: string }).type = "changed";
    assert.deepEqual(await documents(), [{ list: [1] }, { list: [1] }]);
    assert.equal((await engine.read(ALICE, {}, 0, 1)).entries[0]?.event.type, "job.created");
  });
}
