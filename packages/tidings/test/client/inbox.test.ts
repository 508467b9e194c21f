import { readFileSync } from "node:fs";
import { Client } from "@modelcontextprotocol/client";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import type { Gap, InboxOptions } from "../../src/client/index.ts";
import { createInbox, createJobStore, defineEvent } from "../../src/client/index.ts";
import { createManualClock } from "../../src/engine/testing/manual-clock.ts";
import type { CatalogueEvent, TidingsEvent } from "../../src/model/event.ts";
import { toNested } from "../../src/model/projection/nested.ts";
import { toFlat, toNotification } from "../../src/model/projection/notification.ts";
import { AT, anyStory, carelessDelivery, fold, progress, storyOf, wholeStory } from "./stories.ts";

function setUp(options: InboxOptions = {}) {
  const clock = createManualClock();
  const inbox = createInbox({ clock, ...options });
  const heard: TidingsEvent[] = [];
  inbox.on((event) => heard.push(event));
  return { clock, inbox, heard };
}

const seqs = (events: readonly TidingsEvent[]) => events.map(({ seq }) => seq);

function pick(events: readonly TidingsEvent[], ...numbers: number[]): TidingsEvent[] {
  return numbers.map((seq) => {
    const event = events.find((candidate) => candidate.seq === seq);
    if (event === undefined) throw new Error(`no event ${seq}`);
    return event;
  });
}

function snapshotOf(events: readonly TidingsEvent[], extra: Record<string, unknown> = {}) {
  const { failures: _failures, updatedAt: _updatedAt, ...job } = fold(events);
  return { ...job, counts: { total: 2 }, cursor: `c${job.seq}`, ...extra };
}

describe("an inbox fed by any client", () => {
  it("is one line for clients of both SDK generations", async () => {
    const { inbox } = setUp();
    const client = new Client({ name: "test", version: "1" });
    const clientV1 = new ClientV1({ name: "test", version: "1" });
    client.fallbackNotificationHandler = (n) => inbox.receive(n);
    clientV1.fallbackNotificationHandler = (n) => inbox.receive(n);
    for (const event of wholeStory("job_1")) {
      const { method, params } = toNotification(event);
      await client.fallbackNotificationHandler({ method, params });
      await clientV1.fallbackNotificationHandler({ method, params });
    }
    expect(inbox.get("job_1")).toEqual(fold(wholeStory("job_1")));
    expect(inbox.counters).toMatchObject({ applied: 7, repeats: 7 });
  });

  it("reads the flat, the nested and the carried spelling as one event", () => {
    const { inbox, heard } = setUp();
    const [created] = wholeStory("job_1");
    inbox.take({ jsonrpc: "2.0", ...toNested(created as TidingsEvent) });
    inbox.take(toNotification(created as TidingsEvent));
    inbox.take({
      method: "notifications/resources/updated",
      params: { uri: "job://job_1", _meta: { "dev.tidings/event": created } },
    });
    expect(heard).toEqual([created]);
    expect(inbox.counters).toMatchObject({ applied: 1, repeats: 2 });
  });

  it("accepts, takes as a hint or refuses the messages of the wire examples, and refusals change nothing", () => {
    const examples = JSON.parse(
      readFileSync(new URL("../fixtures/wire-examples.json", import.meta.url), "utf8"),
    ) as Record<string, { message: unknown; hint?: boolean }[]>;
    const { inbox } = setUp();
    for (const { message } of examples.reject ?? []) inbox.take(message);
    expect(inbox.list()).toEqual([]);
    expect(inbox.counters).toMatchObject({ applied: 0, invalid: examples.reject?.length });
    for (const { message, hint } of examples.accept ?? []) {
      expect(setUp().inbox.take(message).kind).toMatch(hint ? /^hint$/ : /applied|held/);
    }
  });

  it("never throws, whatever the message", () => {
    const { inbox } = setUp();
    fc.assert(
      fc.property(fc.anything(), fc.anything(), (message, params) => {
        inbox.take(message);
        inbox.take({ method: "notifications/job/progress", params });
        inbox.restore(message);
      }),
    );
    const hostile = JSON.parse('{"__proto__":{"status":"completed"},"constructor":1}');
    inbox.take({ method: "notifications/job/progress", params: hostile });
    expect(inbox.list()).toEqual([]);
  });

  it("treats a job named __proto__ as any other", () => {
    const { inbox } = setUp();
    for (const event of wholeStory("__proto__")) inbox.accept(event);
    expect(inbox.get("__proto__")?.status).toBe("completed");
    expect(inbox.get("constructor")).toBeUndefined();
  });

  it("tells hints apart, and folds none of them", () => {
    const hints: unknown[] = [];
    const { inbox } = setUp({ onHint: (hint) => hints.push(hint) });
    inbox.take({ method: "notifications/resources/updated", params: { uri: "job://job_1" } });
    expect(hints).toEqual([{ kind: "hint", method: "notifications/resources/updated", uri: "job://job_1" }]);
    expect(inbox.list()).toEqual([]);
    expect(inbox.counters.hints).toBe(1);
  });

  it("checks the payloads of types that it knows", () => {
    const paid = defineEvent("order.paid", { payload: z.object({ paymentId: z.string() }) });
    const problems: string[] = [];
    const { inbox, heard } = setUp({ events: [paid], onInvalid: (problem) => problems.push(problem) });
    const event = { eventId: "e1", type: "order.paid", timestamp: AT, source: "shop" };
    inbox.take({ method: "notifications/order/paid", params: { ...event, paymentId: 7 } });
    inbox.take({ method: "notifications/order/paid", params: { ...event, paymentId: "p1" } });
    expect(heard).toEqual([{ ...event, paymentId: "p1" }]);
    expect(problems).toHaveLength(1);
    expect(problems[0]).toContain("paymentId");
  });
});

