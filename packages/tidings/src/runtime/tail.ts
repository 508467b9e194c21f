/** Follows a log at the pace of one reader who asks: a subscription whose items wait in a short queue. */
import type { Subscriber, Subscription, TailItem } from "./tidings.ts";

/** Items that are fetched ahead of the reader. */
const AHEAD = 64;

/** Yields items in order until the signal aborts. @param subscribe - Called once, at the first request for an item. */
export async function* tailLog(
  subscribe: (subscriber: Subscriber) => Promise<Subscription>,
  signal: AbortSignal,
): AsyncGenerator<TailItem, void, undefined> {
  const wakeUp = createWakeUp();
  let queue: readonly TailItem[] = [];
  let failure: { readonly error: unknown } | undefined;
  const subscription = await subscribe({
    take(items) {
      if (queue.length > 0) return 0;
      queue = items.slice(0, AHEAD);
      wakeUp.wake();
      return queue.length;
    },
    fail(error) {
      failure = { error };
      wakeUp.wake();
    },
  });
  // A reader that has given up need not ask again for the subscription to end.
  const stop = () => {
    subscription.stop();
    wakeUp.wake();
  };
  signal.addEventListener("abort", stop);
  try {
    while (!signal.aborted) {
      wakeUp.reset();
      for (const item of queue) {
        if (signal.aborted) return;
        yield item;
      }
      const wasFull = queue.length > 0;
      queue = [];
      if (failure !== undefined) throw failure.error;
      if (wasFull) subscription.resume();
      if (queue.length === 0) await wakeUp.woken();
    }
  } finally {
    signal.removeEventListener("abort", stop);
    stop();
  }
}

/** Something happened since it was last looked at, however often and whoever waits. */
interface WakeUp {
  wake(): void;
  reset(): void;
  /** Resolves at the next wake, at once when there was one since the last reset. */
  woken(): Promise<void>;
}

export function createWakeUp(): WakeUp {
  let awake = false;
  let listener: (() => void) | undefined;
  return {
    wake() {
      awake = true;
      listener?.();
      listener = undefined;
    },
    reset() {
      awake = false;
    },
    woken: () =>
      awake
        ? Promise.resolve()
        : new Promise<void>((resolve) => {
            listener = resolve;
          }),
  };
}
