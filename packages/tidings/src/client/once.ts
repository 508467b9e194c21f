/**
 * Records of what was done: an effect runs once for each key, however often and by whatever event it is asked for, for
 * as long as the record lasts. Only `createDurableOnce` outlasts the process.
 */

/**
 * A record of effects. `Transaction` is what an effect may write with: what it writes is kept together with the record
 * of its key, or not at all.
 */
export interface Once<Transaction = undefined> {
  /**
   * Runs `effect` unless the key was done already. Repeats that come while it runs wait for it. When it throws, nothing
   * is recorded, the error is thrown again, and the next repeat tries anew.
   */
  once(key: string, effect: (transaction: Transaction) => void | Promise<void>): Promise<"done" | "repeat">;
}

/**
 * A record in memory: it forgets everything when the page is reloaded or the process ends, so a repeat after that runs
 * the effect again. For anything that must not happen twice use `createDurableOnce`.
 *
 * @param maxKeys - How many keys are remembered, the newest. Default 10,000.
 */
export function createMemoryOnce(maxKeys = 10_000): Once {
  const done = new Set<string>();
  return serialised(async (key, effect) => {
    if (done.has(key)) return "repeat";
    await effect(undefined);
    done.add(key);
    for (const oldest of done) {
      if (done.size <= maxKeys) break;
      done.delete(oldest);
    }
    return "done";
  });
}

/** The part of a transaction that a record needs. */
export interface ValueTransaction {
  get(key: string): Promise<unknown>;
  put(key: string, value: unknown): Promise<void>;
}

/** The part of `Tidings` that a durable record needs. */
export interface TransactionRunner<Transaction extends ValueTransaction> {
  transaction<T>(owner: string, work: (transaction: Transaction) => T | Promise<T>): Promise<T>;
}

/**
 * A durable record in the store of `createTidings`: the key and what the effect writes are one commit, so they happen
 * together once, across restarts and processes. An effect outside of the transaction (a mail, a call) may happen again
 * after a crash: give its receiver the key.
 *
 * @param tidings - What `createTidings` returned.
 * @param owner - Whose values hold the record.
 * @param prefix - What the record's keys begin with. Default `once/`.
 */
export function createDurableOnce<Transaction extends ValueTransaction>(
  tidings: TransactionRunner<Transaction>,
  owner: string,
  prefix = "once/",
): Once<Transaction> {
  return serialised((key, effect) =>
    tidings.transaction(owner, async (transaction) => {
      if ((await transaction.get(prefix + key)) !== undefined) return "repeat";
      await transaction.put(prefix + key, true);
      await effect(transaction);
      return "done";
    }),
  );
}

/** One at a time for each key. */
function serialised<Transaction>(once: Once<Transaction>["once"]): Once<Transaction> {
  const running = new Map<string, Promise<unknown>>();
  return {
    once(key, effect) {
      const before = running.get(key) ?? Promise.resolve();
      const outcome = before.then(
        () => once(key, effect),
        () => once(key, effect),
      );
      const settled = outcome.then(
        () => undefined,
        () => undefined,
      );
      running.set(key, settled);
      void settled.then(() => {
        if (running.get(key) === settled) running.delete(key);
      });
      return outcome;
    },
  };
}