describe("repeats, order and gaps", () => {
  it("ends in the same job as the straight fold, in order and once each, however the events arrive", () => {
    fc.assert(
      fc.property(carelessDelivery, ({ story, delivered }) => {
        const { inbox, heard } = setUp({ holdMs: Number.POSITIVE_INFINITY });
        for (const event of delivered) inbox.accept(event);
        expect(inbox.get("job_1")).toEqual(fold(story));
        expect(heard).toEqual(story);
        expect(inbox.counters.repeats).toBe(delivered.length - story.length);
        expect(inbox.counters).toMatchObject({ applied: story.length, illegal: 0, lowered: 0, gaps: 0 });
      }),
      { numRuns: 300 },
    );
  });

  it("keeps interleaved jobs apart", () => {
    fc.assert(
      fc.property(fc.array(fc.boolean(), { minLength: 14, maxLength: 14 }), (turns) => {
        const { inbox } = setUp();
        const [a, b] = [wholeStory("job_a"), wholeStory("job_b")];
        for (const turn of turns) {
          const next = (turn ? a : b).shift() ?? (turn ? b : a).shift();
          if (next !== undefined) inbox.accept(next);
        }
        expect(inbox.get("job_a")).toEqual(fold(wholeStory("job_a")));
        expect(inbox.get("job_b")).toEqual(fold(wholeStory("job_b")));
      }),
    );
  });

  it("brings 1, 3, 2 out as 1, 2, 3", () => {
    const { inbox, heard } = setUp();
    const receipts = pick(wholeStory("job_1"), 1, 3, 2).map((event) => inbox.accept(event));
    expect(receipts.map(({ kind }) => kind)).toEqual(["applied", "held", "applied"]);
    expect(seqs(heard)).toEqual([1, 2, 3]);
    expect(inbox.counters).toMatchObject({ outOfOrder: 1, gaps: 0 });
  });

  it("lets no repeat through, also when its id has long been forgotten", () => {
    const { inbox, heard } = setUp({ maxIds: 2 });
    const story = wholeStory("job_1");
    for (const event of [...story, ...story]) inbox.accept(event);
    expect(heard).toEqual(story);
  });

  it("notices a missing event after a while, says where to read on, and goes on when the repair is done", async () => {
    const gaps: Gap[] = [];
    let repaired: () => void = () => undefined;
    const { inbox, clock, heard } = setUp({
      holdMs: 500,
      onGap: (gap) => {
        gaps.push(gap);
        return new Promise((resolve) => {
          repaired = resolve;
        });
      },
    });
    const story = wholeStory("job_1");
    inbox.accept(story[0] as TidingsEvent, "c1");
    for (const event of pick(story, 4, 5)) inbox.accept(event);
    clock.advance(499);
    expect(gaps).toEqual([]);
    clock.advance(1);
    expect(gaps).toEqual([{ jobId: "job_1", after: "c1", from: 2, to: 3 }]);
    for (const event of pick(story, 2, 3)) inbox.accept(event);
    repaired();
    await Promise.resolve();
    expect(seqs(heard)).toEqual([1, 2, 3, 4, 5]);
    expect(inbox.counters.gaps).toBe(1);
  });

  it("is repaired by a snapshot: what it holds is not told again, what comes after it is", () => {
    const { inbox, heard } = setUp({ onGap: () => void inbox.restore(snapshotOf(story.slice(0, 5))) });
    const story = wholeStory("job_1");
    inbox.accept(story[0] as TidingsEvent);
    for (const event of pick(story, 6, 7, 4)) inbox.accept(event);
    inbox.restore(snapshotOf(story.slice(0, 5)));
    expect(seqs(heard)).toEqual([1, 6, 7]);
    expect(inbox.get("job_1")).toMatchObject({
      status: "completed",
      percentage: 100,
      seq: 7,
      counts: { total: 2 },
    });
    expect(inbox.counters.gaps).toBe(0);
  });

  it("does not stand still for ever when nobody repairs it", () => {
    const { inbox, clock, heard } = setUp();
    const story = wholeStory("job_1");
    for (const event of pick(story, 1, 4, 7)) inbox.accept(event);
    clock.advance(500);
    expect(seqs(heard)).toEqual([1, 4, 7]);
    expect(inbox.get("job_1")).toMatchObject({ status: "completed", percentage: 100, attempt: 1 });
    expect(inbox.counters).toMatchObject({ gaps: 2, illegal: 0 });
  });

  it("holds back a bounded number of events", () => {
    const { inbox, heard } = setUp({ maxHeld: 3, holdMs: Number.POSITIVE_INFINITY });
    for (const event of pick(wholeStory("job_1"), 2, 3, 4, 5)) inbox.accept(event);
    expect(seqs(heard)).toEqual([2, 3, 4, 5]);
  });

  it("folds events without seq as they come", () => {
    const { inbox } = setUp();
    for (const { seq: _, ...event } of wholeStory("job_1")) inbox.accept(event as TidingsEvent);
    expect(inbox.get("job_1")).toMatchObject({ status: "completed", percentage: 100 });
  });

  it("tells an event without seq once, by its id", () => {
    const { inbox, heard } = setUp();
    const { seq: _, ...event } = pick(wholeStory("job_1"), 4)[0] as TidingsEvent;
    for (let n = 0; n < 3; n += 1) inbox.accept(event as TidingsEvent);
    expect(heard).toHaveLength(1);
    expect(inbox.counters.repeats).toBe(2);
  });
});

