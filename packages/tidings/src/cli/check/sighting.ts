/**
 * Recognises events in messages, whoever wrote them. Ours are read by the model's reader; in others the fields are
 * looked for by their usual names, in `params` and one level below (`payload`, `data`, `event`, `job`, `task`).
 *
 *   message ──┬── a standard MCP notification ─▶ task, progress, log, or nothing
 *             ├── ours (flat, nested, _meta, CloudEvent) ─▶ event
 *             └── any other notification that speaks of a job ─▶ event
 */
import { fromCloudEvent } from "../../model/projection/cloud-event.ts";
import type { ReadOutcome } from "../../model/projection/read.ts";
import { readEvent, readMessage } from "../../model/projection/read.ts";
import { isRecord } from "../../model/schema.ts";
import type { Arrival } from "./arrival.ts";
import { contentOf } from "./content.ts";
import type { Name, Word } from "./lifecycle-word.ts";
import { readName, wordsOf } from "./lifecycle-word.ts";

export interface Sighting {
  readonly arrival: Arrival;
  /** `task`: the standard's status notification of a task, which has no id by design. */
  readonly kind: "event" | "task" | "log";
  readonly method: string;
  /** The type, else the method. */
  readonly type: string;
  readonly word: Word | undefined;
  /** Whether only a status field says where the job stands: then the same may be said again. */
  readonly isState: boolean;
  readonly isSystem: boolean;
  readonly eventId: string | undefined;
  readonly jobId: string | undefined;
  /** The name under which the job's id stood. */
  readonly jobField: string | undefined;
  readonly timestamp: string | undefined;
  readonly seq: number | undefined;
  /** Of the whole job, 0 to 100 where the server keeps to that. */
  readonly percentage: number | undefined;
  /** A text for people, when there is one. */
  readonly text: string | undefined;
  /** Whether a field, and no text, says how the job stands. */
  readonly saysState: boolean;
  /** Whether the method and the type say nothing of what happened. */
  readonly isUnnamed: boolean;
  /** What the event says, without its id, times and place: equal for the same thing told again. */
  readonly content: string;
}

type Fields = Readonly<Record<string, unknown>>;

const JOB_FIELDS = [
  ..."jobId job_id jobID taskId task_id taskID runId run_id workflowId workflow_id".split(" "),
  ..."operationId operation_id executionId execution_id".split(" "),
];
const EVENT_FIELDS = "eventId event_id eventID messageId message_id notificationId uuid id".split(" ");
const TIME_FIELDS = [
  ..."timestamp time ts occurredAt occurred_at emittedAt emitted_at sentAt sent_at createdAt created_at".split(
    " ",
  ),
  ..."lastUpdatedAt updatedAt updated_at at date".split(" "),
];
const TYPE_FIELDS = ["type", "eventType", "event_type", "event", "name", "kind"];
const PERCENTAGE_FIELDS = ["percentage", "percent", "pct", "progressPercent", "progress_percent", "progress"];
const TEXT_FIELDS = ["message", "text", "summary", "stage", "description", "statusMessage"];
const INNER = ["payload", "data", "event", "job", "task", "params", "detail"];
const SYSTEM_WORDS: ReadonlySet<string> = new Set(
  "system heartbeat ping pong keepalive alive health log logs logging metric metrics degraded restored".split(
    " ",
  ),
);

const TASK_METHODS: readonly string[] = ["notifications/tasks", "notifications/tasks/status"];
/** Standard notifications that carry no event of a job; those that may carry one of ours were read before. */
const STANDARD =
  /^notifications\/(?:progress|cancelled|initialized|resources\/.+|tools\/.+|prompts\/.+|roots\/.+|subscriptions\/.+|elicitation\/.+|events\/(?!event$).+|dev\.tidings\/gap)$/;

/** The event in a message, or undefined when there is none. Never throws. */
export function sight(arrival: Arrival, knownJobs: ReadonlySet<string>): Sighting | undefined {
  const { message } = arrival;
  if (!isRecord(message)) return undefined;
  const outcome = readOurs(message);
  if (outcome.kind === "event") {
    const { event } = outcome;
    // What concerns no job has no story to judge.
    if (event.jobId === undefined) return undefined;
    const method = typeof message.method === "string" ? message.method : event.type;
    // The reader drops what an event's type does not name; in a system event that may be just what is wrong.
    const carried =
      event.type.startsWith("system.") && isRecord(message.params) ? bodiesOf(message.params) : [];
    return look(arrival, method, event.type, [event, ...carried], knownJobs, "event");
  }
  if (typeof message.method !== "string") {
    return message.jsonrpc === undefined && typeof message.type === "string"
      ? look(arrival, message.type, message.type, bodiesOf(message), knownJobs, "event")
      : undefined;
  }
  const { method, params } = message;
  if (!isRecord(params) || isRequest(message)) return undefined;
  if (method === "notifications/message" || method === "logging/message") {
    return look(arrival, method, method, bodiesOf(params), knownJobs, "log");
  }
  if (STANDARD.test(method) || STANDARD.test(`notifications/${method}`)) return undefined;
  const bodies = bodiesOf(params);
  const kind = TASK_METHODS.includes(method) ? "task" : "event";
  const type = TYPE_FIELDS.map((name) => params[name]).find(
    (value) => typeof value === "string" && value !== "",
  );
  return look(arrival, method, (type as string | undefined) ?? method, bodies, knownJobs, kind);
}

function readOurs(message: Record<string, unknown>): ReadOutcome {
  if (message.specversion !== undefined) return fromCloudEvent(message);
  return message.method === undefined && message.jsonrpc === undefined
    ? readEvent(message)
    : readMessage(message);
}

