/** Follows a log at the pace of one reader who asks: a subscription whose items wait in a short queue. */
import type { Subscriber, Subscription, TailItem } from "./tidings.ts";

/** Items that are fetched ahead of the reader. */
const AHEAD = 64;

/** Yields items in order until the signal aborts. @param subscribe - Called once, at the first request for an item. */
export async function* tailLog(
  subscribe: (subscriber: Subscriber) => Promise<Subscription>,
  signal: AbortSignal,
): AsyncGenerator<TailItem, void, undefined> {
  const bell = createBell();
  let queue: readonly TailItem[] = [];
  let failure: { readonly error: unknown } | undefined;
  const subscription = await subscribe({
    take(items) {
      if (queue.length > 0) return 0;
      queue = items.slice(0, AHEAD);
      bell.ring();
      return queue.length;
    },
    fail(error) {
      failure = { error };
      bell.ring();
    },
  });
  // A reader that has given up need not ask again for the subscription to end.
  const stop = () => {
    subscription.stop();
    bell.ring();
  };
  signal.addEventListener("abort", stop);
  try {
    while (!signal.aborted) {
      bell.reset();
      for (const item of queue) {
        if (signal.aborted) return;
        yield item;
      }
      const wasFull = queue.length > 0;
      queue = [];
      if (failure !== undefined) throw failure.error;
      if (wasFull) subscription.resume();
      if (queue.length === 0) await bell.rung();
    }
  } finally {
    signal.removeEventListener("abort", stop);
    stop();
  }
}

interface Bell {
  ring(): void;
  reset(): void;
  /** Resolves at the next ring, at once when it rang since the last reset. */
  rung(): Promise<void>;
}

export function createBell(): Bell {
  let rang = false;
  let listener: (() => void) | undefined;
  return {
    ring() {
      rang = true;
      listener?.();
      listener = undefined;
    },
    reset() {
      rang = false;
    },
    rung: () =>
      rang
        ? Promise.resolve()
        : new Promise<void>((resolve) => {
            listener = resolve;
          }),
  };
}
