import assert from "node:assert/strict";
import type { JobRecord } from "../../engine.ts";
import { ALICE, BOB, CANCEL, COMPLETE, type Contract, rejectsWith, typesOf } from "./world.ts";

const KEYED = { key: "order-1", digest: "a" };

export function describeStart({ test }: Contract): void {
  test("a started job waits, with job.created as its first event", async ({ start, engine, story }) => {
    const record = await start({
      input: { emails: ["a@example.com"] },
      summary: "One email",
      correlationId: "run-1",
    });
    assert.equal(record.job.status, "pending");
    assert.equal(record.job.summary, "One email");
    assert.equal(record.position, record.birth + 1);
    const [created] = await story(record.job.jobId);
    assert.deepEqual(created?.event, {
      eventId: `evt_${record.job.jobId}_1`,
      type: "job.created",
      timestamp: "2030-01-01T00:00:00.000Z",
      jobId: record.job.jobId,
      correlationId: "run-1",
      seq: 1,
      jobType: "work",
      summary: "One email",
    });
    assert.equal(created?.position, record.position);
    assert.deepEqual(await engine.get(ALICE, record.job.jobId), record);
    const input = await engine.document(ALICE, record.job.jobId, "input");
    assert.deepEqual(input, { emails: ["a@example.com"] });
  });

  test("an event of a start that is too large is refused, and nothing is started", async ({
    engine,
    start,
    story,
  }) => {
    const summary = "x".repeat(2_000);
    const limits = { eventBytes: 1_000 };
    await rejectsWith("PAYLOAD_TOO_LARGE", engine.start(request({ ...KEYED, summary, limits })));
    assert.equal(await engine.get(ALICE, "another"), undefined);
    assert.deepEqual(await story(), []);
    await start({ ...KEYED, summary });
    // What exists already is found.
    assert.equal((await engine.start(request({ ...KEYED, summary, limits }))).outcome, "existing");
  });

  test("a hundred starts at once with one key and digest start one job", async ({ engine, story }) => {
    const outcomes = await Promise.all(
      Array.from({ length: 100 }, (_, index) => engine.start(request({ ...KEYED, jobId: `job_${index}` }))),
    );
    assert.equal(outcomes.filter(({ outcome }) => outcome === "created").length, 1);
    assert.equal(outcomes.filter(({ outcome }) => outcome === "existing").length, 99);
    assert.equal(new Set(outcomes.map((outcome) => (outcome as WithRecord).record.job.jobId)).size, 1);
    assert.deepEqual(typesOf(await story()), ["job.created"]);
  });

  test("a known key with another digest is a conflict and starts nothing", async ({
    engine,
    start,
    story,
  }) => {
    const first = await start(KEYED);
    const outcome = await engine.start(request({ ...KEYED, digest: "b" }));
    assert.equal(outcome.outcome, "conflict");
    assert.equal((outcome as WithRecord).record.job.jobId, first.job.jobId);
    assert.equal((await story()).length, 1);
  });

  test("the same key of another owner is another job", async ({ engine, start }) => {
    await start(KEYED);
    const outcome = await engine.start(request({ ...KEYED, owner: BOB }));
    assert.equal(outcome.outcome, "created");
  });

  test("a key stands for its job after the job's end too", async ({ engine, running, run }) => {
    const record = await running(KEYED);
    await run(record, COMPLETE);
    const outcome = await engine.start(request(KEYED));
    assert.equal(outcome.outcome, "existing");
    assert.equal((outcome as WithRecord).record.job.status, "completed");
  });

  test("keys are compared exactly", async ({ start }) => {
    const keys = [
      "",
      " ",
      "a",
      "A",
      "a ",
      "a\0",
      "a\0b",
      "é",
      "e\u0301",
      '"a"',
      "\ud800",
      "\udfff",
      "\ufffd",
    ];
    for (const key of keys) await start({ key });
  });

  test("a job id that exists already is refused and changes nothing", async ({ engine, start, story }) => {
    const { job } = await start();
    await rejectsWith("BAD_INPUT", engine.start(request({ jobId: job.jobId })));
    assert.equal((await story()).length, 1);
  });

  test("input that is no JSON is refused", async ({ engine, story }) => {
    const circular: Record<string, unknown> = {};
    circular.self = circular;
    for (const input of [circular, 1n, () => {}]) {
      await rejectsWith("BAD_INPUT", engine.start(request({ input })));
    }
    assert.equal((await story()).length, 0);
  });

  test("a retry starts a successor, and the ended job learns it", async ({ engine, start, run }) => {
    const first = await start();
    await run(first, CANCEL);
    const second = await start({ retryOf: first.job.jobId });
    assert.equal(second.job.retryOf, first.job.jobId);
    assert.equal((await engine.get(ALICE, first.job.jobId))?.retriedAs, second.job.jobId);
    assert.equal((await engine.get(ALICE, first.job.jobId))?.job.status, "canceled");
  });

  test("a job that was retried already answers with the same successor", async ({ engine, start, run }) => {
    const first = await start();
    await run(first, CANCEL);
    const outcomes = await Promise.all(
      ["second", "third"].map((jobId) => engine.start(request({ jobId, retryOf: first.job.jobId }))),
    );
    assert.deepEqual(
      outcomes.map(({ outcome }) => outcome),
      ["created", "existing"],
    );
    assert.equal((outcomes[1] as WithRecord).record.job.jobId, "second");
  });

  test("a job that has not ended cannot be retried", async ({ engine, start, running }) => {
    for (const record of [await running(), await start()]) {
      const outcome = await engine.start(request({ retryOf: record.job.jobId }));
      assert.equal(outcome.outcome, "not_ended");
    }
  });

  test("an unknown and a foreign job alike cannot be retried", async ({ engine, start, run }) => {
    const record = await start();
    await run(record, CANCEL);
    const foreign = await engine.start(request({ owner: BOB, retryOf: record.job.jobId }));
    assert.deepEqual(foreign, { outcome: "unknown" });
    assert.deepEqual(await engine.start(request({ owner: BOB, retryOf: "nobody's" })), foreign);
  });
}

interface WithRecord {
  readonly record: JobRecord;
}

function request(part: object) {
  return {
    owner: ALICE,
    jobId: "another",
    jobType: "work",
    input: {},
    digest: "digest",
    maxAttempts: 3,
    ...part,
  };
}
