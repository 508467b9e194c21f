import assert from "node:assert/strict";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { Transaction } from "../../engine.ts";
import { ALICE, BOB, CANCEL, type Contract, PROGRESS, rejectsWith } from "./world.ts";

export function describeTransaction({ test }: Contract): void {
  test("a job's change, its items and its values are committed together", async ({
    running,
    apply,
    engine,
  }) => {
    const record = await running();
    const outcome = await apply(record, {
      fence: record.fence,
      command: PROGRESS,
      write: async (transaction) => {
        await transaction.append("gifts", [{ sku: "a" }, { sku: "b" }]);
        await nextTurn();
        await transaction.append("gifts", [{ sku: "c" }]);
        await transaction.put("total", 3);
      },
    });
    assert.equal(outcome.outcome, "applied");
    assert.deepEqual(await engine.items(ALICE, record.job.jobId, "gifts", 0, 10), {
      items: [{ sku: "a" }, { sku: "b" }, { sku: "c" }],
      total: 3,
    });
    assert.equal(await engine.transaction(ALICE, (transaction) => transaction.get("total")), 3);
  });

  test("what a callback throws is thrown again and rolls back events, items and values", async ({
    running,
    apply,
    engine,
    story,
  }) => {
    const record = await running();
    const before = await story();
    const broken = new Error("broken");
    const change = (fail: () => void) =>
      apply(record, {
        command: PROGRESS,
        counts: { rows: 1 },
        checkpoint: 1,
        write: async (transaction) => {
          await transaction.put("value", 1);
          await transaction.append("gifts", [1]);
          fail();
        },
      });
    await assert.rejects(
      change(() => {
        throw broken;
      }),
      (error) => error === broken,
    );
    assert.deepEqual(await story(), before);
    assert.deepEqual({ ...(await engine.get(ALICE, record.job.jobId)), input: record.input }, record);
    assert.equal((await engine.items(ALICE, record.job.jobId, "gifts", 0, 1)).total, 0);
    assert.equal(await engine.transaction(ALICE, (transaction) => transaction.get("value")), undefined);
    const after = await change(() => {});
    assert.equal(after.outcome, "applied");
  });

  test("a failing transaction leaves its neighbours alone", async ({ engine }) => {
    const outcomes = await Promise.allSettled(
      Array.from({ length: 30 }, (_, index) =>
        engine.transaction(ALICE, async (transaction) => {
          await transaction.put(`value-${index}`, index);
          if (index % 3 === 0) throw new Error(`broken ${index}`);
        }),
      ),
    );
    const values = await engine.transaction(ALICE, async (transaction) => {
      const all: unknown[] = [];
      for (let index = 0; index < 30; index += 1) all.push(await transaction.get(`value-${index}`));
      return all;
    });
    for (const [index, outcome] of outcomes.entries()) {
      assert.equal(outcome.status, index % 3 === 0 ? "rejected" : "fulfilled");
      assert.equal(values[index], index % 3 === 0 ? undefined : index);
    }
  });

  test("a transaction reads what it wrote and what others committed before", async ({ engine }) => {
    await engine.transaction(ALICE, (transaction) => transaction.put("a", { list: [1, "x", null] }));
    const seen = await engine.transaction(ALICE, async (transaction) => {
      const before = await transaction.get("a");
      await transaction.put("a", 2);
      const during = await transaction.get("a");
      await transaction.delete("a");
      return [before, during, await transaction.get("a")];
    });
    assert.deepEqual(seen, [{ list: [1, "x", null] }, 2, undefined]);
    assert.equal(await engine.transaction(ALICE, (transaction) => transaction.get("a")), undefined);
  });

  test("transactions run one after the other, also while one waits", async ({ engine }) => {
    await Promise.all(
      Array.from({ length: 25 }, () =>
        engine.transaction(ALICE, async (transaction) => {
          const count = ((await transaction.get("count")) as number | undefined) ?? 0;
          await nextTurn();
          await transaction.put("count", count + 1);
        }),
      ),
    );
    assert.equal(await engine.transaction(ALICE, (transaction) => transaction.get("count")), 25);
  });

  test("nobody sees what a transaction has not committed yet", async ({ running, apply, engine, story }) => {
    const record = await running();
    const before = await story();
    await apply(record, {
      command: PROGRESS,
      write: async (transaction) => {
        await transaction.append("gifts", [1]);
        assert.deepEqual(await story(), before);
        assert.equal((await engine.items(ALICE, record.job.jobId, "gifts", 0, 1)).total, 0);
      },
    });
    assert.equal((await story()).length, before.length + 1);
  });

  test("a callback that writes by another way than its transaction is refused instead of waiting for ever", async ({
    running,
    apply,
    engine,
  }) => {
    const record = await running();
    await rejectsWith(
      "BAD_DEFINITION",
      engine.transaction(ALICE, async () => {
        await apply(record, { command: CANCEL });
      }),
    );
    assert.equal((await engine.get(ALICE, record.job.jobId))?.job.status, "running");
    assert.equal((await apply(record, { command: CANCEL })).outcome, "applied");
  });

  test("a callback that never ends is given up, and its transaction with it", async ({ engine, clock }) => {
    let inside: () => void = () => {};
    const entered = new Promise<void>((resolve) => {
      inside = resolve;
    });
    const hanging = engine.transaction(ALICE, async (transaction) => {
      await transaction.put("value", 1);
      inside();
      await new Promise(() => {});
    });
    const failed = rejectsWith("STORE_BUSY", hanging);
    await entered;
    clock.advance(10_000);
    await failed;
    assert.equal(await engine.transaction(ALICE, (transaction) => transaction.get("value")), undefined);
  });

  test("a transaction that is over cannot be used any more", async ({ engine }) => {
    let kept: Transaction | undefined;
    await engine.transaction(ALICE, (transaction) => {
      kept = transaction;
    });
    await rejectsWith("BAD_DEFINITION", kept!.put("late", 1));
    await rejectsWith("BAD_DEFINITION", kept!.get("late"));
    assert.equal(await engine.transaction(ALICE, (transaction) => transaction.get("late")), undefined);
  });

  test("values that are no JSON are refused", async ({ engine }) => {
    for (const value of [undefined, 1n, () => {}]) {
      await rejectsWith(
        "BAD_INPUT",
        engine.transaction(ALICE, (transaction) => transaction.put("a", value)),
      );
    }
  });

  test("each owner has values of its own", async ({ engine }) => {
    await engine.transaction(ALICE, (transaction) => transaction.put("a", 1));
    assert.equal(await engine.transaction(BOB, (transaction) => transaction.get("a")), undefined);
    await engine.transaction(BOB, (transaction) => transaction.delete("a"));
    assert.equal(await engine.transaction(ALICE, (transaction) => transaction.get("a")), 1);
  });

  test("any part of a collection can be read", async ({ running, apply, engine }) => {
    const record = await running();
    const all = Array.from({ length: 1_500 }, (_, index) => index);
    const sizes = [1, 0, 2, 700, 255, 256, 286];
    await apply(record, {
      write: async (transaction) => {
        let offset = 0;
        for (const size of sizes) {
          await transaction.append("numbers", all.slice(offset, offset + size));
          offset += size;
        }
      },
    });
    const read = (offset: number, limit: number) =>
      engine.items(ALICE, record.job.jobId, "numbers", offset, limit);
    for (const [offset, limit] of [
      [0, 10],
      [0, 1],
      [2, 3],
      [500, 600],
      [1_499, 1],
      [0, 5_000],
      [1_490, 100],
    ] as const) {
      assert.deepEqual(await read(offset, limit), { items: all.slice(offset, offset + limit), total: 1_500 });
    }
    for (const [offset, limit] of [
      [1_500, 10],
      [9_999, 1],
      [5, 0],
    ] as const) {
      assert.deepEqual(await read(offset, limit), { items: [], total: 1_500 });
    }
    assert.deepEqual(await engine.items(ALICE, record.job.jobId, "others", 0, 10), { items: [], total: 0 });
  });
}
