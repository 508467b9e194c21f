/**
 * The SDK's `EventStore` on the durable log's store, for servers that use the SDK's own transport.
 *
 *   storeEvent ──▶ queue ──▶ one commit for all that wait ──▶ ids, in the order of the calls
 *   replayEventsAfter ──▶ queue ──▶ what the same stream was told since ──▶ the next turn of the event loop
 *
 * While a replay runs, what is stored waits behind it, until the SDK has attached the new connection: so nothing falls
 * between the two.
 */
import type { EventId, EventStore, JSONRPCMessage, StreamId } from "@modelcontextprotocol/server";
import type { Transaction } from "../../engine/engine.ts";
import { systemClock } from "../../engine/system-clock.ts";
import type { Clock } from "../../model/clock.ts";
import { TidingsError } from "../../model/error.ts";
import type { Tidings } from "../../runtime/tidings.ts";

/** Whose messages an event store keeps, and how long. */
export interface EventStoreOptions {
  /** Whose session it is. */
  readonly owner: string;
  /**
   * The session's id, the one that `sessionIdGenerator` returns. The SDK calls the GET stream of every session alike, so
   * a store that several share would give one session's messages to another.
   */
  readonly sessionId: string;
  /** How long a message can be replayed, in milliseconds. Default 1 hour. */
  readonly retentionMs?: number;
  /** Default: the machine's clock. */
  readonly clock?: Clock;
}

interface Stored {
  readonly stream: StreamId;
  /** `{}` when the SDK only asked for a position, whatever its types say. */
  readonly message: JSONRPCMessage;
}

interface Waiting extends Stored {
  readonly resolve: (id: EventId) => void;
  readonly reject: (error: unknown) => void;
}

const HOUR_MS = 3_600_000;
const DIGITS = 15;
/** Digits that one page of a replay leaves open: it holds at most 100 messages. */
const PAGE_DIGITS = 2;
const PAGE = 10 ** PAGE_DIGITS;

/**
 * Keeps the messages of one session of the SDK's `WebStandardStreamableHTTPServerTransport` (or its wrapper for
 * `node:http`), so that its clients can resume with `Last-Event-ID`, also after a restart. Make one for each session.
 *
 * Ids are sealed for the owner and the session: one that is foreign, made up or too old is answered with 400. Messages
 * are stored in the order of the calls, awaited or not. What the SDK leaves out cannot be added here: it sends no
 * priming event on the GET stream, so a client that loses it before the first message does not resume.
 *
 * @example
 * const sessionId = randomUUID();
 * const eventStore = createEventStore(tidings, { owner, sessionId });
 * const transport = new WebStandardStreamableHTTPServerTransport({ sessionIdGenerator: () => sessionId, eventStore });
 */
export function createEventStore(
  tidings: Tidings,
  { owner, sessionId, retentionMs = HOUR_MS, clock = systemClock }: EventStoreOptions,
): EventStore {
  const purpose = `mcp-message:${sessionId}`;
  const prefix = `mcp-message/${JSON.stringify(sessionId)}/`;
  const newestKey = `${prefix}newest`;
  let waiting: Waiting[] = [];
  let queue: Promise<unknown> = Promise.resolve();
  let newest = 0;

  const keyOf = (number: number): string => prefix + String(number).padStart(DIGITS, "0");

  function enqueue<T>(work: () => Promise<T>): Promise<T> {
    const done = queue.then(work);
    queue = done.catch(() => {});
    return done;
  }

  /** Numbers begin at the time of day, so that none comes again after everything has expired. */
  async function newestIn(values: Transaction): Promise<number> {
    const stored = await values.get(newestKey);
    return Math.max(newest, typeof stored === "number" ? stored : clock.now());
  }

  async function storeWaiting(): Promise<void> {
    const batch = waiting;
    waiting = [];
    if (batch.length === 0) return;
    try {
      const first = await tidings.transaction(owner, async (values) => {
        const options = { expiresInMs: retentionMs };
        const before = await newestIn(values);
        for (const [index, { stream, message }] of batch.entries()) {
          await values.put(keyOf(before + index + 1), { stream, message }, options);
        }
        await values.put(newestKey, before + batch.length, options);
        return before + 1;
      });
      newest = first + batch.length - 1;
      for (const [index, { resolve }] of batch.entries()) {
        resolve(tidings.sealPage(owner, purpose, first + index));
      }
    } catch (error) {
      for (const { reject } of batch) reject(error);
    }
  }

  function numberOf(id: EventId): number | undefined {
    try {
      return tidings.openPage(owner, purpose, id);
    } catch (error) {
      if (error instanceof TidingsError && error.code === "BAD_CURSOR") return undefined;
      throw error;
    }
  }

  async function find(id: EventId): Promise<{ number: number; stream: StreamId } | undefined> {
    const number = numberOf(id);
    if (number === undefined) return undefined;
    const stored = await tidings.transaction(owner, (values) => values.get(keyOf(number)));
    return stored === undefined ? undefined : { number, stream: (stored as Stored).stream };
  }

  return {
    storeEvent(stream, message) {
      return new Promise((resolve, reject) => {
        waiting.push({ stream, message, resolve, reject });
        if (waiting.length === 1) void enqueue(storeWaiting);
      });
    },

    /**
     * Undefined for an id that cannot be resumed from, which the SDK answers with 400. Otherwise a name that no stream
     * has: the SDK would refuse a stream by its own name as long as it takes its dead connection for alive, and learns
     * the name from `replayEventsAfter`.
     */
    async getStreamIdForEventId(id) {
      return (await find(id)) === undefined ? undefined : `resumed after ${id}`;
    },

    replayEventsAfter(id, { send }) {
      return enqueue(async () => {
        const position = await find(id);
        if (position === undefined) throw unknownId();
        const { number, stream } = position;
        const last = await tidings.transaction(owner, newestIn);
        for (let page = Math.floor((number + 1) / PAGE); page * PAGE <= last; page++) {
          const start = keyOf(page * PAGE).slice(0, -PAGE_DIGITS);
          const items = await tidings.transaction(owner, (values) => values.list(start, PAGE));
          for (const { key, value } of items) {
            const at = Number(key.slice(prefix.length));
            const stored = value as Stored;
            if (at <= number || stored.stream !== stream || !("jsonrpc" in stored.message)) continue;
            await send(tidings.sealPage(owner, purpose, at), stored.message);
          }
        }
        void enqueue(() => new Promise((resolve) => setImmediate(resolve)));
        return stream;
      });
    },
  };
}

function unknownId(): TidingsError {
  return new TidingsError("BAD_CURSOR", "The event id is none of this session, or it is no longer kept.", {
    hint: "Connect without Last-Event-ID, and read jobs by their cursor.",
  });
}
