import { readFileSync } from "node:fs";
import type { IntakeRecord, ReadOptions } from "../../src/intake/read-employees.ts";
import { readEmployees } from "../../src/intake/read-employees.ts";

export type Accepted = Extract<IntakeRecord, { outcome: "accepted" }>;
export type Rejected = Extract<IntakeRecord, { outcome: "rejected" }>;

/** A source of these pieces, in order. */
export async function* sourceOf(...pieces: (string | Uint8Array)[]): AsyncGenerator<Uint8Array> {
  for (const piece of pieces) yield typeof piece === "string" ? Buffer.from(piece) : piece;
}

/** Reads everything that a file says. */
export async function read(
  content: string | Uint8Array | AsyncIterable<Uint8Array>,
  options: Partial<ReadOptions> = {},
): Promise<IntakeRecord[]> {
  const source = typeof content === "string" || content instanceof Uint8Array ? sourceOf(content) : content;
  const records: IntakeRecord[] = [];
  for await (const record of readEmployees(source, { currency: "USD", ...options })) records.push(record);
  return records;
}

export function acceptedOf(records: readonly IntakeRecord[]): Accepted[] {
  return records.filter((record): record is Accepted => record.outcome === "accepted");
}

export function rejectedOf(records: readonly IntakeRecord[]): Rejected[] {
  return records.filter((record): record is Rejected => record.outcome === "rejected");
}

export function fixture(name: string): Buffer {
  return readFileSync(new URL(`../fixtures/csv/${name}`, import.meta.url));
}
