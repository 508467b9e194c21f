/**
 * What 2025 sessions said last, so that a stream that broke can be resumed by `Last-Event-ID`.
 *
 *   each message ──▶ one stream of its session ──▶ kept under a number, bounded by bytes and age
 *   GET with an id ──▶ exactly that stream's messages behind it, in order; when some are gone, it is said
 *   any other id (never issued, another session's) ──▶ nothing
 *
 *   id: {stream, sealed}.{number, sealed}     both for one session
 *
 * One of these belongs to one session, and a session to one owner, so no stream of anybody else can be asked for. The
 * oldest go first.
 */
import { createHash } from "node:crypto";
import type { EventStore, JSONRPCMessage } from "@modelcontextprotocol/server";
import { createCursorSeal } from "../../engine/cursor.ts";
import type { Clock, Random } from "../../model/clock.ts";

export interface Kept {
  readonly id: string;
  readonly message: JSONRPCMessage;
}

/** How a stream goes on behind an id. */
export interface Resumption {
  /** The name of the stream; undefined for a call that has ended, of which nothing is kept any more. */
  readonly stream: string | undefined;
  /** In order. */
  readonly messages: readonly Kept[];
  /** Messages behind the id are no longer kept. */
  readonly isTruncated: boolean;
  /** The call was cancelled: its client waits for nothing. */
  readonly isCancelled: boolean;
}

export interface SessionReplay {
  /** For the SDK's transport, which has a stream for each POST. */
  readonly eventStore: EventStore;
  /** Keeps what is said on the GET stream. */
  keep(message: JSONRPCMessage): Kept;
  /** The id of the GET stream's newest message: whoever resumes behind it is given what comes. */
  position(): string;
  /** Undefined for an id that was not issued in this session. */
  resume(id: string): Resumption | undefined;
  /** This answer, when it comes, ends its call: it is stored nowhere, and nothing of the call is kept. */
  withdraw(answer: JSONRPCMessage): void;
  /** The stream that a message was last stored for. */
  readonly latestStream: string;
  /** Keeps nothing any more. */
  close(): void;
}

export interface SessionReplays {
  /** @param describeLoss - What is told on a call's stream instead of messages that are no longer kept. */
  open(describeLoss: () => Promise<JSONRPCMessage>): SessionReplay;
}

export interface SessionReplaysOptions {
  readonly clock: Clock;
  readonly random: Random;
  /** How long a message is kept, in milliseconds. */
  readonly replayMs: number;
  /**
   * What all sessions keep together, in bytes. Each has an equal part, at most 256 KiB; its newest message may be larger
   * while there is room.
   */
  readonly replayBytes: number;
}

/** The name of the GET stream among the streams of a session; those of POSTs have random ones. */
export const GET_STREAM = "GET";

const MAX_BYTES_PER_SESSION = 262_144;
/** What an entry costs beside its text; most of them are the one message of their stream. */
const ENTRY_BYTES = 512;
const SWEEPS_PER_LIFETIME = 10;
/** Clients that look for a cancelled call do so at once. */
const MAX_CANCELLED = 100;

interface Stream {
  readonly number: number;
  readonly name: string;
  /** The newest message that is no longer kept. */
  lost: number;
  /** The newest message. */
  newest: number;
  kept: number;
  isOver: boolean;
}

interface Entry extends Kept {
  readonly stream: Stream;
  readonly bytes: number;
  readonly keptAt: number;
}

interface Part {
  trim(maxBytes: number): void;
}

