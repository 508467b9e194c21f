/** The event streams that are open now: bounded per owner, and ended in good order when the server stops. */
import type { ServerResponse } from "node:http";
import type { Clock } from "../../model/clock.ts";
import { TidingsError } from "../../model/error.ts";
import type { SseFrame, SseStream } from "./sse.ts";
import { openSse } from "./sse.ts";

export interface StreamOpening {
  readonly opening?: SseFrame;
  /** The last text when the server stops, as `formatFrame` gives it. */
  readonly farewell?: string;
  /** What is sent instead of silence, as `formatFrame` gives it. Default: a comment. */
  readonly heartbeat?: () => string;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Streams {
  /** @throws TidingsError TOO_MANY_REQUESTS when the owner has too many streams open; nothing was sent then. */
  check(owner: string): void;
  /** @throws TidingsError TOO_MANY_REQUESTS */
  open(owner: string, res: ServerResponse, opening?: StreamOpening): SseStream;
  /** Ends all streams. */
  close(): void;
}

export interface StreamsOptions {
  readonly clock: Clock;
  readonly heartbeatMs: number;
  readonly stallMs: number;
  readonly maxStreamsPerOwner: number;
}

export function createStreams(options: StreamsOptions): Streams {
  const { clock, heartbeatMs, stallMs, maxStreamsPerOwner } = options;
  const open = new Map<SseStream, string | undefined>();
  const perOwner = new Map<string, number>();

  function add(owner: string, step: 1 | -1): void {
    const count = (perOwner.get(owner) ?? 0) + step;
    if (count === 0) perOwner.delete(owner);
    else perOwner.set(owner, count);
  }

  const streams: Streams = {
    check(owner) {
      if ((perOwner.get(owner) ?? 0) < maxStreamsPerOwner) return;
      throw new TidingsError(
        "TOO_MANY_REQUESTS",
        `You have ${maxStreamsPerOwner} event streams open, and no more are allowed.`,
        { hint: "Close one of them first.", data: { limit: maxStreamsPerOwner, retryAfterMs: 5_000 } },
      );
    },
    open(owner, res, { farewell, ...opening } = {}) {
      streams.check(owner);
      const stream = openSse(res, { clock, heartbeatMs, stallMs, ...opening });
      open.set(stream, farewell);
      add(owner, 1);
      void stream.closed.then(() => {
        open.delete(stream);
        add(owner, -1);
      });
      return stream;
    },
    close() {
      for (const [stream, farewell] of open) stream.end(farewell);
    },
  };
  return streams;
}