/** A notification with an `id` is a request by JSON-RPC; those in our namespaces are mistakes of their own. */
function isRequest(message: Record<string, unknown>): boolean {
  return message.id !== undefined && !String(message.method).startsWith("notifications/");
}

function bodiesOf(params: Fields): readonly Fields[] {
  const inner = INNER.map((name) => params[name]).filter(isRecord);
  return [params, ...inner];
}

function look(
  arrival: Arrival,
  method: string,
  type: string,
  bodies: readonly Fields[],
  knownJobs: ReadonlySet<string>,
  kind: Sighting["kind"],
): Sighting | undefined {
  const named = nameOf(method, type);
  const job = jobOf(bodies, knownJobs);
  const status = textAt(bodies, ["status", "state"]);
  const statusWord = named.isEmpty && status !== undefined ? readName(status).word : undefined;
  // "progress" with a status of "completed" is an ending; otherwise the name weighs more than the status.
  const said =
    named.word === undefined || named.word === "progress" ? (statusWord ?? named.word) : named.word;
  const isOfJob = named.isEmpty || named.word !== undefined || kind === "log";
  const percentage = isOfJob ? percentageIn(bodies) : undefined;
  const word = said ?? (percentage === undefined ? undefined : "progress");
  const isSystem = !named.namesJob && wordsOf(`${method} ${type}`).some((each) => SYSTEM_WORDS.has(each));
  const speaksOfJob =
    job !== undefined || named.namesJob || statusWord !== undefined || percentage !== undefined;
  if (!speaksOfJob && kind !== "log") return undefined;
  const eventId = pick(bodies, EVENT_FIELDS, (value) => isId(value) && String(value) !== job?.id);
  const timestamp = pick(bodies, TIME_FIELDS, isTime);
  const seq = pick(bodies, ["seq", "sequence", "sequenceNumber"], Number.isSafeInteger);
  const ownType = type === method ? "" : type;
  return {
    arrival,
    kind,
    method,
    type,
    word,
    isState: named.word === undefined || (named.word === "progress" && word !== "progress"),
    isSystem,
    eventId: eventId === undefined ? undefined : String(eventId.value),
    jobId: job?.id,
    jobField: job?.field,
    timestamp: timestamp === undefined ? undefined : String(timestamp.value),
    seq: seq?.value as number | undefined,
    percentage,
    text: textAt(bodies, kind === "log" ? ["data", ...TEXT_FIELDS] : TEXT_FIELDS),
    isUnnamed: named.isEmpty && named.word === undefined,
    saysState:
      named.word !== undefined ||
      readName(status ?? "-").word !== undefined ||
      percentageIn(bodies) !== undefined,
    content: `${word ?? ""} ${ownType} ${contentOf(bodies[0], [eventId?.field ?? "", timestamp?.field ?? ""])}`,
  };
}

/** The type speaks, and where it says nothing, the method does. */
function nameOf(method: string, type: string): Name {
  const [ofMethod, ofType] = [readName(method), readName(type)];
  return {
    word: ofType.isEmpty && ofType.word === undefined ? ofMethod.word : (ofType.word ?? undefined),
    namesJob: ofMethod.namesJob || ofType.namesJob,
    isEmpty: ofType.isEmpty && ofMethod.isEmpty,
  };
}

interface Picked {
  readonly field: string;
  readonly value: unknown;
}

function pick(
  bodies: readonly Fields[],
  names: readonly string[],
  accepts: (value: unknown) => boolean,
): Picked | undefined {
  for (const name of names) {
    for (const body of bodies) {
      if (Object.hasOwn(body, name) && accepts(body[name])) return { field: name, value: body[name] };
    }
  }
  return undefined;
}

function jobOf(
  bodies: readonly Fields[],
  knownJobs: ReadonlySet<string>,
): { id: string; field: string } | undefined {
  const named = pick(bodies, JOB_FIELDS, isId);
  if (named !== undefined) return { id: String(named.value), field: named.field };
  for (const body of bodies) {
    for (const [field, value] of Object.entries(body).slice(0, 100)) {
      if (isId(value) && knownJobs.has(String(value))) return { id: String(value), field };
    }
  }
  return undefined;
}

function isId(value: unknown): boolean {
  return (typeof value === "string" && value !== "") || Number.isSafeInteger(value);
}

function isTime(value: unknown): boolean {
  if (typeof value === "number") return value > 0 && Number.isFinite(value);
  return (
    typeof value === "string" && value.length < 100 && /\d{4}/.test(value) && !Number.isNaN(Date.parse(value))
  );
}

function textAt(bodies: readonly Fields[], names: readonly string[]): string | undefined {
  return pick(bodies, names, (value) => typeof value === "string" && value !== "")?.value as
    | string
    | undefined;
}

function percentageIn(bodies: readonly Fields[]): number | undefined {
  const isNumber = (value: unknown): boolean => typeof value === "number" && Number.isFinite(value);
  const plain = pick(bodies, PERCENTAGE_FIELDS, isNumber);
  if (plain !== undefined) {
    const total = plain.field === "progress" ? pick(bodies, ["total"], isNumber)?.value : undefined;
    return typeof total === "number" && total > 0
      ? ((plain.value as number) / total) * 100
      : (plain.value as number);
  }
  const inner = bodies.map((body) => body.progress).filter(isRecord);
  if (inner.length === 0) return undefined;
  const value = pick(inner, ["percentage", "percent", "value"], isNumber)?.value as number | undefined;
  if (value !== undefined) return value;
  const [current, total] = ["current", "total"].map(
    (name) => pick(inner, [name], isNumber)?.value as number | undefined,
  );
  return current !== undefined && total !== undefined && total > 0 ? (current / total) * 100 : undefined;
}
