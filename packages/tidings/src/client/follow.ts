/**
 * Follows one job to its end: opens a source, feeds an inbox, opens again after the last cursor whenever the
 * connection breaks, goes silent or skips something. The one file that decides when to connect.
 */
import type { Clock, Random } from "../model/clock.ts";
import type { EventDefinition, EventFrom } from "../model/define-event.ts";
import { TidingsError } from "../model/error.ts";
import type { CatalogueEvent, TidingsEvent } from "../model/event.ts";
import { hasEnded } from "../model/job.ts";
import { browserClock, browserRandom } from "./browser-clock.ts";
import type { Connection, ConnectionInput } from "./connection.ts";
import { advance, CONNECTING } from "./connection.ts";
import type { FollowedInbox, Inbox } from "./inbox.ts";
import { createInbox } from "./inbox.ts";
import type { Gap } from "./receipt.ts";
import type { ClientJob } from "./snapshot.ts";
import { unreachable } from "./source/failure.ts";
import type { Pull } from "./source/pull.ts";
import { createPull } from "./source/pull.ts";
import type { Source, SourceItem } from "./source/source.ts";
import type { SseOptions } from "./source/sse.ts";
import { createSseSource } from "./source/sse.ts";
import { createBell, pause } from "./source/wait.ts";

export interface FollowOptions<Events extends readonly EventDefinition<string, never>[] = readonly []> {
  readonly jobId: string;
  /** A cursor: only what comes after it. Default: the whole story. */
  readonly after?: string;
  /** A snapshot to begin with; what comes after it is followed. */
  readonly snapshot?: unknown;
  /** Types of your own that the story may hold: they are checked and typed. */
  readonly events?: Events;
  /** Ends the iteration, without an error. */
  readonly signal?: AbortSignal;
  /** Where the events go too, for a store; what it knows already is not told again. Default: one of its own. */
  readonly inbox?: Inbox;
  /** Events are no longer kept by the server; the job was set to this state and the story goes on behind it. */
  readonly onSnapshot?: (job: ClientJob) => void;
  /** Events did not come, although they were asked for again. The story goes on without them. */
  readonly onGap?: (gap: Gap) => void;
  readonly onConnection?: (connection: Connection) => void;
  /** How long nothing may arrive before UNREACHABLE is thrown, in milliseconds. Default: never. */
  readonly giveUpAfterMs?: number;
  /** How long an event may wait for those before it until they are asked for again, in milliseconds. Default 250. */
  readonly holdMs?: number;
  readonly clock?: Clock;
  readonly random?: Random;
}

/** What to follow, and by which path: plain HTTP at `url`, or any source. */
export type FollowTarget<Events extends readonly EventDefinition<string, never>[] = readonly []> =
  FollowOptions<Events> & (SseOptions | { readonly source: Source });

/** The part of a job's definition that a follower needs; `defineJob` gives it. */
export interface FollowedJob<Type extends string = string> {
  readonly type: Type;
}

/** What the iteration gives. A type that is listed nowhere still comes: leave it to `default`. */
export type StoryEvent<
  Events extends readonly EventDefinition<string, never>[] = readonly [],
  Type extends string = string,
> =
  | Exclude<CatalogueEvent, { type: "job.created" }>
  | (Extract<CatalogueEvent, { type: "job.created" }> & { readonly jobType: Type })
  | EventFrom<Events[number]>;

/** A job's story as it is told. Iterate it once; leaving the loop closes the connection. */
export interface Story<Event = StoryEvent> extends AsyncIterable<Event> {
  /** How the job stands, as far as the story was told; the final state after the loop. */
  readonly job: ClientJob | undefined;
  /** Following after it goes on from here, on any path. */
  readonly cursor: string | undefined;
  readonly connection: Connection;
}

/**
 * Follows a job: `for await (const event of follow({ url, jobId })) …`. Every event comes once, in order, from the
 * beginning (or `after`) to the job's end, across lost connections, restarts of the server and repeats; then the
 * iteration ends and `story.job` holds the final state.
 *
 * @throws TidingsError (while iterating) JOB_NOT_FOUND, BAD_CURSOR and whatever else the server says cannot be
 * retried; UNREACHABLE after `giveUpAfterMs`; BAD_INPUT when the job is of another type than the one named.
 */
