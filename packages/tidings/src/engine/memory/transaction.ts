/** What a callback writes, held back until its transaction is committed. */
import type { JobTransaction } from "../engine.ts";
import { fromJson, toJson } from "../json.ts";
import { checkBytes } from "../limits.ts";
import { weighItem } from "../weight.ts";
import { addBytes, type KeptValue, type MemoryJob, type Owner, setValue } from "./state.ts";

/** Without a job, the transaction's `append` is not there for anybody to call. */
export function createStage(owner: Owner, nowMs: number, job?: MemoryJob, itemBytes?: number) {
  const values = new Map<string, KeptValue | undefined>();
  const find = (key: string): string | undefined => {
    const value = values.has(key) ? values.get(key) : owner.values.get(key);
    return value === undefined || value.expiresAtMs <= nowMs ? undefined : value.body;
  };
  const appended: [collection: string, items: readonly string[]][] = [];
  return {
    transaction(check: () => void): JobTransaction {
      return {
        sql: undefined,
        async get(key) {
          check();
          return fromJson(find(key));
        },
        async put(key, value, { expiresInMs = Number.POSITIVE_INFINITY } = {}) {
          check();
          values.set(key, { body: toJson(value, `The value "${key}"`), expiresAtMs: nowMs + expiresInMs });
        },
        async list(prefix, limit) {
          check();
          return [...new Set([...owner.values.keys(), ...values.keys()])]
            .filter((key) => key.startsWith(prefix) && find(key) !== undefined)
            .sort()
            .slice(0, limit)
            .map((key) => ({ key, value: fromJson(find(key)) }));
        },
        async delete(key) {
          check();
          values.set(key, undefined);
        },
        async append(collection, items) {
          check();
          const what = `An item of the collection "${collection}"`;
          const texts = items.map((item) => toJson(item, what));
          for (const text of texts) checkBytes(text, itemBytes, what);
          appended.push([collection, texts]);
        },
      };
    },
    /** Says whether there was anything to commit. */
    commit(): boolean {
      for (const [key, value] of values) {
        setValue(owner, key, value);
      }
      for (const [collection, items] of appended) {
        if (job === undefined) continue;
        for (const item of items) addBytes(owner, job, weighItem(item));
        const all = job.collections.get(collection);
        if (all === undefined) job.collections.set(collection, [...items]);
        else for (const item of items) all.push(item);
      }
      return values.size > 0 || appended.length > 0;
    },
  };
}
