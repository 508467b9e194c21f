/**
 * One reader of each owner's log, for everybody who follows it.
 *
 *   commit ─▶ wake ─▶ read once ─▶ window of the newest ─▶ each live subscriber that wants it
 *
 *   subscriber:  catching up ──at the head──▶ live ──takes less than it was given──▶ full
 *                    ▲  reads the log from its own position           resume │
 *                    └───────────────────────────────────────────────────────┘
 *
 * Nothing is kept for a subscriber but its position, so neither many of them nor slow ones cost memory. What the store
 * loses while a window holds it is told all the same, whoever removed it; what neither has is a gap. Owners have feeds
 * of their own: what is said in one cannot reach a subscriber of another.
 */
import type { Engine, EventFilter, LogEntry } from "../engine/engine.ts";
import { matches } from "../engine/event-filter.ts";
import type { TidingsEvent } from "../model/event.ts";
import { createInterests } from "./interests.ts";
import type { Subscriber, Subscription, TailItem } from "./tidings.ts";

export interface Hub {
  /** Follows an owner's log after a position. May tell up to `PAGE` events that the store has just lost. */
  subscribe(owner: string, filter: EventFilter, after: number, subscriber: Subscriber): Subscription;
  /** Tells every subscriber that can take it an event that is not in the log; nobody's position moves. */
  announce(event: TidingsEvent): void;
}

export interface HubOptions {
  readonly engine: Engine;
  /** The seal of an owner's positions. */
  readonly sealOf: (owner: string) => (position: number) => string;
  /** Hears of a subscriber that throws when it is told that it failed. */
  readonly onError: (error: unknown, during: string) => void;
}

/** Entries that are read at a time at most, and that the window holds at most. */
const PAGE = 256;
/** Entries that are read for one that was full when it was last told. */
const SHORT_PAGE = 8;
/** Characters of JSON that a window holds at most. */
const WINDOW_CHARACTERS = 4 * 1_024 * 1_024;
/** Items that are told in one turn of the event loop: a crowd of streams must not keep everything else waiting. */
const SLICE = 4_096;

/** An entry of the log, with what subscribers are given: made once, however many there are. */
interface Told {
  readonly position: number;
  readonly event: TidingsEvent;
  readonly item: TailItem;
}

interface Kept {
  readonly told: Told;
  readonly characters: number;
}

interface Member {
  readonly filter: EventFilter;
  readonly subscriber: Subscriber;
  /** Everything that matches up to here was taken. */
  position: number;
  state: "catching up" | "live" | "full" | "over";
  /** What the reading under way has for it. */
  batch: Told[];
  /** How much is read for it at a time: about as much as it takes, for what it does not take is read again. */
  page: number;
  /** The gap before this position was told already. */
  gapTold: number | undefined;
}

export function createHub({ engine, sealOf, onError }: HubOptions): Hub {
  const feeds = new Map<string, Feed>();

  return {
    subscribe(owner, filter, after, subscriber) {
      let feed = feeds.get(owner);
      if (feed === undefined) {
        feed = createFeed({
          engine,
          owner,
          seal: sealOf(owner),
          onEmpty: () => feeds.delete(owner),
          onError,
        });
        feeds.set(owner, feed);
      }
      return feed.subscribe(filter, after, subscriber);
    },
    announce(event) {
      for (const feed of feeds.values()) feed.announce(event);
    },
  };
}

interface Feed {
  subscribe(filter: EventFilter, after: number, subscriber: Subscriber): Subscription;
  announce(event: TidingsEvent): void;
}

interface FeedOptions extends Pick<HubOptions, "engine" | "onError"> {
  readonly owner: string;
  readonly seal: (position: number) => string;
  /** Nobody follows this owner any more. */
  readonly onEmpty: () => void;
}

