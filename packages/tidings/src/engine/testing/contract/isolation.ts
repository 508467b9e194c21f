import assert from "node:assert/strict";
import { ALICE, BOB, CANCEL, type Contract, PROGRESS, published } from "./world.ts";

/** Texts that break what is built by hand: quoting, C strings, prototypes, UTF-8, sizes. */
const HOSTILE = [
  "",
  " ",
  "__proto__",
  "constructor",
  "toString",
  "a\0b",
  "a\0c",
  "\0",
  "'; DROP TABLE jobs; --",
  '"',
  '"quoted"',
  "%",
  "_",
  "\ud800",
  "\udc00\ud800",
  "\ufffd",
  "\u{1F381}",
  "line\r\nbreak",
  "İ",
  "x".repeat(1_000_000),
];

/** The same where an event carries it: readers take ids of 1 to 512 characters. */
function idOf(text: string, index: number): string {
  return text.length > 0 && text.length < 400 ? text : `id_${index}`;
}

export function describeIsolation({ test }: Contract): void {
  test("a foreign job is answered exactly like an unknown one, and stays as it is", async ({
    running,
    apply,
    engine,
    story,
  }) => {
    const record = await running({ correlationId: "run-1", key: "k" });
    await apply(record, { write: (transaction) => transaction.append("gifts", [1]) });
    const { jobId } = record.job;
    const before = [await engine.get(ALICE, jobId), await story()];
    for (const id of [jobId, "unknown"]) {
      assert.equal(await engine.get(BOB, id), undefined);
      assert.equal(await engine.document(BOB, id, "input"), undefined);
      for (const fence of [undefined, record.fence]) {
        const change = { owner: BOB, jobId: id, command: CANCEL, ...(fence === undefined ? {} : { fence }) };
        assert.deepEqual(await engine.apply(change), { outcome: "unknown" });
      }
      assert.deepEqual(await engine.items(BOB, id, "gifts", 0, 10), { items: [], total: 0 });
      const nothing = { entries: [], through: 0, head: 0, truncated: false };
      assert.deepEqual(await engine.read(BOB, { jobIds: [id] }, 0, 10), nothing);
      const lease = { owner: BOB, jobId: id, fence: record.fence };
      assert.deepEqual(await engine.renew([lease], 1_000), [lease]);
    }
    assert.deepEqual(await engine.list(BOB, { limit: 10 }), []);
    assert.deepEqual(await engine.list(BOB, { correlationId: "run-1", limit: 10 }), []);
    assert.deepEqual((await engine.read(BOB, { correlationId: "run-1" }, 0, 10)).entries, []);
    assert.deepEqual([await engine.get(ALICE, jobId), await story()], before);
  });

  test("two owners may use the same ids, keys, event ids and collections", async ({ engine, claim }) => {
    for (const owner of [ALICE, BOB]) {
      const outcome = await engine.start({
        owner,
        jobId: "same",
        jobType: "work",
        input: owner,
        digest: owner,
        key: "same",
        correlationId: "same",
        maxAttempts: 3,
      });
      assert.equal(outcome.outcome, "created");
      await engine.publish(owner, [published("same", { resourceId: `resource:${owner}` })]);
    }
    for (const { owner, job, fence } of (await claim()).records) {
      await engine.apply({
        owner,
        jobId: job.jobId,
        fence,
        command: PROGRESS,
        result: owner,
        write: async (transaction) => {
          await transaction.append("same", [owner]);
          await transaction.put("same", owner);
        },
      });
    }
    for (const owner of [ALICE, BOB]) {
      assert.equal(await engine.document(owner, "same", "input"), owner);
      assert.deepEqual((await engine.items(owner, "same", "same", 0, 10)).items, [owner]);
      assert.equal(await engine.transaction(owner, (transaction) => transaction.get("same")), owner);
      const { entries } = await engine.read(owner, {}, 0, 100);
      assert.equal(entries.length, 4);
      const published = entries.find(({ event }) => event.eventId === "same");
      assert.equal(published?.event.resourceId, `resource:${owner}`);
      assert.equal((await engine.list(owner, { correlationId: "same", limit: 10 })).length, 1);
    }
  });

  test("hostile texts are ids, keys and values like any others, each different from every other", async ({
    engine,
    claim,
  }) => {
    for (const [index, text] of HOSTILE.entries()) {
      const id = idOf(text, index);
      const outcome = await engine.start({
        owner: text,
        jobId: id,
        jobType: "work",
        input: { [text]: text },
        digest: text,
        key: text,
        summary: text,
        correlationId: id,
        maxAttempts: 3,
      });
      assert.equal(outcome.outcome, "created", `text ${index}`);
      await engine.publish(text, [published(id, { resourceId: id })]);
    }
    const { records } = await claim({ holder: "a\0b", limit: 1_000 });
    assert.deepEqual(
      records.map(({ owner }) => owner),
      HOSTILE,
    );
    assert.deepEqual(await engine.holders(), ["a\0b"]);
    for (const [index, text] of HOSTILE.entries()) {
      const outcome = await engine.apply({
        owner: text,
        jobId: idOf(text, index),
        command: PROGRESS,
        counts: Object.fromEntries([[text, index]]),
        write: async (transaction) => {
          await transaction.append(text, [text]);
          await transaction.put(text, text);
        },
      });
      assert.equal(outcome.outcome, "applied");
    }
    for (const [index, text] of HOSTILE.entries()) {
      const id = idOf(text, index);
      const record = await engine.get(text, id);
      assert.equal(record?.owner, text);
      assert.equal(record?.job.jobId, id);
      assert.equal(record?.job.summary, text);
      assert.deepEqual(Object.entries(record?.counts ?? {}), [[text, index]]);
      assert.deepEqual(Object.entries((await engine.document(text, id, "input")) as object), [[text, text]]);
      assert.deepEqual(await engine.items(text, id, text, 0, 9), { items: [text], total: 1 });
      assert.equal(await engine.transaction(text, (transaction) => transaction.get(text)), text);
      assert.equal((await engine.read(text, { resourceIds: [id] }, 0, 9)).entries.length, 1);
      assert.equal((await engine.read(text, { jobIds: [id] }, 0, 9)).entries.length, 3);
      assert.equal((await engine.list(text, { correlationId: id, limit: 9 })).length, 1);
    }
  });
}
