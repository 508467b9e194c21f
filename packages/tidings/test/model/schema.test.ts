import { readFileSync } from "node:fs";
import type { ValidateFunction } from "ajv/dist/2020.js";
import { Ajv2020 } from "ajv/dist/2020.js";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { methodsOf, schemaFiles } from "../../../../scripts/schema-files.ts";
import type { CatalogueType, TidingsEvent } from "../../src/model/event.ts";
import { CATALOGUE, isCatalogueType, methodOf } from "../../src/model/event.ts";
import { toNested } from "../../src/model/projection/nested.ts";
import { EVENT_META_KEY, toNotification } from "../../src/model/projection/notification.ts";
import { readMessage } from "../../src/model/projection/read.ts";
import { anyEvent, eventsOf, TYPES } from "./generate.ts";

const published = (name: string) => readFileSync(new URL(`../../schema/${name}`, import.meta.url), "utf8");

// Strict, and without any format: what is refused is refused by the file alone.
const ajv = new Ajv2020({ strict: true });
const paramsSchemas = new Map<string, ValidateFunction>(
  TYPES.map((type) => [type, ajv.compile(JSON.parse(published(`${type}.json`)))]),
);
const messageSchema = ajv.compile(JSON.parse(published("message.json")));

const schemaAccepts = (type: CatalogueType, params: unknown) => paramsSchemas.get(type)?.(params) === true;
const readerAccepts = (type: CatalogueType, params: unknown) => {
  const outcome = readMessage({ method: methodOf(type), params });
  return outcome.kind === "event" && outcome.event.type === type;
};

/** JSON that means something to the reader, put where it does not belong. */
const strange = fc.oneof(
  { weight: 1, arbitrary: fc.jsonValue() },
  {
    weight: 2,
    arbitrary: fc.constantFrom<unknown>(
      null,
      true,
      "",
      "x",
      "\ud800",
      "😀".repeat(512),
      "😀".repeat(513),
      "x".repeat(513),
      -1,
      0,
      0.5,
      1,
      100,
      100.00001,
      1e308,
      "40",
      [],
      {},
      "job.progress",
      "order.paid",
      "2026-12-01T10:15:00Z",
      "2026-02-29T10:15:00Z",
      "2024-02-29T10:15:00.123456789z",
      "1900-02-29T00:00:00Z",
      "2026-12-01T24:00:00Z",
      "2026-12-01T10:15:60Z",
      "2026-12-01T10:15:00+01:00",
      "2026-12-01t10:15:00-00:00",
      "2026-12-01 10:15:00Z",
      "2026-04-31T00:00:00Z",
      "2026-12-01T10:15:00Z\n",
      "yesterday",
    ),
  },
);

const fieldNames = fc.constantFrom(
  "eventId",
  "type",
  "timestamp",
  "jobId",
  "resourceId",
  "source",
  "correlationId",
  "seq",
  "payload",
  "_meta",
  "uri",
  "job_id",
  "percentage",
  "stage",
  "stageKey",
  "etaSeconds",
  "attempt",
  "delaySeconds",
  "error",
  "added",
  "cursor",
  "changeType",
  "level",
  "message",
  "since",
  "canceledBy",
  "reason",
  "summary",
  "retryOf",
  "jobType",
  "resultResourceId",
  "__proto__",
  "constructor",
  "toString",
  EVENT_META_KEY,
  "code",
  "retryable",
  "hint",
);

type Edit = {
  readonly path: readonly number[];
  readonly drop: boolean;
  readonly name: string;
  readonly value: unknown;
};

const edits = fc.array(
  fc.record({
    path: fc.array(fc.nat(3), { maxLength: 3 }),
    drop: fc.boolean(),
    name: fieldNames,
    value: strange,
  }),
  { maxLength: 3 },
);

/** Drops or overwrites a field somewhere inside, also `__proto__` as an own field, as JSON.parse would make it. */
function edit(value: unknown, { path, drop, name, value: put }: Edit): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return put;
  const fields = Object.entries(value);
  const inner = fields.filter(([, field]) => typeof field === "object" && field !== null);
  const [step, ...rest] = path;
  const chosen = step === undefined ? undefined : inner[step];
  if (chosen !== undefined) {
    return Object.fromEntries(
      fields.map(([key, field]) => [
        key,
        key === chosen[0] ? edit(field, { path: rest, drop, name, value: put }) : field,
      ]),
    );
  }
  const dropped = drop ? (fields[(step ?? 0) % Math.max(1, fields.length)]?.[0] ?? name) : name;
  const kept = fields.filter(([key]) => key !== dropped);
  return Object.fromEntries(drop ? kept : [...kept, [name, put]]);
}

