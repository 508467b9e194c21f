/** What `createTidings` returns: everything that a server or a program may ask of its jobs. Cursors are texts here. */
import type { EventFilter, PruneRequest, Transaction } from "../engine/engine.ts";
import type { CustomDraft, DraftOf, TidingsEvent } from "../model/event.ts";
import type { Status } from "../model/job.ts";
import type { AnyJobDefinition, JobDefinition } from "./define-job.ts";
import type { HealthReport } from "./health.ts";
import type { JobSnapshot } from "./snapshot.ts";

/** An event and where it stands. */
export interface Delivery {
  readonly event: TidingsEvent;
  /** Going on after it gives what comes next, on any path. */
  readonly cursor: string;
}

export interface StartOptions {
  /** Whose job it is. Default `local`. */
  readonly owner?: string;
  /** The same key and input of the same owner give the same job. */
  readonly idempotencyKey?: string;
  /** The host's run or workflow; repeated on every event. */
  readonly correlationId?: string;
}

export interface StartAnswer {
  readonly jobId: string;
  readonly status: Status;
  /** Reading after it gives the whole story, from `job.created` on. */
  readonly cursor: string;
}

export interface EventPage {
  readonly events: readonly Delivery[];
  /** Go on after it. */
  readonly cursor: string;
  /** Events between `after` and this page are no longer kept: read a snapshot. */
  readonly truncated: boolean;
  /** More events stand ready. */
  readonly hasMore: boolean;
}

/** An event, or the explicit sign that events before the next one are no longer kept. */
export type TailItem =
  | ({ readonly kind: "event" } & Delivery)
  | { readonly kind: "gap"; readonly cursor: string };

export interface SubscribeRequest extends EventFilter {
  readonly owner: string;
  /** Cursor; undefined = from the beginning, `{ from: "now" }` = only what comes. */
  readonly after?: string | { readonly from: "now" };
}

export interface TailRequest extends SubscribeRequest {
  readonly signal: AbortSignal;
}

/** Who is told of a log without asking: a stream among thousands. */
export interface Subscriber {
  /**
   * Takes items in order; everybody is given the same objects. Returns how many it took: fewer than it was given means
   * that it is full, and is told nothing more until it calls `resume`.
   */
  take(items: readonly TailItem[]): number;
  /** The log cannot be read any more, or `take` threw. The last call. */
  fail(error: unknown): void;
}

export interface Subscription {
  /** There is room again. */
  resume(): void;
  stop(): void;
}

export interface Tidings {
  /** Which engine keeps the jobs: `memory`, `sqlite`, … */
  readonly store: string;
  readonly jobs: ReadonlyMap<string, AnyJobDefinition>;

  /**
   * Registers a job; returns once that is durable. It runs as soon as a worker is free.
   *
   * @throws TidingsError BAD_INPUT, IDEMPOTENCY_CONFLICT, JOB_TYPE_UNKNOWN, PAYLOAD_TOO_LARGE, QUEUE_FULL, OWNER_FULL,
   *   STORE_FULL, STORE_BUSY, STORE_FAILED, STORE_CLOSED
   */
  start<Input, Output>(
    job: JobDefinition<string, Input, Output>,
    input: Input,
    options?: StartOptions,
  ): Promise<StartAnswer>;
  /** @throws TidingsError JOB_NOT_FOUND, alike for unknown, foreign and expired jobs. */
  get(owner: string, jobId: string): Promise<JobSnapshot>;
  /** The same, with undefined in place of the error. */
  find(owner: string, jobId: string): Promise<JobSnapshot | undefined>;
  /** Newest first. @throws TidingsError BAD_CURSOR */
  list(
    owner: string,
    request?: {
      readonly status?: Status;
      readonly correlationId?: string;
      readonly cursor?: string;
      readonly limit?: number;
    },
  ): Promise<{ readonly jobs: readonly JobSnapshot[]; readonly nextCursor?: string }>;
  /** Stops a job; one that has ended stays as it is. @throws TidingsError JOB_NOT_FOUND; PAYLOAD_TOO_LARGE for the reason */
  cancel(
    owner: string,
    jobId: string,
    by: { readonly canceledBy: string; readonly reason?: string },
  ): Promise<JobSnapshot>;
  /** Starts an ended job again as a new one; asked twice, it answers with the same successor. @throws TidingsError JOB_NOT_FOUND, JOB_NOT_ENDED */
  retry(owner: string, jobId: string): Promise<StartAnswer>;
  /** What the handler returned, once the job is completed. @throws TidingsError JOB_NOT_FOUND */
  result(owner: string, jobId: string): Promise<unknown>;
  /** Items of a job's collection, before its end too. @throws TidingsError JOB_NOT_FOUND */
  items(
    owner: string,
    jobId: string,
    collection: string,
    range: { readonly offset: number; readonly limit: number },
  ): Promise<{ readonly items: readonly unknown[]; readonly total: number }>;

