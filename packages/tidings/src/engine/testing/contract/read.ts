import assert from "node:assert/strict";
import type { LogEntry } from "../../engine.ts";
import {
  ALICE,
  CANCEL,
  COMPLETE,
  type Contract,
  PROGRESS,
  progressTo,
  published,
  rejectsWith,
  typesOf,
} from "./world.ts";

export function describeRead({ test }: Contract): void {
  test("reading page by page gives every event once, in order", async ({ running, run, engine, story }) => {
    const record = await running();
    for (let percentage = 1; percentage <= 20; percentage += 1) await run(record, progressTo(percentage));
    const all = await story();
    for (const limit of [1, 3, 7, 22, 100]) {
      const collected: LogEntry[] = [];
      let after = 0;
      for (;;) {
        const { entries, through, head, truncated } = await engine.read(ALICE, {}, after, limit);
        assert.equal(truncated, false);
        assert.equal(head, all.at(-1)?.position);
        collected.push(...entries);
        assert.ok(entries.length <= limit);
        if (entries.length === 0) {
          assert.equal(through, head);
          break;
        }
        after = through;
      }
      assert.deepEqual(collected, all);
    }
  });

  test("reading after a job's birth gives its whole story and nothing before", async ({
    running,
    engine,
  }) => {
    await running();
    const second = await running();
    const { entries } = await engine.read(ALICE, {}, second.birth, 100);
    assert.deepEqual(
      entries.map(({ event }) => [event.jobId, event.type]),
      [
        [second.job.jobId, "job.created"],
        [second.job.jobId, "job.started"],
      ],
    );
  });

  test("through passes over what the filter leaves out", async ({ start, running, engine }) => {
    const first = await running();
    await start();
    const { entries, through, head } = await engine.read(ALICE, { jobIds: [first.job.jobId] }, 0, 100);
    assert.deepEqual(typesOf(entries), ["job.created", "job.started"]);
    assert.equal(through, head);
    assert.deepEqual(await engine.read(ALICE, {}, through, 100), {
      entries: [],
      through: head,
      head,
      truncated: false,
    });
  });

  test("a filter's parts are alternatives, and an event that fits two is given once", async ({
    start,
    run,
    engine,
  }) => {
    const a = await start({ correlationId: "run-1" });
    const b = await start({ correlationId: "run-2" });
    const c = await start();
    await run(c, {
      type: "inform",
      events: [{ type: "resource.updated", resourceId: "resource:feed", changeType: "snapshot_ready" }],
    });
    await engine.publish(ALICE, [published("evt_1"), published("evt_2", { correlationId: "run-1" })]);
    const subjects = async (filter: Parameters<typeof engine.read>[1], limit = 100) =>
      (await engine.read(ALICE, filter, 0, limit)).entries.map(
        ({ event }) => `${event.jobId ?? event.eventId} ${event.type}`,
      );
    const created = (record: typeof a) => `${record.job.jobId} job.created`;
    const updated = `${c.job.jobId} resource.updated`;
    const feed = ["evt_1 resource.updated", "evt_2 resource.updated"];
    assert.deepEqual(await subjects({ jobIds: [a.job.jobId, b.job.jobId, "unknown"] }), [
      created(a),
      created(b),
    ]);
    assert.deepEqual(await subjects({ correlationId: "run-1" }), [created(a), feed[1]]);
    assert.deepEqual(await subjects({ resourceIds: ["resource:feed"] }), [updated, ...feed]);
    const both = {
      jobIds: [b.job.jobId, b.job.jobId],
      correlationId: "run-1",
      resourceIds: ["resource:feed"],
    };
    assert.deepEqual(await subjects(both), [created(a), created(b), updated, ...feed]);
    assert.deepEqual(await subjects(both, 2), [created(a), created(b)]);
    assert.deepEqual(await subjects({ jobIds: [] }), []);
    assert.deepEqual(await subjects({}), [created(a), created(b), created(c), updated, ...feed]);
  });

  test("paging through alternatives misses nothing", async ({ start, run, engine }) => {
    const jobs = [await start(), await start(), await start()];
    for (const record of jobs) await run(record, CANCEL);
    const jobIds = [jobs[2]!.job.jobId, jobs[0]!.job.jobId];
    const seen: unknown[] = [];
    for (let after = 0; ; ) {
      const { entries, through } = await engine.read(ALICE, { jobIds }, after, 1);
      if (entries.length === 0) break;
      seen.push(...entries.map(({ event }) => [event.jobId, event.type]));
      after = through;
    }
    assert.deepEqual(seen, [
      [jobs[0]!.job.jobId, "job.created"],
      [jobs[2]!.job.jobId, "job.created"],
      [jobs[0]!.job.jobId, "job.canceled"],
      [jobs[2]!.job.jobId, "job.canceled"],
    ]);
  });

  test("an owner without events has an empty log", async ({ engine, start }) => {
    await start();
    const empty = { entries: [], through: 0, head: 0, truncated: false };
    assert.deepEqual(await engine.read("nobody", {}, 0, 10), empty);
    assert.deepEqual(await engine.read("nobody", { jobIds: ["x"] }, 0, 10), empty);
  });

  test("the head is the newest position of this owner alone", async ({ engine, start }) => {
    const mine = await start();
    await start({ owner: "someone else" });
    assert.equal((await engine.read(ALICE, {}, 0, 10)).head, mine.position);
  });

  test("published events stand in the log once, whatever is repeated", async ({ engine, story }) => {
    const first = await engine.publish(ALICE, [published("evt_1"), published("evt_2")]);
    assert.equal(first.length, 2);
    assert.deepEqual(await story(), first);
    const again = await engine.publish(ALICE, [
      published("evt_2", { changeType: "another" }),
      published("evt_3"),
      published("evt_3"),
    ]);
    assert.deepEqual(
      again.map(({ event }) => event.eventId),
      ["evt_2", "evt_3", "evt_3"],
    );
    assert.deepEqual(again[0], first[1]);
    assert.deepEqual(
      (await story()).map(({ event }) => event.eventId),
      ["evt_1", "evt_2", "evt_3"],
    );
    assert.deepEqual(await engine.publish(ALICE, []), []);
  });

  test("of events that are published together none is kept when one is too large", async ({
    engine,
    story,
  }) => {
    const large = published("evt_2", { changeType: "x".repeat(2_000) });
    for (const events of [[large], [published("evt_1"), large]]) {
      await rejectsWith("PAYLOAD_TOO_LARGE", engine.publish(ALICE, events, { eventBytes: 1_000 }));
    }
    assert.deepEqual(await story(), []);
    await engine.publish(ALICE, [published("evt_1")], { eventBytes: 1_000 });
    await engine.publish(ALICE, [large]);
    assert.equal((await story()).length, 2);
  });

  test("events of jobs and heartbeats cannot be published", async ({ engine, running, story }) => {
    const { job } = await running();
    const before = await story();
    const forged = [
      published("evt_1", { jobId: job.jobId }),
      published("evt_1", { seq: 3 }),
      published("evt_1", { type: "job.completed", resultResourceId: "x" }),
      published("evt_1", { type: "system.heartbeat", source: "server" }),
    ];
    for (const event of forged) {
      await assert.rejects(engine.publish(ALICE, [published("evt_0"), event]), { code: "BAD_EVENT" });
    }
    assert.deepEqual(await story(), before);
  });

  test("a job is read without its larger parts, which are read one by one", async ({
    engine,
    running,
    apply,
  }) => {
    const record = await running({ input: "in" });
    await apply(record, { checkpoint: "between", command: COMPLETE, result: "out" });
    const [listed] = await engine.list(ALICE, { limit: 1 });
    for (const read of [await engine.get(ALICE, record.job.jobId), listed]) {
      assert.equal(read?.job.status, "completed");
      for (const name of ["input", "checkpoint", "result"]) assert.equal(name in read, false, name);
    }
    const documents = (["input", "checkpoint", "result"] as const).map((name) =>
      engine.document(ALICE, record.job.jobId, name),
    );
    assert.deepEqual(await Promise.all(documents), ["in", "between", "out"]);
  });

  test("lists are newest first and narrow by status and correlation", async ({
    engine,
    start,
    running,
    run,
  }) => {
    const a = await running({ correlationId: "run-1" });
    const b = await running({ correlationId: "run-2" });
    await run(b, COMPLETE);
    const c = await running({ correlationId: "run-1" });
    await run(c, COMPLETE);
    const d = await start();
    const ids = async (request: Partial<Parameters<typeof engine.list>[1]>) =>
      (await engine.list(ALICE, { limit: 100, ...request })).map(({ job }) => job.jobId);
    const [idA, idB, idC, idD] = [a, b, c, d].map(({ job }) => job.jobId);
    assert.deepEqual(await ids({}), [idD, idC, idB, idA]);
    assert.deepEqual(await ids({ status: "completed" }), [idC, idB]);
    assert.deepEqual(await ids({ status: "pending" }), [idD]);
    assert.deepEqual(await ids({ correlationId: "run-1" }), [idC, idA]);
    assert.deepEqual(await ids({ correlationId: "run-1", status: "running" }), [idA]);
    assert.deepEqual(await ids({ correlationId: "unknown" }), []);
  });

  test("lists page by birth, also while new jobs come", async ({ engine, start }) => {
    for (let index = 0; index < 7; index += 1) await start();
    const seen: string[] = [];
    let before: number | undefined;
    for (;;) {
      const page = await engine.list(ALICE, { limit: 3, ...(before === undefined ? {} : { before }) });
      if (page.length === 0) break;
      seen.push(...page.map(({ job }) => job.jobId));
      before = page.at(-1)?.birth;
      await start();
    }
    assert.deepEqual(
      seen,
      [7, 6, 5, 4, 3, 2, 1].map((number) => `job_${number}`),
    );
  });

  test("a snapshot and the tail after its position hold the whole story", async ({
    running,
    run,
    engine,
  }) => {
    const record = await running();
    const snapshot = await run(record, PROGRESS);
    await run(record, COMPLETE);
    const tail = await engine.read(ALICE, { jobIds: [record.job.jobId] }, snapshot.position, 10);
    assert.deepEqual(typesOf(tail.entries), ["job.completed"]);
    assert.equal(tail.entries[0]?.event.seq, snapshot.job.seq + 1);
  });
}
