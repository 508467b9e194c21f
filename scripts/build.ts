/**
 * Compiles the package into `packages/tidings/dist`, from nothing: JavaScript and declarations by tsc, then what tsc
 * leaves behind (SQL files), and declarations that name `.js` files as the JavaScript beside them does.
 */
import { spawnSync } from "node:child_process";
import { cp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const source = join(root, "packages/tidings/src");
const dist = join(root, "packages/tidings/dist");

await rm(dist, { recursive: true, force: true });
const tsc = join(root, "node_modules/typescript/bin/tsc");
const { status } = spawnSync(process.execPath, [tsc, "-b", "packages/tidings"], {
  cwd: root,
  stdio: "inherit",
});
if (status !== 0) process.exit(1);

for (const file of await filesOf(source)) {
  if (file.endsWith(".sql")) await cp(join(source, file), join(dist, file));
}
for (const file of await filesOf(dist)) {
  if (!file.endsWith(".d.ts")) continue;
  const path = join(dist, file);
  const text = await readFile(path, "utf8");
  await writeFile(path, text.replaceAll(/((?:from|import\()\s*"\.{1,2}\/[^"]+)\.ts"/g, '$1.js"'));
}

async function filesOf(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1));
}
