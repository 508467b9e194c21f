/**
 * A job as everybody sees it: the fold of its events.
 *
 *   pending ──start──▶ running ──complete──▶ completed
 *      ▲                 │ │ └──fail───────▶ failed
 *      └──────retry──────┘ └────cancel─────▶ canceled
 *      └───────────────────────cancel──────▶ canceled
 */
import type { ErrorInfo } from "./error.ts";

export const STATUSES = ["pending", "running", "completed", "failed", "canceled"] as const;
export type Status = (typeof STATUSES)[number];
export type EndStatus = "completed" | "failed" | "canceled";

export interface Job {
  readonly jobId: string;
  readonly jobType: string;
  readonly status: Status;
  /** 0 to 100; never falls, not after a retry, a restart or a reconnect. */
  readonly percentage: number;
  /** Text for people; empty before the first report. */
  readonly stage: string;
  /** Stable key of the stage, for translation; empty before the first report. */
  readonly stageKey: string;
  /** Seconds that the rest probably takes; only while running and only with evidence. */
  readonly etaSeconds?: number;
  /** How often a worker began; 0 before the first start. */
  readonly attempt: number;
  /** How many attempts failed or were lost. A planned shutdown does not count. */
  readonly failures: number;
  readonly createdAt: string;
  readonly startedAt?: string;
  readonly endedAt?: string;
  /** Time of the last event that was folded in; times of one job never run backwards. */
  readonly updatedAt: string;
  readonly summary?: string;
  readonly resultResourceId?: string;
  /** Why the job failed, or why the last attempt did while another one follows. */
  readonly error?: ErrorInfo;
  readonly canceledBy?: string;
  readonly reason?: string;
  readonly retryOf?: string;
  readonly correlationId?: string;
  /** `seq` of the last event that was folded in; 0 when none carried one. */
  readonly seq: number;
}

/** A copy of a job that its maker may still change. */
export type JobDraft = { -readonly [Field in keyof Job]: Job[Field] };

/** Field by field: spreading an object of so many fields takes fifty times as long, and every event copies its job. */
export function copyOf(job: Job): JobDraft {
  const { jobId, jobType, status, percentage, stage, stageKey } = job;
  const { attempt, failures, createdAt, updatedAt, seq } = job;
  const copy: JobDraft = {
    jobId,
    jobType,
    status,
    percentage,
    stage,
    stageKey,
    attempt,
    failures,
    createdAt,
    updatedAt,
    seq,
  };
  if (job.etaSeconds !== undefined) copy.etaSeconds = job.etaSeconds;
  if (job.startedAt !== undefined) copy.startedAt = job.startedAt;
  if (job.endedAt !== undefined) copy.endedAt = job.endedAt;
  if (job.summary !== undefined) copy.summary = job.summary;
  if (job.resultResourceId !== undefined) copy.resultResourceId = job.resultResourceId;
  if (job.error !== undefined) copy.error = job.error;
  if (job.canceledBy !== undefined) copy.canceledBy = job.canceledBy;
  if (job.reason !== undefined) copy.reason = job.reason;
  if (job.retryOf !== undefined) copy.retryOf = job.retryOf;
  if (job.correlationId !== undefined) copy.correlationId = job.correlationId;
  return copy;
}

/** Whether an event of this type ends its job's story. */
export function isEndType(type: string): boolean {
  return type === "job.completed" || type === "job.failed" || type === "job.canceled";
}

/** Whether nothing can move the job any more. */
export function hasEnded(status: Status): status is EndStatus {
  return status === "completed" || status === "failed" || status === "canceled";
}
