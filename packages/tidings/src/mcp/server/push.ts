/** Tells a part of the log to an event stream, at the stream's own pace and without a thought while nothing happens. */
import type { SubscribeRequest, Subscription, TailItem, Tidings } from "../../runtime/tidings.ts";
import type { SseFrame, SseStream } from "./sse.ts";

export type TailEvent = Extract<TailItem, { kind: "event" }>;

export interface Projection {
  /** The frames of an event, as `formatFrame` gives them; an empty text says nothing. */
  toText(item: TailEvent): string;
  /** The frames that are told instead of events after the cursor that are no longer kept. */
  gapToFrames(cursor: string): Promise<readonly SseFrame[]>;
  /** The stream has taken everything up to this event. */
  onTold?(item: TailEvent): void;
  /** Nothing is told behind this event. */
  isLast?(item: TailEvent): boolean;
}

/** Resolves when the stream is over or the last event was told. @throws what the store throws. */
export async function pushTo(
  stream: SseStream,
  tidings: Tidings,
  request: SubscribeRequest,
  { toText, gapToFrames, onTold, isLast }: Projection,
): Promise<void> {
  if (stream.signal.aborted) return;
  let subscription: Subscription | undefined;
  let busy = false;
  await new Promise<void>((resolve, reject) => {
    const tellGap = async (cursor: string) => {
      busy = true;
      // Sent, not offered: that something is missing must be said, also to a stream that is full by now.
      for (const frame of await gapToFrames(cursor)) await stream.send(frame);
      busy = false;
      subscription?.resume();
    };
    stream.signal.addEventListener("abort", () => resolve());
    stream.onRoom(() => subscription?.resume());
    tidings
      .subscribe(request, {
        take(items) {
          if (busy) return 0;
          const [first] = items;
          if (first?.kind === "gap") {
            tellGap(first.cursor).catch(reject);
            return 1;
          }
          const events = items as readonly TailEvent[];
          const last = isLast === undefined ? -1 : events.findIndex(isLast);
          const told = last === -1 ? events : events.slice(0, last + 1);
          const taken = stream.take(told.map(toText));
          const newest = told[taken - 1];
          if (newest !== undefined) onTold?.(newest);
          if (last !== -1 && taken === told.length) resolve();
          return taken;
        },
        fail: reject,
      })
      .then((begun) => {
        subscription = begun;
        if (stream.signal.aborted) begun.stop();
        else begun.resume();
      }, reject);
  }).finally(() => subscription?.stop());
}
