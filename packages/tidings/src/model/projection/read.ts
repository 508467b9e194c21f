/**
 * The one reader of events, whatever spelling they travel in. Tolerant about the spelling (flat, nested, under
 * `_meta`, method without its prefix, `type` left out), strict about what the event says.
 */
import { payloadOf } from "../define-event.ts";
import type { CatalogueType, TidingsEvent } from "../event.ts";
import { CATALOGUE, ENVELOPE_FIELDS, isCatalogueType, TYPE_PATTERN } from "../event.ts";
import type { ObjectSchema } from "../schema.ts";
import { findProblem, isRecord, object } from "../schema.ts";
import { CURSOR_META_KEY, EVENT_META_KEY } from "./notification.ts";

export type ReadOutcome =
  | { readonly kind: "event"; readonly event: TidingsEvent; readonly cursor?: string }
  /** A standard MCP notification without an event: something may be worth reading again. Never folded into a job. */
  | { readonly kind: "hint"; readonly method: string; readonly uri?: string }
  /** Not ours: some other protocol message. */
  | { readonly kind: "foreign"; readonly method: string }
  /** Ours by name but not valid; `problem` is a clause that names the field. */
  | { readonly kind: "invalid"; readonly problem: string };

const PREFIX = "notifications/";

const TYPE_OF_METHOD: ReadonlyMap<string, CatalogueType> = new Map([
  ...(Object.keys(CATALOGUE) as CatalogueType[]).map((type) => [CATALOGUE[type].method, type] as const),
  ["notifications/logging/message", "system.log"],
  ["notifications/system/log", "system.log"],
]);

/** The standard methods that foreign servers send without any event. */
const STANDARD_TYPES: readonly string[] = ["resource.updated", "resource.list_changed", "system.log"];

/** Reads a JSON-RPC message. Never throws. */
export function readMessage(message: unknown): ReadOutcome {
  if (!isRecord(message)) return invalid("the message must be an object");
  const { method, params } = message;
  if (typeof method !== "string") return invalid("the message has no method");
  if (message.jsonrpc !== undefined && message.jsonrpc !== "2.0") return invalid('jsonrpc must be "2.0"');
  const type = typeOf(method);
  for (const field of ["id", "result", "error"]) {
    if (Object.hasOwn(message, field) && message[field] !== undefined) {
      return type === undefined
        ? { kind: "foreign", method }
        : invalid(`a notification has no top-level ${field}`);
    }
  }
  if (type === undefined) return { kind: "foreign", method };
  if (!isRecord(params)) {
    return STANDARD_TYPES.includes(type) && params === undefined
      ? { kind: "hint", method }
      : invalid("params must be an object");
  }
  const carried = isRecord(params._meta) ? params._meta[EVENT_META_KEY] : undefined;
  if (carried !== undefined) {
    if (!isRecord(carried)) return invalid(`params._meta["${EVENT_META_KEY}"] must be an object`);
    // A resource update of job://… carries any event of that job, so the carried event says its own type.
    return withCursor(readEvent({ type, ...carried }), params);
  }
  const claimed = ["eventId", "timestamp", "resourceId", "type", "payload"].some((name) =>
    Object.hasOwn(params, name),
  );
  if (STANDARD_TYPES.includes(type) && !claimed) {
    return typeof params.uri === "string"
      ? { kind: "hint", method, uri: params.uri }
      : { kind: "hint", method };
  }
  if (!isCatalogueType(type) && !Object.hasOwn(params, "eventId")) return { kind: "foreign", method };
  if (params.type !== undefined && params.type !== type) {
    // What is no text is not printed either: an object may refuse to become one.
    const said = typeof params.type === "string" ? `"${params.type}"` : "no text";
    return invalid(`params.type is ${said}, but the method says "${type}"`);
  }
  return readEvent({ ...params, type });
}

/** Reads the `params` of an event, flat or nested, which must say their `type`. Never throws. */
export function readEvent(params: unknown): ReadOutcome {
  if (!isRecord(params)) return invalid("params must be an object");
  const { type } = params;
  if (typeof type !== "string") return invalid("params.type is missing");
  const nested = Object.hasOwn(params, "payload");
  if (nested && !isRecord(params.payload)) return invalid("params.payload must be an object");
  const envelopeProblem = findProblem(envelopeSchemaOf(type), params);
  if (envelopeProblem !== undefined) return invalid(envelopeProblem);
  const payload = nested ? (params.payload as Record<string, unknown>) : params;
  const event = only(params, ENVELOPE_NAMES);
  if (isCatalogueType(type)) {
    const { payload: schema } = CATALOGUE[type];
    const problem = findProblem(schema, payload, nested ? "params.payload" : "params");
    if (problem !== undefined) return invalid(problem);
    return withCursor(toEvent(only(payload, PAYLOAD_NAMES[type], event)), params);
  }
  if (!TYPE_PATTERN.test(type)) return invalid(`params.type "${type}" is not made of words joined by dots`);
  if (params.jobId === undefined && params.resourceId === undefined && params.source === undefined) {
    return invalid("params must say what the event is about: jobId, resourceId or source");
  }
  return withCursor(toEvent({ ...event, ...payloadOf(payload) }), params);
}

function toEvent(fields: Record<string, unknown>): ReadOutcome {
  return { kind: "event", event: fields as unknown as TidingsEvent };
}

const ENVELOPE_NAMES = Object.keys(ENVELOPE_FIELDS);
const PAYLOAD_NAMES = Object.fromEntries(
  Object.entries(CATALOGUE).map(([type, { payload }]) => [type, Object.keys(payload.properties)]),
) as Record<string, readonly string[]> as Readonly<Record<CatalogueType, readonly string[]>>;
const SUBJECT_SCHEMAS = new Map<string, ObjectSchema>();

function envelopeSchemaOf(type: string): ObjectSchema {
  const subject = isCatalogueType(type) ? CATALOGUE[type].subject : "";
  let schema = SUBJECT_SCHEMAS.get(subject);
  if (schema === undefined) {
    const { eventId, timestamp, ...rest } = ENVELOPE_FIELDS;
    const about = subject === "" ? {} : { [subject]: ENVELOPE_FIELDS[subject as "jobId"] };
    schema = object({ eventId, timestamp, ...about }, rest);
    SUBJECT_SCHEMAS.set(subject, schema);
  }
  return schema;
}

/** The event type that a method names; undefined when it cannot name one. */
function typeOf(method: string): string | undefined {
  const full = method.startsWith(PREFIX) ? method : PREFIX + method;
  const known = TYPE_OF_METHOD.get(full);
  if (known !== undefined) return known;
  if (!method.startsWith(PREFIX)) return undefined;
  const type = method.slice(PREFIX.length).replaceAll("/", ".");
  return TYPE_PATTERN.test(type) ? type : undefined;
}

/** Adds the named fields, where they are there, to an object. The names are ours. */
function only(
  fields: Record<string, unknown>,
  names: readonly string[],
  to: Record<string, unknown> = {},
): Record<string, unknown> {
  for (const name of names) {
    if (Object.hasOwn(fields, name) && fields[name] !== undefined) to[name] = fields[name];
  }
  return to;
}

function withCursor(outcome: ReadOutcome, params: Record<string, unknown>): ReadOutcome {
  if (outcome.kind !== "event" || outcome.cursor !== undefined || !isRecord(params._meta)) return outcome;
  const cursor = params._meta[CURSOR_META_KEY];
  return typeof cursor === "string" ? { ...outcome, cursor } : outcome;
}

function invalid(problem: string): ReadOutcome {
  return { kind: "invalid", problem };
}