export function follow<const Events extends readonly EventDefinition<string, never>[] = readonly []>(
  target: FollowTarget<Events>,
): Story<StoryEvent<Events>>;
export function follow<
  Type extends string,
  const Events extends readonly EventDefinition<string, never>[] = readonly [],
>(job: FollowedJob<Type>, target: FollowTarget<Events>): Story<StoryEvent<Events, Type>>;
export function follow(
  first: FollowedJob | FollowTarget<readonly EventDefinition<string, never>[]>,
  second?: FollowTarget<readonly EventDefinition<string, never>[]>,
): Story<TidingsEvent> {
  const target = second ?? (first as FollowTarget<readonly EventDefinition<string, never>[]>);
  const source = "source" in target ? target.source : createSseSource(target);
  return tell(source, target, second === undefined ? undefined : (first as FollowedJob).type);
}

const IDLE_MS = 90_000;

function tell(
  source: Source,
  options: FollowOptions<readonly EventDefinition<string, never>[]>,
  jobType: string | undefined,
): Story<TidingsEvent> {
  const { jobId, signal, clock = browserClock, random = browserRandom, holdMs = 250 } = options;
  const { giveUpAfterMs = Number.POSITIVE_INFINITY } = options;
  const inbox = (options.inbox ??
    createInbox({ clock, holdMs: Number.POSITIVE_INFINITY, events: options.events ?? [] })) as FollowedInbox;
  const bell = createBell(clock);
  /** Applied and not yet given to the reader. */
  const ready: TidingsEvent[] = [];
  let connection = CONNECTING;
  /** Gaps that the inbox went over, and that are not told yet. */
  const passed: Gap[] = [];
  /** The inbox cannot wait much longer for a missing event. */
  let isUrgent = false;
  /** The highest `seq` that the source gave at all, and by this connection. */
  let seen = 0;
  let reached = 0;
  /** What misses up to this `seq` was asked for again. */
  let askedUpTo = 0;
  let lastHeard = clock.monotonic();

  const known = inbox.get(jobId) !== undefined;
  if (options.snapshot !== undefined) inbox.restore(options.snapshot);
  if (!known && options.after !== undefined) inbox.join(jobId, options.after);

  function input(event: ConnectionInput): void {
    const next = advance(connection, event, random.fraction());
    if (next === connection) return;
    connection = next;
    options.onConnection?.(next);
  }

  function isOver(): boolean {
    const status = inbox.get(jobId)?.status;
    return signal?.aborted === true || (status !== undefined && hasEnded(status));
  }

  /** What the reader has not got yet. */
  function takeReady(): TidingsEvent[] {
    for (const gap of passed.splice(0)) options.onGap?.(gap);
    const actual = inbox.get(jobId)?.jobType ?? "";
    if (jobType !== undefined && actual !== "" && actual !== jobType) {
      throw new TidingsError("BAD_INPUT", `The job "${jobId}" is a "${actual}", not a "${jobType}".`, {
        hint: "Follow it with its own definition, or without one.",
      });
    }
    return ready.splice(0);
  }

  /** Goes on without what the source passed over a second time. Whether something is to be asked for again. */
  function asksAgain(): boolean {
    for (;;) {
      const hole = inbox.missing(jobId);
      if (hole === undefined) return false;
      if (hole > askedUpTo) return true;
      if (hole >= reached) return false;
      giveUp();
    }
  }

  function giveUp(): boolean {
    const gap = inbox.release(jobId);
    if (gap !== undefined) options.onGap?.(gap);
    return gap !== undefined;
  }

  function take(item: SourceItem): void {
    switch (item.kind) {
      case "open":
        input({ type: item.by === "push" ? "pushed" : "polled" });
        return;
      case "patience":
        return;
      case "event":
        if (item.event.jobId === jobId) reached = Math.max(reached, item.event.seq ?? 0);
        seen = Math.max(seen, reached);
        inbox.accept(item.event, item.cursor);
        break;
      case "snapshot": {
        const receipt = inbox.restore(item.snapshot);
        if (receipt.kind === "restored" && receipt.job.jobId === jobId) options.onSnapshot?.(receipt.job);
        break;
      }
      case "invalid":
        // The event that it was meant to be shows as a hole in the story.
        inbox.refuse(item.problem);
        break;
      case "alive":
      case "end":
        break;
    }
    input({ type: "received" });
  }

  /** Reads one connection until it breaks. Answers with what is known about that. */
  async function* readOnce(
    pull: Pull,
  ): AsyncGenerator<TidingsEvent, { failure?: TidingsError; atLeastMs?: number; end?: true }> {
    const idleMs = source.idleMs ?? IDLE_MS;
    let idleAt = clock.monotonic() + idleMs;
    let atLeastMs = 0;
    let hole: number | undefined;
    let holeAt = Number.POSITIVE_INFINITY;
    isUrgent = false;
    reached = 0;
    for (;;) {
      yield* takeReady();
      if (isOver()) return {};
      const arrival = pull.take();
      const now = clock.monotonic();
      if (arrival !== undefined) {
        if (arrival.kind !== "item") {
          asksAgain();
          return arrival.kind === "failed" ? { failure: arrival.failure, atLeastMs } : { atLeastMs };
        }
        const { item } = arrival;
        lastHeard = now;
        idleAt = now + idleMs;
        if (item.kind === "patience") atLeastMs = item.ms;
        take(item);
        if (item.kind === "end") {
          while (giveUp());
          return { end: true };
        }
        continue;
      }
      const missing = inbox.missing(jobId);
      if (missing !== hole) holeAt = now + holdMs;
      hole = missing;
      const isPassedOver = missing !== undefined && missing < reached;
      if ((isUrgent && missing !== undefined && missing > askedUpTo) || (isPassedOver && now >= holeAt)) {
        if (asksAgain()) return { atLeastMs };
        continue;
      }
      if (now >= idleAt) return { atLeastMs };
      await bell.wait(Math.min(idleAt, isPassedOver ? holeAt : idleAt) - now);
    }
  }

  async function* run(): AsyncGenerator<TidingsEvent> {
    const stop = inbox.on((event) => {
      if (event.jobId !== jobId) return;
      ready.push(event);
      bell.ring();
    });
    const stopKeeping = inbox.keep(jobId, (gap) => {
      if (gap === undefined) isUrgent = true;
      else passed.push(gap);
      bell.ring();
    });
    const wake = (): void => bell.ring();
    signal?.addEventListener("abort", wake);
    try {
      for (let reconnect = false; ; reconnect = true) {
        yield* takeReady();
        if (isOver()) return;
        const hole = inbox.missing(jobId);
        if (reconnect && hole !== undefined) askedUpTo = Math.max(seen, hole);
        const attempt = new AbortController();
        const after = inbox.cursorOf(jobId) ?? options.after;
        const pull = createPull(source.open({ jobId, after, reconnect, signal: attempt.signal }), bell);
        let outcome: { failure?: TidingsError; atLeastMs?: number; end?: true };
        try {
          outcome = yield* readOnce(pull);
        } finally {
          attempt.abort();
          pull.stop();
        }
        yield* takeReady();
        if (outcome.end === true || isOver()) return;
        const { failure, atLeastMs = 0 } = outcome;
        if (failure !== undefined && !failure.retryable) throw failure;
        const silentMs = clock.monotonic() - lastHeard;
        if (silentMs >= giveUpAfterMs) {
          throw unreachable(
            `The job "${jobId}" could not be followed: nothing was heard for ${Math.round(silentMs / 1000)} s.`,
            failure,
          );
        }
        input({ type: "lost", atLeastMs });
        await pause(clock, connection.delayMs ?? 0, signal);
        input({ type: "due" });
      }
    } catch (error) {
      input({ type: "refused" });
      throw error;
    } finally {
      stop();
      stopKeeping();
      signal?.removeEventListener("abort", wake);
      input({ type: "finished" });
    }
  }

  const events = run();
  return {
    [Symbol.asyncIterator]: () => events,
    get job() {
      return inbox.get(jobId);
    },
    get cursor() {
      return inbox.cursorOf(jobId) ?? options.after;
    },
    get connection() {
      return connection;
    },
  };
}
