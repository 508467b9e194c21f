/** What handlers do outside the store, written down by a witness that survives their process. */
import { AsyncLocalStorage } from "node:async_hooks";

/** One process that runs a handler; a killed one does nothing any more. */
export interface Life {
  readonly dead: boolean;
}

/** Which life a piece of running code belongs to. */
export const lives: AsyncLocalStorage<Life> = new AsyncLocalStorage<Life>();

/** One call to the outside. */
export interface Effect {
  readonly key: string;
  readonly what: unknown;
}

/** Stands for an outside service that handlers call: a mailer, a payment, any HTTP API. */
export interface Effects {
  /**
   * The call itself: give it the key that the real service would get, and what was asked of it. Never settles for a
   * handler whose process was killed.
   */
  happen(key: string, what?: unknown): Promise<void>;
  /** Every call since the last `forget`, repeats included. */
  readonly seen: readonly Effect[];
  forget(): void;
}

/**
 * Creates a witness for `crashEverywhere(job, input, { effects })`: in every run each effect of a run without a crash must
 * have happened at least once, under the very same key.
 */
export function createEffects(): Effects {
  let seen: Effect[] = [];
  return {
    get seen() {
      return seen;
    },
    happen(key, what) {
      if (lives.getStore()?.dead === true) return new Promise<void>(() => undefined);
      seen.push({ key, what });
      return Promise.resolve();
    },
    forget() {
      seen = [];
    },
  };
}
