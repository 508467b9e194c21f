/**
 * The shop's catalogue as it stands now. Whoever begins something takes the newest snapshot and finishes with it.
 *
 * Several processes may serve one store, and a refresh runs in one of them only: so the files on disk are what all of
 * them agree on, and each looks whether they have changed before it uses them.
 */
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { TidingsError } from "tidings";
import type { Catalogue } from "./matching/catalogue.ts";
import { FILES, loadCatalogue } from "./matching/catalogue.ts";

export const PRODUCT_FEED_URI = "resource:product-feed";

export interface ProductFeed {
  /**
   * The newest snapshot: the files are read again when they have changed. What cannot be read is told of on stderr,
   * once; the snapshot from before stays.
   */
  latest(): Promise<Catalogue>;
  /** When the snapshot was read. */
  readonly loadedAt: string;
  /** Reads the catalogue again. @throws PermanentError that names the file and the entry at fault; the old snapshot stays. */
  refresh(): Promise<Catalogue>;
}

/** @param folder - Undefined = the catalogue that comes with the application. */
export async function openProductFeed(folder: string | undefined): Promise<ProductFeed> {
  const home = folder ?? fileURLToPath(new URL("../catalogue", import.meta.url));
  let seen = await stateOf(home);
  let current = await loadCatalogue(home).catch((error: unknown) => {
    // Told to the operator only: a client that refreshes the feed learns the file's name, not its place.
    if (folder === undefined || !(error instanceof TidingsError)) throw error;
    throw new TidingsError(error.code, error.message, {
      hint: `GIFTGENIUS_CATALOGUE is "${folder}".`,
      cause: error,
    });
  });
  let loadedAt = new Date().toISOString();
  let reading: Promise<unknown> = Promise.resolve();

  async function load(): Promise<Catalogue> {
    // Looked at before the files are read: what changes meanwhile is a change since.
    seen = await stateOf(home);
    current = await loadCatalogue(home);
    loadedAt = new Date().toISOString();
    return current;
  }

  async function catchUp(): Promise<Catalogue> {
    if ((await stateOf(home)) === seen) return current;
    return load().catch((error: unknown) => {
      const { message } = error as Error;
      process.stderr.write(
        `${JSON.stringify({ level: "warn", during: "reading the changed catalogue", message })}\n`,
      );
      return current;
    });
  }

  /** One after another, so that an older state never replaces a newer one. */
  function inTurn(read: () => Promise<Catalogue>): Promise<Catalogue> {
    const next = reading.then(read, read);
    reading = next.catch(() => undefined);
    return next;
  }

  return {
    latest: () => inTurn(catchUp),
    get loadedAt() {
      return loadedAt;
    },
    refresh: () => inTurn(load),
  };
}

/** Differs whenever a file of the folder was written, replaced or taken away. */
async function stateOf(home: string): Promise<string> {
  const states = FILES.map(async (name) => {
    const file = await stat(join(home, `${name}.json`), { bigint: true }).catch(() => undefined);
    return file === undefined ? "none" : [file.ino, file.size, file.mtimeNs, file.ctimeNs].join(" ");
  });
  return (await Promise.all(states)).join("\n");
}