const SPELLINGS = {
  flat: (event: TidingsEvent) => ({ ...event }),
  nested: (event: TidingsEvent) => toNested(event).params,
  canonical: (event: TidingsEvent) => toNotification(event, "some-cursor").params,
  carried: (event: TidingsEvent) => ({ uri: "job://job_1", _meta: { [EVENT_META_KEY]: event } }),
  "carried and nested": (event: TidingsEvent) => ({ _meta: { [EVENT_META_KEY]: toNested(event).params } }),
} as const;

const spellings = fc.constantFrom(...(Object.keys(SPELLINGS) as (keyof typeof SPELLINGS)[]));

describe("the published schema files", () => {
  test("are what the catalogue says", () => {
    for (const [name, text] of schemaFiles()) expect(published(name), name).toBe(text);
  });

  test("name the dialect, themselves and what they describe", () => {
    for (const [name, text] of schemaFiles()) {
      expect(JSON.parse(text)).toMatchObject({
        $schema: "https://json-schema.org/draft/2020-12/schema",
        $id: `urn:tidings:schema:${name.replace(/\.json$/, "")}`,
        title: expect.stringMatching(/./),
        description: expect.stringMatching(/./),
      });
    }
  });

  test.each(TYPES)("accept every valid %s in every spelling, and so does the reader", (type) => {
    fc.assert(
      fc.property(eventsOf(type), spellings, (event, spelling) => {
        const params = SPELLINGS[spelling](event);
        expect(schemaAccepts(type, params)).toBe(true);
        expect(readerAccepts(type, params)).toBe(true);
      }),
      { numRuns: 200 },
    );
  });

  test.each(TYPES)("refuse exactly the params of %s that the reader refuses", (type) => {
    let refused = 0;
    fc.assert(
      fc.property(eventsOf(type), spellings, edits, (event, spelling, changes) => {
        const params: unknown = changes.reduce<unknown>(edit, SPELLINGS[spelling](event));
        const verdict = readerAccepts(type, params);
        if (!verdict) refused += 1;
        expect(schemaAccepts(type, params)).toBe(verdict);
      }),
      { numRuns: 1_000 },
    );
    expect(refused).toBeGreaterThan(50);
  });

  test.each(TYPES)("leave out no required field of %s", (type) => {
    const { subject, payload } = CATALOGUE[type];
    fc.assert(
      fc.property(eventsOf(type), (event) => {
        for (const name of ["eventId", "timestamp", subject, ...payload.required]) {
          const { [name]: _, ...rest } = event as Record<string, unknown>;
          expect(schemaAccepts(type, rest), `${type} without ${name}`).toBe(false);
          expect(readerAccepts(type, rest), `${type} without ${name}`).toBe(false);
        }
      }),
      { numRuns: 20 },
    );
  });

  test("refuse the params of every other type", () => {
    fc.assert(
      fc.property(anyEvent, fc.constantFrom(...TYPES), (event, type) => {
        expect(schemaAccepts(type, event)).toBe(event.type === type);
      }),
    );
  });

  test("refuse an infinite number, as JSON such as 1e400 becomes one", () => {
    const params = JSON.parse(
      '{"eventId":"e","timestamp":"2026-12-01T10:15:00Z","jobId":"j","percentage":10,"stage":"s","etaSeconds":1e400}',
    );
    expect(schemaAccepts("job.progress", params)).toBe(false);
    expect(readerAccepts("job.progress", params)).toBe(false);
  });

  test("do not take a field from __proto__", () => {
    const params = JSON.parse(
      '{"__proto__":{"eventId":"e"},"timestamp":"2026-12-01T10:15:00Z","jobId":"j","percentage":10,"stage":"s"}',
    );
    expect(schemaAccepts("job.progress", params)).toBe(false);
    expect(readerAccepts("job.progress", params)).toBe(false);
  });
});

