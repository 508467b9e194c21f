import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { z } from "zod";
import {
  createDurableOnce,
  createEventHandler,
  createInbox,
  createMemoryOnce,
  defineEvent,
  onEvent,
} from "../../src/client/index.ts";
import type { TidingsEvent } from "../../src/model/event.ts";
import { createTidings } from "../../src/runtime/create-tidings.ts";
import { AT, wholeStory } from "./stories.ts";

const paid = defineEvent("order.paid", { payload: z.object({ paymentId: z.string(), cents: z.number() }) });

const payment = (eventId: string, paymentId: string): TidingsEvent =>
  ({ eventId, type: "order.paid", timestamp: AT, source: "shop", paymentId, cents: 4990 }) as TidingsEvent;

async function settled(): Promise<void> {
  for (let turn = 0; turn < 5; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}

describe("handling events by their meaning", () => {
  it("a bonus is credited once: by one event ten times, and by two events about one payment", async () => {
    const inbox = createInbox();
    const credited: string[] = [];
    onEvent(inbox, paid, { key: (event) => event.paymentId }, (event) => void credited.push(event.paymentId));
    for (let n = 0; n < 10; n += 1) inbox.accept(payment("e1", "p1"));
    inbox.accept(payment("e2", "p1"));
    inbox.accept(payment("e3", "p2"));
    await settled();
    expect(credited).toEqual(["p1", "p2"]);
  });

  it("a handler that throws leaves no record and is tried again at the next repeat", async () => {
    const inbox = createInbox();
    const errors: unknown[] = [];
    let calls = 0;
    onEvent(inbox, "order.paid", { onError: (error) => errors.push(error) }, () => {
      calls += 1;
      if (calls === 1) throw new Error("bank is closed");
    });
    for (let n = 0; n < 3; n += 1) {
      inbox.accept(payment("e1", "p1"));
      await settled();
    }
    expect(calls).toBe(2);
    expect(errors).toHaveLength(1);
  });

  it("repeats that come while a handler runs wait for it, and run when it fails", async () => {
    const once = createMemoryOnce();
    const running: string[] = [];
    let fail: (error: Error) => void = () => undefined;
    const first = once.once(
      "k",
      () =>
        new Promise((_, reject) => {
          fail = reject;
        }),
    );
    const second = once.once("k", () => void running.push("second"));
    const third = once.once("k", () => void running.push("third"));
    await settled();
    expect(running).toEqual([]);
    fail(new Error("no"));
    await expect(first).rejects.toThrow("no");
    expect(await Promise.all([second, third])).toEqual(["done", "repeat"]);
    expect(running).toEqual(["second"]);
  });

  it("ignored events of a job reach no handler, their repeats neither", async () => {
    const inbox = createInbox();
    const handled: string[] = [];
    onEvent(inbox, "job.failed", {}, (event) => void handled.push(event.error.code));
    for (const event of wholeStory("job_1")) inbox.accept(event);
    const failed = { type: "job.failed", error: { code: "X", message: "x", retryable: false } };
    const late = { eventId: "late", timestamp: AT, jobId: "job_1", seq: 8, ...failed } as TidingsEvent;
    inbox.accept(late);
    inbox.accept(late);
    await settled();
    expect(handled).toEqual([]);
  });

  it("an event without a key is an error, not a handled event", async () => {
    const handle = createEventHandler("order.paid", { key: () => "" }, () => undefined);
    await expect(handle(payment("e1", "p1"))).rejects.toMatchObject({ code: "BAD_EVENT" });
    const typed = createEventHandler(paid, {}, () => undefined);
    await expect(typed({ ...payment("e1", "p1"), paymentId: 7 } as TidingsEvent)).rejects.toThrow(
      "paymentId",
    );
    expect(await typed(wholeStory("j")[0] as TidingsEvent)).toBe("other");
  });

  it("two handlers of one type and one record need names of their own", () => {
    const inbox = createInbox();
    const once = createMemoryOnce();
    const stop = onEvent(inbox, paid, { once }, () => undefined);
    expect(() => onEvent(inbox, paid, { once }, () => undefined)).toThrow(
      'Two handlers are named "order.paid"',
    );
    onEvent(inbox, paid, { once, name: "mail" }, () => undefined);
    stop();
    onEvent(inbox, paid, { once }, () => undefined);
  });
});

describe("a durable record", () => {
  const folders: string[] = [];

  afterAll(async () => {
    for (const folder of folders) await rm(folder, { recursive: true });
  });

  it.each(["memory:", "sqlite:"])(
    "commits the effect with its key, whoever asks for it again (%s)",
    async (kind) => {
      const folder = await mkdtemp(join(tmpdir(), "tidings-once-"));
      folders.push(folder);
      const store = kind === "memory:" ? kind : `sqlite:${join(folder, "shop.db")}`;
      let tidings = await createTidings({ store, jobs: [] });
      const balance = () => tidings.transaction("shop", async (tx) => (await tx.get("balance")) ?? 0);
      const handler = () =>
        createEventHandler(
          paid,
          { key: (event) => event.paymentId, once: createDurableOnce(tidings, "shop") },
          async (event, tx) => {
            await tx.put("balance", (((await tx.get("balance")) as number | undefined) ?? 0) + event.cents);
            if (event.eventId === "bad") throw new Error("after the write");
          },
        );
      try {
        await expect(handler()(payment("bad", "p1"))).rejects.toThrow("after the write");
        expect(await balance()).toBe(0);
        // Two records on one store know of each other only through it.
        const handlers = [handler(), handler()];
        const outcomes = await Promise.all(
          Array.from({ length: 20 }, (_, n) => handlers[n % 2]?.(payment(`e${n % 3}`, "p1"))),
        );
        expect(outcomes.filter((outcome) => outcome === "done")).toHaveLength(1);
        expect(await balance()).toBe(4990);
        if (kind === "sqlite:") {
          await tidings.close();
          tidings = await createTidings({ store, jobs: [] });
        }
        expect(await handler()(payment("e9", "p1"))).toBe("repeat");
        expect(await handler()(payment("e9", "p2"))).toBe("done");
        expect(await balance()).toBe(9980);
      } finally {
        await tidings.close();
      }
    },
  );
});
