/**
 * The catalogue: every event type with its payload, its subject and its wire method. Adding an event type is one
 * entry here; types, JSON Schema files, validation and projections follow from it.
 *
 * Source of the names and payloads: docs/events.md.
 */
import type { Fields, Infer, ObjectSchema, Simplify, TextSchema } from "./schema.ts";
import { object } from "./schema.ts";

const leapYear = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)";
const monthAndDay =
  "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))";

/** RFC 3339 in UTC (`Z`, or a zero offset). Leap seconds are refused because no JavaScript date can hold one. */
export const timestamp = {
  type: "string",
  format: "date-time",
  pattern: `^(?:[0-9]{4}-${monthAndDay}|${leapYear}-02-29)[Tt](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:[Zz]|[+-]00:00)$`,
} as const satisfies TextSchema;

const id = { type: "string", minLength: 1, maxLength: 512 } as const satisfies TextSchema;
const text = { type: "string" } as const satisfies TextSchema;
const requiredText = { type: "string", minLength: 1 } as const satisfies TextSchema;
/** Whole numbers end where JavaScript can no longer tell two of them apart. */
const count = { type: "integer", minimum: 0, maximum: Number.MAX_SAFE_INTEGER } as const;
const ordinal = { type: "integer", minimum: 1, maximum: Number.MAX_SAFE_INTEGER } as const;
const seconds = { type: "number", minimum: 0 } as const;
const percentage = { type: "number", minimum: 0, maximum: 100 } as const;

const errorInfo = object(
  { code: requiredText, message: text, retryable: { type: "boolean" } },
  { hint: text },
);

/** The severities of MCP's `notifications/message` (RFC 5424). */
export const LOG_LEVELS = [
  "debug",
  "info",
  "notice",
  "warning",
  "error",
  "critical",
  "alert",
  "emergency",
] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** Which envelope field says what an event is about. */
export type Subject = "jobId" | "resourceId" | "source";

interface CatalogueEntry {
  /** The envelope fields that must be there. */
  readonly subject: Subject;
  /** Method of the JSON-RPC notification. */
  readonly method: string;
  readonly payload: ObjectSchema;
}

/** The closed part of the catalogue. Servers add types of their own with `defineEvent`. */
export const CATALOGUE = {
  "job.created": {
    subject: "jobId",
    method: "notifications/job/created",
    payload: object({ jobType: requiredText }, { summary: text, retryOf: id }),
  },
  "job.started": {
    subject: "jobId",
    method: "notifications/job/started",
    payload: object({}, { summary: text, attempt: ordinal }),
  },
  "job.progress": {
    subject: "jobId",
    method: "notifications/job/progress",
    payload: object({ percentage, stage: requiredText }, { stageKey: requiredText, etaSeconds: seconds }),
  },
  "job.retrying": {
    subject: "jobId",
    method: "notifications/job/retrying",
    payload: object({ attempt: ordinal, delaySeconds: seconds, error: errorInfo }),
  },
  "job.partial": {
    subject: "jobId",
    method: "notifications/job/partial",
    payload: object({ added: count, resultResourceId: id, cursor: requiredText }),
  },
  "job.completed": {
    subject: "jobId",
    method: "notifications/job/completed",
    payload: object({ resultResourceId: id }, { summary: text }),
  },
  "job.failed": {
    subject: "jobId",
    method: "notifications/job/failed",
    payload: object({ error: errorInfo }),
  },
  "job.canceled": {
    subject: "jobId",
    method: "notifications/job/canceled",
    payload: object({ canceledBy: requiredText }, { reason: text }),
  },
  "resource.updated": {
    subject: "resourceId",
    method: "notifications/resources/updated",
    payload: object({ changeType: requiredText }),
  },
  "resource.list_changed": {
    subject: "resourceId",
    method: "notifications/resources/list_changed",
    payload: object({ changeType: requiredText }),
  },
  "system.log": {
    subject: "source",
    method: "notifications/message",
    payload: object({ level: { type: "string", enum: LOG_LEVELS }, message: text }),
  },
  "system.heartbeat": {
    subject: "source",
    method: "notifications/system/heartbeat",
    payload: object({}, { cursor: requiredText }),
  },
  "system.degraded": {
    subject: "source",
    method: "notifications/system/degraded",
    payload: object({ message: text, since: timestamp }),
  },
  "system.restored": {
    subject: "source",
    method: "notifications/system/restored",
    payload: object({ since: timestamp }, { message: text }),
  },
} as const satisfies Record<string, CatalogueEntry>;