function createFeed({ engine, owner, seal, onEmpty, onError }: FeedOptions): Feed {
  const members = new Set<Member>();
  const live = createInterests<Member>();
  /** The newest entries, after `start` up to `through`. */
  let window: Kept[] = [];
  let characters = 0;
  let start = 0;
  let through = 0;
  /** Nobody was live to read for: the window ends before the log does. */
  let stale = true;
  let advancing = false;
  let advanceAgain = false;
  const stopWatching = engine.watch(owner, () => {
    if (live.size === 0 && !advancing) stale = true;
    else void advance();
  });

  function toTold({ position, event }: LogEntry): Told {
    return { position, event, item: { kind: "event", event, cursor: seal(position) } };
  }

  function leave(member: Member): void {
    if (member.state === "live") live.delete(member);
    member.state = "over";
    member.batch = [];
    if (!members.delete(member) || members.size > 0) return;
    stopWatching();
    onEmpty();
  }

  function fail(member: Member, error: unknown): void {
    if (member.state === "over") return;
    leave(member);
    try {
      member.subscriber.fail(error);
    } catch (fault) {
      onError(fault, "telling a subscriber of the log that it failed");
    }
  }

  /** Gives what a member wants of `entries`, which begin behind its position. False = it is full, or over. */
  function give(member: Member, entries: readonly Told[]): boolean {
    if (entries.length === 0) return true;
    let taken: number;
    try {
      taken = member.subscriber.take(entries.map(({ item }) => item));
    } catch (error) {
      fail(member, error);
      return false;
    }
    if (member.state === "over") return false;
    const next = entries[taken];
    member.position = next === undefined ? (entries.at(-1)?.position ?? member.position) : next.position - 1;
    if (next === undefined) return true;
    if (member.state === "live") live.delete(member);
    member.state = "full";
    member.page = Math.max(SHORT_PAGE, taken);
    return false;
  }

  /** Reads what was committed since, once for all who are live. */
  async function advance(): Promise<void> {
    if (advancing) {
      advanceAgain = true;
      return;
    }
    advancing = true;
    try {
      do {
        advanceAgain = false;
        const reading = await engine.read(owner, {}, through, PAGE);
        through = Math.max(through, reading.through);
        if (reading.truncated) lookAgain();
        else await tell(reading.entries.map(toTold));
        if (reading.entries.length === PAGE) advanceAgain = true;
      } while (advanceAgain && live.size > 0);
      stale ||= advanceAgain;
    } catch (error) {
      stale = true;
      for (const member of live.all()) fail(member, error);
    } finally {
      advancing = false;
    }
  }

  /** An empty window, which grows from there on. */
  function beginAt(position: number): void {
    window = [];
    characters = 0;
    start = position;
    through = position;
  }

  function keep(entries: readonly Told[]): void {
    for (const told of entries) {
      const size = JSON.stringify(told.event).length;
      window.push({ told, characters: size });
      characters += size;
    }
    let over = 0;
    while (window.length - over > PAGE || characters > WINDOW_CHARACTERS) {
      const oldest = window[over];
      if (oldest === undefined) break;
      characters -= oldest.characters;
      start = oldest.told.position;
      over += 1;
    }
    if (over > 0) window = window.slice(over);
  }

  /** Something that was committed is no longer kept, and may concern anybody who is live: each looks for itself. */
  function lookAgain(): void {
    beginAt(through);
    for (const member of live.all()) {
      live.delete(member);
      void catchUp(member);
    }
  }

  async function tell(entries: readonly Told[]): Promise<void> {
    const touched: Member[] = [];
    for (const told of entries) {
      live.forEach(told.event, (member) => {
        if (told.position <= member.position || member.batch.at(-1) === told) return;
        if (member.batch.length === 0) touched.push(member);
        member.batch.push(told);
      });
    }
    // Before anybody is told: who joins between two slices is given these out of the window.
    keep(entries);
    let told = 0;
    for (const member of touched) {
      const { batch } = member;
      member.batch = [];
      give(member, batch);
      told += batch.length;
      if (told < SLICE) continue;
      told = 0;
      await turn();
    }
  }

  async function catchUp(member: Member): Promise<void> {
    member.state = "catching up";
    try {
      while (member.state === "catching up") {
        if (join(member)) return;
        const { position, page } = member;
        const reading = await engine.read(owner, member.filter, position, page);
        if (member.state !== "catching up") return;
        if (reading.truncated && member.gapTold !== position) {
          member.gapTold = position;
          if (!giveGap(member)) return;
        }
        if (!give(member, reading.entries.map(toTold))) return;
        member.position = Math.max(member.position, reading.through);
        member.page = Math.min(PAGE, page * 2);
        if (reading.entries.length < page && stale && !advancing && live.size === 0) {
          // Nobody reads for the others yet: the window begins here.
          beginAt(member.position);
          stale = false;
          void advanceAfterJoin();
        }
      }
    } catch (error) {
      fail(member, error);
    }
  }

  /** Somebody may have committed between the last reading and the watch that others had gone to sleep on. */
  async function advanceAfterJoin(): Promise<void> {
    await undefined;
    if (live.size > 0) await advance();
    else stale = true;
  }

  /** Makes a member live when the window has all that it has not; what the window has is given first. */
  function join(member: Member): boolean {
    if (stale || member.position < start) return false;
    const entries: Told[] = [];
    for (const { told } of window) {
      if (told.position > member.position && matches(member.filter, told.event)) entries.push(told);
    }
    if (!give(member, entries)) return true;
    member.state = "live";
    live.add(member);
    return true;
  }

  function giveGap(member: Member): boolean {
    const gap = { kind: "gap", cursor: seal(member.position) } as const;
    let taken: number;
    try {
      taken = member.subscriber.take([gap]);
    } catch (error) {
      fail(member, error);
      return false;
    }
    if (member.state !== "catching up") return false;
    if (taken > 0) return true;
    member.gapTold = undefined;
    member.state = "full";
    return false;
  }

  return {
    subscribe(filter, after, subscriber) {
      const member: Member = {
        filter,
        subscriber,
        position: after,
        state: "catching up",
        batch: [],
        page: PAGE,
        gapTold: undefined,
      };
      members.add(member);
      void catchUp(member);
      return {
        resume() {
          if (member.state === "full") void catchUp(member);
        },
        stop: () => leave(member),
      };
    },
    announce(event) {
      for (const member of [...members]) {
        if (member.state !== "live") continue;
        try {
          member.subscriber.take([{ kind: "event", event, cursor: seal(member.position) }]);
        } catch (error) {
          fail(member, error);
        }
      }
    },
  };
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
