/** CloudEvents 1.0 in JSON (https://github.com/cloudevents/spec): for buses and sinks that speak it. */
import { payloadOf } from "../define-event.ts";
import type { TidingsEvent } from "../event.ts";
import { isRecord } from "../schema.ts";
import type { ReadOutcome } from "./read.ts";
import { readEvent } from "./read.ts";

export interface CloudEvent {
  readonly specversion: "1.0";
  readonly id: string;
  readonly source: string;
  readonly type: string;
  readonly time: string;
  /** What the event is about: the job, else the resource. */
  readonly subject?: string;
  readonly datacontenttype: "application/json";
  readonly data: Readonly<Record<string, unknown>>;
  /** Extension attributes; names must be lower case without separators. */
  readonly jobid?: string;
  readonly resourceid?: string;
  readonly correlationid?: string;
  readonly seq?: number;
}

/**
 * @param source - A URI reference that names this server, for events that do not carry a source of their own.
 */
export function toCloudEvent(event: TidingsEvent, source = "tidings"): CloudEvent {
  const subject = event.jobId ?? event.resourceId;
  return {
    specversion: "1.0",
    id: event.eventId,
    source: event.source ?? source,
    type: event.type,
    time: event.timestamp,
    ...(subject === undefined ? {} : { subject }),
    datacontenttype: "application/json",
    data: payloadOf(event),
    ...(event.jobId === undefined ? {} : { jobid: event.jobId }),
    ...(event.resourceId === undefined ? {} : { resourceid: event.resourceId }),
    ...(event.correlationId === undefined ? {} : { correlationid: event.correlationId }),
    ...(event.seq === undefined ? {} : { seq: event.seq }),
  };
}

/** Reads what `toCloudEvent` wrote, as strictly as any other spelling. */
export function fromCloudEvent(value: unknown): ReadOutcome {
  if (!isRecord(value) || value.specversion !== "1.0")
    return { kind: "invalid", problem: "this is no CloudEvent 1.0" };
  if (!isRecord(value.data)) return { kind: "invalid", problem: "data must be an object" };
  const type = value.type;
  const aboutSource = typeof type === "string" && !type.startsWith("job.") && !type.startsWith("resource.");
  return readEvent({
    eventId: value.id,
    type,
    timestamp: value.time,
    jobId: value.jobid ?? (typeof type === "string" && type.startsWith("job.") ? value.subject : undefined),
    resourceId:
      value.resourceid ??
      (typeof type === "string" && type.startsWith("resource.") ? value.subject : undefined),
    source: aboutSource ? value.source : undefined,
    correlationId: value.correlationid,
    seq: value.seq,
    payload: value.data,
  });
}
