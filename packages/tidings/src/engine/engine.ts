/**
 * The port between Tidings and a store. An engine keeps jobs, their events and what handlers add, and nothing else:
 * what may happen to a job is decided by the model. Each method is one transaction.
 *
 *   owner ─┬─ jobs ── items (append-only collections)      position: where an event stands in the log; rises in
 *          ├─ log of events, by position                             commit order, so that a reader who goes on
 *          └─ values, by key                                         after a position never misses one
 *
 * Durations only: an engine measures them on its own clock, so a stepped wall clock neither ends nor extends a lease.
 */
import type { Command, Refusal } from "../model/command.ts";
import type { TidingsEvent } from "../model/event.ts";
import type { Job, Status } from "../model/job.ts";

/** What a store keeps of one job. */
export interface JobRecord {
  readonly owner: string;
  /** The fold of the job's events. */
  readonly job: Job;
  /** Numbers of the job's own type, such as rows read; set by the handler. */
  readonly counts: Readonly<Record<string, number>>;
  /** What the job was started with. Like `checkpoint` and `result`, only in records that `claim` gives: the others stay small, see `Engine.document`. */
  readonly input?: unknown;
  /** What the handler saved last; undefined before the first checkpoint. */
  readonly checkpoint?: unknown;
  /** What the handler returned; undefined before the end. */
  readonly result?: unknown;
  readonly maxAttempts: number;
  /** The successor that a retry started. */
  readonly retriedAs?: string;
  /** Position before the job's first event: reading after it misses nothing. */
  readonly birth: number;
  /** Position of the job's last event. */
  readonly position: number;
  /** Rises with every claim; writes under an older number are stale. */
  readonly fence: number;
}

/** The larger parts of a job. */
export type DocumentName = "input" | "checkpoint" | "result";

/** One event in its owner's log. */
export interface LogEntry {
  readonly position: number;
  readonly event: TidingsEvent;
}

/** What one owner may have waiting, and keep. */
export interface QueueLimit {
  /** Pending jobs. */
  readonly jobs: number;
  /** Bytes of their inputs together. */
  readonly bytes: number;
  /** Bytes of everything that the owner keeps. A start beyond it removes the owner's jobs that ended first; it is refused when that is not enough. Default: no limit. */
  readonly storedBytes?: number;
}

/** How much one job may keep. Sizes are bytes of JSON. */
export interface ChangeLimits {
  /** Of one event; of what ends an attempt badly, whose text is short already, not. */
  readonly eventBytes: number;
  readonly checkpointBytes: number;
  readonly resultBytes: number;
  /** Of one item of a collection. */
  readonly itemBytes: number;
  /** In the whole story; the end of an attempt or of the job is always allowed. */
  readonly events: number;
}

/** Bytes of JSON of one event. */
export type EventLimit = Pick<ChangeLimits, "eventBytes">;

export interface StartRequest {
  readonly owner: string;
  readonly jobId: string;
  readonly jobType: string;
  readonly input: unknown;
  /** Digest of what was asked for; compared when `key` is known already. */
  readonly digest: string;
  /** Idempotency key, compared exactly within the owner. */
  readonly key?: string;
  readonly summary?: string;
  /** The job's numbers before its handler counted anything. Default: none. */
  readonly counts?: Readonly<Record<string, number>>;
  readonly correlationId?: string;
  /** An ended job of the same owner; in the same commit it learns its successor. */
  readonly retryOf?: string;
  readonly maxAttempts: number;
  /** Default: none. What exists already is found whatever the limit. */
  readonly queue?: QueueLimit;
  /** Default: none. A `job.created` beyond it is refused with PAYLOAD_TOO_LARGE: nothing is started. */
  readonly limits?: EventLimit;
}

