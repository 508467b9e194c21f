import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { EventFilter } from "../../src/engine/engine.ts";
import type { TidingsEvent } from "../../src/model/event.ts";
import { createReader, faults, makeEvent, open, settle, storyOf, turn } from "./hub-readers.ts";

const filters: readonly EventFilter[] = [
  {},
  { resourceIds: ["resource:a"] },
  { resourceIds: ["resource:b", "resource:c"] },
  { correlationId: "run_1" },
  { resourceIds: ["resource:a"], correlationId: "run_1" },
  { jobIds: [] },
];

describe("subscribers of one owner's log", () => {
  test("are told exactly what reading it from their position gives, however full they get", async () => {
    const commit = fc.record({
      kind: fc.constant("commit" as const),
      events: fc.array(
        fc.tuple(
          fc.constantFrom("resource:a", "resource:b", "resource:c"),
          fc.constantFrom(undefined, "run_1"),
        ),
        { minLength: 1, maxLength: 5 },
      ),
    });
    const flood = fc.record({
      kind: fc.constant("commit" as const),
      events: fc.constant(Array.from({ length: 300 }, () => ["resource:a", undefined] as const)),
    });
    const pause = fc.record({ kind: fc.constant("turn" as const) });
    const subscribe = fc.record({
      kind: fc.constant("subscribe" as const),
      filter: fc.constantFrom(...filters),
      fromNow: fc.boolean(),
      room: fc.constantFrom(0, 1, 3, Number.POSITIVE_INFINITY),
    });
    const make = fc.record({ kind: fc.constant("make" as const), which: fc.nat(9), room: fc.nat(4) });
    const stop = fc.record({ kind: fc.constant("stop" as const), which: fc.nat(9) });
    const wait = fc.record({ kind: fc.constant("wait" as const) });
    await fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.oneof(
            { weight: 8, arbitrary: fc.oneof(commit, pause) },
            { weight: 8, arbitrary: fc.oneof(subscribe, make, stop, wait) },
            { weight: 1, arbitrary: flood },
          ),
          { maxLength: 40 },
        ),
        fc.array(fc.nat(4), { minLength: 1, maxLength: 7 }),
        async (steps, lags) => {
          const { engine, hub } = open(lags);
          const readers: { reader: ReturnType<typeof createReader>; filter: EventFilter; after: number }[] =
            [];
          const stopped = new Set<unknown>();
          const commits: Promise<unknown>[] = [];
          for (const step of steps) {
            if (step.kind === "commit") {
              commits.push(
                engine.publish(
                  "ann",
                  step.events.map(([resource, run]) => makeEvent(resource, run)),
                ),
              );
            } else if (step.kind === "subscribe") {
              const reader = createReader();
              const { head } = await engine.read("ann", {}, 0, 1);
              const after = step.fromNow ? head : 0;
              reader.make(step.room);
              reader.begun(hub.subscribe("ann", step.filter, after, reader.subscriber));
              readers.push({ reader, filter: step.filter, after });
            } else if (step.kind === "make") readers[step.which]?.reader.make(step.room);
            else if (step.kind === "stop") {
              readers[step.which]?.reader.stop();
              stopped.add(readers[step.which]);
            } else if (step.kind === "turn") await turn();
            else await settle();
          }
          await Promise.all(commits);
          await settle();
          for (const { reader } of readers) reader.make(Number.POSITIVE_INFINITY);
          await settle();
          for (const entry of readers) {
            const expected = await storyOf(engine, "ann", entry.filter, entry.after);
            const told = entry.reader.ids();
            expect(told).toEqual(stopped.has(entry) ? expected.slice(0, told.length) : expected);
            expect(entry.reader.failures).toEqual([]);
          }
        },
      ),
      { numRuns: 500 },
    );
  });

  test("miss nothing that was removed from the log without a gap in its place", async () => {
    const step = fc.oneof(
      {
        weight: 4,
        arbitrary: fc.record({ kind: fc.constant("commit" as const), count: fc.integer({ min: 1, max: 6 }) }),
      },
      { weight: 1, arbitrary: fc.record({ kind: fc.constant("commit" as const), count: fc.constant(300) }) },
      { weight: 2, arbitrary: fc.record({ kind: fc.constant("prune" as const), count: fc.nat(20) }) },
      {
        weight: 4,
        arbitrary: fc.record({ kind: fc.constant("make" as const), which: fc.nat(19), room: fc.nat(50) }),
      },
      { weight: 3, arbitrary: fc.constant({ kind: "turn" as const }) },
      { weight: 1, arbitrary: fc.constant({ kind: "settle" as const }) },
    );
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { maxLength: 30 }),
        fc.array(fc.nat(4), { minLength: 1, maxLength: 7 }),
        async (steps, lags) => {
          const { engine, hub } = open(lags);
          const readers = Array.from({ length: 20 }, createReader);
          for (const [index, reader] of readers.entries()) {
            if (index < 4) reader.make(index);
            reader.begun(hub.subscribe("ann", {}, 0, reader.subscriber));
          }
          const published: string[] = [];
          for (const step of steps) {
            if (step.kind === "commit") {
              const made = Array.from({ length: step.count }, () => makeEvent("resource:a"));
              published.push(...made.map(({ eventId }) => eventId));
              await engine.publish("ann", made);
            } else if (step.kind === "prune") {
              await engine.prune({ keepEvents: step.count });
            } else if (step.kind === "make") readers[step.which]?.make(step.room);
            else if (step.kind === "turn") await turn();
            else await settle();
          }
          for (const reader of readers) reader.make(Number.POSITIVE_INFINITY);
          await settle();
          for (const reader of readers) {
            let next = 0;
            let gap = false;
            for (const id of [...reader.ids(), undefined]) {
              if (id === "gap") {
                gap = true;
                continue;
              }
              const at = id === undefined ? published.length : published.indexOf(id, next);
              expect(at).toBeGreaterThanOrEqual(next);
              if (!gap) expect(at).toBe(next);
              next = at + 1;
              gap = false;
            }
            expect(reader.failures).toEqual([]);
          }
        },
      ),
      { numRuns: 60 },
    );
  });

  test("are given the same object for the same event, with its cursor", async () => {
    const { engine, hub } = open();
    const readers = [createReader(), createReader()];
    for (const reader of readers) reader.begun(hub.subscribe("ann", {}, 0, reader.subscriber));
    await settle();
    await engine.publish("ann", [makeEvent("resource:a")]);
    await settle();
    const [first, second] = readers.map(({ told }) => told[0]);
    expect(first).toBeDefined();
    expect(first).toBe(second);
    expect(first?.cursor).toBe("ann/1");
  });

  test("hear of events that were removed before they could be told", async () => {
    const { engine, hub } = open();
    await engine.publish("ann", [makeEvent("resource:a"), makeEvent("resource:a")]);
    await engine.prune({ keepEvents: 1 });
    const reader = createReader();
    reader.begun(hub.subscribe("ann", {}, 0, reader.subscriber));
    await settle();
    expect(reader.told.map(({ kind }) => kind)).toEqual(["gap", "event"]);
    expect(reader.told[0]?.cursor).toBe("ann/0");
  });

  test("are told what another still follows, whoever removed it from the log meanwhile", async () => {
    const { engine, hub } = open();
    const [first, second] = [createReader(), createReader()];
    first.begun(hub.subscribe("ann", {}, 0, first.subscriber));
    await settle();
    await engine.publish("ann", [makeEvent("resource:a"), makeEvent("resource:a")]);
    await settle();
    // As room that a start makes, or another process: nobody tells the hub.
    await engine.prune({ keepEvents: 0 });
    second.begun(hub.subscribe("ann", {}, 0, second.subscriber));
    await settle();
    expect(second.ids()).toEqual(first.ids());
    first.stop();
    second.stop();
    const third = createReader();
    third.begun(hub.subscribe("ann", {}, 0, third.subscriber));
    await settle();
    expect(third.ids()).toEqual(["gap"]);
  });

  test("hear of a gap once, also when they were full at the time", async () => {
    const { engine, hub } = open();
    await engine.publish("ann", [makeEvent("resource:a"), makeEvent("resource:a")]);
    await engine.prune({ keepEvents: 1 });
    const reader = createReader();
    reader.make(0);
    reader.begun(hub.subscribe("ann", {}, 0, reader.subscriber));
    await settle();
    reader.make(1);
    await settle();
    reader.make(5);
    await settle();
    expect(reader.told.map(({ kind }) => kind)).toEqual(["gap", "event"]);
  });

  test("that throw are let go, and the others are told all the same", async () => {
    const { engine, hub } = open();
    const failures: unknown[] = [];
    hub.subscribe("ann", {}, 0, {
      take() {
        throw new Error("a bug");
      },
      fail: (error) => void failures.push(error),
    });
    const reader = createReader();
    reader.begun(hub.subscribe("ann", {}, 0, reader.subscriber));
    await settle();
    await engine.publish("ann", [makeEvent("resource:a")]);
    await engine.publish("ann", [makeEvent("resource:a")]);
    await settle();
    expect(failures).toEqual([new Error("a bug")]);
    expect(reader.told).toHaveLength(2);
  });

  test("that throw even when they are told so are reported", async () => {
    const { engine, hub } = open();
    const bug = new Error("another bug");
    const subscriber = {
      take(): number {
        throw new Error("a bug");
      },
      fail() {
        throw bug;
      },
    };
    const reader = createReader();
    for (const each of [subscriber, reader.subscriber]) hub.subscribe("ann", {}, 0, each);
    await settle();
    await engine.publish("ann", [makeEvent("resource:a")]);
    await settle();
    expect(faults.splice(0)).toEqual([bug]);
    expect(reader.told).toHaveLength(1);
  });

  test("may stop each other while they are told", async () => {
    const { engine, hub } = open();
    const second = createReader();
    const first = createReader();
    const take = first.subscriber.take;
    first.subscriber.take = (items) => {
      second.stop();
      first.stop();
      return take(items);
    };
    const third = createReader();
    for (const reader of [first, second, third]) reader.begun(hub.subscribe("ann", {}, 0, reader.subscriber));
    await settle();
    for (let commits = 0; commits < 2; commits += 1) {
      await engine.publish("ann", [makeEvent("resource:a")]);
      await settle();
    }
    expect([first, second, third].map(({ told }) => told.length)).toEqual([1, 0, 2]);
  });

  test("learn that the store was closed", async () => {
    const { engine, hub } = open();
    const reader = createReader();
    reader.begun(hub.subscribe("ann", {}, 0, reader.subscriber));
    await settle();
    await engine.close();
    await settle();
    expect(reader.failures).toMatchObject([{ code: "STORE_CLOSED" }]);
  });

  test("are told an announcement with the cursor they have, which goes on from there", async () => {
    const { engine, hub } = open();
    const reader = createReader();
    reader.begun(hub.subscribe("ann", { jobIds: ["job_1"] }, 0, reader.subscriber));
    await settle();
    await engine.publish("ann", [makeEvent("resource:a")]);
    await settle();
    const timestamp = "2026-12-01T10:15:00.000Z";
    const about = { eventId: "evt_full", timestamp, source: "tidings" };
    hub.announce({ ...about, type: "system.degraded", reason: "The disk is full." } as TidingsEvent);
    expect(reader.told).toMatchObject([{ kind: "event", event: { type: "system.degraded" } }]);
  });
});

describe("owners", () => {
  test("security 2: are told nothing of each other, whatever they are called", async () => {
    const { engine, hub } = open();
    const owners = ["ann", "ann/1", "__proto__", "constructor", "", "ann\0", '["ann"]'];
    const readers = new Map(owners.map((owner) => [owner, createReader()]));
    for (const [owner, reader] of readers) reader.begun(hub.subscribe(owner, {}, 0, reader.subscriber));
    await settle();
    for (const owner of owners) await engine.publish(owner, [makeEvent(`resource:${owner}`)]);
    await settle();
    for (const [owner, { told }] of readers) {
      expect(told).toMatchObject([{ event: { resourceId: `resource:${owner}` } }]);
    }
  });
});