/** A type of the closed catalogue. */
export type CatalogueType = keyof typeof CATALOGUE;
/** The types that move a job's state machine. */
export type JobEventType = Extract<CatalogueType, `job.${string}`>;

/** The envelope's fields. `_meta` and `payload` are reserved with them: no payload may use these names. */
export const ENVELOPE_FIELDS = {
  eventId: id,
  type: requiredText,
  timestamp,
  jobId: id,
  resourceId: id,
  source: id,
  correlationId: id,
  seq: ordinal,
} as const satisfies Fields;

export const RESERVED_FIELDS: readonly string[] = [
  ...Object.keys(ENVELOPE_FIELDS),
  "payload",
  "_meta",
  "__proto__",
];

/** The fields that every event carries beside its payload. */
export interface Envelope {
  /** Unique per logical event; a repeat keeps it. */
  readonly eventId: string;
  readonly type: string;
  /** RFC 3339, UTC: when the server produced the event. */
  readonly timestamp: string;
  readonly jobId?: string;
  /** A URI. */
  readonly resourceId?: string;
  /** The component that speaks, for system events and events of the application. */
  readonly source?: string;
  /** The host's run or workflow that started the job; on every event of the job. */
  readonly correlationId?: string;
  /** Position in the job's stream, contiguous from 1. Absent on events that concern no job. */
  readonly seq?: number;
}

type PayloadOf<Type extends CatalogueType> = Infer<(typeof CATALOGUE)[Type]["payload"]>;
type SubjectOf<Type extends CatalogueType> = (typeof CATALOGUE)[Type]["subject"];

/** One event of the closed catalogue, flat: payload fields stand beside the envelope's. */
export type CatalogueEvent = {
  [Type in CatalogueType]: Simplify<
    Omit<Envelope, "type" | SubjectOf<Type>> & { readonly type: Type } & {
      readonly [Name in SubjectOf<Type>]: string;
    } & PayloadOf<Type>
  >;
}[CatalogueType];

/** An event of one type of the closed catalogue. */
export type EventOf<Type extends CatalogueType> = Extract<CatalogueEvent, { type: Type }>;
/** An event that moves a job's state machine. */
export type JobEvent = EventOf<JobEventType>;
/** An event of a type that a server added with `defineEvent`. */
export type CustomEvent = Envelope & { readonly [field: string]: unknown };
/** Any event, as it stands in the log and in a reader's hand. */
export type TidingsEvent = CatalogueEvent | CustomEvent;

/** An event before it has an id, a time and a place in a stream. */
export type DraftOf<Type extends CatalogueType> = Simplify<
  { readonly type: Type } & PayloadOf<Type> & { readonly [Name in Exclude<SubjectOf<Type>, "jobId">]: string }
>;
export type JobEventDraft = { [Type in JobEventType]: DraftOf<Type> }[JobEventType];
/** What a handler may add to its job's story beside the transitions: never a transition. */
export type InformationalDraft =
  | { [Type in Exclude<CatalogueType, JobEventType | "system.heartbeat">]: DraftOf<Type> }[Exclude<
      CatalogueType,
      JobEventType | "system.heartbeat"
    >]
  | DraftOf<"job.partial">
  | CustomDraft;
/** A draft made by calling a `defineEvent` definition: validated already. */
export interface CustomDraft {
  readonly type: `${string}.${string}`;
  readonly "~custom": true;
  readonly [field: string]: unknown;
}

/** Heartbeats belong to one stream: never stored, without `seq`, without an SSE id. Everything else is stored. */
export function isStored(type: string): boolean {
  return type !== "system.heartbeat";
}

export function isCatalogueType(type: string): type is CatalogueType {
  return Object.hasOwn(CATALOGUE, type);
}

/** Lower-case words joined by dots, at least two: `order.paid`. */
export const TYPE_PATTERN: RegExp = /^[a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)+$/;

/** The JSON-RPC method of an event type: the catalogue's, or `notifications/` + the words joined by slashes. */
export function methodOf(type: string): string {
  return isCatalogueType(type) ? CATALOGUE[type].method : `notifications/${type.replaceAll(".", "/")}`;
}
