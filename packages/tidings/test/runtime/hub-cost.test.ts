/** What many subscribers, late ones and slow ones cost. */
import { describe, expect, test } from "vitest";
import type { Engine } from "../../src/engine/engine.ts";
import { createHub } from "../../src/runtime/hub.ts";
import type { TailItem } from "../../src/runtime/tidings.ts";
import { createReader, makeEvent, onError, open, sealOf, settle, storyOf, turn } from "./hub-readers.ts";

describe("subscribers", () => {
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

  test("in a crowd leave the others their turns", async () => {
    const { engine, hub } = open();
    let told = 0;
    let longest = 0;
    const subscriber = {
      take(items: readonly TailItem[]) {
        told += items.length;
        return items.length;
      },
      fail: onError,
    };
    for (let count = 0; count < 1_000; count += 1) hub.subscribe("ann", {}, 0, subscriber);
    await settle();
    const watched = (async () => {
      for (let before = 0; before < 50_000; ) {
        await turn();
        longest = Math.max(longest, told - before);
        before = told;
      }
    })();
    await engine.publish(
      "ann",
      Array.from({ length: 50 }, () => makeEvent("resource:a")),
    );
    await watched;
    expect(longest).toBeLessThan(3 * 4_096);
    expect(told).toBe(50_000);
  });

  test("that come late are told out of the window, which large events do not fill", async () => {
    const { engine } = open();
    const asked: { readonly after: number; readonly limit: number }[] = [];
    const noting: Engine = {
      ...engine,
      read(owner, filter, after, limit) {
        asked.push({ after, limit });
        return engine.read(owner, filter, after, limit);
      },
    };
    const hub = createHub({ engine: noting, sealOf, onError });
    hub.subscribe("ann", {}, 0, createReader().subscriber);
    await settle();
    const tellLate = async (): Promise<number> => {
      asked.length = 0;
      const reader = createReader();
      reader.begun(hub.subscribe("ann", {}, 0, reader.subscriber));
      await settle();
      expect(reader.ids()).toEqual(await storyOf(engine, "ann", {}));
      reader.stop();
      return asked.length;
    };
    await engine.publish("ann", [makeEvent("resource:a"), makeEvent("resource:b")]);
    await settle();
    expect(await tellLate()).toBe(0);
    for (let large = 0; large < 6; large += 1) {
      const { eventId, timestamp } = makeEvent("");
      const message = "x".repeat(1_000_000);
      await engine.publish("ann", [
        { eventId, timestamp, type: "system.log", source: "t", level: "info", message },
      ]);
      await settle();
    }
    expect(await tellLate()).toBeGreaterThan(0);
  });

  test("that take little at a time have little read for them", async () => {
    const { engine } = open();
    const limits: number[] = [];
    const noting: Engine = {
      ...engine,
      read(owner, filter, after, limit) {
        limits.push(limit);
        return engine.read(owner, filter, after, limit);
      },
    };
    const hub = createHub({ engine: noting, sealOf, onError });
    await engine.publish(
      "ann",
      Array.from({ length: 400 }, () => makeEvent("resource:a")),
    );
    const reader = createReader();
    reader.make(4);
    reader.begun(hub.subscribe("ann", {}, 0, reader.subscriber));
    await settle();
    limits.length = 0;
    for (let times = 0; times < 50; times += 1) {
      reader.make(4);
      await settle();
    }
    expect(Math.max(...limits)).toBeLessThanOrEqual(16);
    reader.make(Number.POSITIVE_INFINITY);
    await settle();
    expect(reader.ids()).toEqual(await storyOf(engine, "ann", {}));
  });
});