describe("what may not change a job", () => {
  const finished = wholeStory("job_1");
  const later = (fields: Record<string, unknown>, seq: number) =>
    ({ eventId: `late_${seq}`, timestamp: AT, jobId: "job_1", seq, ...fields }) as unknown as TidingsEvent;

  it("ignores and counts transitions after the end, and goes on behind them", () => {
    const { inbox, heard } = setUp();
    for (const event of finished) inbox.accept(event);
    const done = inbox.get("job_1");
    const failed = { type: "job.failed", error: { code: "X", message: "x", retryable: false } };
    expect(inbox.accept(later(failed, 8))).toEqual({ kind: "ignored", reason: "illegal" });
    inbox.accept(later({ type: "job.progress", percentage: 3, stage: "again" }, 9));
    inbox.accept(later({ type: "job.completed", resultResourceId: "other" }, 10));
    expect(inbox.get("job_1")).toBe(done);
    expect(inbox.counters.illegal).toBe(3);
    inbox.accept(later({ type: "resource.updated", resourceId: "r", changeType: "ready" }, 11));
    expect(heard.at(-1)?.type).toBe("resource.updated");
    expect(inbox.get("job_1")).toMatchObject({ status: "completed", seq: 11 });
  });

  it("does not show progress below the shown value", () => {
    const { inbox } = setUp();
    const story = storyOf("job_1", [{ type: "start" }, progress(40)]);
    for (const event of story) inbox.accept(event);
    const lowered = later({ type: "job.progress", percentage: 10, stage: "back" }, 4);
    expect(inbox.accept(lowered)).toEqual({ kind: "ignored", reason: "lowered" });
    expect(inbox.get("job_1")).toMatchObject({ percentage: 40, stage: "at 40" });
    inbox.accept(later({ type: "job.progress", percentage: 41, stage: "on" }, 5));
    expect(inbox.get("job_1")?.percentage).toBe(41);
  });

  it("keeps system events away from a job's state, also those that shout done", () => {
    const { inbox } = setUp();
    for (const event of storyOf("job_1", [{ type: "start" }])) inbox.accept(event);
    inbox.accept(later({ type: "system.log", source: "worker", level: "info", message: "DONE!" }, 3));
    inbox.accept(later({ type: "system.degraded", source: "shop", message: "slow", since: AT }, 4));
    expect(inbox.get("job_1")).toMatchObject({ status: "running", percentage: 0 });
    const beat = { eventId: "b", type: "system.heartbeat", timestamp: AT, source: "s", jobId: "job_1" };
    const before = inbox.get("job_1");
    expect(inbox.take({ method: "notifications/system/heartbeat", params: beat }).kind).toBe("heartbeat");
    expect(inbox.get("job_1")).toBe(before);
  });

  it("does not let a snapshot reopen an ended job or move it back", () => {
    const { inbox } = setUp();
    for (const event of finished) inbox.accept(event);
    const done = inbox.get("job_1");
    inbox.restore(snapshotOf(finished.slice(0, 4)));
    expect(inbox.restore({ ...snapshotOf(finished), status: "running", seq: 99 }).kind).toBe("ignored");
    expect(inbox.get("job_1")).toBe(done);
  });

  it("learns from the snapshot of an ended job that it was retried", () => {
    const { inbox } = setUp();
    for (const event of finished) inbox.accept(event);
    inbox.restore(snapshotOf(finished, { retriedAs: "job_2" }));
    expect(inbox.get("job_1")).toMatchObject({ status: "completed", retriedAs: "job_2" });
  });

  it("takes a snapshot of a server that has no seq, and goes on from there", () => {
    const { inbox, heard } = setUp();
    const { seq: _, ...snapshot } = snapshotOf(finished.slice(0, 4));
    inbox.restore(snapshot);
    for (const event of finished.slice(4)) inbox.accept(event);
    expect(seqs(heard)).toEqual([5, 6, 7]);
    expect(inbox.get("job_1")?.status).toBe("completed");
  });
});

