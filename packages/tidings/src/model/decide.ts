/** The one place that turns a command into events. Pure: the time comes in, ids follow from the job and its seq. */
import type { Command, Refusal } from "./command.ts";
import { isRefusal, TRANSITIONS } from "./command.ts";
import type { TidingsEvent } from "./event.ts";
import type { Job } from "./job.ts";
import { hasEnded } from "./job.ts";

export type Decision = { readonly events: readonly TidingsEvent[] } | { readonly refused: Refusal };

export interface NewJob {
  readonly jobId: string;
  readonly jobType: string;
  readonly summary?: string;
  readonly correlationId?: string;
  readonly retryOf?: string;
}

const JOB_ENVELOPE: readonly string[] = ["eventId", "type", "timestamp", "jobId", "correlationId", "seq"];

type Draft = { readonly type: string; readonly [field: string]: unknown };

/**
 * The events that `command` adds to `job`, or why it may not.
 *
 * @param at - The store's time, RFC 3339 UTC. A clock that runs backwards cannot make the job's times do so.
 */
export function decide(job: Job, command: Command, at: string): Decision {
  const outcome = TRANSITIONS[job.status][command.type];
  if (isRefusal(outcome)) return { refused: outcome };
  return { events: envelop(job, draftsOf(job, command), at) };
}

/** The birth of a job: its first event. */
export function create(job: NewJob, at: string): TidingsEvent {
  const { jobId, jobType, summary, correlationId, retryOf } = job;
  const draft = { type: "job.created", jobType, ...defined({ summary, retryOf }) };
  return envelope({ jobId, correlationId, seq: 1 }, draft, at);
}

/** A job's events need no random id: the job's id cannot be guessed and `seq` is unique within it. */
export function eventIdOf(jobId: string, seq: number): string {
  return `evt_${jobId}_${seq}`;
}

function draftsOf(job: Job, command: Command): Draft[] {
  switch (command.type) {
    case "start":
      return [{ type: "job.started", ...defined({ summary: command.summary }), attempt: job.attempt + 1 }];
    case "progress":
      return rising(job, command.reports);
    case "retry":
      return [
        {
          type: "job.retrying",
          attempt: Math.max(job.attempt, 1),
          delaySeconds: command.delayMs / 1000,
          error: command.error,
        },
      ];
    case "complete": {
      const { summary, resultResourceId } = command;
      return [
        ...rising(job, command.reports),
        { type: "job.completed", ...defined({ summary }), resultResourceId },
      ];
    }
    case "fail":
      return [{ type: "job.failed", error: command.error }];
    case "cancel":
      return [
        { type: "job.canceled", canceledBy: command.canceledBy, ...defined({ reason: command.reason }) },
      ];
    case "inform":
      // A reader that saw the end of a job may have left: what counts as part of the results must precede it.
      return command.events
        .filter((event) => !(event.type === "job.partial" && hasEnded(job.status)))
        .map(({ "~custom": _, ...draft }: Draft) => draft as Draft);
  }
}

function rising(job: Job, reports: Extract<Command, { type: "progress" }>["reports"]): Draft[] {
  const drafts: Draft[] = [];
  let shown = job.percentage;
  for (const { percentage, stage, stageKey, etaSeconds } of reports) {
    if (!(percentage > shown && percentage <= 100)) continue;
    shown = percentage;
    drafts.push({ type: "job.progress", percentage, stage, stageKey, ...defined({ etaSeconds }) });
  }
  return drafts;
}

function envelop(job: Job, drafts: readonly Draft[], at: string): TidingsEvent[] {
  const time = at > job.updatedAt ? at : job.updatedAt;
  const { jobId, correlationId, seq } = job;
  return drafts.map((draft, index) => envelope({ jobId, correlationId, seq: seq + index + 1 }, draft, time));
}

function envelope(
  about: { jobId: string; correlationId?: string | undefined; seq: number },
  draft: Draft,
  at: string,
): TidingsEvent {
  const event: Record<string, unknown> = {
    eventId: eventIdOf(about.jobId, about.seq),
    type: draft.type,
    timestamp: at,
    jobId: about.jobId,
  };
  if (about.correlationId !== undefined) event.correlationId = about.correlationId;
  event.seq = about.seq;
  for (const name of Object.keys(draft)) {
    // A draft never says who it is: the envelope is the job's.
    if (JOB_ENVELOPE.includes(name)) continue;
    if (name === "__proto__") Object.defineProperty(event, name, { value: draft[name], enumerable: true });
    else event[name] = draft[name];
  }
  return event as unknown as TidingsEvent;
}

function defined<T extends Record<string, unknown>>(fields: T): Partial<T> {
  const present: Partial<T> = {};
  for (const name of Object.keys(fields) as (keyof T)[]) {
    if (fields[name] !== undefined) present[name] = fields[name];
  }
  return present;
}
