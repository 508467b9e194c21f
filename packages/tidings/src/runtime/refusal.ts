/** Why something that was asked for is not done, in sentences. */
import type { StartOutcome } from "../engine/engine.ts";
import { TidingsError } from "../model/error.ts";
import type { Limits } from "./limits.ts";

/** What the caller named, for the sentence. */
export interface Asked {
  /** The job to retry. */
  readonly jobId?: string;
  /** The idempotency key. */
  readonly key?: string;
}

type Refused = Exclude<StartOutcome, { outcome: "created" | "existing" }>;

export function refusalOf(outcome: Refused, asked: Asked, limits: Limits): TidingsError {
  switch (outcome.outcome) {
    case "conflict": {
      const { jobId } = outcome.record.job;
      return new TidingsError(
        "IDEMPOTENCY_CONFLICT",
        `The idempotency key "${asked.key}" already stands for job ${jobId}, which was started with other arguments; nothing was started.`,
        { hint: "Use a new key, or repeat the arguments of the first call.", data: { jobId } },
      );
    }
    case "not_ended":
      return new TidingsError(
        "JOB_NOT_ENDED",
        `Job ${asked.jobId} is ${outcome.record.job.status}; only an ended job can be retried.`,
        { hint: "Wait for its end, or cancel it first." },
      );
    case "unknown":
      return jobNotFound();
    case "full":
      return queueFull(outcome, limits);
    case "over":
      return ownerFull(outcome.bytes, limits.storedBytesPerOwner);
  }
}

function queueFull({ jobs, bytes }: { jobs: number; bytes: number }, limits: Limits): TidingsError {
  const { queuedJobsPerOwner, queuedBytesPerOwner } = limits;
  const [has, limit] =
    jobs >= queuedJobsPerOwner
      ? [`${jobs} jobs are waiting`, queuedJobsPerOwner]
      : [`${bytes} bytes of input are waiting in ${jobs} jobs`, queuedBytesPerOwner];
  return new TidingsError("QUEUE_FULL", `${has} already, and at most ${limit} may; nothing was started.`, {
    hint: "Wait until some of them run, or cancel them.",
    data: { limit, retryAfterMs: 5_000 },
  });
}

function ownerFull(bytes: number, limit: number): TidingsError {
  return new TidingsError(
    "OWNER_FULL",
    `Jobs that have not ended and values keep ${bytes} bytes already, and at most ${limit} may be kept; nothing was started.`,
    {
      hint: "Wait until some of the jobs end, cancel them, or start with a smaller input.",
      data: { limit, bytes, retryAfterMs: 5_000 },
    },
  );
}

export function badCursor(): TidingsError {
  return new TidingsError(
    "BAD_CURSOR",
    "This cursor cannot be honoured: it was not issued for this, or it was changed.",
    {
      hint: "Pass a cursor exactly as you got it, or leave it out to begin at the beginning.",
    },
  );
}

export function jobNotFound(): TidingsError {
  return new TidingsError("JOB_NOT_FOUND", "No such job: it never existed, it expired, or it is not yours.", {
    hint: "Check the jobId, or list your jobs.",
  });
}