export type StartOutcome =
  | { readonly outcome: "created"; readonly record: JobRecord }
  /** The key stands for this job already, or `retryOf` was retried already: nothing was started. */
  | { readonly outcome: "existing"; readonly record: JobRecord }
  /** The key stands for a job that was asked for with another digest. */
  | { readonly outcome: "conflict"; readonly record: JobRecord }
  /** `retryOf` has not ended. */
  | { readonly outcome: "not_ended"; readonly record: JobRecord }
  /** `retryOf` is unknown to this owner. */
  | { readonly outcome: "unknown" }
  /** The owner has as much waiting as `queue` allows. Nothing was started. */
  | { readonly outcome: "full"; readonly jobs: number; readonly bytes: number }
  /** The owner keeps `bytes`, which with the new input are more than `queue.storedBytes`, and has no ended job left to lose. Nothing was started. */
  | { readonly outcome: "over"; readonly bytes: number };

export interface ClaimRequest {
  /** Names the process that will hold the leases. */
  readonly holder: string;
  /** Holders that are certainly gone: their leases count as expired. */
  readonly goneHolders: readonly string[];
  readonly jobTypes: readonly string[];
  readonly leaseMs: number;
  readonly limit: number;
}

export interface ClaimOutcome {
  /** Running jobs that the holder now has the lease of, `job.started` written. Oldest first. */
  readonly records: readonly JobRecord[];
  /** Milliseconds until another job of these types may become due; undefined when none waits. */
  readonly nextInMs?: number;
}

export interface Lease {
  readonly owner: string;
  readonly jobId: string;
  readonly fence: number;
}

/** Values that belong to an owner, read and written inside one transaction. Values are JSON. */
export interface Transaction {
  get(key: string): Promise<unknown>;
  /** @param options - `expiresInMs`: from then on the value is not there any more. Default: it stays until it is deleted. */
  put(key: string, value: unknown, options?: { readonly expiresInMs?: number }): Promise<void>;
  delete(key: string): Promise<void>;
  /** Values whose keys begin with `prefix`, in order of their keys. */
  list(prefix: string, limit: number): Promise<readonly { readonly key: string; readonly value: unknown }[]>;
  /**
   * The engine's own handle, for statements on your own tables: a `node:sqlite` database; undefined in memory. Ask for it
   * anew for each statement and keep nothing of it: after the transaction it would write into somebody else's.
   */
  readonly sql: unknown;
}

/** A transaction that can also add to the job's collections. */
export interface JobTransaction extends Transaction {
  /** Adds JSON items to the end of a collection of the job, in order. */
  append(collection: string, items: readonly unknown[]): Promise<void>;
}

/** One change of one job: everything in it is committed together, or nothing is. */
export interface Change {
  readonly owner: string;
  readonly jobId: string;
  /** When given, the change is stale unless the job runs under this very claim. */
  readonly fence?: number;
  readonly command?: Command;
  /** Finite numbers; names that are left out keep theirs. */
  readonly counts?: Readonly<Record<string, number>>;
  readonly checkpoint?: unknown;
  /** Kept with `complete`. */
  readonly result?: unknown;
  /** Default: none. What goes beyond is refused with PAYLOAD_TOO_LARGE or TOO_MANY_EVENTS, and nothing is changed. */
  readonly limits?: ChangeLimits;
  /** Keep it short: other writers wait. */
  readonly write?: (transaction: JobTransaction) => void | Promise<void>;
}

export type ChangeOutcome =
  | { readonly outcome: "applied"; readonly record: JobRecord; readonly entries: readonly LogEntry[] }
  /** The claim named by `fence` is over. Nothing was changed. */
  | { readonly outcome: "stale"; readonly record: JobRecord }
  /** The state machine does not allow the command. Nothing was changed. */
  | { readonly outcome: "refused"; readonly refusal: Refusal; readonly record: JobRecord }
  | { readonly outcome: "unknown" };

/** Which events of an owner's log are meant; fields that are left out do not narrow it. Alternatives, not conditions: one match is enough. */
export interface EventFilter {
  readonly jobIds?: readonly string[];
  readonly correlationId?: string;
  readonly resourceIds?: readonly string[];
}

export interface Reading {
  /** In order of position. */
  readonly entries: readonly LogEntry[];
  /** Everything that matches up to here is in `entries`: go on after it. */
  readonly through: number;
  /** The owner's newest position. */
  readonly head: number;
  /** Events that match and stand after the given position are no longer kept. Filters other than the ids of known jobs count whatever the owner lost. */
  readonly truncated: boolean;
}

