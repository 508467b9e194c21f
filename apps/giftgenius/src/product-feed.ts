/** The shop's catalogue as it stands now. A refresh swaps the whole snapshot; who works with the old one finishes with it. */
import { fileURLToPath } from "node:url";
import { TidingsError } from "tidings";
import type { Catalogue } from "./matching/catalogue.ts";
import { loadCatalogue } from "./matching/catalogue.ts";

export const PRODUCT_FEED_URI = "resource:product-feed";

export interface ProductFeed {
  readonly current: Catalogue;
  readonly loadedAt: string;
  /** Reads the catalogue again. @throws PermanentError that names the file and the entry at fault; the old snapshot stays. */
  refresh(): Promise<Catalogue>;
}

/** @param folder - Undefined = the catalogue that comes with the application. */
export async function openProductFeed(folder: string | undefined): Promise<ProductFeed> {
  const home = folder ?? fileURLToPath(new URL("../catalogue", import.meta.url));
  let current = await loadCatalogue(home).catch((error: unknown) => {
    // Told to the operator only: a client that refreshes the feed learns the file's name, not its place.
    if (folder === undefined || !(error instanceof TidingsError)) throw error;
    throw new TidingsError(error.code, error.message, {
      hint: `GIFTGENIUS_CATALOGUE is "${folder}".`,
      cause: error,
    });
  });
  let loadedAt = new Date().toISOString();
  return {
    get current() {
      return current;
    },
    get loadedAt() {
      return loadedAt;
    },
    async refresh() {
      current = await loadCatalogue(home);
      loadedAt = new Date().toISOString();
      return current;
    },
  };
}
