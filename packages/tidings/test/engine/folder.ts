import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";

const made: string[] = [];
const MEMORY = "/dev/shm";

afterAll(() => {
  for (const folder of made.splice(0)) rmSync(folder, { recursive: true, force: true });
});

/**
 * A fresh empty folder that is removed after the tests of the file.
 *
 * @param options.inMemory - On a disk in memory where there is one, for tests that write much and prove nothing about disks.
 */
export function makeFolder(options: { readonly inMemory?: boolean } = {}): string {
  const parent = options.inMemory === true && existsSync(MEMORY) ? MEMORY : tmpdir();
  const folder = mkdtempSync(join(parent, "tidings-"));
  made.push(folder);
  return folder;
}