describe("the schema of whole messages", () => {
  const envelopes = fc.record(
    {
      jsonrpc: fc.constantFrom<unknown>("2.0", "2.0", "2.0", "1.0", null),
      id: fc.constantFrom<unknown>(1, null, "a"),
      result: fc.constant({}),
      error: fc.constant(null),
    },
    { requiredKeys: [], noNullPrototype: true },
  );
  const methods = fc.oneof(
    { weight: 3, arbitrary: fc.constantFrom(...TYPES.flatMap(methodsOf)) },
    {
      weight: 1,
      arbitrary: fc.constantFrom<unknown>("notifications/progress", "tools/call", "", 7, "job.progress"),
    },
  );
  const agree = (message: Record<string, unknown>) => {
    const outcome = readMessage(message);
    // A type that a server added has no entry here, unless the message carries it under a standard method.
    const known = methodsKnown.has(message.method as string);
    expect(messageSchema(message)).toBe(known && outcome.kind === "event");
  };
  const methodsKnown = new Set(TYPES.flatMap(methodsOf));

  test("accepts what the reader takes for an event, under every spelling of the method", () => {
    fc.assert(
      fc.property(anyEvent, spellings, (event, spelling) => {
        for (const method of methodsOf(event.type as CatalogueType)) {
          const message = { jsonrpc: "2.0", method, params: SPELLINGS[spelling](event) };
          expect(messageSchema(message), method).toBe(true);
          expect(readMessage(message).kind, method).toBe("event");
        }
      }),
    );
  });

  test("refuses exactly what the reader refuses or takes for a mere hint", () => {
    fc.assert(
      fc.property(
        anyEvent,
        spellings,
        edits,
        envelopes,
        methods,
        fc.boolean(),
        (event, spelling, changes, head, method, own) => {
          const params = changes.reduce<unknown>(edit, SPELLINGS[spelling](event));
          agree({ ...head, method: own ? methodOf(event.type) : method, params });
        },
      ),
      { numRuns: 5_000 },
    );
  });

  test("accepts an event of a server's own type where a resource update carries it", () => {
    const carried = (event: unknown) => ({
      method: "notifications/resources/updated",
      params: { uri: "job://job_1", _meta: { [EVENT_META_KEY]: event } },
    });
    const paid = { eventId: "e1", type: "order.paid", timestamp: "2026-12-01T10:15:00Z", paymentId: "p1" };
    for (const event of [
      { ...paid, source: "shop" },
      { ...paid, jobId: "job_1" },
      paid,
      { ...paid, jobId: 7 },
      { ...paid, source: "shop", type: "Order.Paid" },
      { ...paid, source: "shop", type: "job.progress" },
      { ...paid, source: "shop", payload: [] },
    ]) {
      agree(carried(event));
    }
    expect(messageSchema(carried({ ...paid, source: "shop" }))).toBe(true);
  });
});

interface Example {
  readonly name: string;
  readonly canonical?: boolean;
  readonly hint?: boolean;
  readonly message: { readonly method: string; readonly params: Record<string, unknown> };
}

describe("the wire examples", () => {
  const { accept, reject } = JSON.parse(
    readFileSync(new URL("../fixtures/wire-examples.json", import.meta.url), "utf8"),
  ) as { accept: Example[]; reject: Example[] };
  const events = accept.filter((example) => example.hint !== true);

  test.each(events)("accepted: $name", ({ message }) => {
    const outcome = readMessage(message);
    expect(outcome).toMatchObject({ kind: "event" });
    expect(messageSchema(message)).toBe(true);
    const type = outcome.kind === "event" ? outcome.event.type : "";
    expect(isCatalogueType(type) && schemaAccepts(type, message.params)).toBe(true);
  });

  test.each(accept.filter((example) => example.hint === true))("$name", ({ message }) => {
    expect(readMessage(message)).toEqual({ kind: "hint", method: message.method, uri: message.params.uri });
    expect(messageSchema(message)).toBe(false);
  });

  test.each(events.filter((example) => example.canonical))("written exactly so: $name", ({ message }) => {
    const outcome = readMessage(message);
    if (outcome.kind !== "event") throw new Error(`not read as an event: ${JSON.stringify(outcome)}`);
    const written = { jsonrpc: "2.0", ...toNotification(outcome.event) };
    expect(written).toStrictEqual(message);
  });

  test.each(reject)("refused: $name", ({ message }) => {
    expect(readMessage(message)).toEqual({ kind: "invalid", problem: expect.stringMatching(/\w/) });
    expect(messageSchema(message)).toBe(false);
  });
});
