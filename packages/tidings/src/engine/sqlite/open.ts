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

/**
 * @param existing - Only a store that is there already, and of this version: opening it makes and changes nothing.
 * @throws TidingsError STORE_FAILED, STORE_NOT_FOUND, STORE_TOO_OLD, STORE_TOO_NEW or STORE_BUSY, each in one sentence
 *   that names the path.
 */
export async function openStore(location: string, ports: Ports, existing = false): Promise<OpenStore> {
  const path = resolve(location);
  const opened: Database[] = [];
  let written: Database | undefined;
  const close = () => {
    try {
      // Some drivers leave it to the end of the process: then a copy of the file alone would miss the newest commits.
      written?.exec("PRAGMA wal_checkpoint(TRUNCATE)");
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
    const DatabaseSync = await loadDatabase();
    const open = async (readOnly: boolean) => {
      const database = await whileBusy(ports, () => new DatabaseSync(path, { readOnly }));
      opened.push(database);
      // Waiting inside SQLite would stop the whole process; we wait outside.
      database.exec("PRAGMA busy_timeout = 0");
      return createConnection(database);
    };
    if (existing) {
      if (!existsSync(path)) throw notFound(`There is no store at "${path}".`);
      // Looked at before it is opened for writing: another program's file stays as it is.
      const { database } = await open(true);
      await whileBusy(ports, () => checkCurrent(database, path));
    } else makeFolder(dirname(path));
    const writer = await open(false);
    written = writer.database;
    if (!existing) {
      // Only in a file that is new: what is removed later is given back to the disk.
      await whileBusy(ports, () => writer.database.exec("PRAGMA auto_vacuum = INCREMENTAL"));
      await whileBusy(ports, () => writer.database.exec("PRAGMA journal_mode = WAL"));
    }
    writer.database.exec(
      "PRAGMA synchronous = FULL; PRAGMA foreign_keys = OFF; PRAGMA journal_size_limit = 67108864",
    );
    const secret = existing
      ? await whileBusy(ports, () => readSecret(writer.database))
      : await migrate(writer.database, path, ports);
    const reader = await open(true);
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

function migrationNames(): readonly string[] {
  return readdirSync(MIGRATIONS)
    .filter((name) => /^\d{4}-.+\.sql$/.test(name))
    .sort();
}

/** Which version of the tables this program writes. */
export function currentVersion(): number {
  return migrationNames().length;
}

/** The version of a store's tables; undefined for a database without them, which is another program's or empty. */
export function readVersion(database: Database): number | undefined {
  const table = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'tidings_store'";
  if (database.prepare(table).get() === undefined) return undefined;
  return Number(database.prepare("PRAGMA user_version").get()?.user_version);
}

function checkCurrent(database: Database, path: string): void {
  const version = readVersion(database);
  if (version === undefined) throw notFound(`The file "${path}" is a database, but no store of Tidings.`);
  const current = currentVersion();
  if (version > current) throw tooNew(path, version, current);
  if (version === current) return;
  throw new TidingsError(
    "STORE_TOO_OLD",
    `The store "${path}" has version ${version}, but this program reads version ${current}; it was left as it is.`,
    { hint: "Start a server of this version on it once, or use the program that its server came with." },
  );
}

function notFound(message: string): TidingsError {
  return new TidingsError("STORE_NOT_FOUND", message, {
    hint: "Check the path; it is relative to the current folder.",
  });
}

function tooNew(path: string, version: number, current: number): TidingsError {
  return new TidingsError(
    "STORE_TOO_NEW",
    `The store "${path}" has version ${version}, but this program knows only versions up to ${current}.`,
    { hint: "Update the program, or use another store." },
  );
}

function readSecret(database: Database): Uint8Array {
  return database.prepare("SELECT secret FROM tidings_store WHERE id = 1").get()?.secret as Uint8Array;
}

/** Brings the tables up to date, once, whoever comes first; returns the store's secret. */
async function migrate(database: Database, path: string, ports: Ports): Promise<Uint8Array> {
  const migrations = migrationNames();
  await whileBusy(ports, () => database.exec("BEGIN IMMEDIATE"));
  try {
    const version = Number(database.prepare("PRAGMA user_version").get()?.user_version);
    if (version > migrations.length) throw tooNew(path, version, migrations.length);
    if (version > 0 && readVersion(database) === undefined) {
      throw new TidingsError(
        "STORE_FAILED",
        `The store "${path}" failed, so it was not opened: the file is another program's, which numbers its own tables.`,
        { hint: "Name another file, or one whose user_version is 0." },
      );
    }
    for (const name of migrations.slice(version)) {
      database.exec(readFileSync(new URL(name, MIGRATIONS), "utf8"));
      database.exec(`PRAGMA user_version = ${Number(name.slice(0, 4))}`);
    }
    database
      .prepare("INSERT INTO tidings_store (id, secret) VALUES (1, ?) ON CONFLICT DO NOTHING")
      .run(createHash("sha256").update(ports.random.id()).digest().subarray(0, 16));
    const secret = readSecret(database);
    await whileBusy(ports, () => database.exec("COMMIT"));
    return secret;
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
