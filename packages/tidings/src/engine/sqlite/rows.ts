/** Between rows and what the shared transitions work with. */
import type { TidingsEvent } from "../../model/event.ts";
import { hasEnded } from "../../model/job.ts";
import type { JobRecord, LogEntry } from "../engine.ts";
import { fromJson } from "../json.ts";
import {
  type Documents,
  type KeptEvent,
  type KeptJob,
  type Moment,
  placed,
  type Transition,
} from "../transition.ts";
import { weighRow } from "../weight.ts";
import type { Connection, Row } from "./driver.ts";
import { fromColumn, toColumn, toOptionalColumn } from "./text.ts";
import type { WriteConnection } from "./usage.ts";

export function readJob(row: Row): KeptJob {
  const record: JobRecord = {
    owner: fromColumn(row.owner as string),
    job: JSON.parse(row.job as string),
    counts: JSON.parse(row.counts as string),
    maxAttempts: row.max_attempts as number,
    ...(row.retried_as === null ? {} : { retriedAs: fromColumn(row.retried_as as string) }),
    birth: row.birth as number,
    position: row.position as number,
    fence: row.fence as number,
  };
  return {
    record,
    wait: { setAt: row.set_at as number, until: row.until as number },
    holder: row.holder === null ? undefined : fromColumn(row.holder as string),
  };
}

export function readEntry(row: Row): LogEntry {
  return { position: row.position as number, event: JSON.parse(row.body as string) as TidingsEvent };
}

export function findJob({ statement }: Connection, owner: string, jobId: string): KeptJob | undefined {
  const row = statement("job").get(toColumn(owner), toColumn(jobId));
  return row === undefined ? undefined : readJob(row);
}

/** The record with its input, checkpoint and result. */
export function withDocuments({ statement }: Connection, record: JobRecord): JobRecord {
  const documents: Record<string, unknown> = {};
  for (const row of statement("documents").all(toColumn(record.owner), toColumn(record.job.jobId))) {
    documents[row.name as keyof Documents] = fromJson(row.body as string);
  }
  return { ...record, ...documents };
}

export function insertEvents(
  { statement, usage }: WriteConnection,
  owner: string,
  events: readonly KeptEvent[],
): LogEntry[] {
  const ownerColumn = toColumn(owner);
  let bytes = 0;
  const entries = events.map(({ event, body }) => {
    bytes += weighRow(body);
    const { lastInsertRowid } = statement("insertEvent").run(
      ownerColumn,
      toOptionalColumn(event.jobId),
      event.seq ?? null,
      toOptionalColumn(event.resourceId),
      toOptionalColumn(event.correlationId),
      event.jobId === undefined ? toColumn(event.eventId) : null,
      event.jobId === undefined ? Date.parse(event.timestamp) : null,
      toColumn(event.type),
      body,
    );
    return { position: Number(lastInsertRowid), event };
  });
  if (bytes > 0) usage.add(ownerColumn, { bytes });
  return entries;
}

export function putDocuments(
  { statement, usage }: WriteConnection,
  record: JobRecord,
  documents: Documents,
): void {
  for (const [name, body] of Object.entries(documents)) {
    const key = [toColumn(record.owner), toColumn(record.job.jobId), name] as const;
    const before = Number(statement("documentBytes").get(...key)?.bytes ?? 0);
    statement("putDocument").run(...key, body);
    usage.add(key[0], { bytes: Buffer.byteLength(body) - before });
  }
}

/** Counts a job that begins or ceases to wait. */
function countWaiting({ statement, usage }: WriteConnection, before: JobRecord, after: JobRecord): void {
  const step = Number(after.job.status === "pending") - Number(before.job.status === "pending");
  if (step === 0) return;
  const owner = toColumn(after.owner);
  const inputBytes = Number(statement("inputBytes").get(owner, toColumn(after.job.jobId))?.input_bytes ?? 0);
  usage.add(owner, { waitingJobs: step, waitingBytes: step * inputBytes });
}

/** Writes what a transition made of a job: its events, its row, its documents. */
export function writeTransition(
  connection: WriteConnection,
  before: KeptJob,
  transition: Transition,
  moment: Moment,
): { readonly kept: KeptJob; readonly entries: readonly LogEntry[] } {
  const { statement } = connection;
  const { owner } = before.record;
  const entries = insertEvents(connection, owner, transition.events);
  const kept = placed(
    transition.kept,
    entries.map(({ position }) => position),
  );
  const { record, wait } = kept;
  const { job } = record;
  const story = [record.position, JSON.stringify(record.counts), JSON.stringify(job)] as const;
  const version = [
    toColumn(owner),
    toColumn(job.jobId),
    before.record.fence,
    before.record.position,
  ] as const;
  const sameState =
    job.status === before.record.job.status && record.fence === before.record.fence && wait === before.wait;
  const { changes } = sameState
    ? statement("updateStory").run(...story, ...version)
    : statement("updateState").run(
        job.status,
        record.fence,
        wait.setAt,
        wait.until,
        toOptionalColumn(kept.holder),
        hasEnded(job.status) ? moment.wallMs : null,
        ...story,
        ...version,
      );
  if (Number(changes) !== 1)
    throw new Error(`The row of job "${job.jobId}" changed inside its own transaction.`);
  putDocuments(connection, record, transition.documents);
  countWaiting(connection, before.record, record);
  return { kept, entries };
}
