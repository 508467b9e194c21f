/**
 * The inbox: from messages that come late, twice, out of order or not at all to a job's one story.
 *
 *   message ─read─▶ event ─┬─ seq known, id known ──────▶ repeat (changes nothing)
 *                          ├─ seq beyond the next one ──▶ held back ─ holdMs passed, or too many ─▶ gap: onGap, then go on
 *                          └─ next seq, or none ─fold───▶ applied, or ignored (illegal, lowered)
 *
 * It keeps no connection and asks for nothing: `onGap` and `restore` are how a story is repaired.
 */
import { COMMAND_OF } from "../model/command.ts";
import type { JobEventType, TidingsEvent } from "../model/event.ts";
import { isStored } from "../model/event.ts";
import { hasEnded } from "../model/job.ts";
import { readMessage } from "../model/projection/read.ts";
import { browserClock } from "./browser-clock.ts";
import type { InboxOptions } from "./inbox-options.ts";
import type { Listener } from "./listeners.ts";
import { createListeners } from "./listeners.ts";
import type { Gap, InboxCounters, Receipt } from "./receipt.ts";
import type { ClientJob } from "./snapshot.ts";
import { fold, readSnapshot } from "./snapshot.ts";
import type { Held, Track, Wait } from "./track.ts";
import { bridge, gapOf, isLowered, merge } from "./track.ts";

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

/** What `follow` needs beside that: it repairs gaps itself. Every inbox has it. */
export interface FollowedInbox extends Inbox {
  /** Says that a job's story is read from the middle: the next event is taken as it comes, whatever its `seq`. */
  join(jobId: string, after?: string): void;
  /** The first `seq` that a job waits for, while later events are held back. */
  missing(jobId: string): number | undefined;
  /** Goes on without the first events that a job waits for, and answers with them. They count as a gap. */
  release(jobId: string): Gap | undefined;
  /** Counts something that was meant to be an event but could not be read. */
  refuse(problem: string): void;
  /** In place of `onGap`: `keeper` fills or releases this job's gaps. `passed` could be held open no longer. */
  keep(jobId: string, keeper: Keeper): () => void;
}

type Keeper = (passed?: Gap) => void;

/** Creates an empty inbox. */
export function createInbox(options: InboxOptions = {}): Inbox {
  const { holdMs = 500, maxHeld = 64, maxJobs = 1_000, maxIds = 4_096, clock = browserClock } = options;
  const onError = options.onError ?? ((error: unknown) => console.error(error));
  const definitions = new Map((options.events ?? []).map((definition) => [definition.type, definition]));
  const listeners = createListeners<[TidingsEvent, string | undefined]>(onError);
  const arrivals = createListeners<[TidingsEvent, string | undefined]>(onError);
  const changes = createListeners<[string]>(onError);
  const tracks = new Map<string, Track>();
  const keepers = new Map<string, Set<Keeper>>();
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
    stopWaiting(leaving);
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
    let after = fold(before, event);
    if (skipped && lifecycle && before !== undefined && after === before) {
      const bridged = bridge(before, event.type as JobEventType);
      const next = bridged === undefined ? undefined : fold(bridged, event);
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

  /** Deals with everything whose turn has come; answers with what was applied. */
  function drain(track: Track): TidingsEvent[] {
    const events: TidingsEvent[] = [];
    for (;;) {
      const seq = (track.last ?? 0) + 1;
      const next = track.held.get(seq);
      if (next === undefined) break;
      track.held.delete(seq);
      next.receipt = settle(track, next.event, next.cursor);
      if (next.receipt.kind === "applied") events.push(next.event);
    }
    if (track.held.size === 0 || (track.last ?? 0) >= (track.wait?.to ?? 0)) stopWaiting(track);
    if (track.held.size > 0 && track.wait === undefined) startTimer(track);
    return events;
  }

  function hold(track: Track, event: TidingsEvent, seq: number, cursor: string | undefined): Receipt {
    counters.outOfOrder += 1;
    const held: Held = { event, cursor };
    track.held.set(seq, held);
    const isTold = track.wait?.isTold === true;
    if (track.held.size <= (isTold ? 2 * maxHeld : maxHeld)) {
      if (track.wait === undefined) startTimer(track);
      return { kind: "held" };
    }
    if (isTold) callKeepers(track, gapOf(track));
    const events = isTold ? pass(track) : [];
    events.push(...report(track));
    if (track.held.has(seq)) return { kind: "held" };
    return events.length > 0 ? { kind: "applied", events } : (held.receipt ?? { kind: "repeat" });
  }

  function startTimer(track: Track): void {
    if (holdMs === Number.POSITIVE_INFINITY) return;
    const cancel = clock.after(holdMs, () => {
      report(track);
      tell();
    });
    track.wait = { to: gapOf(track).to, isTold: false, cancel };
  }

  function stopWaiting(track: Track): void {
    track.wait?.cancel?.();
    track.wait = undefined;
  }

  /** Tells of each gap, lets it be repaired, and goes on; answers with what was applied by that. */
  function report(track: Track): TidingsEvent[] {
    const events: TidingsEvent[] = [];
    while (track.held.size > 0) {
      stopWaiting(track);
      const gap = gapOf(track);
      counters.gaps += 1;
      const wait: Wait = { to: gap.to, isTold: true };
      track.wait = wait;
      if (keepers.has(track.jobId)) {
        callKeepers(track);
        break;
      }
      let repair: unknown;
      try {
        repair = options.onGap?.(gap);
      } catch (error) {
        onError(error);
      }
      if (repair !== undefined) {
        const goOn = (): void => {
          if (track.wait === wait) {
            pass(track);
            report(track);
          }
          tell();
        };
        Promise.resolve(repair).catch(onError).then(goOn, onError);
        break;
      }
      // Repaired meanwhile; what else misses has its own time.
      if (track.wait !== wait) break;
      events.push(...pass(track));
    }
    return events;
  }

  function callKeepers(track: Track, passed?: Gap): void {
    for (const keeper of keepers.get(track.jobId) ?? []) guarded(() => keeper(passed));
  }

  /** Goes on behind the first gap. */
  function pass(track: Track): TidingsEvent[] {
    track.last = Math.min(...track.held.keys()) - 1;
    track.skipped = true;
    return drain(track);
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
    const receipt = settle(track, event, cursor);
    const events = [...(receipt.kind === "applied" ? receipt.events : []), ...drain(track)];
    return events.length > 0 ? { kind: "applied", events } : receipt;
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
    drain(track);
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

  const inbox: FollowedInbox = {
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
      if (track.wait?.isTold !== true) counters.gaps += 1;
      pass(track);
      return told(gap);
    },
    refuse(problem) {
      told(invalid(problem));
    },
    missing(jobId) {
      const track = tracks.get(jobId);
      return track === undefined || track.held.size === 0 ? undefined : (track.last ?? 0) + 1;
    },
    keep(jobId, keeper) {
      const those = keepers.get(jobId) ?? new Set();
      keepers.set(jobId, those.add(keeper));
      return () => {
        those.delete(keeper);
        if (those.size > 0 || !keepers.delete(jobId)) return;
        const track = tracks.get(jobId);
        if (track?.wait?.isTold !== true) return;
        stopWaiting(track);
        startTimer(track);
      };
    },
    get: (jobId) => tracks.get(jobId)?.job,
    list: () => [...tracks.values()].flatMap(({ job }) => (job === undefined ? [] : [job])),
    cursorOf: (jobId) => tracks.get(jobId)?.cursor,
    on: listeners.add,
    onArrival: arrivals.add,
    onChange: changes.add,
    counters,
  };
  return inbox;
}
