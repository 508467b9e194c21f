/**
 * What the server of a 2025 session says by itself: it goes to the session's one GET stream.
 *
 *   event of a job ──▶ waits for a stream ──▶ kept, sent ──▶ sent again when its stream broke on the way
 *   anything else ──▶ kept, and sent when there is a stream: its sender may be a tool that must answer
 *
 * Events wait because their sender can: it reads the log, so nothing piles up.
 */
import type { JSONRPCMessage } from "@modelcontextprotocol/server";
import { CURSOR_META_KEY } from "../../model/projection/notification.ts";
import type { Kept, SessionReplay } from "./session-replay.ts";
import type { SseStream } from "./sse.ts";

export interface Outbox {
  readonly isOpen: boolean;
  /**
   * The newest stream is the session's; the one before it ends.
   *
   * @param missed - What the client has not got. It is sent first; a message without an id leaves its position as it is.
   */
  open(stream: SseStream, missed: readonly Missed[]): void;
  /** Resolves once the message was handed over, or kept for a resumption. */
  send(message: JSONRPCMessage): Promise<void>;
  close(): void;
}

export type Missed = Pick<Kept, "message"> & { readonly id?: string };

/** What may wait for a reader that is slower than the server speaks; then it is cut, and resumes when it can. */
const MAX_WAITING_BYTES = 8 * 1_024 * 1_024;

export function createOutbox(replay: SessionReplay): Outbox {
  let stream: SseStream | undefined;
  /** What the stream was told by its resumption. */
  let resumed: ReadonlySet<string | undefined> = new Set();
  let over = false;
  let waiting: (() => void)[] = [];
  let unread = 0;

  const wake = () => {
    const woken = waiting;
    waiting = [];
    for (const resolve of woken) resolve();
  };

  async function sendOn(current: SseStream, { id, message }: Missed): Promise<boolean> {
    const size = Buffer.byteLength(JSON.stringify(message));
    unread += size;
    if (unread > MAX_WAITING_BYTES && unread > size) current.end();
    try {
      return await current.send({ ...(id === undefined ? {} : { id }), event: "message", data: message });
    } finally {
      unread -= size;
    }
  }

  return {
    get isOpen() {
      return stream !== undefined;
    },
    open(next, missed) {
      if (next.signal.aborted) return;
      const before = stream;
      stream = next;
      before?.end();
      next.signal.addEventListener("abort", () => {
        if (stream === next) stream = undefined;
      });
      for (const one of missed) void sendOn(next, one);
      resumed = new Set(missed.map(({ id }) => id));
      if (over) next.end();
      wake();
    },
    async send(message) {
      const isPatient = isEvent(message);
      let kept: Kept | undefined;
      while (!over) {
        if (stream === undefined && isPatient) await new Promise<void>((resolve) => waiting.push(resolve));
        if (over) return;
        kept ??= replay.keep(message);
        if (resumed.has(kept.id)) return;
        if (stream !== undefined && (await sendOn(stream, kept))) return;
        if (!isPatient) return;
      }
    },
    close() {
      over = true;
      stream?.end();
      wake();
    },
  };
}

/** Readers know repeats of it by its id. */
function isEvent(message: JSONRPCMessage): boolean {
  const params = "params" in message ? message.params : undefined;
  const meta = (params as { _meta?: unknown } | undefined)?._meta;
  return typeof meta === "object" && meta !== null && Object.hasOwn(meta, CURSOR_META_KEY);
}
