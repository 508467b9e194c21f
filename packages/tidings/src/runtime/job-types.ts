/** The job types of one process. */
import type { Engine } from "../engine/engine.ts";
import { TidingsError } from "../model/error.ts";
import type { AnyJobDefinition } from "./define-job.ts";

/** @throws TidingsError BAD_DEFINITION for two of one type. */
export function byType(definitions: readonly AnyJobDefinition[]): ReadonlyMap<string, AnyJobDefinition> {
  const jobs = new Map<string, AnyJobDefinition>();
  for (const definition of definitions) {
    if (jobs.has(definition.type)) {
      throw new TidingsError("BAD_DEFINITION", `Two jobs have the type "${definition.type}".`, {
        hint: "Rename one of them.",
      });
    }
    jobs.set(definition.type, definition);
  }
  return jobs;
}

/**
 * A process of its own can work only in a store that it can open.
 *
 * @throws TidingsError BAD_DEFINITION; the store is closed then.
 */
export async function checkIsolation(
  jobs: ReadonlyMap<string, AnyJobDefinition>,
  store: Engine,
): Promise<void> {
  for (const { type, isolation } of jobs.values()) {
    if (isolation === undefined || store.location !== undefined) continue;
    await store.close();
    throw new TidingsError(
      "BAD_DEFINITION",
      `"${type}" runs in a process of its own, which cannot open this store: its engine "${store.name}" does not say where it lies.`,
      { hint: "Use sqlite:PATH, or define the job without isolate, as for tests that inject faults." },
    );
  }
}
