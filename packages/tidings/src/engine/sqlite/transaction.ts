/** What a user's callback is given: the owner's values, the job's collections, and the connection itself. */
import type { CallbackScope } from "../callback-scope.ts";
import type { JobTransaction } from "../engine.ts";
import { fromJson, toJson } from "../json.ts";
import type { Connection } from "./driver.ts";
import { toColumn } from "./text.ts";
import { CallbackFailure } from "./writer.ts";

/** Reading one item parses its whole chunk: small enough for that, large enough for few rows. */
const CHUNK_ITEMS = 256;

/** Calls back inside the transaction that is open on the connection. @throws CallbackFailure */
export async function callInside<T>(
  scope: CallbackScope,
  connection: Connection,
  about: { readonly owner: string; readonly jobId?: string },
  callback: (transaction: JobTransaction) => T | Promise<T>,
): Promise<T> {
  try {
    return await scope.run((check) => callback(createTransaction(connection, about, check)));
  } catch (error) {
    throw new CallbackFailure(error);
  }
}

function createTransaction(
  { statement, database }: Connection,
  about: { readonly owner: string; readonly jobId?: string },
  check: () => void,
): JobTransaction {
  const owner = toColumn(about.owner);
  const jobId = toColumn(about.jobId ?? "");
  return {
    get sql() {
      check();
      return database;
    },
    async get(key) {
      check();
      return fromJson(statement("value").get(owner, toColumn(key))?.body as string | undefined);
    },
    async put(key, value) {
      check();
      statement("putValue").run(owner, toColumn(key), toJson(value, `The value "${key}"`));
    },
    async delete(key) {
      check();
      statement("deleteValue").run(owner, toColumn(key));
    },
    async append(name, items) {
      check();
      const collection = toColumn(name);
      const texts = items.map((item) => toJson(item, `An item of the collection "${name}"`));
      const last = statement("lastChunk").get(owner, jobId, collection);
      let first = last === undefined ? 0 : (last.first as number) + (last.count as number);
      for (let index = 0; index < texts.length; index += CHUNK_ITEMS) {
        const chunk = texts.slice(index, index + CHUNK_ITEMS);
        statement("insertChunk").run(owner, jobId, collection, first, chunk.length, `[${chunk.join(",")}]`);
        first += chunk.length;
      }
    },
  };
}
