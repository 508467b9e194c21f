/** The embedded engine: one SQLite file, shared by any number of processes of one machine. */
import type { Clock, Random } from "../../model/clock.ts";
import { TidingsError } from "../../model/error.ts";
import { createCallbackScope } from "../callback-scope.ts";
import type { Engine, PruneRequest, StartRequest } from "../engine.ts";
import { createStarter } from "../start-with-room.ts";
import { keepPublished } from "../transition.ts";
import { createWatchers } from "../watchers.ts";
import type { Connection } from "./driver.ts";
import { toStoreError, whileBusy } from "./fault.ts";
import { createForeignCommits } from "./foreign-commits.ts";
import * as jobs from "./jobs.ts";
import { createKnownJobs } from "./known-jobs.ts";
import { openStore } from "./open.ts";
import { prune } from "./prune.ts";
import * as reads from "./read.ts";
import { findJob, insertEvents, readEntry } from "./rows.ts";
import { fromColumn, toColumn } from "./text.ts";
import { callInside } from "./transaction.ts";
import { createUsageBook, type WriteConnection } from "./usage.ts";
import { createWriter, type WriteScope } from "./writer.ts";

export interface SqliteOptions {
  /** Of the file, relative to the current folder; it and its folders are made when they are missing. */
  readonly path: string;
  /** Only a store that is there already, and of this version: opening it makes and changes nothing. Default false. */
  readonly existing?: boolean;
  readonly clock: Clock;
  readonly random: Random;
}

/**
 * Opens an engine that keeps everything in an SQLite file. What it acknowledges is synced to disk.
 *
 * @throws TidingsError STORE_FAILED when the file cannot be opened or written, STORE_TOO_NEW when a newer version of
 *   Tidings wrote it, STORE_BUSY when another process holds it for longer than 5 seconds; with `existing` also STORE_NOT_FOUND, and
 *   STORE_TOO_OLD when an older version of Tidings wrote it.
 */
export async function createSqliteEngine({
  path: location,
  existing,
  clock,
  random,
}: SqliteOptions): Promise<Engine> {
  const ports = { clock, random };
  const store = await openStore(location, ports, existing);
  const { path, reader } = store;
  const scope = createCallbackScope(clock);
  const watchers = createWatchers(() => foreign.adjust());
  const foreign = createForeignCommits(reader, store.writer, clock, () => watchers);
  const known = createKnownJobs(store.writer);
  const connection: WriteConnection = { ...store.writer, usage: createUsageBook(store.writer) };
  const writer = createWriter(connection, path, ports, {
    ...foreign,
    begun() {
      known.begun();
      foreign.begun();
    },
    settle: connection.usage.write,
    undone() {
      known.clear();
      connection.usage.forget();
    },
    committed(owners) {
      foreign.committed();
      watchers.wake(owners);
    },
  });
  let closing: Promise<void> | undefined;

  const checkOpen = () => {
    if (closing === undefined) return;
    throw new TidingsError(
      "STORE_CLOSED",
      `The store "${path}" was closed, so nothing can be read or written.`,
      {
        hint: "Open it again, or close it later.",
      },
    );
  };
  const write = <T>(work: (scope: WriteScope) => T | Promise<T>, once = false): Promise<T> => {
    try {
      checkOpen();
      scope.refuseInside();
    } catch (error) {
      return Promise.reject(error);
    }
    return writer.write(work, { once });
  };
  /** Runs a read in one snapshot. */
  const read = async <T>(work: (connection: Connection) => T): Promise<T> => {
    checkOpen();
    try {
      return await whileBusy(ports, () => {
        checkOpen();
        reader.statement("begin").run();
        try {
          return work(reader);
        } finally {
          reader.statement("commit").run();
        }
      });
    } catch (error) {
      throw toStoreError(error, path, "so nothing was read");
    }
  };

  const start = (request: StartRequest) => write((own) => jobs.start(connection, request, own, known));
  const forget = (request: PruneRequest) =>
    prune(
      {
        connection,
        clock,
        read,
        write: (work) =>
          write(() => {
            known.clear();
            return work();
          }),
      },
      request,
    );

  return {
    name: "sqlite",
    location: `sqlite:${path}`,
    secret: store.secret,

    start: createStarter(start, forget),
    claim: (request) => write((own) => jobs.claim(connection, request, own, known)),
    renew: (leases, leaseMs) => write((own) => jobs.renew(connection, leases, leaseMs, own, known)),
    apply: (change) =>
      write(
        (own) =>
          jobs.apply(connection, change, own, known, (callback) =>
            callInside(scope, connection, { ...change, path, nowMs: own.moment.wallMs }, callback),
          ),
        change.write !== undefined,
      ),

    get: (owner, jobId) => read((connection) => findJob(connection, owner, jobId)?.record),
    document: (owner, jobId, name) => read((connection) => reads.document(connection, owner, jobId, name)),
    list: (owner, request) => read((connection) => reads.list(connection, owner, request)),
    read: (owner, filter, after, limit) =>
      read((connection) => reads.read(connection, owner, filter, after, limit)),
    items: (owner, jobId, collection, offset, limit) =>
      read((connection) => reads.items(connection, owner, jobId, collection, offset, limit)),

    publish: (owner, events, limit) =>
      write((own) => {
        const kept = keepPublished(events, limit);
        return kept.map((event) => {
          const id = toColumn(event.event.eventId);
          const known = connection.statement("eventById").get(toColumn(owner), id);
          if (known !== undefined) return readEntry(known);
          own.touch(owner);
          return insertEvents(connection, owner, [event])[0]!;
        });
      }),
    transaction: (owner, work) =>
      write((own) => {
        own.touch(owner);
        return callInside(scope, connection, { path, owner, nowMs: own.moment.wallMs }, work);
      }, true),

    watch(owner, wake) {
      checkOpen();
      return watchers.add(owner, wake);
    },
    holders: () =>
      read(({ statement }) =>
        statement("holders")
          .all()
          .map(({ holder }) => fromColumn(holder as string)),
      ),
    prune: forget,
    close() {
      closing ??= (async () => {
        watchers.clear();
        await writer.drained();
        store.close();
      })();
      return closing;
    },
  };
}