export interface ListRequest {
  readonly status?: Status;
  readonly correlationId?: string;
  /** Only jobs born before this position; undefined = from the newest. */
  readonly before?: number;
  readonly limit: number;
}

export interface PruneRequest {
  /** Removes jobs that ended at least this long ago, with everything of theirs, and events without a job that are as old. */
  readonly olderThanMs?: number;
  /** While the store holds more bytes: removes jobs that ended of the owners that keep the most, those that ended first, then their oldest events without a job. Who keeps no more than an equal share of the room loses nothing. */
  readonly maxBytes?: number;
  /** While an owner keeps more than `bytes`: removes the same of its own. Default `owner`: each. */
  readonly perOwner?: { readonly bytes: number; readonly owner?: string };
  /** Removes progress between the ends of stages from the stories of jobs that ended at least this long ago. */
  readonly compactAfterMs?: number;
  /** Keeps only this many of each owner's newest log entries; older ones go, except those of jobs that have not ended. */
  readonly keepEvents?: number;
}

export interface Engine {
  readonly name: string;
  /** What `openEngine` takes in another process of this machine to open the same store; left out when none can. */
  readonly location?: string;
  /** 16 random bytes, made with the store and kept in it: they seal cursors. */
  readonly secret: Uint8Array;

  /** Registers a job and its `job.created`, unless its key or its `retryOf` says that it exists. May remove ended jobs of the owner before: see `queue.storedBytes`. */
  start(request: StartRequest): Promise<StartOutcome>;
  /** Leases due jobs: those that wait, and those whose lease ran out (they get `job.retrying` first, or `job.failed` when their attempts are used up). */
  claim(request: ClaimRequest): Promise<ClaimOutcome>;
  /** Extends leases. Returns those that are no longer held, whose handlers must stop. */
  renew(leases: readonly Lease[], leaseMs: number): Promise<readonly Lease[]>;
  /** The one write to an existing job: row, events and what `write` adds, in one commit. */
  apply(change: Change): Promise<ChangeOutcome>;

  /** One job of this owner; undefined alike for unknown and foreign ids. */
  get(owner: string, jobId: string): Promise<JobRecord | undefined>;
  /** One of the larger parts of a job; undefined when it has none, and alike for unknown and foreign ids. */
  document(owner: string, jobId: string, name: DocumentName): Promise<unknown>;
  /** Jobs of this owner, newest first. */
  list(owner: string, request: ListRequest): Promise<readonly JobRecord[]>;
  /** Events of this owner's log after a position. */
  read(owner: string, filter: EventFilter, after: number, limit: number): Promise<Reading>;
  /** Items of a job's collection; `total` counts all of them. */
  items(
    owner: string,
    jobId: string,
    collection: string,
    offset: number,
    limit: number,
  ): Promise<{ readonly items: readonly unknown[]; readonly total: number }>;

  /** Adds events that concern no job to the owner's log. One whose `eventId` is there already is not added again. Returns one entry for each event, in order: where it stands now, or stood already. One beyond `limit` (default: none) is refused with PAYLOAD_TOO_LARGE, and all with it. */
  publish(owner: string, events: readonly TidingsEvent[], limit?: EventLimit): Promise<readonly LogEntry[]>;
  /** Runs `work` on the owner's values; what it throws rolls everything back and is thrown again. */
  transaction<T>(owner: string, work: (transaction: Transaction) => T | Promise<T>): Promise<T>;

  /** Calls `wake` soon after an event was committed for this owner (for anybody, when undefined), by any process, and when the engine is closed. Other writes of this process may wake too; values and items that another one wrote wake nobody. A hint without data: read the log. Returns the way to stop. */
  watch(owner: string | undefined, wake: () => void): () => void;
  /** The holders of all current leases. */
  holders(): Promise<readonly string[]>;
  /** Removes what need not be kept any longer, and values that expired. Readers that were behind it are told so by `truncated`. */
  prune(request: PruneRequest): Promise<{ readonly jobs: number; readonly events: number }>;
  /** Finishes what was begun and lets go of the store. Later calls fail with STORE_CLOSED. */
  close(): Promise<void>;
}
