/** What a callback writes, held back until its transaction is committed. */
import type { JobTransaction } from "../engine.ts";
import { fromJson, toJson } from "../json.ts";
import type { MemoryJob, Owner } from "./state.ts";

/** Without a job, the transaction's `append` is not there for anybody to call. */
export function createStage(owner: Owner, job?: MemoryJob) {
  const values = new Map<string, string | undefined>();
  const appended: [collection: string, items: readonly string[]][] = [];
  return {
    transaction(check: () => void): JobTransaction {
      return {
        sql: undefined,
        async get(key) {
          check();
          return fromJson(values.has(key) ? values.get(key) : owner.values.get(key));
        },
        async put(key, value) {
          check();
          values.set(key, toJson(value, `The value "${key}"`));
        },
        async delete(key) {
          check();
          values.set(key, undefined);
        },
        async append(collection, items) {
          check();
          const texts = items.map((item) => toJson(item, `An item of the collection "${collection}"`));
          appended.push([collection, texts]);
        },
      };
    },
    /** Says whether there was anything to commit. */
    commit(): boolean {
      for (const [key, value] of values) {
        if (value === undefined) owner.values.delete(key);
        else owner.values.set(key, value);
      }
      for (const [collection, items] of appended) {
        const all = job?.collections.get(collection);
        if (all === undefined) job?.collections.set(collection, [...items]);
        else for (const item of items) all.push(item);
      }
      return values.size > 0 || appended.length > 0;
    },
  };
}
