/**
 * Tells many parts of the log over one connection, one message after the other.
 *
 *   commit ─▶ the log is read once for all who follow it ─▶ parts that it concerns have news
 *   parts with news ─▶ in turn: read a page from the part's own position, tell it
 *
 * At most one page is held and one message is on its way, however many parts there are and however slow the reader is.
 * Each part keeps only its position, and costs nothing while nothing happens to it.
 */
import type { EventFilter } from "../../engine/engine.ts";
import { matches } from "../../engine/event-filter.ts";
import { TidingsError } from "../../model/error.ts";
import type { WireNotification } from "../../model/projection/notification.ts";
import type { Delivery, Subscription, Tidings } from "../../runtime/tidings.ts";

/** A part of the log that is told, and how. */
export interface LogPart {
  readonly owner: string;
  /** Left out: the owner's whole log. */
  readonly filter?: EventFilter;
  /** The cursor to begin after. */
  readonly after: string;
  readonly project: (delivery: Delivery) => readonly WireNotification[];
  /** What is told instead of events before the cursor that are no longer kept. */
  readonly projectGap: (cursor: string) => Promise<GapSign>;
  readonly isLast?: (delivery: Delivery) => boolean;
  /** Called once when nothing more of this part will be told. */
  readonly onLeave?: () => void;
}

export interface GapSign {
  readonly notifications: readonly WireNotification[];
  /** The sign stands for the end of the part as well. */
  readonly isLast: boolean;
}

export interface LogFeed {
  /** Tells a part from the next turn of the event loop on; returns the way to stop. */
  add(part: LogPart): () => void;
  stop(): void;
}

interface Telling {
  readonly part: LogPart;
  after: string;
  subscription: Subscription | undefined;
}

const PAGE = 100;

/** @param send - Resolves once the connection takes more; never rejects. */
export function createLogFeed(
  tidings: Tidings,
  send: (notification: WireNotification) => Promise<void>,
  report: (error: unknown) => void,
): LogFeed {
  const tellings = new Set<Telling>();
  /** Those that have news, in the order of their turns. */
  const news = new Set<Telling>();
  let running = false;

  function leave(telling: Telling): void {
    if (!tellings.delete(telling)) return;
    news.delete(telling);
    telling.subscription?.stop();
    telling.part.onLeave?.();
  }

  function fail(telling: Telling, error: unknown): void {
    if (!tellings.has(telling)) return;
    if (!(error instanceof TidingsError && error.code === "STORE_CLOSED")) report(error);
    leave(telling);
  }

  async function begin(telling: Telling): Promise<void> {
    const { owner, filter = {} } = telling.part;
    if (!tellings.has(telling)) return;
    try {
      // Listening begins before the first read, so nothing falls between what was stored and what comes.
      const subscription = await tidings.subscribe(
        { owner, ...filter, after: { from: "now" } },
        {
          take(items) {
            // Announcements, which stand in no log, come to everybody.
            if (items.some((item) => item.kind === "gap" || matches(filter, item.event))) hear(telling);
            return items.length;
          },
          fail: (error) => fail(telling, error),
        },
      );
      telling.subscription = subscription;
      if (tellings.has(telling)) hear(telling);
      else subscription.stop();
    } catch (error) {
      fail(telling, error);
    }
  }

  function hear(telling: Telling): void {
    news.add(telling);
    void run();
  }

  async function run(): Promise<void> {
    if (running) return;
    running = true;
    for (;;) {
      const [next] = news;
      if (next === undefined) break;
      news.delete(next);
      if (await tellPage(next)) news.add(next);
    }
    running = false;
  }

  /** Whether more of it stands ready. */
  async function tellPage(telling: Telling): Promise<boolean> {
    const { owner, filter, project, projectGap, isLast } = telling.part;
    try {
      const page = await tidings.read({ owner, ...filter, after: telling.after, limit: PAGE });
      const gap = page.truncated ? await projectGap(telling.after) : undefined;
      for (const notification of gap?.notifications ?? []) await send(notification);
      for (const delivery of page.events) {
        if (!tellings.has(telling)) return false;
        for (const notification of project(delivery)) await send(notification);
        if (isLast?.(delivery)) leave(telling);
      }
      telling.after = page.cursor;
      if (gap?.isLast && !page.hasMore) leave(telling);
      return page.hasMore && tellings.has(telling);
    } catch (error) {
      fail(telling, error);
      return false;
    }
  }

  return {
    add(part) {
      const telling: Telling = { part, after: part.after, subscription: undefined };
      tellings.add(telling);
      // The answer to the request comes first: a client should know the job's id before its first event.
      setImmediate(() => void begin(telling));
      return () => leave(telling);
    },
    stop() {
      for (const telling of tellings) leave(telling);
    },
  };
}