  /** One page of the owner's log. @throws TidingsError BAD_CURSOR */
  read(
    request: EventFilter & { readonly owner: string; readonly after?: string; readonly limit?: number },
  ): Promise<EventPage>;
  /** The newest cursor of an owner: what comes after it has not happened yet. */
  head(owner: string): Promise<string>;
  /**
   * Reads the log and goes on as it grows, at the reader's own pace. Ends when the signal aborts. Checks the cursor
   * before the first item. The newest events that anybody follows stand in memory: they are told even when the store
   * has just lost them, where `read` says `truncated`; a gap is told for what neither has. @throws TidingsError BAD_CURSOR
   */
  tail(request: TailRequest): AsyncIterable<TailItem>;
  /**
   * Tells a subscriber of the log as it grows. Costs next to nothing while nothing happens: use it for many readers, and
   * `tail` for a few. @throws TidingsError BAD_CURSOR
   */
  subscribe(request: SubscribeRequest, subscriber: Subscriber): Promise<Subscription>;
  /** Calls `wake` soon after an event was committed for the owner, by any process; sometimes for less. Returns the way to stop. */
  watch(owner: string, wake: () => void): () => void;

  /** Adds an event that concerns no job to the owner's log: one of your own types, a changed resource, a system event. @throws TidingsError BAD_EVENT, PAYLOAD_TOO_LARGE */
  publish(
    event: PublishDraft,
    about: {
      readonly owner?: string;
      readonly source?: string;
      readonly resourceId?: string;
      readonly correlationId?: string;
      readonly eventId?: string;
    },
  ): Promise<Delivery>;
  /** Removes what need not be kept any longer, of all owners; happens by itself as well, see `retentionMs`. Returns what was removed. */
  prune(request: PruneRequest): Promise<{ readonly jobs: number; readonly events: number }>;
  /** Whether the store can be written. While it cannot, starts fail with STORE_FULL and running jobs wait. */
  health(): HealthReport;
  /** Reads and writes the owner's values in one transaction. */
  transaction<T>(owner: string, work: (transaction: Transaction) => T | Promise<T>): Promise<T>;
  /** Seals an offset for paging through something of an owner; `purpose` ties the cursor to that thing. */
  sealPage(owner: string, purpose: string, offset: number): string;
  /** @throws TidingsError BAD_CURSOR */
  openPage(owner: string, purpose: string, cursor: string): number;
  /**
   * Hands running jobs back at once, waits for their handlers up to `graceMs` (default 5 s) and closes the store. The store
   * has `graceMs`, at least 1 s, to take jobs back and 10 s to close, in the machine's time.
   *
   * @throws TidingsError STORE_FAILED when it does not close.
   */
  close(options?: { readonly graceMs?: number }): Promise<void>;
}

export type PublishDraft =
  | CustomDraft
  | DraftOf<"resource.updated">
  | DraftOf<"resource.list_changed">
  | DraftOf<"system.log">
  | DraftOf<"system.degraded">
  | DraftOf<"system.restored">;
