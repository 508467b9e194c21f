/**
 * Runs users' callbacks inside a transaction. A callback that waited for another write of the same engine would wait
 * for itself for ever; it is refused at once instead. A callback that never ends is given up, so that writers go on.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import type { Clock } from "../model/clock.ts";
import { TidingsError } from "../model/error.ts";

/** Long enough for any honest batch; shorter than the patience of other processes that want to write. */
export const CALLBACK_LIMIT_MS = 4_000;

export interface CallbackScope {
  /** @throws TidingsError BAD_DEFINITION when called from inside a callback that is still running. */
  refuseInside(): void;
  /** Runs `work`; `check`, called by everything that the callback is given, throws once the transaction is over. */
  run<T>(work: (check: () => void) => T | Promise<T>): Promise<T>;
}

export function createCallbackScope(clock: Clock): CallbackScope {
  const storage = new AsyncLocalStorage<{ running: boolean }>();
  return {
    refuseInside() {
      if (storage.getStore()?.running !== true) return;
      throw new TidingsError(
        "BAD_DEFINITION",
        "A transaction's callback wrote to the store by another way than its transaction, which would wait for ever.",
        { hint: "Use only the transaction inside the callback; do everything else after it." },
      );
    },
    async run(work) {
      const state = { running: true };
      const check = () => {
        if (state.running) return;
        throw new TidingsError(
          "BAD_DEFINITION",
          "The transaction is over, so nothing can be read or written in it.",
          {
            hint: "Await every call on the transaction before its callback returns.",
          },
        );
      };
      let stopTimer = () => {};
      try {
        const begun = storage.run(state, () => work(check));
        if (!(begun instanceof Promise)) return begun;
        const limit = new Promise<never>((_, reject) => {
          stopTimer = clock.after(CALLBACK_LIMIT_MS, () => {
            reject(
              new TidingsError(
                "STORE_BUSY",
                `A transaction's callback took longer than ${CALLBACK_LIMIT_MS / 1000} seconds, so its changes were undone.`,
                { hint: "Do slow work before the transaction and only write inside it." },
              ),
            );
          });
        });
        return await Promise.race([begun, limit]);
      } finally {
        state.running = false;
        stopTimer();
      }
    },
  };
}
