/**
 * The published JSON Schema files, made from the model's catalogue:
 *
 *   <type>.json    `params` of one event type, in each spelling that the reader takes: flat, nested (`payload`),
 *                  and carried under `_meta["dev.tidings/event"]`
 *   message.json   a whole JSON-RPC notification that brings an event of the catalogue
 *
 * They use `pattern` and never `format`: in 2020-12 a format is an annotation that validators may ignore.
 */
import type { CatalogueType } from "../packages/tidings/src/model/event.ts";
import { CATALOGUE, ENVELOPE_FIELDS, TYPE_PATTERN } from "../packages/tidings/src/model/event.ts";
import { EVENT_META_KEY } from "../packages/tidings/src/model/projection/notification.ts";

type Json = { readonly [keyword: string]: unknown };

const DIALECT = "https://json-schema.org/draft/2020-12/schema";
const METHOD_PREFIX = "notifications/";
const TYPES = Object.keys(CATALOGUE) as CatalogueType[];

/** Other names under which a type's notification is known. */
const OTHER_METHODS: { readonly [type in CatalogueType]?: readonly string[] } = {
  "system.log": ["notifications/logging/message", "notifications/system/log"],
};

/** What a type says, in one sentence each. */
const DESCRIPTIONS: Readonly<Record<CatalogueType, string>> = {
  "job.created": "A job was registered.",
  "job.started": "A worker began an attempt of the job.",
  "job.progress": "The job got further; the percentage never falls.",
  "job.retrying": "An attempt ended early; another one follows after the delay.",
  "job.partial": "More results can be read; the rows themselves are never in the event.",
  "job.completed": "The job ended well; its result can be read.",
  "job.failed": "The job ended in an error; the hint says what to put right.",
  "job.canceled": "The job was stopped.",
  "resource.updated": "A resource changed: read it again.",
  "resource.list_changed": "The set of resources changed: list them again.",
  "system.log": "A line of log, for people who operate the server.",
  "system.heartbeat": "The server is alive; belongs to one stream and is never stored.",
  "system.degraded": "Something the server relies on answers badly; results may arrive later.",
  "system.restored": "What was degraded answers well again.",
};

/** Every published file: its name and its text. */
export function schemaFiles(): ReadonlyMap<string, string> {
  const files = new Map<string, string>();
  for (const type of TYPES) files.set(`${type}.json`, print(paramsFile(type)));
  files.set("message.json", print(messageFile()));
  return files;
}

/** Every method under which the reader knows a type. */
export function methodsOf(type: CatalogueType): readonly string[] {
  const full = [CATALOGUE[type].method, ...(OTHER_METHODS[type] ?? [])];
  return full.flatMap((method) => [method, method.slice(METHOD_PREFIX.length)]);
}

function paramsFile(type: CatalogueType): Json {
  return {
    $schema: DIALECT,
    $id: `urn:tidings:schema:${type}`,
    title: type,
    description: `${DESCRIPTIONS[type]} The params of ${CATALOGUE[type].method}: flat, nested, or carried under _meta.`,
    ...spellings({ $ref: "#/$defs/event" }, { $ref: "#/$defs/event" }),
    $defs: { event: eventSchema(type) },
  };
}

function messageFile(): Json {
  return {
    $schema: DIALECT,
    $id: "urn:tidings:schema:message",
    title: "A notification that brings an event",
    description:
      "A JSON-RPC notification with an event of the catalogue, or with any event carried under _meta. A standard MCP " +
      "notification without an event is a hint to read again, not an event; so is none of an unknown method.",
    type: "object",
    properties: {
      jsonrpc: { type: "string", const: "2.0" },
      method: { type: "string", enum: TYPES.flatMap(methodsOf) },
      params: { type: "object" },
      id: false,
      result: false,
      error: false,
    },
    required: ["method", "params"],
    allOf: TYPES.map((type) => ({
      if: { properties: { method: { enum: methodsOf(type) } } },
      // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
      then: {
        properties: {
          params: spellings(
            { $ref: `#/$defs/${type}` },
            { anyOf: [{ $ref: `#/$defs/${type}` }, { $ref: "#/$defs/carried" }] },
          ),
        },
      },
    })),
    $defs: {
      carried: {
        description: "An event that says its own type.",
        anyOf: [
          ...TYPES.map((type) => ({
            type: "object",
            properties: { type: true },
            required: ["type"],
            $ref: `#/$defs/${type}`,
          })),
          { $ref: "#/$defs/custom" },
        ],
      },
      custom: customSchema(),
      ...Object.fromEntries(
        TYPES.map((type) => [type, { description: DESCRIPTIONS[type], ...eventSchema(type) }]),
      ),
    },
  };
}

/** `params` that carry an event under `_meta`, else that are one. */
function spellings(event: Json, carried: Json): Json {
  return {
    type: "object",
    if: {
      properties: {
        _meta: { type: "object", properties: { [EVENT_META_KEY]: true }, required: [EVENT_META_KEY] },
      },
      required: ["_meta"],
    },
    // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
    then: { properties: { _meta: { type: "object", properties: { [EVENT_META_KEY]: carried } } } },
    else: event,
  };
}

/** One event, flat or nested; the type may be left out where something else says it. */
function eventSchema(type: CatalogueType): Json {
  const { subject, payload } = CATALOGUE[type];
  const { type: _, ...envelope } = ENVELOPE_FIELDS;
  const { properties, required } = published(payload);
  return {
    type: "object",
    properties: { ...(published(envelope) as Json), type: { type: "string", const: type } },
    required: ["eventId", "timestamp", subject],
    if: { properties: { payload: true }, required: ["payload"] },
    // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
    then: { properties: { payload: { type: "object", properties, required } } },
    else: { properties, required },
  };
}

/** An event of a type that a server added: the envelope; the payload has a schema of the server's own. */
function customSchema(): Json {
  return {
    description: "An event of a type that a server added to the catalogue; its payload is the server's own.",
    type: "object",
    properties: {
      ...(published(ENVELOPE_FIELDS) as Json),
      type: { type: "string", pattern: TYPE_PATTERN.source, not: { enum: TYPES } },
      payload: { type: "object" },
    },
    required: ["eventId", "type", "timestamp"],
    anyOf: (["jobId", "resourceId", "source"] as const).map((subject) => ({
      properties: { [subject]: true },
      required: [subject],
    })),
  };
}

/** A schema of the model without `format`, at any depth. */
function published<T>(schema: T): T {
  if (Array.isArray(schema)) return schema.map(published) as T;
  if (typeof schema !== "object" || schema === null) return schema;
  const isText = (schema as Json).type === "string";
  return Object.fromEntries(
    Object.entries(schema)
      .filter(([keyword]) => !(isText && keyword === "format"))
      .map(([keyword, value]) => [keyword, published(value)]),
  ) as T;
}

function print(schema: Json): string {
  return `${JSON.stringify(schema, null, 2)}\n`;
}
