/**
 * Tells many parts of the log over one connection, in turn: at most one page is held and one message is on its way,
 * however many parts there are and however slow the reader is. Each part keeps only its position.
 */
import type { EventFilter } from "../../engine/engine.ts";
import { TidingsError } from "../../model/error.ts";
import type { WireNotification } from "../../model/projection/notification.ts";
import { createBell } from "../../runtime/tail.ts";
import type { Delivery, Tidings } from "../../runtime/tidings.ts";

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
  /** How many parts are told. */
  readonly size: number;
}

interface Telling {
  readonly part: LogPart;
  after: string;
  isReady: boolean;
}

const PAGE = 100;

/** @param send - Resolves once the connection takes more; never rejects. */
export function createLogFeed(
  tidings: Tidings,
  send: (notification: WireNotification) => Promise<void>,
  report: (error: unknown) => void,
): LogFeed {
  const tellings = new Set<Telling>();
  const watches = new Map<string, () => void>();
  const bell = createBell();
  let running = false;

  function leave(telling: Telling): void {
    if (!tellings.delete(telling)) return;
    if (tellings.size === 0) {
      for (const stopWatching of watches.values()) stopWatching();
      watches.clear();
      bell.ring();
    }
    telling.part.onLeave?.();
  }

  async function run(): Promise<void> {
    if (running) return;
    running = true;
    while (tellings.size > 0) {
      bell.reset();
      let hasMore = false;
      for (const telling of tellings) {
        if (telling.isReady && (await tellPage(telling))) hasMore = true;
      }
      if (!hasMore && tellings.size > 0) await bell.rung();
    }
    running = false;
  }

  /** Whether more of it stands ready. */
  async function tellPage(telling: Telling): Promise<boolean> {
    const { owner, filter, project, projectGap, isLast } = telling.part;
    try {
      // Watching begins before the first read, so nothing falls between what was stored and what comes.
      if (!watches.has(owner)) watches.set(owner, tidings.watch(owner, bell.ring));
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
      if (!(error instanceof TidingsError && error.code === "STORE_CLOSED")) report(error);
      leave(telling);
      return false;
    }
  }

  return {
    add(part) {
      const telling: Telling = { part, after: part.after, isReady: false };
      tellings.add(telling);
      // The answer to the request comes first: a client should know the job's id before its first event.
      setImmediate(() => {
        telling.isReady = true;
        bell.ring();
        void run();
      });
      return () => leave(telling);
    },
    stop() {
      for (const telling of tellings) leave(telling);
    },
    get size() {
      return tellings.size;
    },
  };
}
