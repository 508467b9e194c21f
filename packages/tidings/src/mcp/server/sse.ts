/**
 * Server-sent events over `node:http`.
 *
 *   open ──take──▶ open          as much as the socket takes: whoever tells a log to this stream keeps the rest
 *     │  ──send──▶ open          a send waits while the socket is full
 *     │  ──beat──▶ open          every heartbeat, unless the socket is full
 *     ├──end──▶ over             said by us
 *     ├──client gone──▶ over
 *     └──full for too long──▶ over   the client goes on from its last cursor
 */
import type { ServerResponse } from "node:http";
import type { Clock } from "../../model/clock.ts";
import { TidingsError } from "../../model/error.ts";

export interface SseFrame {
  /** Visible ASCII without spaces; left out = the reader's position stays as it is. */
  readonly id?: string;
  /** Words of letters, digits, `_`, `.`, `/` and `-`. */
  readonly event?: string;
  /** Anything that JSON can hold; it becomes one line. Left out = the frame only moves the reader's position. */
  readonly data?: unknown;
  /** How soon to come back after a break, in milliseconds. Such a frame has no data but an empty line of it, so that readers notice its id. */
  readonly retryMs?: number;
}

export interface SseStream {
  /** Aborts once nothing more can be sent. */
  readonly signal: AbortSignal;
  /**
   * Writes frames as `formatFrame` gives them, several at once. Returns how many it took: fewer than it was given means
   * that the socket is full. At most 64 KiB and one frame wait in it, whatever the reader does.
   */
  take(texts: readonly string[]): number;
  /** Calls back whenever a full socket takes more again. */
  onRoom(call: () => void): void;
  /** Resolves once the socket takes more. False = the stream is over. */
  room(): Promise<boolean>;
  /** Sends one frame and waits until the socket takes more. False = the stream is over and the frame may be lost. */
  send(frame: SseFrame): Promise<boolean>;
  /** Sends a last text, if any, as `formatFrame` gives it, and ends the answer. */
  end(farewell?: string): void;
  /** Resolves once the connection has let go of the stream. */
  readonly closed: Promise<void>;
}

export interface SseOptions {
  readonly clock: Clock;
  /** Silence never lasts longer, in milliseconds. */
  readonly heartbeatMs: number;
  /** What is sent then, as `formatFrame` gives it. Default: a comment. */
  readonly heartbeat?: () => string;
  /**
   * How long the socket may stay full before the stream is cut, in milliseconds. Only a system's buffer that has emptied
   * by a good part takes more, so a reader of a few bytes a second is cut too.
   */
  readonly stallMs: number;
  /** The first thing that is sent, together with the headers. Default: a comment. */
  readonly opening?: SseFrame;
  readonly headers?: Readonly<Record<string, string>>;
}

/** What is written at a time, in characters. */
const CHUNK = 65_536;
const COMMENT = ": keep-alive\n\n";
const ID_PATTERN = /^[!-~]+$/;
const EVENT_PATTERN = /^[A-Za-z0-9_./-]+$/;

/** No proxy may hold it back, keep it or press it together. */
export const SSE_HEADERS: Readonly<Record<string, string>> = {
  "Content-Type": "text/event-stream",
  "Cache-Control": "no-cache, no-transform",
  "X-Accel-Buffering": "no",
};

/**
 * One frame as it stands on the wire. JSON escapes line breaks and NUL, so `data` is always one line.
 *
 * @throws TidingsError BAD_EVENT for an id or a name that could forge or clear a field.
 */
export function formatFrame({ id, event, data, retryMs }: SseFrame): string {
  if (id !== undefined && !ID_PATTERN.test(id)) throw badField("id", id);
  if (event !== undefined && !EVENT_PATTERN.test(event)) throw badField("event name", event);
  const json = data === undefined ? undefined : JSON.stringify(data);
  return [
    id === undefined ? "" : `id: ${id}\n`,
    event === undefined ? "" : `event: ${event}\n`,
    json === undefined ? "" : `data: ${json}\n`,
    retryMs === undefined ? "" : `retry: ${retryMs}\ndata: \n`,
    "\n",
  ].join("");
}

function badField(field: string, value: string): TidingsError {
  return new TidingsError(
    "BAD_EVENT",
    `${JSON.stringify(value)} cannot be the ${field} of a stream's frame.`,
    {
      hint: "Use visible ASCII characters only.",
    },
  );
}

/** Begins an event stream: headers and a first byte leave at once. */
export function openSse(res: ServerResponse, options: SseOptions): SseStream {
  const { clock, heartbeatMs, heartbeat = () => COMMENT, stallMs } = options;
  const over = new AbortController();
  let stopHeartbeat = () => {};
  let stopStall = () => {};
  let waiting: ((more: boolean) => void)[] = [];
  const listeners: (() => void)[] = [];
  let stalled = false;

  const release = (more: boolean) => {
    stopStall();
    const released = waiting;
    waiting = [];
    for (const resolve of released) resolve(more);
  };
  const finish = () => {
    if (over.signal.aborted) return;
    stopHeartbeat();
    over.abort();
    release(false);
  };
  const closed = new Promise<void>((resolve) => {
    const onClose = () => {
      finish();
      stopStall();
      resolve();
    };
    // A client that left before we came: there will be no "close" any more.
    if (res.destroyed || res.closed) onClose();
    else res.once("close", onClose);
  });
  res.on("error", finish);
  res.on("drain", () => {
    stalled = false;
    release(true);
    for (const call of listeners) call();
  });

  const cutWhenStalled = () => {
    if (stalled) return;
    stalled = true;
    stopStall = clock.after(stallMs, () => res.destroy());
  };
  const beat = () => {
    stopHeartbeat = clock.after(heartbeatMs, () => {
      if (res.writableNeedDrain) cutWhenStalled();
      else res.write(heartbeat());
      beat();
    });
  };

  const room = (): Promise<boolean> => {
    if (over.signal.aborted) return Promise.resolve(false);
    if (!res.writableNeedDrain) return Promise.resolve(true);
    cutWhenStalled();
    return new Promise((resolve) => waiting.push(resolve));
  };

  if (!over.signal.aborted) {
    res.socket?.setTimeout(0);
    res.writeHead(200, { ...SSE_HEADERS, ...options.headers });
    res.write(options.opening === undefined ? ": open\n\n" : formatFrame(options.opening));
    beat();
  }

  return {
    signal: over.signal,
    closed,
    take(texts) {
      if (over.signal.aborted) return texts.length;
      let taken = 0;
      while (taken < texts.length && !res.writableNeedDrain) {
        let chunk = "";
        while (taken < texts.length && chunk.length < CHUNK) chunk += texts[taken++];
        res.write(chunk);
      }
      if (taken < texts.length) cutWhenStalled();
      return taken;
    },
    onRoom(call) {
      listeners.push(call);
    },
    room,
    send(frame) {
      if (!over.signal.aborted) res.write(formatFrame(frame));
      return room();
    },
    end(farewell) {
      if (over.signal.aborted) return;
      finish();
      res.end(farewell);
      if (res.writableFinished) return;
      // The time that it was full already does not count: this is its last chance to read on.
      stalled = false;
      cutWhenStalled();
    },
  };
}
