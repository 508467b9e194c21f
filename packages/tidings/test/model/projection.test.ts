import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { methodsOf } from "../../../../scripts/schema-files.ts";
import type { CatalogueType, TidingsEvent } from "../../src/model/event.ts";
import { CATALOGUE, methodOf, RESERVED_FIELDS } from "../../src/model/event.ts";
import { fromCloudEvent, toCloudEvent } from "../../src/model/projection/cloud-event.ts";
import { toNested } from "../../src/model/projection/nested.ts";
import { CURSOR_META_KEY, EVENT_META_KEY, toNotification } from "../../src/model/projection/notification.ts";
import { readEvent, readMessage } from "../../src/model/projection/read.ts";
import { AT, anyEvent, eventsOf, TYPES } from "./generate.ts";

const overTheWire = (value: unknown) => JSON.parse(JSON.stringify(value));
const progress = {
  eventId: "e1",
  type: "job.progress",
  timestamp: AT,
  jobId: "job_1",
  percentage: 40,
  stage: "Matching",
} as TidingsEvent;
const { type: _, ...progressParams } = progress;

describe("an event comes back as it was", () => {
  test("from the canonical notification, with its cursor", () => {
    fc.assert(
      fc.property(anyEvent, (event) => {
        const message = overTheWire({ jsonrpc: "2.0", ...toNotification(event, "c1") });
        expect(readMessage(message)).toEqual({ kind: "event", event, cursor: "c1" });
      }),
    );
  });

  test("from the nested spelling", () => {
    fc.assert(
      fc.property(anyEvent, (event) => {
        expect(readMessage(overTheWire(toNested(event)))).toEqual({ kind: "event", event });
      }),
    );
  });

  test("from a CloudEvent", () => {
    fc.assert(
      fc.property(anyEvent, (event) => {
        const outcome = fromCloudEvent(overTheWire(toCloudEvent(event)));
        // A job's or a resource's source is the sending server's there, not the event's own.
        const { source: _source, ...rest } = event;
        const expected = event.type.startsWith("system.") ? event : rest;
        expect(outcome).toEqual({ kind: "event", event: expected });
      }),
    );
  });

  test("under every spelling of its method, and without its type where the method says it", () => {
    fc.assert(
      fc.property(anyEvent, (event) => {
        const { type: _type, ...params } = event;
        for (const method of methodsOf(event.type as CatalogueType)) {
          expect(readMessage({ method, params }), method).toEqual({ kind: "event", event });
        }
      }),
    );
  });

  test.each(["flat", "nested", "carried", "cloud"] as const)("of a server's own type, %s", (spelling) => {
    const event = {
      eventId: "e1",
      type: "order.paid",
      timestamp: AT,
      source: "shop",
      paymentId: "p1",
      lines: [{ sku: "a" }],
    } as TidingsEvent;
    const read = {
      flat: () => readMessage({ method: "notifications/order/paid", params: event }),
      nested: () => readMessage(toNested(event)),
      carried: () =>
        readMessage({
          method: "notifications/resources/updated",
          params: { _meta: { [EVENT_META_KEY]: event } },
        }),
      cloud: () => fromCloudEvent(overTheWire(toCloudEvent(event))),
    };
    expect(read[spelling]()).toEqual({ kind: "event", event });
  });
});

describe("a CloudEvent", () => {
  test("has the required attributes, and names that the specification allows", () => {
    fc.assert(
      fc.property(anyEvent, (event) => {
        const cloud = toCloudEvent(event, "urn:giftgenius");
        expect(cloud).toMatchObject({
          specversion: "1.0",
          id: event.eventId,
          type: event.type,
          time: event.timestamp,
        });
        expect(cloud.source).toBe(event.source ?? "urn:giftgenius");
        for (const name of Object.keys(cloud)) expect(name).toMatch(/^[a-z0-9]{1,20}$/);
      }),
    );
  });

  test("of another version is refused", () => {
    expect(fromCloudEvent({ ...toCloudEvent(progress), specversion: "0.3" })).toMatchObject({
      kind: "invalid",
    });
  });
});

