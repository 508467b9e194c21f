/** Opening the file: folders, connections, migrations. */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { TidingsError } from "../../model/error.ts";
import { type Connection, createConnection, type Database, loadDatabase } from "./driver.ts";
import { type Ports, toStoreError, whileBusy } from "./fault.ts";

export interface OpenStore {
  /** Absolute. */
  readonly path: string;
  /** The only connection of this process that writes. */
  readonly writer: Connection;
  readonly reader: Connection;
  readonly secret: Uint8Array;
  close(): void;
}

const MIGRATIONS = new URL("./migrations/", import.meta.url);

/** @throws TidingsError STORE_FAILED, STORE_TOO_NEW or STORE_BUSY, each in one sentence that names the path. */
export async function openStore(location: string, ports: Ports): Promise<OpenStore> {
  const path = resolve(location);
  const opened: Database[] = [];
  const close = () => {
    try {
      // Some drivers leave it to the end of the process: then a copy of the file alone would miss the newest commits.
      opened[0]?.exec("PRAGMA wal_checkpoint(TRUNCATE)");
    } catch {
      // The log stays beside the file, and whoever opens it next reads both.
    }
    for (const database of opened.splice(0).reverse()) database.close();
  };
  try {
    // Some versions of the driver would silently open the file that the text before the NUL names.
    if (path.includes("\0")) {
      throw new TidingsError(
        "STORE_FAILED",
        `The store "${path}" failed, so it was not opened: its path holds a NUL.`,
      );
    }
    makeFolder(dirname(path));
    const DatabaseSync = await loadDatabase();
    const open = (readOnly: boolean) => {
      const database = new DatabaseSync(path, { readOnly });
      opened.push(database);
      return createConnection(database);
    };
    const writer = await whileBusy(ports, () => open(false));
    // Waiting inside SQLite would stop the whole process; we wait outside.
    writer.database.exec("PRAGMA busy_timeout = 0");
    // Only in a file that is new: what is removed later is given back to the disk.
    await whileBusy(ports, () => writer.database.exec("PRAGMA auto_vacuum = INCREMENTAL"));
    await whileBusy(ports, () => writer.database.exec("PRAGMA journal_mode = WAL"));
    writer.database.exec(
      "PRAGMA synchronous = FULL; PRAGMA foreign_keys = OFF; PRAGMA journal_size_limit = 67108864",
    );
    const secret = await migrate(writer.database, path, ports);
    const reader = await whileBusy(ports, () => open(true));
    reader.database.exec("PRAGMA busy_timeout = 0");
    return { path, writer, reader, secret, close };
  } catch (error) {
    close();
    throw toStoreError(error, path, "so it was not opened");
  }
}

/** Folder by folder: Node's own recursive mode never returns from a place like /proc, where nothing can be made. */
function makeFolder(folder: string): void {
  // A root that is not there, such as a missing drive, is its own parent: opening the file will say so.
  if (existsSync(folder) || dirname(folder) === folder) return;
  makeFolder(dirname(folder));
  try {
    mkdirSync(folder);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
}

/** Brings the tables up to date, once, whoever comes first; returns the store's secret. */
async function migrate(database: Database, path: string, ports: Ports): Promise<Uint8Array> {
  const migrations = readdirSync(MIGRATIONS)
    .filter((name) => /^\d{4}-.+\.sql$/.test(name))
    .sort();
  await whileBusy(ports, () => database.exec("BEGIN IMMEDIATE"));
  try {
    const version = Number(database.prepare("PRAGMA user_version").get()?.user_version);
    if (version > migrations.length) {
      throw new TidingsError(
        "STORE_TOO_NEW",
        `The store "${path}" has version ${version}, but this program knows only versions up to ${migrations.length}.`,
        { hint: "Update the program, or use another store." },
      );
    }
    for (const name of migrations.slice(version)) {
      database.exec(readFileSync(new URL(name, MIGRATIONS), "utf8"));
      database.exec(`PRAGMA user_version = ${Number(name.slice(0, 4))}`);
    }
    database
      .prepare("INSERT INTO tidings_store (id, secret) VALUES (1, ?) ON CONFLICT DO NOTHING")
      .run(createHash("sha256").update(ports.random.id()).digest().subarray(0, 16));
    const secret = database.prepare("SELECT secret FROM tidings_store WHERE id = 1").get()?.secret;
    await whileBusy(ports, () => database.exec("COMMIT"));
    return secret as Uint8Array;
  } catch (error) {
    rollback(database);
    throw error;
  }
}

/** Undoes the transaction, unless SQLite did so itself already. */
export function rollback(database: Database): void {
  try {
    database.exec("ROLLBACK");
  } catch {
    // After a full disk or an input error SQLite has often rolled back by itself: then there is nothing to undo.
  }
}
