/** A job as it is shown to its owner: the answer of `get_job`, `GET /jobs/{jobId}` and every snapshot. */
import type { JobRecord } from "../engine/engine.ts";
import type { Job } from "../model/job.ts";

export interface JobSnapshot extends Omit<Job, "failures" | "updatedAt"> {
  /** Numbers of the job's own type. */
  readonly counts: Readonly<Record<string, number>>;
  /** The job that a retry started: follow it instead. */
  readonly retriedAs?: string;
  /** Reading after it gives what is not in the snapshot. */
  readonly cursor: string;
}

export function snapshotOf(record: JobRecord, cursor: string): JobSnapshot {
  const { failures: _failures, updatedAt: _updatedAt, ...job } = record.job;
  return {
    ...job,
    counts: record.counts,
    ...(record.retriedAs === undefined ? {} : { retriedAs: record.retriedAs }),
    cursor,
  };
}