describe("listeners and the store", () => {
  it("tells every listener everything in order, also when one of them feeds the inbox or throws", () => {
    const errors: unknown[] = [];
    const { inbox, heard } = setUp({ onError: (error) => errors.push(error) });
    const story = wholeStory("job_1");
    const second: TidingsEvent[] = [];
    const feeding = createInboxListener(inbox, story);
    inbox.on(feeding);
    inbox.on(() => {
      throw new Error("mine");
    });
    inbox.on((event) => second.push(event));
    inbox.accept(story[0] as TidingsEvent);
    expect(heard).toEqual(story);
    expect(second).toEqual(story);
    expect(errors).toHaveLength(7);
  });

  it("gives the same object until something changes, and calls back after every change", () => {
    const { inbox } = setUp();
    const store = createJobStore(inbox);
    let calls = 0;
    const stop = store.subscribe(() => {
      calls += 1;
    });
    const story = wholeStory("job_1");
    for (const event of story.slice(0, 3)) inbox.accept(event);
    const [job, list] = [store.get("job_1"), store.list()];
    inbox.accept(story[1] as TidingsEvent);
    expect(store.get("job_1")).toBe(job);
    expect(store.list()).toBe(list);
    expect(calls).toBe(3);
    inbox.accept(story[3] as TidingsEvent);
    expect(store.list()).not.toBe(list);
    stop();
    for (const event of story) inbox.accept(event);
    expect(calls).toBe(4);
  });

  it("keeps a bounded number of jobs; the oldest ended one leaves first", () => {
    const { inbox } = setUp({ maxJobs: 3 });
    inbox.accept(storyOf("running", [{ type: "start" }])[0] as TidingsEvent);
    for (const jobId of ["old", "new", "next"]) for (const event of wholeStory(jobId)) inbox.accept(event);
    expect(inbox.list().map(({ jobId }) => jobId)).toEqual(["running", "new", "next"]);
    for (let n = 0; n < 5_000; n += 1) inbox.accept(storyOf(`job_${n}`, [])[0] as TidingsEvent);
    expect(inbox.list()).toHaveLength(3);
  });

  it("agrees with the fold on every prefix", () => {
    fc.assert(
      fc.property(anyStory, (story) => {
        const { inbox } = setUp();
        story.forEach((event, index) => {
          inbox.take({ method: "notifications/x", params: {} });
          inbox.accept(event);
          expect(inbox.get("job_1")).toEqual(fold(story.slice(0, index + 1)));
        });
      }),
    );
  });

  it("narrows the events of the catalogue by their type", () => {
    const event = wholeStory("job_1")[2] as CatalogueEvent;
    if (event.type === "job.progress") expect(toFlat(event).percentage).toBe(event.percentage);
  });
});

function createInboxListener(inbox: ReturnType<typeof createInbox>, story: readonly TidingsEvent[]) {
  return (event: TidingsEvent) => {
    const next = story[event.seq ?? 0];
    if (next !== undefined) inbox.accept(next);
  };
}
