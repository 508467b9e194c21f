import { isRecord } from "../../model/schema.ts";

/** What changes whenever the same thing is sent again, in all spellings. */
const OF_SENDING: ReadonlySet<string> = new Set([
  "_meta",
  "seq",
  "sequence",
  "sequenceNumber",
  "cursor",
  "specversion",
]);
const MAX_DEPTH = 8;
const MAX_CHARS = 4_000;

/** A text that is equal for equal values, whatever the order of their fields; bounded in depth and length. */
export function contentOf(value: unknown, without: readonly string[] = []): string {
  const left = new Set([...without, ...OF_SENDING]);
  return print(value, left, 0).slice(0, MAX_CHARS);
}

function print(value: unknown, without: ReadonlySet<string>, depth: number): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "";
  if (depth >= MAX_DEPTH) return "…";
  if (Array.isArray(value)) {
    return `[${value
      .slice(0, 100)
      .map((each) => print(each, without, depth + 1))
      .join()}]`;
  }
  if (!isRecord(value)) return "";
  const names = Object.keys(value)
    .filter((name) => depth > 1 || !without.has(name))
    .sort()
    .slice(0, 100);
  return `{${names.map((name) => `${JSON.stringify(name)}:${print(value[name], without, depth + 1)}`).join()}}`;
}
