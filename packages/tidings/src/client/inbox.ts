/**
 * The inbox: from messages that come late, twice, out of order or not at all to a job's one story.
 *
 *   message ─read─▶ event ─┬─ seq known, id known ──────▶ repeat (changes nothing)
 *                          ├─ seq beyond the next one ──▶ held back ─ still missing after holdMs ─▶ gap: onGap, then go on
 *                          └─ next seq, or none ─reduce─▶ applied, or ignored (illegal, lowered)
 *
 * It keeps no connection and asks for nothing: `onGap` and `restore` are how a story is repaired.
 */
import type { Clock } from "../model/clock.ts";
import { COMMAND_OF } from "../model/command.ts";
import type { EventDefinition } from "../model/define-event.ts";
import type { JobEventType, TidingsEvent } from "../model/event.ts";
import { isStored } from "../model/event.ts";
import { hasEnded } from "../model/job.ts";
import type { ReadOutcome } from "../model/projection/read.ts";
import { readMessage } from "../model/projection/read.ts";
import { reduce } from "../model/reduce.ts";
import { browserClock } from "./browser-clock.ts";
import type { Listener } from "./listeners.ts";
import { createListeners } from "./listeners.ts";
import type { Gap, InboxCounters, Receipt } from "./receipt.ts";
import type { ClientJob } from "./snapshot.ts";
import { readSnapshot } from "./snapshot.ts";
import type { Track } from "./track.ts";
import { bridge, gapOf, isLowered, merge } from "./track.ts";

export interface InboxOptions {
  /** Types of your own, so that their payloads are checked too. */
  readonly events?: readonly EventDefinition<string, never>[];
  /**
   * Called once for each gap. Repair it here (`inbox.restore(await getJob(jobId))`, or read on after `gap.after` and
   * give the events to the inbox); when the returned promise settles, the story goes on without what still misses.
   */
  readonly onGap?: (gap: Gap) => void | Promise<void>;
  /** A standard MCP notification said that something may be worth reading again. */
  readonly onHint?: (hint: Extract<ReadOutcome, { kind: "hint" }>) => void;
  readonly onInvalid?: (problem: string) => void;
  /** Errors thrown by listeners and the callbacks above. Default: `console.error`. */
  readonly onError?: (error: unknown) => void;
  /** How long an event waits for those before it, in milliseconds. Default 500; `Infinity` = until `release`. */
  readonly holdMs?: number;
  /** How many events of one job may wait. Default 64. */
  readonly maxHeld?: number;
  /** How many jobs are kept; ended ones leave first, the oldest first. Default 1,000. */
  readonly maxJobs?: number;
  /** How many `eventId`s are remembered. Default 4,096. */
  readonly maxIds?: number;
  readonly clock?: Clock;
}

export type EventListener = Listener<[event: TidingsEvent, cursor: string | undefined]>;

export interface Inbox {
  /**
   * Takes any message of any MCP client: `client.fallbackNotificationHandler = (n) => inbox.receive(n)`. What it does is
   * done when it returns; the promise only fits the handler's type. Never throws, never rejects.
   */
  receive(message: unknown): Promise<void>;
  /** The same, answering with what became of the message. Never throws. */
  take(message: unknown): Receipt;
  /** Takes an event that was read already. */
  accept(event: TidingsEvent, cursor?: string): Receipt;
  /** Takes a snapshot as `get_job` gives it. Never moves an ended job, a percentage or the story back. */
  restore(snapshot: unknown): Receipt;
  /** Says that a job's story is read from the middle: the next event is taken as it comes, whatever its `seq`. */
  join(jobId: string, after?: string): void;
  /** Goes on without the events that a job waits for; answers with the first that are left out. They count as a gap. */
  release(jobId: string): Gap | undefined;
  /** Counts something that was meant to be an event but could not be read. */
  refuse(problem: string): void;
  /** The first `seq` that a job waits for, while later events are held back. */
  missing(jobId: string): number | undefined;
  get(jobId: string): ClientJob | undefined;
  /** In order of first appearance. */
  list(): readonly ClientJob[];
  /** Reading after it goes on behind the last event of this job that was dealt with. */
  cursorOf(jobId: string): string | undefined;
  /** Every event that was applied, once, in order. Returns the way to stop; alike below. */
  on(listener: EventListener): () => void;
  /** The same and their repeats: for handlers that are idempotent themselves and want another chance. */
  onArrival(listener: EventListener): () => void;
  /** A job's object was replaced: by an event, by a snapshot, or because it left. */
  onChange(listener: Listener<[jobId: string]>): () => void;
  readonly counters: Readonly<InboxCounters>;
}

