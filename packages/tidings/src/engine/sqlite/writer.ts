/**
 * Group commit: writes that come while one commit is on its way share the next one, and with it its sync to disk.
 *
 *   write() ─▶ queue ─▶ BEGIN IMMEDIATE ─▶ op, op, op … ─▶ COMMIT ─▶ promises resolve, watchers wake
 *                          │ held by another process: pause and try again, up to 5 s, then STORE_BUSY
 *                          └ one op fails: undone alone, in its savepoint
 *
 * Savepoints cost as much as the writes they guard. A batch without callbacks begins without them, and is begun again
 * with them when an op fails. Callbacks may take their time: after a second of them the batch is committed as far as it
 * got, because other processes wait for all of it. When the whole transaction fails (a full disk), each op without a callback is tried again
 * alone, so that one that is too large does not take the others with it.
 */
import { type Moment, momentOf } from "../transition.ts";
import type { Connection } from "./driver.ts";
import { type Ports, toStoreError, whileBusy } from "./fault.ts";
import { rollback } from "./open.ts";

const LARGEST_BATCH = 256;
/** Well below the patience of other processes, with one more callback of the longest kind behind it. */
const LONGEST_BATCH_MS = 1_000;

/** What an operation may say about itself. */
export interface WriteScope {
  /** The owner's watchers will be woken after the commit. */
  touch(owner: string): void;
  /** When the transaction began: everything in it happens at the same time. */
  readonly moment: Moment;
}

export interface WriteOptions {
  /** The operation calls a user's callback: it must not be called a second time by itself. */
  readonly once?: boolean;
}

export interface Writer {
  /** Runs `work` inside a transaction. Resolves after the commit; what `work` throws undoes only its own changes. */
  write<T>(work: (scope: WriteScope) => T | Promise<T>, options?: WriteOptions): Promise<T>;
  /** Resolves when everything that was asked for is done. */
  drained(): Promise<void>;
}

interface Operation {
  readonly work: (scope: WriteScope) => unknown;
  readonly once: boolean;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

type Settled = { readonly value: unknown } | { readonly error: unknown };

/** Marks what a user's callback threw: it is given back as it is, even when it is an error of SQLite. */
export class CallbackFailure extends Error {
  constructor(cause: unknown) {
    super("A transaction's callback failed.", { cause });
  }
}

/** SQLite has undone the whole transaction because of what one operation ran into, such as a full disk. */
class TransactionUndone extends Error {
  constructor(cause: unknown) {
    super("The transaction was undone.", { cause });
  }
}

export interface CommitHooks {
  /** Called inside the transaction, before the first operation. */
  begun(): void;
  /** Called inside the transaction, after the last operation, and after each that may be undone alone. */
  settle(): void;
  /** Called inside the transaction, just before its end. */
  ending(): void;
  /** Called when something was undone: what was remembered of this transaction is not true. */
  undone(): void;
  /** Called after the commit with the owners that operations touched. */
  committed(owners: ReadonlySet<string>): void;
}

export function createWriter(connection: Connection, path: string, ports: Ports, hooks: CommitHooks): Writer {
  const queue: Operation[] = [];
  let flushing: Promise<void> | undefined;

  const fail = (error: unknown, consequence = "so nothing was changed") =>
    error instanceof CallbackFailure ? error.cause : toStoreError(error, path, consequence);

  const runGuarded = async (operation: Operation, moment: Moment, touched: Set<string>): Promise<Settled> => {
    connection.statement("savepoint").run();
    const owners: string[] = [];
    try {
      const value = await operation.work({ touch: (owner) => void owners.push(owner), moment });
      hooks.settle();
      connection.statement("releaseSavepoint").run();
      for (const owner of owners) touched.add(owner);
      return { value };
    } catch (error) {
      hooks.undone();
      try {
        connection.statement("rollbackToSavepoint").run();
        connection.statement("releaseSavepoint").run();
      } catch {
        throw new TransactionUndone(error);
      }
      return { error: fail(error) };
    }
  };

  const undo = () => {
    rollback(connection.database);
    hooks.undone();
  };

  const commitBatch = async (batch: readonly Operation[], guarded = false): Promise<void> => {
    const alone = batch.length === 1;
    const touched = new Set<string>();
    const settled: Settled[] = [];
    let begun = 0;
    let rest: readonly Operation[] = [];
    let consequence: string | undefined;
    try {
      await whileBusy(ports, () => connection.statement("beginWriting").run());
    } catch (error) {
      for (const operation of batch) operation.reject(fail(error));
      return;
    }
    try {
      hooks.begun();
      const moment = momentOf(ports.clock);
      const scope: WriteScope = { touch: (owner) => void touched.add(owner), moment };
      for (const operation of batch) {
        begun += 1;
        if (guarded) {
          settled.push(await runGuarded(operation, moment, touched));
          if (ports.clock.monotonic() - moment.monotonicMs < LONGEST_BATCH_MS) continue;
          rest = batch.slice(begun);
          break;
        }
        const answer = operation.work(scope);
        settled.push({ value: answer instanceof Promise ? await answer : answer });
      }
      hooks.settle();
      hooks.ending();
      // A sync that fails may leave the transaction in the file: a restart would find it.
      consequence = "and it is uncertain whether the change was kept";
      connection.statement("commit").run();
    } catch (thrown) {
      const error = thrown instanceof TransactionUndone ? thrown.cause : thrown;
      undo();
      if (!alone && !guarded && consequence === undefined) return commitBatch(batch, true);
      for (const [index, operation] of batch.entries()) {
        if (alone || (operation.once && index < begun)) operation.reject(fail(error, consequence));
        else await commitBatch([operation]);
      }
      return;
    }
    for (const [index, outcome] of settled.entries()) {
      const operation = batch[index]!;
      if ("error" in outcome) operation.reject(outcome.error);
      else operation.resolve(outcome.value);
    }
    hooks.committed(touched);
    if (rest.length > 0) await commitBatch(rest, guarded);
  };

  const flush = async () => {
    do {
      // Whatever else is asked for in this turn of the event loop shares the commit.
      await new Promise<void>((resolve) => void setImmediate(resolve));
      const batch = queue.splice(0, LARGEST_BATCH);
      await commitBatch(batch, batch.length > 1 && batch.some(({ once }) => once));
    } while (queue.length > 0);
    flushing = undefined;
  };

  return {
    write<T>(work: (scope: WriteScope) => T | Promise<T>, options: WriteOptions = {}) {
      return new Promise<T>((resolve, reject) => {
        queue.push({
          work,
          once: options.once ?? false,
          resolve: resolve as (value: unknown) => void,
          reject,
        });
        flushing ??= flush();
      });
    },
    async drained() {
      while (flushing !== undefined) await flushing;
    },
  };
}
