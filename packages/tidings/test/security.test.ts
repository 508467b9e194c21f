/** The table of docs/security.md names tests that exist. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { titlesOf } from "./titles.ts";

const read = (path: string) => readFileSync(new URL(path, import.meta.url), "utf8");
const rows = [
  ...read("../../../docs/security.md").matchAll(/^\| .+ \| `(?<file>[^`]+)` › (?<title>.+?) \|$/gm),
];

test("docs/security.md names a test for each requirement", () => {
  expect(rows.length).toBeGreaterThan(15);
});

test.each(rows.map(({ groups }) => [groups?.title ?? "", groups?.file ?? ""]))("%s", (title, file) => {
  const path = file.startsWith("apps/") ? `../../../${file}` : `../${file}`;
  expect(titlesOf(read(path))).toContain(title);
});
