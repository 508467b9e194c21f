import { createReadStream, readFileSync } from "node:fs";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, it } from "vitest";
import { employeeLines } from "../../examples/make-employees.ts";
import { readEmployees } from "../../src/intake/read-employees.ts";
import { createSeenPeople } from "../../src/intake/seen-people.ts";
import { acceptedOf, read, rejectedOf } from "./read-source.ts";

const EXAMPLE = new URL("../../examples/employees-2000.csv", import.meta.url);

it("the example holds 2,000 employees, of which six rows are refused and one budget is unclear", async () => {
  const records = await read(createReadStream(EXAMPLE));
  expect(records).toHaveLength(2000);
  expect(acceptedOf(records)).toHaveLength(1994);
  expect(rejectedOf(records).map(({ record, line, code }) => [record, line, code])).toEqual([
    [311, 312, "DUPLICATE_PERSON"],
    [404, 405, "NO_EMAIL"],
    [666, 667, "BAD_BUDGET"],
    [1010, 1011, "BAD_EMAIL"],
    [1404, 1405, "NO_EMAIL"],
    [1717, 1718, "DUPLICATE_PERSON"],
  ]);
  const warned = acceptedOf(records).filter(({ warnings }) => warnings.length > 0);
  expect(warned).toMatchObject([{ record: 1111, warnings: [{ code: "BUDGET_UNCLEAR" }] }]);
});

it("the example is what its script makes", () => {
  expect([...employeeLines(2000)].join("")).toBe(readFileSync(EXAMPLE, "utf8"));
});

it("memory does not grow with the rows, except a few bytes for each person", async () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const used = (): number => {
    collect();
    const { heapUsed, arrayBuffers } = process.memoryUsage();
    return heapUsed + arrayBuffers;
  };
  async function* file(rows: number): AsyncGenerator<Uint8Array> {
    let piece = "";
    for (const line of employeeLines(rows)) {
      piece += line;
      if (piece.length < 16_384) continue;
      yield Buffer.from(piece);
      piece = "";
    }
    yield Buffer.from(piece);
  }
  let early = 0;
  let late = 0;
  for await (const { record } of readEmployees(file(110_000), { currency: "USD" })) {
    if (record === 10_000) early = used();
    if (record === 110_000) late = used();
  }
  expect(late - early).toBeLessThan(15 * 1024 * 1024);
});

it("people are remembered exactly, through every growth of the set", () => {
  const people = createSeenPeople();
  for (let i = 0; i < 20_000; i += 1) {
    const person = `p${i}@example.com`;
    expect(people.has(person)).toBe(false);
    people.add(person);
    people.add(person);
  }
  expect(people.size).toBe(20_000);
  for (let i = 0; i < 20_000; i += 1) expect(people.has(`p${i}@example.com`)).toBe(true);
});
