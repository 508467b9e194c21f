/** What a user's callback is given: the owner's values, the job's collections, and the connection itself. */
import type { CallbackScope } from "../callback-scope.ts";
import type { ChangeLimits, JobTransaction } from "../engine.ts";
import { fromJson, toJson } from "../json.ts";
import { checkBytes } from "../limits.ts";
import { ROW_BYTES, weighItem, weighRow } from "../weight.ts";
import { toStoreError } from "./fault.ts";
import { fromColumn, toColumn } from "./text.ts";
import type { WriteConnection } from "./usage.ts";
import { CallbackFailure } from "./writer.ts";

/** Reading one item parses its whole chunk: small enough for that, large enough for few rows. */
const CHUNK_ITEMS = 256;

export interface About {
  /** Of the store's file. */
  readonly path: string;
  readonly owner: string;
  readonly jobId?: string;
  readonly limits?: Pick<ChangeLimits, "itemBytes">;
  /** The wall clock, in milliseconds. */
  readonly nowMs: number;
}

/** Calls back inside the transaction that is open on the connection. @throws CallbackFailure */
export async function callInside<T>(
  scope: CallbackScope,
  connection: WriteConnection,
  about: About,
  callback: (transaction: JobTransaction) => T | Promise<T>,
): Promise<T> {
  try {
    return await scope.run((check) => callback(createTransaction(connection, about, check)));
  } catch (error) {
    throw new CallbackFailure(error);
  }
}

function createTransaction(
  { statement, database, usage }: WriteConnection,
  about: About,
  check: () => void,
): JobTransaction {
  const owner = toColumn(about.owner);
  const jobId = toColumn(about.jobId ?? "");

  /** What fails in our own statements is the store's failure, and no mistake of the callback's. */
  const attempt = <T>(work: () => T): T => {
    check();
    try {
      return work();
    } catch (error) {
      throw toStoreError(error, about.path, "so nothing was changed");
    }
  };
  const weightOf = (key: string): number => {
    const row = statement("valueBytes").get(owner, key);
    return row === undefined ? 0 : Number(row.bytes) + ROW_BYTES;
  };

  return {
    get sql() {
      check();
      return database;
    },
    async get(key) {
      return attempt(() =>
        fromJson(statement("value").get(owner, toColumn(key), about.nowMs)?.body as string | undefined),
      );
    },
    async put(key, value, { expiresInMs } = {}) {
      attempt(() => {
        const expiresAt = expiresInMs === undefined ? null : about.nowMs + Math.floor(expiresInMs);
        const body = toJson(value, `The value "${key}"`);
        const before = weightOf(toColumn(key));
        statement("putValue").run(owner, toColumn(key), body, expiresAt);
        usage.add(owner, { bytes: weighRow(body) - before });
      });
    },
    async list(prefix, limit) {
      return attempt(() => {
        // Keys stand as they are, or as JSON when they are odd: those are few, and looked at one by one.
        const last = "\u{10ffff}";
        const rows = [
          ...statement("valuesFrom").all(owner, toColumn(prefix), `${toColumn(prefix)}${last}`, about.nowMs),
          ...statement("valuesFrom").all(owner, '"', `"${last}`, about.nowMs),
        ];
        const found = new Map(rows.map(({ key, body }) => [fromColumn(key as string), body as string]));
        return [...found]
          .filter(([key]) => key.startsWith(prefix))
          .sort(([a], [b]) => (a < b ? -1 : 1))
          .slice(0, limit)
          .map(([key, body]) => ({ key, value: fromJson(body) }));
      });
    },
    async delete(key) {
      attempt(() => {
        usage.add(owner, { bytes: -weightOf(toColumn(key)) });
        statement("deleteValue").run(owner, toColumn(key));
      });
    },
    async append(name, items) {
      attempt(() => {
        const collection = toColumn(name);
        const what = `An item of the collection "${name}"`;
        const texts = items.map((item) => toJson(item, what));
        for (const text of texts) checkBytes(text, about.limits?.itemBytes, what);
        const last = statement("lastChunk").get(owner, jobId, collection);
        let first = last === undefined ? 0 : (last.first as number) + (last.count as number);
        for (let index = 0; index < texts.length; index += CHUNK_ITEMS) {
          const chunk = texts.slice(index, index + CHUNK_ITEMS);
          statement("insertChunk").run(owner, jobId, collection, first, chunk.length, `[${chunk.join(",")}]`);
          first += chunk.length;
        }
        usage.add(owner, { bytes: texts.reduce((sum, text) => sum + weighItem(text), 0) });
      });
    },
  };
}
