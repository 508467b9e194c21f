/** A copy of the catalogue that a test may change. */
import { readFileSync, writeFileSync } from "node:fs";
import { cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

export interface CatalogueFolder {
  readonly path: string;
  /** Gives every gift another sku that begins with `prefix`. */
  rename(prefix: string): void;
  /** Writes something that is no catalogue. */
  damage(): void;
  remove(): Promise<void>;
}

export async function copyCatalogue(): Promise<CatalogueFolder> {
  const path = await mkdtemp(join(tmpdir(), "giftgenius-catalogue-"));
  await cp(fileURLToPath(new URL("../../catalogue", import.meta.url)), path, { recursive: true });
  const file = join(path, "gifts.json");
  return {
    path,
    rename(prefix) {
      const gifts = JSON.parse(readFileSync(file, "utf8")) as { sku: string }[];
      writeFileSync(file, JSON.stringify(gifts.map((gift) => ({ ...gift, sku: prefix + gift.sku }))));
    },
    damage: () => writeFileSync(file, "[{"),
    remove: () => rm(path, { recursive: true, force: true }),
  };
}
