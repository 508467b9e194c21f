/** Stores that outlive the process that is killed. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Engine, Transaction } from "../engine/engine.ts";
import { createMemoryEngine } from "../engine/memory/engine.ts";
import { createSqliteEngine } from "../engine/sqlite/engine.ts";
import type { ManualClock } from "../engine/testing/manual-clock.ts";
import type { Random } from "../model/clock.ts";

export interface CrashPorts {
  readonly clock: ManualClock;
  readonly random: Random;
}

/** One fresh store for one run. */
export interface CrashStore {
  /** Opens it as a process would that has just been started. Called once for every life of the run. */
  open(ports: CrashPorts): Promise<Engine>;
  /** Removes it after the run. */
  remove(): Promise<void>;
}

export type OpenCrashStore = () => CrashStore | Promise<CrashStore>;

export const CRASH_STORES = { memory: openMemoryStore, sqlite: openSqliteStore } as const;

function openMemoryStore(): CrashStore {
  let kept: Engine | undefined;
  return {
    async open(ports) {
      kept ??= createMemoryEngine(ports);
      // The memory is not the killed process's own: closing is leaving.
      return withMethods(kept, { close: () => Promise.resolve() });
    },
    async remove() {
      await kept?.close();
    },
  };
}

async function openSqliteStore(): Promise<CrashStore> {
  const folder = await mkdtemp(join(tmpdir(), "tidings-crash-"));
  return {
    open: (ports) => createSqliteEngine({ path: join(folder, "jobs.db"), ...ports }),
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}

/** What the runtime keeps for itself is no business of a handler's test. */
const OURS = "dev.tidings/";

/** What handlers wrote through their transactions, by name: an engine cannot be asked for names. */
export interface Names {
  readonly collections: Set<string>;
  readonly keys: Set<string>;
}

/** The same engine, which also notes what handlers write. */
export function noting(engine: Engine, names: Names): Engine {
  const watched = <T extends Transaction>(transaction: T): T =>
    new Proxy(transaction, {
      get(target, property) {
        const value: unknown = Reflect.get(target, property, target);
        if (typeof value !== "function") return value;
        return (...parts: unknown[]) => {
          const name = String(parts[0]);
          if (name.startsWith(OURS)) return value.apply(target, parts);
          if (property === "append") names.collections.add(name);
          if (property === "put" || property === "delete") names.keys.add(name);
          return value.apply(target, parts);
        };
      },
    });
  return withMethods(engine, {
    apply({ write, ...change }) {
      return engine.apply(
        write === undefined ? change : { ...change, write: (inner) => write(watched(inner)) },
      );
    },
    transaction: (owner, work) => engine.transaction(owner, (inner) => work(watched(inner))),
  });
}

function withMethods(engine: Engine, methods: Partial<Engine>): Engine {
  return new Proxy(engine, {
    get(target, property) {
      if (Object.hasOwn(methods, property)) return methods[property as keyof Engine];
      const value: unknown = Reflect.get(target, property, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}
