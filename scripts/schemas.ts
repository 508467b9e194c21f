/** Writes the JSON Schema files of the package; with `--check` it only says which differ and then exits with 1. */
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { schemaFiles } from "./schema-files.ts";

const folder = new URL("../packages/tidings/schema/", import.meta.url);
const check = process.argv.includes("--check");
const wanted = schemaFiles();

await mkdir(folder, { recursive: true });
const present = new Map<string, string>();
for (const name of await readdir(folder)) present.set(name, await readFile(new URL(name, folder), "utf8"));

const stale = [...wanted.keys()].filter((name) => present.get(name) !== wanted.get(name));
const surplus = [...present.keys()].filter((name) => !wanted.has(name));

if (check) {
  for (const name of [...stale, ...surplus])
    console.error(`packages/tidings/schema/${name} differs from the catalogue.`);
  if (stale.length + surplus.length > 0) {
    console.error("Run `npm run schemas` and commit what it writes.");
    process.exitCode = 1;
  } else {
    console.log(`${wanted.size} schema files are what the catalogue says.`);
  }
} else {
  for (const name of stale) await writeFile(new URL(name, folder), wanted.get(name) ?? "");
  for (const name of surplus) await rm(new URL(name, folder));
  console.log(`${wanted.size} schema files, ${stale.length} written, ${surplus.length} removed.`);
}
