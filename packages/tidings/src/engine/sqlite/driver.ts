/** The part of the `node:sqlite` API that is used, and where it comes from. */
import { isBuiltin } from "node:module";
import { SQL, type StatementName } from "./sql.ts";

export type Cell = string | number | null | Uint8Array;
export type Row = Record<string, Cell>;

export interface Statement {
  run(...cells: Cell[]): { readonly changes: number | bigint; readonly lastInsertRowid: number | bigint };
  get(...cells: Cell[]): Row | undefined;
  all(...cells: Cell[]): Row[];
}

export interface Database {
  exec(sql: string): void;
  prepare(sql: string): Statement;
  close(): void;
}

type DatabaseConstructor = new (path: string, options?: { readonly readOnly?: boolean }) => Database;

/** Node's own SQLite where it has one (22.13 and later), else the same API as a package. */
export async function loadDatabase(): Promise<DatabaseConstructor> {
  // A variable keeps bundlers and older type definitions from resolving a module that may not be there.
  const name = isBuiltin("node:sqlite") ? "node:sqlite" : "@photostructure/sqlite";
  const { DatabaseSync } = (await import(name)) as { DatabaseSync: DatabaseConstructor };
  return DatabaseSync;
}

/** A connection with its prepared statements. */
export interface Connection {
  readonly database: Database;
  /** The statement of this name in `SQL`, prepared at its first use. */
  statement(name: StatementName): Statement;
  /** What the file holds, without free pages. */
  usedBytes(): number;
}

export function createConnection(database: Database): Connection {
  const prepared = new Map<StatementName, Statement>();
  const statement = (name: StatementName): Statement => {
    let known = prepared.get(name);
    if (known === undefined) {
      known = database.prepare(SQL[name]);
      prepared.set(name, known);
    }
    return known;
  };
  return {
    // Held here because a statement does not keep its database open.
    database,
    statement,
    usedBytes() {
      const pages = Number(statement("pageCount").get()?.page_count);
      const free = Number(statement("freePages").get()?.freelist_count);
      return (pages - free) * Number(statement("pageSize").get()?.page_size);
    },
  };
}
