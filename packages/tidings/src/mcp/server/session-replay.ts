/**
 * What a 2025 session said last, so that a stream that broke can be resumed by `Last-Event-ID`.
 *
 *   each message ──▶ one stream of the session ──▶ kept under a sealed number, bounded by bytes and count
 *   GET with an id that is kept ──▶ exactly that stream's messages behind it, in order
 *   any other id (never issued, another session's, no longer kept) ──▶ nothing
 *
 * One of these belongs to one session, and a session to one owner, so no stream of anybody else can be asked for. The
 * oldest go first: whoever's id is still kept has lost nothing behind it.
 */
import { createHash } from "node:crypto";
import type { EventStore, JSONRPCMessage } from "@modelcontextprotocol/server";
import { createCursorSeal } from "../../engine/cursor.ts";
import type { Random } from "../../model/clock.ts";

export interface Kept {
  readonly id: string;
  readonly stream: string;
  /** Undefined for the priming event, which is never sent again. */
  readonly message: JSONRPCMessage | undefined;
}

export interface SessionReplay {
  /** For the SDK's transport, which has a stream for each POST. */
  readonly eventStore: EventStore;
  keep(stream: string, message: JSONRPCMessage | undefined): Kept;
  /** The stream of an id; undefined when it is not kept here. */
  streamOf(id: string): string | undefined;
  /** The messages of its stream behind an id, in order. */
  after(id: string): readonly Kept[];
}

const MAX_BYTES = 262_144;
const MAX_MESSAGES = 1_000;

export function createSessionReplay(random: Random): SessionReplay {
  const secret = createHash("sha256").update(random.id()).digest().subarray(0, 16);
  const { seal, open } = createCursorSeal(secret, "", "session");
  const kept = new Map<number, Kept & { readonly bytes: number }>();
  let last = 0;
  let bytes = 0;
  let replays = 0;

  function keep(stream: string, message: JSONRPCMessage | undefined): Kept {
    last += 1;
    const size = message === undefined ? 0 : Buffer.byteLength(JSON.stringify(message));
    const entry = { id: seal(last), stream, message, bytes: size };
    kept.set(last, entry);
    bytes += size;
    for (const [position, oldest] of kept) {
      // The newest stays whatever its size: somebody is about to be told it.
      if (position === last || (kept.size <= MAX_MESSAGES && bytes <= MAX_BYTES)) break;
      kept.delete(position);
      bytes -= oldest.bytes;
    }
    return entry;
  }

  function find(id: string) {
    const position = open(id);
    const entry = position === undefined ? undefined : kept.get(position);
    return entry === undefined || position === undefined ? undefined : { position, entry };
  }

  function after(id: string): readonly Kept[] {
    const found = find(id);
    if (found === undefined) return [];
    return [...kept]
      .filter(([position, { stream }]) => position > found.position && stream === found.entry.stream)
      .map(([, entry]) => entry)
      .filter(({ message }) => message !== undefined);
  }

  return {
    keep,
    after,
    streamOf: (id) => find(id)?.entry.stream,
    eventStore: {
      async storeEvent(stream, message) {
        const { id } = keep(stream, Object.keys(message).length === 0 ? undefined : message);
        // The transport attaches a resumed stream only after the replay: what comes in between would find no stream.
        if (replays > 0) await nextTurn();
        return id;
      },
      async replayEventsAfter(id, { send }) {
        replays += 1;
        try {
          const stream = find(id)?.entry.stream;
          if (stream === undefined) throw new Error("This event id is not kept.");
          for (const entry of after(id)) if (entry.message !== undefined) await send(entry.id, entry.message);
          return stream;
        } finally {
          void nextTurn().then(() => {
            replays -= 1;
          });
        }
      },
    },
  };
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}
