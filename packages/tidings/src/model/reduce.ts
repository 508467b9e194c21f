/** The one fold from events to a job, used by the store, by clients and by every test. */
import { COMMAND_OF, isRefusal, TRANSITIONS } from "./command.ts";
import type { JobEvent, TidingsEvent } from "./event.ts";
import type { Job, Status } from "./job.ts";
import { copyOf, hasEnded, type JobDraft } from "./job.ts";

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
  if (lifecycle === undefined) return job === undefined ? job : touchedBy(job, event);
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

/** A copy that knows the event's place and time. */
function touchedBy(job: Job, { seq, timestamp }: TidingsEvent): JobDraft {
  const next = copyOf(job);
  if (seq !== undefined) next.seq = seq;
  if (timestamp > job.updatedAt) next.updatedAt = timestamp;
  return next;
}

function apply(job: Job, event: JobEvent, status: Status): Job {
  if (event.type === "job.progress" && event.percentage < job.percentage) return job;
  const next = touchedBy(job, event);
  next.status = status;
  switch (event.type) {
    case "job.created":
      next.jobType = event.jobType;
      if (event.summary !== undefined) next.summary = event.summary;
      if (event.retryOf !== undefined) next.retryOf = event.retryOf;
      break;
    case "job.started":
      delete next.error;
      next.attempt = event.attempt ?? job.attempt + 1;
      next.startedAt ??= event.timestamp;
      if (event.summary !== undefined) next.summary = event.summary;
      break;
    case "job.progress":
      next.percentage = event.percentage;
      next.stage = event.stage;
      next.stageKey = event.stageKey ?? "";
      if (event.etaSeconds !== undefined) next.etaSeconds = event.etaSeconds;
      else delete next.etaSeconds;
      break;
    case "job.retrying":
      delete next.etaSeconds;
      next.error = event.error;
      if (!UNCOUNTED.includes(event.error.code)) next.failures += 1;
      break;
    case "job.partial":
      if (!hasEnded(job.status)) next.resultResourceId = event.resultResourceId;
      break;
    case "job.completed":
      end(next);
      next.percentage = 100;
      next.resultResourceId = event.resultResourceId;
      if (event.summary !== undefined) next.summary = event.summary;
      break;
    case "job.failed":
      end(next);
      next.error = event.error;
      next.failures += 1;
      break;
    case "job.canceled":
      end(next);
      next.canceledBy = event.canceledBy;
      if (event.reason !== undefined) next.reason = event.reason;
      break;
  }
  return next;
}

/** A time of its own: what is told behind the ending moves `updatedAt`, not the ending. */
function end(job: JobDraft): void {
  delete job.etaSeconds;
  delete job.error;
  job.endedAt = job.updatedAt;
}
