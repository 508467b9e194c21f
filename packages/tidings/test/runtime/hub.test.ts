import fc from "fast-check";
import { describe, expect, onTestFinished, test } from "vitest";
import type { Engine, EventFilter } from "../../src/engine/engine.ts";
import { createMemoryEngine } from "../../src/engine/memory/engine.ts";
import { systemClock, systemRandom } from "../../src/engine/system-clock.ts";
import type { TidingsEvent } from "../../src/model/event.ts";
import { createHub } from "../../src/runtime/hub.ts";
import type { Subscription, TailItem } from "../../src/runtime/tidings.ts";

const sealOf = (owner: string) => (position: number) => `${owner}/${position}`;
const faults: unknown[] = [];
const onError = (fault: unknown) => void faults.push(fault);

function open(): { engine: Engine; hub: ReturnType<typeof createHub> } {
  const engine = createMemoryEngine({ clock: systemClock, random: systemRandom });
  onTestFinished(() => engine.close());
  return { engine, hub: createHub({ engine, sealOf, onError }) };
}

let events = 0;

/** An event that concerns no job, of one of a few resources and runs. */
function makeEvent(resourceId: string, correlationId?: string): TidingsEvent {
  events += 1;
  const about = correlationId === undefined ? {} : { correlationId };
  const eventId = `evt_${events}`;
  const timestamp = "2026-12-01T10:15:00.000Z";
  return { eventId, type: "resource.updated", timestamp, resourceId, changeType: "changed", ...about };
}

/** Takes up to `room` items, then says that it is full. */
function createReader() {
  const told: TailItem[] = [];
  const failures: unknown[] = [];
  let room = Number.POSITIVE_INFINITY;
  let subscription: Subscription | undefined;
  return {
    told,
    failures,
    subscriber: {
      take(items: readonly TailItem[]) {
        const taken = Math.min(items.length, room);
        told.push(...items.slice(0, taken));
        room -= taken;
        return taken;
      },
      fail: (error: unknown) => void failures.push(error),
    },
    begun(it: Subscription) {
      subscription = it;
    },
    make(places: number) {
      room = places;
      subscription?.resume();
    },
    stop: () => subscription?.stop(),
    ids: () => told.map((item) => (item.kind === "event" ? item.event.eventId : "gap")),
  };
}

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

/** Lets everything happen that is on its way. */
async function settle(): Promise<void> {
  for (let turns = 0; turns < 40; turns += 1) await turn();
}

/** What is read is on its way for a while, and others commit meanwhile. */
function withLag(engine: Engine, lags: readonly number[]): Engine {
  let readings = 0;
  return {
    ...engine,
    async read(...request) {
      const reading = await engine.read(...request);
      const lag = lags[readings++ % lags.length] ?? 0;
      for (let turns = 0; turns < lag; turns += 1) await turn();
      return reading;
    },
  };
}

async function storyOf(engine: Engine, owner: string, filter: EventFilter, after = 0): Promise<string[]> {
  const { entries } = await engine.read(owner, filter, after, 10_000);
  return entries.map(({ event }) => event.eventId);
}

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
    const forget = fc.record({ kind: fc.constant("forget" as const) });
    await fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.oneof(
            { weight: 8, arbitrary: fc.oneof(commit, pause) },
            { weight: 8, arbitrary: fc.oneof(subscribe, make, stop, wait, forget) },
            { weight: 1, arbitrary: flood },
          ),
          { maxLength: 40 },
        ),
        fc.array(fc.nat(4), { minLength: 1, maxLength: 7 }),
        async (steps, lags) => {
          const engine = createMemoryEngine({ clock: systemClock, random: systemRandom });
          const hub = createHub({ engine: withLag(engine, lags), sealOf, onError });
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
            } else if (step.kind === "forget") hub.forget();
            else if (step.kind === "turn") await turn();
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
          await engine.close();
        },
      ),
      { numRuns: 500 },
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

  test("cost one reading of the log for each commit, however many they are", async () => {
    const { engine } = open();
    let readings = 0;
    const counting: Engine = {
      ...engine,
      read(...request) {
        readings += 1;
        return engine.read(...request);
      },
    };
    const hub = createHub({ engine: counting, sealOf, onError });
    const readers = Array.from({ length: 200 }, createReader);
    for (const reader of readers) reader.begun(hub.subscribe("ann", {}, 0, reader.subscriber));
    await settle();
    readings = 0;
    for (let commits = 0; commits < 10; commits += 1) {
      await engine.publish("ann", [makeEvent("resource:a")]);
      await settle();
    }
    expect(readers.map(({ told }) => told.length)).toEqual(readers.map(() => 10));
    expect(readings).toBe(10);
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