/** Creates an empty inbox. */
export function createInbox(options: InboxOptions = {}): Inbox {
  const { holdMs = 500, maxHeld = 64, maxJobs = 1_000, maxIds = 4_096, clock = browserClock } = options;
  const onError = options.onError ?? ((error: unknown) => console.error(error));
  const definitions = new Map((options.events ?? []).map((definition) => [definition.type, definition]));
  const listeners = createListeners<[TidingsEvent, string | undefined]>(onError);
  const arrivals = createListeners<[TidingsEvent, string | undefined]>(onError);
  const changes = createListeners<[string]>(onError);
  const tracks = new Map<string, Track>();
  /** Ids of events that were dealt with, and whether they were applied. */
  const ids = new Map<string, boolean>();
  const counters: InboxCounters = {
    applied: 0,
    repeats: 0,
    outOfOrder: 0,
    illegal: 0,
    lowered: 0,
    invalid: 0,
    hints: 0,
    gaps: 0,
  };
  const outbox: (() => void)[] = [];
  let telling = false;

  /** A listener may give the inbox new messages; the others must still hear of everything in order. */
  function tell(): void {
    if (telling) return;
    telling = true;
    for (let next = outbox.shift(); next !== undefined; next = outbox.shift()) next();
    telling = false;
  }

  function guarded(call: () => void): void {
    outbox.push(() => {
      try {
        call();
      } catch (error) {
        onError(error);
      }
    });
  }

  function invalid(problem: string): Receipt {
    counters.invalid += 1;
    guarded(() => options.onInvalid?.(problem));
    return { kind: "invalid", problem };
  }

  function trackOf(jobId: string): Track {
    let track = tracks.get(jobId);
    if (track === undefined) {
      if (tracks.size >= maxJobs) evict();
      track = { jobId, last: 0, cursor: undefined, skipped: false, held: new Map() };
      tracks.set(jobId, track);
    }
    return track;
  }

  function evict(): void {
    let leaving: Track | undefined;
    for (const track of tracks.values()) {
      leaving ??= track;
      if (track.job !== undefined && hasEnded(track.job.status)) {
        leaving = track;
        break;
      }
    }
    if (leaving === undefined) return;
    leaving.stopWaiting?.();
    tracks.delete(leaving.jobId);
    const { jobId } = leaving;
    outbox.push(() => changes.tell(jobId));
  }

  function remember(eventId: string, applied: boolean): void {
    ids.set(eventId, applied);
    for (const oldest of ids.keys()) {
      if (ids.size <= maxIds) break;
      ids.delete(oldest);
    }
  }

  function repeat(event: TidingsEvent, cursor: string | undefined): Receipt {
    counters.repeats += 1;
    if (ids.get(event.eventId) === true) outbox.push(() => arrivals.tell(event, cursor));
    return { kind: "repeat" };
  }

  function applied(event: TidingsEvent, cursor: string | undefined): Receipt {
    remember(event.eventId, true);
    counters.applied += 1;
    outbox.push(() => {
      listeners.tell(event, cursor);
      arrivals.tell(event, cursor);
    });
    return { kind: "applied", events: [event] };
  }

  /** Deals with an event whose turn it is. */
  function settle(track: Track, event: TidingsEvent, cursor: string | undefined): Receipt {
    if (event.seq !== undefined) track.last = event.seq;
    if (cursor !== undefined) track.cursor = cursor;
    if (ids.has(event.eventId)) return repeat(event, cursor);
    const before = track.job;
    const lifecycle = Object.hasOwn(COMMAND_OF, event.type);
    const { skipped } = track;
    if (lifecycle) track.skipped = false;
    let after = reduce(before, event);
    if (skipped && lifecycle && before !== undefined && after === before) {
      const bridged = bridge(before, event.type as JobEventType);
      const next = bridged === undefined ? undefined : reduce(bridged, event);
      if (next !== bridged) after = next;
    }
    if (lifecycle && after === before) {
      remember(event.eventId, false);
      const reason = isLowered(before, event) ? "lowered" : "illegal";
      counters[reason] += 1;
      return { kind: "ignored", reason };
    }
    if (after !== before && after !== undefined) {
      track.job = after;
      outbox.push(() => changes.tell(track.jobId));
    }
    return applied(event, cursor);
  }

  /** Deals with everything whose turn has come. */
  function drain(track: Track, receipt: Receipt): Receipt {
    const events: TidingsEvent[] = receipt.kind === "applied" ? [...receipt.events] : [];
    for (;;) {
      const seq = (track.last ?? 0) + 1;
      const next = track.held.get(seq);
      if (next === undefined) break;
      track.held.delete(seq);
      const outcome = settle(track, next.event, next.cursor);
      if (outcome.kind === "applied") events.push(...outcome.events);
    }
    if (track.held.size === 0) track.stopWaiting?.();
    return events.length > 0 ? { kind: "applied", events } : receipt;
  }

  function hold(track: Track, event: TidingsEvent, seq: number, cursor: string | undefined): Receipt {
    counters.outOfOrder += 1;
    track.held.set(seq, { event, cursor });
    if (track.held.size > maxHeld) {
      release(track);
      return { kind: "applied", events: [event] };
    }
    if (track.stopWaiting === undefined && holdMs !== Number.POSITIVE_INFINITY) {
      wait(
        track,
        clock.after(holdMs, () => report(track)),
      );
    }
    return { kind: "held" };
  }

  function wait(track: Track, cancel: () => void): void {
    track.stopWaiting = () => {
      track.stopWaiting = undefined;
      cancel();
    };
  }

  /** The wait is over: tells of the gap, lets it be repaired, and goes on. */
  function report(track: Track): void {
    counters.gaps += 1;
    let given = false;
    wait(track, () => {
      given = true;
    });
    const goOn = (): void => {
      if (!given) release(track, true);
      tell();
    };
    try {
      const repair = options.onGap?.(gapOf(track));
      if (repair === undefined) goOn();
      else repair.catch(onError).then(goOn, onError);
    } catch (error) {
      onError(error);
      goOn();
    }
  }

  function release(track: Track, counted = false): void {
    let known = counted;
    while (track.held.size > 0) {
      if (!known) counters.gaps += 1;
      known = false;
      track.last = Math.min(...track.held.keys()) - 1;
      track.skipped = true;
      drain(track, { kind: "repeat" });
    }
    track.stopWaiting?.();
  }

  function accept(event: TidingsEvent, cursor: string | undefined): Receipt {
    const problem = definitions.get(event.type)?.findProblem(event);
    if (problem !== undefined) return invalid(problem);
    if (!isStored(event.type)) return { kind: "heartbeat" };
    const { jobId, seq } = event;
    if (jobId === undefined) {
      return ids.has(event.eventId) ? repeat(event, cursor) : applied(event, cursor);
    }
    const track = trackOf(jobId);
    if (seq === undefined) return settle(track, event, cursor);
    track.last ??= seq - 1;
    if (seq <= track.last || track.held.has(seq)) return repeat(event, cursor);
    if (seq > track.last + 1) return hold(track, event, seq, cursor);
    return drain(track, settle(track, event, cursor));
  }

  function restore(value: unknown): Receipt {
    const read = readSnapshot(value);
    if ("problem" in read) return invalid(read.problem);
    const track = trackOf(read.job.jobId);
    const merged = merge(track, read.job, read.seq);
    if (merged === undefined) {
      counters.illegal += 1;
      return { kind: "ignored", reason: "illegal" };
    }
    if (read.seq === undefined || read.seq >= (track.last ?? 0)) {
      track.cursor = read.cursor ?? track.cursor;
      track.last = read.seq ?? (track.last === 0 ? undefined : track.last);
      track.skipped = false;
    }
    for (const seq of [...track.held.keys()]) if (seq <= (track.last ?? 0)) track.held.delete(seq);
    if (track.last === undefined && track.held.size > 0) track.last = Math.min(...track.held.keys()) - 1;
    const renewed = merged !== track.job;
    track.job = merged;
    if (renewed) outbox.push(() => changes.tell(merged.jobId));
    drain(track, { kind: "repeat" });
    return renewed ? { kind: "restored", job: merged } : { kind: "repeat" };
  }

  function take(message: unknown): Receipt {
    const outcome = readMessage(message);
    if (outcome.kind === "event") return accept(outcome.event, outcome.cursor);
    if (outcome.kind === "invalid") return invalid(outcome.problem);
    if (outcome.kind === "hint") {
      counters.hints += 1;
      guarded(() => options.onHint?.(outcome));
    }
    return outcome;
  }

  function told<T>(result: T): T {
    tell();
    return result;
  }

  return {
    receive(message) {
      told(take(message));
      return Promise.resolve();
    },
    take: (message) => told(take(message)),
    accept: (event, cursor) => told(accept(event, cursor)),
    restore: (snapshot) => told(restore(snapshot)),
    join(jobId, after) {
      const track = trackOf(jobId);
      if (track.job === undefined && track.last === 0 && track.held.size === 0) track.last = undefined;
      track.cursor ??= after;
      tell();
    },
    release(jobId) {
      const track = tracks.get(jobId);
      if (track === undefined || track.held.size === 0) return undefined;
      const gap = gapOf(track);
      release(track);
      return told(gap);
    },
    refuse(problem) {
      told(invalid(problem));
    },
    missing(jobId) {
      const track = tracks.get(jobId);
      return track === undefined || track.held.size === 0 ? undefined : (track.last ?? 0) + 1;
    },
    get: (jobId) => tracks.get(jobId)?.job,
    list: () => [...tracks.values()].flatMap(({ job }) => (job === undefined ? [] : [job])),
    cursorOf: (jobId) => tracks.get(jobId)?.cursor,
    on: listeners.add,
    onArrival: arrivals.add,
    onChange: changes.add,
    counters,
  };
}
