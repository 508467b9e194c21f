import { existsSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { titlesOf } from "../titles.ts";

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");

const spec = read("src/model/SPEC.md");
const citations = [...spec.matchAll(/^\| ([SG]\d+) +\|.*\| `(?<file>[^`]+)` › (?<title>.+?) +\|$/gm)].map(
  (match) => ({
    id: match[1] ?? "",
    file: match.groups?.file ?? "",
    title: match.groups?.title ?? "",
  }),
);

describe("SPEC.md", () => {
  test.each(citations)("$id names a test that exists: $title", ({ file, title }) => {
    expect(existsSync(new URL(`../../${file}`, import.meta.url)), file).toBe(true);
    expect(titlesOf(read(file))).toContain(title);
  });

  test("is not satisfied by a comment, nor by a test that does not run", () => {
    const source = `
      // test("in a comment", () => {});
      const text = 'test("in a text", () => {})';
      test.skip("skipped", () => {});
      it.todo("to do");
      describe.skip("skipped", () => test("in a skipped part", () => {}));
      test.skipIf(true)("skipped here", () => {});
      test("runs", () => {});
      describe("a part", () => it.each([1])("runs for each", () => {}));
    `;
    expect([...titlesOf(source)]).toEqual(["runs", "a part", "runs for each"]);
  });

  test("numbers its invariants without a gap, and names a test for each", () => {
    const rows = [...spec.matchAll(/^\| ([SG])(\d+) +\|/gm)].map((match) => ({
      id: `${match[1]}${match[2]}`,
      letter: match[1],
      number: Number(match[2]),
    }));
    const cited = new Set(citations.map((citation) => citation.id));
    for (const letter of ["S", "G"]) {
      const numbers = new Set(rows.filter((row) => row.letter === letter).map((row) => row.number));
      expect([...numbers]).toEqual([...numbers].map((_, index) => index + 1));
    }
    expect(rows.map((row) => row.id).filter((id) => !cited.has(id))).toEqual([]);
  });
});
