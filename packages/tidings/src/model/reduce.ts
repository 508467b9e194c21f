/** The one fold from events to a job, used by the store, by clients and by every test. */
import { COMMAND_OF, isRefusal, TRANSITIONS } from "./command.ts";
import type { EventOf, JobEvent, TidingsEvent } from "./event.ts";
import type { Job, Status } from "./job.ts";
import { hasEnded } from "./job.ts";

/** Attempts handed back in a planned shutdown do not count against the job. */
const UNCOUNTED: readonly string[] = ["WORKER_STOPPED"];

/**
 * Folds one event into a job. Returns the very same object when the event may not change it: a transition that is
 * not allowed, progress below the shown value, another job's event, or one whose `seq` was folded already.
 *
 * Without a job, any event of the lifecycle begins one, so that a reader who joins late still has something to show.
 */
export function reduce(job: Job, event: TidingsEvent): Job;
export function reduce(job: Job | undefined, event: TidingsEvent): Job | undefined;
export function reduce(job: Job | undefined, event: TidingsEvent): Job | undefined {
  if (event.jobId === undefined || (job !== undefined && event.jobId !== job.jobId)) return job;
  if (job !== undefined && event.seq !== undefined && event.seq <= job.seq) return job;
  const lifecycle = asJobEvent(event);
  if (lifecycle === undefined) return job === undefined ? job : touched(job, event);
  const current = job ?? unborn(lifecycle);
  const command = COMMAND_OF[lifecycle.type];
  if (command === null) return job === undefined ? apply(current, lifecycle, "pending") : job;
  const outcome = TRANSITIONS[current.status][command];
  if (isRefusal(outcome)) return job;
  return apply(current, lifecycle, outcome);
}

function asJobEvent(event: TidingsEvent): JobEvent | undefined {
  return Object.hasOwn(COMMAND_OF, event.type) ? (event as JobEvent) : undefined;
}

/** What was certainly true before the first event that this reader saw. */
function unborn(event: JobEvent): Job {
  const started =
    event.type !== "job.created" && event.type !== "job.started" && event.type !== "job.canceled";
  return {
    jobId: event.jobId,
    jobType: "",
    status: started ? "running" : "pending",
    percentage: 0,
    stage: "",
    stageKey: "",
    attempt: started ? 1 : 0,
    failures: 0,
    createdAt: event.timestamp,
    updatedAt: event.timestamp,
    seq: 0,
    ...(event.correlationId === undefined ? {} : { correlationId: event.correlationId }),
  };
}

function touched(job: Job, event: TidingsEvent): Job {
  return { ...job, seq: event.seq ?? job.seq, updatedAt: later(job.updatedAt, event.timestamp) };
}

function apply(job: Job, event: JobEvent, status: Status): Job {
  const next = { ...touched(job, event), status };
  switch (event.type) {
    case "job.created":
      return {
        ...next,
        jobType: event.jobType,
        ...present("summary", event.summary),
        ...present("retryOf", event.retryOf),
      };
    case "job.started": {
      const { error: _, ...clean } = next;
      return {
        ...clean,
        attempt: event.attempt ?? job.attempt + 1,
        startedAt: job.startedAt ?? event.timestamp,
        ...present("summary", event.summary),
      };
    }
    case "job.progress":
      return event.percentage >= job.percentage ? withProgress(next, event) : job;
    case "job.retrying": {
      const counted = !UNCOUNTED.includes(event.error.code);
      return { ...withoutEta(next), error: event.error, failures: job.failures + (counted ? 1 : 0) };
    }
    case "job.partial":
      return hasEnded(job.status) ? next : { ...next, resultResourceId: event.resultResourceId };
    case "job.completed":
      return {
        ...ending(next, event.timestamp),
        percentage: 100,
        resultResourceId: event.resultResourceId,
        ...present("summary", event.summary),
      };
    case "job.failed":
      return { ...ending(next, event.timestamp), error: event.error, failures: job.failures + 1 };
    case "job.canceled":
      return {
        ...ending(next, event.timestamp),
        canceledBy: event.canceledBy,
        ...present("reason", event.reason),
      };
  }
}

function withProgress(job: Job, event: EventOf<"job.progress">): Job {
  return {
    ...withoutEta(job),
    percentage: Math.max(job.percentage, event.percentage),
    stage: event.stage,
    stageKey: event.stageKey ?? "",
    ...present("etaSeconds", event.etaSeconds),
  };
}

function ending(job: Job, at: string): Job {
  const { error: _, ...rest } = withoutEta(job);
  return { ...rest, endedAt: later(job.updatedAt, at) };
}

function withoutEta(job: Job): Job {
  const { etaSeconds: _, ...rest } = job;
  return rest;
}

function later(a: string, b: string): string {
  return a > b ? a : b;
}

function present<Name extends string, Value>(name: Name, value: Value | undefined): { [N in Name]?: Value } {
  return value === undefined ? {} : ({ [name]: value } as { [N in Name]: Value });
}