export function createSessionReplays(options: SessionReplaysOptions): SessionReplays {
  const { clock, random, replayMs, replayBytes } = options;
  /** Those that keep something. */
  const parts = new Set<Part>();
  let total = 0;
  let cancelSweep: (() => void) | undefined;

  const share = () => Math.min(MAX_BYTES_PER_SESSION, replayBytes / Math.max(1, parts.size));

  function sweepLater(): void {
    cancelSweep ??= clock.after(replayMs / SWEEPS_PER_LIFETIME, () => {
      cancelSweep = undefined;
      for (const part of parts) part.trim(share());
      if (parts.size > 0) sweepLater();
    });
  }

  function open(describeLoss: () => Promise<JSONRPCMessage>): SessionReplay {
    const secret = createHash("sha256").update(random.id()).digest().subarray(0, 16);
    const streamSeal = createCursorSeal(secret, "", "stream");
    const messageSeal = createCursorSeal(secret, "", "message");
    /** By number, oldest first. */
    const kept = new Map<number, Entry>();
    /** By name and by number: those that something is kept of, or that go on. */
    const streams = new Map<string | number, Stream>();
    const withdrawn = new WeakSet<JSONRPCMessage>();
    /** The numbers of the streams of calls that were cancelled last. */
    const cancelled = new Set<number>();
    let last = 0;
    let bytes = 0;
    let replays = 0;
    let latestStream = "";

    function streamOf(name: string): Stream {
      const known = streams.get(name);
      if (known !== undefined) return known;
      last += 1;
      const stream: Stream = { number: last, name, lost: 0, newest: last, kept: 0, isOver: false };
      streams.set(name, stream).set(stream.number, stream);
      return stream;
    }

    const idOf = (stream: Stream, number: number): string =>
      `${streamSeal.seal(stream.number)}.${messageSeal.seal(number)}`;

    function forgetWhenOver(stream: Stream): void {
      if (!stream.isOver || stream.kept > 0) return;
      streams.delete(stream.name);
      streams.delete(stream.number);
    }

    function drop(number: number, { stream, bytes: size }: Entry): void {
      kept.delete(number);
      bytes -= size;
      total -= size;
      stream.kept -= 1;
      stream.lost = number;
      forgetWhenOver(stream);
      if (kept.size > 0) return;
      parts.delete(part);
      if (parts.size > 0) return;
      cancelSweep?.();
      cancelSweep = undefined;
    }

    function cancel(stream: Stream): void {
      for (const [number, entry] of kept) if (entry.stream === stream) drop(number, entry);
      cancelled.add(stream.number);
      for (const oldest of cancelled) {
        if (cancelled.size <= MAX_CANCELLED) break;
        cancelled.delete(oldest);
      }
    }

    const part: Part = {
      trim(maxBytes) {
        const oldest = clock.monotonic() - replayMs;
        for (const [number, entry] of kept) {
          const isSmall = bytes <= maxBytes || (number === last && total <= replayBytes);
          if (isSmall && entry.keptAt > oldest) return;
          drop(number, entry);
        }
      },
    };

    function keep(stream: Stream, message: JSONRPCMessage): Kept {
      last += 1;
      stream.newest = last;
      stream.kept += 1;
      const size = Buffer.byteLength(JSON.stringify(message)) + ENTRY_BYTES;
      const entry = { id: idOf(stream, last), stream, message, bytes: size, keptAt: clock.monotonic() };
      kept.set(last, entry);
      bytes += size;
      total += size;
      parts.add(part);
      part.trim(share());
      sweepLater();
      return entry;
    }

    function resume(id: string): Resumption | undefined {
      const [stream, message, ...more] = id.split(".");
      const streamNumber = streamSeal.open(stream ?? "");
      const number = messageSeal.open(message ?? "");
      if (streamNumber === undefined || number === undefined || more.length > 0) return undefined;
      const found = streams.get(streamNumber);
      if (found === undefined) {
        const isCancelled = cancelled.has(streamNumber);
        return { stream: undefined, messages: [], isTruncated: true, isCancelled };
      }
      part.trim(share());
      const messages: Kept[] = [];
      for (const [position, entry] of kept) {
        if (position > number && entry.stream === found) messages.push(entry);
      }
      const stillThere = streams.get(streamNumber)?.name;
      return { stream: stillThere, messages, isTruncated: found.lost > number, isCancelled: false };
    }

    return {
      keep: (message) => keep(streamOf(GET_STREAM), message),
      position() {
        const stream = streamOf(GET_STREAM);
        return idOf(stream, stream.newest);
      },
      resume,
      withdraw: (answer) => void withdrawn.add(answer),
      get latestStream() {
        return latestStream;
      },
      close() {
        for (const [number, entry] of kept) drop(number, entry);
      },
      eventStore: {
        async storeEvent(name, message) {
          latestStream = name;
          const stream = streamOf(name);
          if ("result" in message || "error" in message) stream.isOver = true;
          const isWithdrawn = withdrawn.has(message);
          const isSaid = Object.keys(message).length > 0 && !isWithdrawn;
          const id = isSaid ? keep(stream, message).id : idOf(stream, stream.newest);
          if (isWithdrawn) cancel(stream);
          forgetWhenOver(stream);
          // The transport attaches a resumed stream only after the replay: what comes in between would find no stream.
          if (replays > 0) await nextTurn();
          return id;
        },
        async replayEventsAfter(id, { send }) {
          replays += 1;
          try {
            const resumption = resume(id);
            if (resumption?.stream === undefined) throw new Error("This event id is not kept.");
            // Without an id: the client's position stays where it is until it has something.
            if (resumption.isTruncated) await send("", await describeLoss());
            for (const { id: at, message } of resumption.messages) await send(at, message);
            return resumption.stream;
          } finally {
            void nextTurn().then(() => {
              replays -= 1;
            });
          }
        },
      },
    };
  }

  return { open };
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}
