/** From the text in a setting to an engine. */
import type { Clock, Random } from "../model/clock.ts";
import { TidingsError } from "../model/error.ts";
import type { Engine } from "./engine.ts";
import { createMemoryEngine } from "./memory/engine.ts";
import { createSqliteEngine } from "./sqlite/engine.ts";
import { systemClock, systemRandom } from "./system-clock.ts";

/**
 * Opens the store that a text names: `memory:` (gone with the process) or `sqlite:PATH`, the path of a file relative
 * to the current folder; the file and its folders are made when they are missing.
 *
 * @param options.existing - Of a file: only a store that is there already, and of this version; opening it makes and
 *   changes nothing. Default false.
 * @throws TidingsError BAD_DEFINITION for any other text, STORE_FAILED or STORE_TOO_NEW when it cannot be opened; with
 *   `existing` also STORE_NOT_FOUND and STORE_TOO_OLD.
 */
export async function openEngine(
  store: string,
  ports: { clock: Clock; random: Random } = { clock: systemClock, random: systemRandom },
  options: { readonly existing?: boolean } = {},
): Promise<Engine> {
  if (store === "memory:") return createMemoryEngine(ports);
  const path = store.startsWith("sqlite:") ? store.slice("sqlite:".length) : "";
  if (path === ":memory:") {
    throw new TidingsError(
      "BAD_DEFINITION",
      'The store "sqlite::memory:" would be another one in each connection.',
      {
        hint: "Use memory: for a store that ends with the process.",
      },
    );
  }
  if (path.trim() !== "") return createSqliteEngine({ path, ...ports, ...options });
  throw new TidingsError("BAD_DEFINITION", `The store "${store}" is not understood.`, {
    hint: "Use memory: or sqlite:PATH, such as sqlite:./data/jobs.db.",
  });
}
