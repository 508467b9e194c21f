/** What clients were told, kept outside the store: appended and synced before anything else happens. */
import { closeSync, fdatasyncSync, openSync, readFileSync, writeSync } from "node:fs";

/** A start that was acknowledged. */
export interface Acknowledgement {
  readonly kind: "job";
  readonly key: string;
  readonly jobId: string;
  readonly steps: number;
}

/** An event that a client saw, with the cursor that came with it. */
export interface Sighting {
  readonly kind: "event";
  readonly cursor: string;
  readonly event: { readonly eventId: string; readonly jobId?: string; readonly [field: string]: unknown };
}

export type LedgerLine = Acknowledgement | Sighting;

export interface Ledger {
  add(lines: readonly LedgerLine[]): void;
  /** How many were added. */
  readonly lines: number;
  /** Everything, read back from the disk. */
  read(): readonly LedgerLine[];
  close(): void;
}

export function openLedger(path: string): Ledger {
  const file = openSync(path, "a");
  let added = 0;
  return {
    get lines() {
      return added;
    },
    add(lines) {
      if (lines.length === 0) return;
      added += lines.length;
      writeSync(file, lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
      fdatasyncSync(file);
    },
    read: () =>
      readFileSync(path, "utf8")
        .split("\n")
        .filter((text) => text !== "")
        .map((text) => JSON.parse(text) as LedgerLine),
    close: () => closeSync(file),
  };
}
