/** What the memory engine holds. */
import type { TidingsEvent } from "../../model/event.ts";
import type { JobRecord, LogEntry } from "../engine.ts";
import { fromJson } from "../json.ts";
import type { Documents, KeptEvent, KeptJob } from "../transition.ts";
import { weighRow } from "../weight.ts";

export interface MemoryJob {
  kept: KeptJob;
  readonly digest: string;
  readonly key: string | undefined;
  readonly documents: { input?: string; checkpoint?: string; result?: string };
  /** JSON of each item. */
  readonly collections: Map<string, string[]>;
  endedAtMs?: number;
  isCompact?: boolean;
  /** Position of the newest event of this job that was removed. */
  trimmedThrough: number;
  /** What it counts without its events. */
  bytes: number;
}

/** One line of an owner's log. */
export interface LogLine {
  readonly position: number;
  readonly event: TidingsEvent;
  readonly body: string;
}

export interface KeptValue {
  readonly body: string;
  readonly expiresAtMs: number;
}

export interface Owner {
  readonly jobs: Map<string, MemoryJob>;
  readonly keys: Map<string, string>;
  readonly values: Map<string, KeptValue>;
  log: LogLine[];
  /** Lines of the log that concern no job, by `eventId`. */
  readonly published: Map<string, LogLine>;
  head: number;
  trimmedThrough: number;
  /** What all of it counts, see weight.ts. */
  bytes: number;
  /** Pending jobs, and the bytes of their inputs. */
  readonly waiting: { jobs: number; bytes: number };
}

export interface State {
  readonly owners: Map<string, Owner>;
  /** Jobs that have not ended, of all owners: what a claim looks at. */
  readonly open: Set<MemoryJob>;
  position: number;
}

export function createState(): State {
  return { owners: new Map(), open: new Set(), position: 0 };
}

export function ownerOf(state: State, name: string): Owner {
  let owner = state.owners.get(name);
  if (owner === undefined) {
    owner = {
      jobs: new Map(),
      keys: new Map(),
      values: new Map(),
      log: [],
      published: new Map(),
      head: 0,
      trimmedThrough: 0,
      bytes: 0,
      waiting: { jobs: 0, bytes: 0 },
    };
    state.owners.set(name, owner);
  }
  return owner;
}

export function findJob(state: State, owner: string, jobId: string): MemoryJob | undefined {
  return state.owners.get(owner)?.jobs.get(jobId);
}

/** The record without the parts that only `claim` gives. */
export function bareRecord({ kept }: MemoryJob): JobRecord {
  return kept.record;
}

export function fullRecord({ kept, documents }: MemoryJob): JobRecord {
  const { input, checkpoint, result } = documents;
  return {
    ...kept.record,
    ...(input === undefined ? {} : { input: fromJson(input) }),
    ...(checkpoint === undefined ? {} : { checkpoint: fromJson(checkpoint) }),
    ...(result === undefined ? {} : { result: fromJson(result) }),
  };
}

/** A fresh copy for each reader: what one does to it reaches nobody else. */
export function entryOf({ position, body }: LogLine): LogEntry {
  return { position, event: JSON.parse(body) as TidingsEvent };
}

/** Undefined removes it. */
export function setValue(owner: Owner, key: string, value: KeptValue | undefined): void {
  const before = owner.values.get(key);
  if (before !== undefined) owner.bytes -= weighRow(before.body);
  if (value !== undefined) owner.bytes += weighRow(value.body);
  if (value === undefined) owner.values.delete(key);
  else owner.values.set(key, value);
}

/** Adds to what a job and its owner count. */
export function addBytes(owner: Owner, job: MemoryJob, bytes: number): void {
  job.bytes += bytes;
  owner.bytes += bytes;
}

/** Counts a job that begins (1) or ceases (-1) to wait. */
export function countWaiting({ waiting }: Owner, { documents }: MemoryJob, step: number): void {
  waiting.jobs += step;
  waiting.bytes += step * Buffer.byteLength(documents.input ?? "");
}

export function keepDocuments(owner: Owner, job: MemoryJob, documents: Documents): void {
  for (const [name, body] of Object.entries(documents) as [keyof Documents, string][]) {
    addBytes(owner, job, Buffer.byteLength(body) - Buffer.byteLength(job.documents[name] ?? ""));
    job.documents[name] = body;
  }
}

/** The log of one owner. */
export function logOf(state: State, name: string) {
  const owner = ownerOf(state, name);
  return {
    add(events: readonly KeptEvent[]): LogEntry[] {
      return events.map((kept) => {
        state.position += 1;
        const line = { position: state.position, ...kept };
        owner.log.push(line);
        owner.bytes += weighRow(line.body);
        owner.head = line.position;
        if (kept.event.jobId === undefined) owner.published.set(kept.event.eventId, line);
        return entryOf(line);
      });
    },
    /** The entry that has this event's id already. */
    find({ event }: KeptEvent): LogEntry | undefined {
      const line = owner.published.get(event.eventId);
      return line === undefined ? undefined : entryOf(line);
    },
  };
}
