/**
 * One reader of each owner's log, for everybody who follows it.
 *
 *   commit ─▶ wake ─▶ read once ─▶ window of the newest ─▶ each live subscriber that wants it
 *
 *   subscriber:  catching up ──at the head──▶ live ──takes less than it was given──▶ full
 *                    ▲  reads the log from its own position           resume │
 *                    └───────────────────────────────────────────────────────┘
 *
 * Nothing is kept for a subscriber but its position, so neither many of them nor slow ones cost memory. Owners have
 * feeds of their own: what is said in one cannot reach a subscriber of another.
 */
import type { Engine, EventFilter, LogEntry } from "../engine/engine.ts";
import type { TidingsEvent } from "../model/event.ts";
import type { Subscriber, Subscription, TailItem } from "./tidings.ts";

export interface Hub {
  /** Follows an owner's log after a position. */
  subscribe(owner: string, filter: EventFilter, after: number, subscriber: Subscriber): Subscription;
  /** Tells every subscriber that can take it an event that is not in the log; nobody's position moves. */
  announce(event: TidingsEvent): void;
  /** Something was removed from the log: it must not be told out of a window. */
  forget(): void;
}

export interface HubOptions {
  readonly engine: Engine;
  /** The seal of an owner's positions. */
  readonly sealOf: (owner: string) => (position: number) => string;
}

/** Entries that are read at a time, and that the window holds. */
const PAGE = 256;

/** An entry of the log, with what subscribers are given: made once, however many there are. */
interface Told {
  readonly position: number;
  readonly event: TidingsEvent;
  readonly item: TailItem;
}

interface Member {
  readonly filter: EventFilter;
  readonly subscriber: Subscriber;
  /** Everything that matches up to here was taken. */
  position: number;
  state: "catching up" | "live" | "full" | "over";
  /** What the reading under way has for it. */
  batch: Told[];
  /** The gap before this position was told already. */
  gapTold: number | undefined;
}

export function createHub({ engine, sealOf }: HubOptions): Hub {
  const feeds = new Map<string, Feed>();

  return {
    subscribe(owner, filter, after, subscriber) {
      let feed = feeds.get(owner);
      if (feed === undefined) {
        feed = createFeed(engine, owner, sealOf(owner), () => feeds.delete(owner));
        feeds.set(owner, feed);
      }
      return feed.subscribe(filter, after, subscriber);
    },
    announce(event) {
      for (const feed of feeds.values()) feed.announce(event);
    },
    forget() {
      for (const feed of feeds.values()) feed.forget();
    },
  };
}

interface Feed {
  subscribe(filter: EventFilter, after: number, subscriber: Subscriber): Subscription;
  announce(event: TidingsEvent): void;
  forget(): void;
}

function createFeed(
  engine: Engine,
  owner: string,
  seal: (position: number) => string,
  onEmpty: () => void,
): Feed {
  const members = new Set<Member>();
  const live = createInterests();
  /** The newest entries, after `start` up to `through`. */
  let window: Told[] = [];
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
    member.subscriber.fail(error);
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
        else tell(reading.entries.map(toTold));
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

  function forget(): void {
    window = [];
    start = through;
  }

  /** Something that was committed is no longer kept, and may concern anybody who is live: each looks for itself. */
  function lookAgain(): void {
    forget();
    for (const member of live.all()) {
      live.delete(member);
      void catchUp(member);
    }
  }

  function tell(entries: readonly Told[]): void {
    const touched: Member[] = [];
    for (const told of entries) {
      live.forEach(told.event, (member) => {
        if (told.position <= member.position || member.batch.at(-1) === told) return;
        if (member.batch.length === 0) touched.push(member);
        member.batch.push(told);
      });
    }
    window.push(...entries);
    if (window.length > PAGE) {
      window = window.slice(-PAGE);
      start = (window[0]?.position ?? through + 1) - 1;
    }
    for (const member of touched) {
      const { batch } = member;
      member.batch = [];
      if (member.state === "live") give(member, batch);
    }
  }

  async function catchUp(member: Member): Promise<void> {
    member.state = "catching up";
    try {
      while (member.state === "catching up") {
        if (join(member)) return;
        const { position } = member;
        const reading = await engine.read(owner, member.filter, position, PAGE);
        if (member.state !== "catching up") return;
        if (reading.truncated && member.gapTold !== position) {
          member.gapTold = position;
          if (!giveGap(member)) return;
        }
        if (!give(member, reading.entries.map(toTold))) return;
        member.position = Math.max(member.position, reading.through);
        if (reading.entries.length < PAGE && stale && !advancing && live.size === 0) {
          // Nobody reads for the others yet: the window begins here.
          window = [];
          start = member.position;
          through = member.position;
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
    const entries = window.filter(
      ({ position, event }) => position > member.position && matches(member.filter, event),
    );
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
    forget,
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

function matches({ jobIds, correlationId, resourceIds }: EventFilter, event: TidingsEvent): boolean {
  if (jobIds === undefined && correlationId === undefined && resourceIds === undefined) return true;
  return (
    (event.jobId !== undefined && jobIds?.includes(event.jobId) === true) ||
    (correlationId !== undefined && event.correlationId === correlationId) ||
    (event.resourceId !== undefined && resourceIds?.includes(event.resourceId) === true)
  );
}

/** Who is live, by what they want: an event touches only those whom it concerns. */
interface Interests {
  readonly size: number;
  add(member: Member): void;
  delete(member: Member): void;
  all(): readonly Member[];
  /** Calls back for each member that wants the event; twice for one that wants it for two reasons. */
  forEach(event: TidingsEvent, call: (member: Member) => void): void;
}

function createInterests(): Interests {
  const all = new Set<Member>();
  const everything = new Set<Member>();
  const byJob = new Map<string, Set<Member>>();
  const byCorrelation = new Map<string, Set<Member>>();
  const byResource = new Map<string, Set<Member>>();

  function change(
    { filter }: Member,
    call: (group: Set<Member>, map?: Map<string, Set<Member>>, key?: string) => void,
  ) {
    const { jobIds, correlationId, resourceIds } = filter;
    if (jobIds === undefined && correlationId === undefined && resourceIds === undefined) call(everything);
    const each = (map: Map<string, Set<Member>>, key: string) => {
      let group = map.get(key);
      if (group === undefined) {
        group = new Set();
        map.set(key, group);
      }
      call(group, map, key);
    };
    for (const jobId of jobIds ?? []) each(byJob, jobId);
    if (correlationId !== undefined) each(byCorrelation, correlationId);
    for (const resourceId of resourceIds ?? []) each(byResource, resourceId);
  }

  return {
    get size() {
      return all.size;
    },
    add(member) {
      all.add(member);
      change(member, (group) => group.add(member));
    },
    delete(member) {
      if (!all.delete(member)) return;
      change(member, (group, map, key) => {
        group.delete(member);
        if (group.size === 0 && key !== undefined) map?.delete(key);
      });
    },
    all: () => [...all],
    forEach({ jobId, correlationId, resourceId }, call) {
      for (const member of everything) call(member);
      if (jobId !== undefined) byJob.get(jobId)?.forEach(call);
      if (correlationId !== undefined) byCorrelation.get(correlationId)?.forEach(call);
      if (resourceId !== undefined) byResource.get(resourceId)?.forEach(call);
    },
  };
}
