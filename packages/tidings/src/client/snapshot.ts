/** A job as a client holds it, and the reader of snapshots (`get_job`, `GET /jobs/{jobId}`, a stream's `snapshot`). */
import { CATALOGUE, ENVELOPE_FIELDS, type TidingsEvent } from "../model/event.ts";
import type { Job } from "../model/job.ts";
import { STATUSES } from "../model/job.ts";
import { reduce } from "../model/reduce.ts";
import type { Fields } from "../model/schema.ts";
import { findProblem, isRecord, object } from "../model/schema.ts";

/** The fold of a job's events, with what only a snapshot can say. */
export interface ClientJob extends Job {
  /** Numbers of the job's own type; only when a snapshot was read. */
  readonly counts?: Readonly<Record<string, number>>;
  /** The job that a retry started: follow it instead. Only when a snapshot was read. */
  readonly retriedAs?: string;
}

/** `reduce`, with what a snapshot said of the job: events say nothing of it. */
export function fold(job: ClientJob | undefined, event: TidingsEvent): ClientJob | undefined {
  const after: ClientJob | undefined = reduce(job, event);
  if (after === undefined || after === job) return after;
  const { counts, retriedAs } = job ?? {};
  if (counts === undefined && retriedAs === undefined) return after;
  return {
    ...after,
    ...(counts === undefined ? {} : { counts }),
    ...(retriedAs === undefined ? {} : { retriedAs }),
  };
}

export interface ReadSnapshot {
  readonly job: ClientJob;
  /** Undefined when the server does not say how far the snapshot reaches. */
  readonly seq: number | undefined;
  readonly cursor: string | undefined;
}

const { jobId: id, correlationId, seq: ordinal } = ENVELOPE_FIELDS;
const text = { type: "string" } as const;
const count = { type: "integer", minimum: 0 } as const;

const OPTIONAL: Fields = {
  jobType: text,
  stage: text,
  stageKey: text,
  etaSeconds: { type: "number", minimum: 0 },
  attempt: count,
  createdAt: text,
  startedAt: text,
  endedAt: text,
  summary: text,
  resultResourceId: text,
  error: CATALOGUE["job.failed"].payload.properties.error,
  canceledBy: text,
  reason: text,
  retryOf: id,
  retriedAs: id,
  correlationId,
};

const SNAPSHOT = object(
  {
    jobId: id,
    status: { type: "string", enum: STATUSES },
    percentage: CATALOGUE["job.progress"].payload.properties.percentage,
  },
  { ...OPTIONAL, seq: { ...ordinal, minimum: 0 }, cursor: text },
);

/** Reads a snapshot of any server; `problem` is a clause that names the field. Never throws. */
export function readSnapshot(value: unknown): ReadSnapshot | { readonly problem: string } {
  const problem = findProblem(SNAPSHOT, value, "snapshot");
  if (problem !== undefined || !isRecord(value)) return { problem: problem ?? "snapshot must be an object" };
  const job: Record<string, unknown> = {
    jobType: "",
    stage: "",
    stageKey: "",
    attempt: 0,
    failures: 0,
    createdAt: "",
    jobId: value.jobId,
    status: value.status,
    percentage: value.percentage,
    seq: value.seq ?? 0,
  };
  for (const name of Object.keys(OPTIONAL)) {
    if (Object.hasOwn(value, name) && value[name] !== undefined) job[name] = value[name];
  }
  if (isRecord(value.counts)) {
    job.counts = Object.fromEntries(Object.entries(value.counts).filter(([, n]) => Number.isFinite(n)));
  }
  job.updatedAt = job.endedAt ?? job.startedAt ?? job.createdAt;
  return {
    job: job as unknown as ClientJob,
    seq: value.seq as number | undefined,
    cursor: value.cursor as string | undefined,
  };
}