describe("the reader", () => {
  test("does not throw at a type that refuses to be printed", () => {
    for (const type of [{ toString: [] }, { toString: 1, valueOf: null }, { toJSON: [] }]) {
      const params = {
        type,
        eventId: "e",
        timestamp: "2026-12-01T10:00:00.000Z",
        jobId: "j",
        resourceId: "r",
      };
      for (const method of [
        "notifications/job/progress",
        "notifications/resources/updated",
        "notifications/order/paid",
      ]) {
        expect(readMessage({ method, params })).toMatchObject({ kind: "invalid" });
        expect(readMessage({ method, params: { _meta: { [EVENT_META_KEY]: params } } })).toMatchObject({
          kind: "invalid",
        });
      }
    }
  });

  test("never throws, whatever JSON arrives", () => {
    const methods = fc.oneof(
      fc.constantFrom<unknown>(
        ...TYPES.flatMap(methodsOf),
        "notifications/order/paid",
        "notifications/__proto__",
      ),
      fc.jsonValue(),
    );
    fc.assert(
      fc.property(fc.jsonValue(), methods, fc.jsonValue(), (message, method, params) => {
        for (const input of [
          message,
          { method, params },
          { method, params: { _meta: { [EVENT_META_KEY]: params } } },
        ]) {
          expect(readMessage(input).kind).toMatch(/^(event|hint|foreign|invalid)$/);
        }
        expect(readEvent(params).kind).toMatch(/^(event|invalid)$/);
        expect(fromCloudEvent(params).kind).toMatch(/^(event|invalid)$/);
      }),
      { numRuns: 2_000 },
    );
  });

  test("takes a foreign server's standard notification for a hint, never for an event", () => {
    expect(
      readMessage({ method: "notifications/resources/updated", params: { uri: "file:///a.txt" } }),
    ).toEqual({
      kind: "hint",
      method: "notifications/resources/updated",
      uri: "file:///a.txt",
    });
    expect(readMessage({ method: "notifications/resources/list_changed" })).toMatchObject({ kind: "hint" });
    expect(
      readMessage({ method: "notifications/message", params: { level: "info", data: "done" } }),
    ).toMatchObject({ kind: "hint" });
  });

  test.each([
    "notifications/initialized",
    "notifications/progress",
    "notifications/tasks/status",
    "tools/call",
    "ping",
  ])("leaves %s alone", (method) => {
    expect(readMessage({ method, params: { progressToken: 1 } })).toEqual({ kind: "foreign", method });
  });

  test("believes neither a type that contradicts the method nor a request", () => {
    const method = "notifications/job/progress";
    expect(readMessage({ method, params: { ...progress, type: "job.completed" } })).toMatchObject({
      kind: "invalid",
    });
    expect(readMessage({ method, params: progress, id: 0 })).toMatchObject({ kind: "invalid" });
  });

  test("keeps nothing of an event that its type does not name", () => {
    const params = JSON.parse(
      JSON.stringify({ ...progressParams, isAdmin: true }).replace("{", '{"__proto__":{"isAdmin":true},'),
    );
    const outcome = readMessage({ method: "notifications/job/progress", params });
    expect(outcome).toEqual({ kind: "event", event: progress });
    expect(outcome.kind === "event" && "isAdmin" in outcome.event).toBe(false);
  });

  test("says which field is wrong", () => {
    const problemOf = (params: object) => {
      const outcome = readMessage({ method: "notifications/job/progress", params });
      return outcome.kind === "invalid" ? outcome.problem : outcome.kind;
    };
    const { eventId: _eventId, ...anonymous } = progressParams;
    expect(problemOf(anonymous)).toBe("params.eventId is missing");
    expect(problemOf({ ...progressParams, percentage: 130 })).toBe("params.percentage must be at most 100");
    expect(problemOf({ ...progressParams, timestamp: "yesterday" })).toMatch(
      /^params.timestamp must be a time like/,
    );
  });
});

describe("the catalogue", () => {
  test("gives no payload a name of the envelope", () => {
    for (const type of TYPES) {
      expect(
        Object.keys(CATALOGUE[type].payload.properties).filter((name) => RESERVED_FIELDS.includes(name)),
      ).toEqual([]);
    }
  });

  test("gives each type a method of its own", () => {
    expect(new Set(TYPES.map(methodOf)).size).toBe(TYPES.length);
  });

  test("carries the event under _meta where a standard method would lose it", () => {
    fc.assert(
      fc.property(eventsOf("resource.updated"), (event) => {
        expect(toNotification(event, "c1")).toEqual({
          method: "notifications/resources/updated",
          params: { uri: event.resourceId, _meta: { [EVENT_META_KEY]: event, [CURSOR_META_KEY]: "c1" } },
        });
      }),
    );
  });
});
