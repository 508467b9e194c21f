/** One job's stream, as an inbox knows it. */
import { isRefusal, TRANSITIONS } from "../model/command.ts";
import type { JobEventType, TidingsEvent } from "../model/event.ts";
import type { Status } from "../model/job.ts";
import { hasEnded } from "../model/job.ts";
import type { Gap, Receipt } from "./receipt.ts";
import type { ClientJob } from "./snapshot.ts";

/** What is known of one job's stream. */
export interface Track {
  readonly jobId: string;
  job?: ClientJob;
  /** The last `seq` that was dealt with; undefined after `join`. */
  last: number | undefined;
  cursor: string | undefined;
  /** Events were lost before the next one: what it implies is taken for granted. */
  skipped: boolean;
  readonly held: Map<number, Held>;
  /** Set while a gap is timed or being repaired. */
  wait?: Wait | undefined;
}

/** An event before its turn. */
export interface Held {
  readonly event: TidingsEvent;
  readonly cursor: string | undefined;
  /** What became of it when its turn came. */
  receipt?: Receipt;
}

/** For a gap to be filled. */
export interface Wait {
  /** The last `seq` of the gap. */
  readonly to: number;
  /** Somebody was told, and may be repairing it. */
  readonly isTold: boolean;
  readonly cancel?: () => void;
}

/** The events that are missing before the first one that is held back. */
export function gapOf(track: Track): Gap {
  const from = (track.last ?? 0) + 1;
  const to = Math.min(...track.held.keys()) - 1;
  const { jobId, cursor } = track;
  return cursor === undefined ? { jobId, from, to } : { jobId, after: cursor, from, to };
}

/** The state that must have come before `type`, when the events that led there are lost; undefined after the end. */
export function bridge(job: ClientJob, type: JobEventType): ClientJob | undefined {
  if (hasEnded(job.status)) return undefined;
  const status: Status = type === "job.started" ? "pending" : "running";
  return { ...job, status, attempt: status === "running" ? Math.max(1, job.attempt) : job.attempt };
}

/** Whether an ignored event is progress below the shown value, and not a transition that is not allowed. */
export function isLowered(job: ClientJob | undefined, event: TidingsEvent): boolean {
  return job !== undefined && event.type === "job.progress" && !isRefusal(TRANSITIONS[job.status].progress);
}

/** The job after a snapshot: the same object when nothing is new, undefined when the snapshot contradicts the end. */
export function merge(track: Track, read: ClientJob, seq: number | undefined): ClientJob | undefined {
  const { job } = track;
  if (job === undefined) return read;
  if (hasEnded(job.status) && read.status !== job.status)
    return seq !== undefined && seq < job.seq ? job : undefined;
  const news = { counts: read.counts ?? job.counts, retriedAs: read.retriedAs ?? job.retriedAs };
  if (hasEnded(job.status) || (seq !== undefined && seq <= (track.last ?? 0))) {
    const same =
      job.retriedAs === news.retriedAs && JSON.stringify(job.counts) === JSON.stringify(news.counts);
    return same ? job : { ...job, ...defined(news) };
  }
  const shown = job.percentage > read.percentage ? job : read;
  const { percentage, stage, stageKey } = shown;
  return { ...read, ...defined(news), percentage, stage, stageKey, seq: Math.max(job.seq, read.seq) };
}

function defined<T extends object>(fields: T): { [Name in keyof T]?: NonNullable<T[Name]> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as never;
}
