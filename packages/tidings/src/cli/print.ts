/** How things look: tables and a bar for people, one JSON object per line for programs. */
import type { TidingsEvent } from "../model/event.ts";
import type { Status } from "../model/job.ts";
import type { JobSnapshot } from "../runtime/snapshot.ts";
import type { Arguments } from "./command.ts";
import { toInert, toInertJson } from "./inert.ts";
import type { Io } from "./io.ts";
import type { Told } from "./target.ts";

export function isJson(args: Arguments, io: Io): boolean {
  return args.options.json === true || !io.isTerminal;
}

export function writeJson(io: Io, value: unknown): void {
  io.write(`${toInertJson(value)}\n`);
}

/** One item of a story: `{ event, cursor }` or `{ gap: true, cursor }`. */
export function writeTold(io: Io, told: Told): void {
  const { cursor } = told;
  writeJson(io, told.kind === "event" ? { event: told.event, cursor } : { gap: true, cursor });
}

const COLOURS: Readonly<Record<string, number>> = { red: 31, green: 32, yellow: 33, blue: 34, grey: 90 };

export function paint(io: Io, colour: keyof typeof COLOURS, text: string): string {
  if (!io.isTerminal || (io.env.NO_COLOR ?? "") !== "") return text;
  return `\u001b[${COLOURS[colour]}m${text}\u001b[0m`;
}

const STATUS_COLOURS: Readonly<Record<Status, string>> = {
  pending: "grey",
  running: "blue",
  completed: "green",
  failed: "red",
  canceled: "yellow",
};

export function paintStatus(io: Io, status: Status): string {
  return paint(io, STATUS_COLOURS[status] ?? "grey", toInert(status));
}

/** A cell is never longer: an error's whole sentence has room. */
const LONGEST_CELL = 4_000;
/** What is left of a shortened last column at least. */
const LEAST_COLUMN = 20;

/**
 * Columns as wide as their widest cell. The last one is shortened to the terminal's width when `shortens` is set; the
 * others never are: people copy ids.
 */
export function writeTable(
  io: Io,
  rows: readonly (readonly string[])[],
  { shortens = false }: { readonly shortens?: boolean } = {},
): void {
  const cells = rows.map((row) => row.map((cell) => toInert(cell, LONGEST_CELL)));
  const widths = (cells[0] ?? []).map((_, column) =>
    Math.max(...cells.map((row) => row[column]?.length ?? 0)),
  );
  for (const row of cells) {
    const before = row
      .slice(0, -1)
      .map((cell, column) => `${cell.padEnd(widths[column] ?? 0)}  `)
      .join("");
    const last = row.at(-1) ?? "";
    const room = shortens ? Math.max(LEAST_COLUMN, io.columns - before.length) : last.length;
    io.write(`${before}${last.length > room ? `${last.slice(0, room - 1)}…` : last}`.trimEnd());
    io.write("\n");
  }
}

/** A bar that fits beside its percentage. */
export function barOf(percentage: number, width: number): string {
  const full = Math.round((Math.min(100, Math.max(0, percentage)) / 100) * width);
  return `${"█".repeat(full)}${"░".repeat(width - full)} ${percentage.toFixed(0).padStart(3)} %`;
}

/** `3 min`, `2 h`: the largest unit that fits. */
export function spanOf(ms: number): string {
  const units = [
    [86_400_000, "d"],
    [3_600_000, "h"],
    [60_000, "min"],
    [1_000, "s"],
  ] as const;
  for (const [size, name] of units) if (Math.abs(ms) >= size) return `${Math.floor(ms / size)} ${name}`;
  return "0 s";
}

export function sizeOf(bytes: number): string {
  for (const [size, name] of [
    [1_024 ** 3, "GiB"],
    [1_024 ** 2, "MiB"],
    [1_024, "KiB"],
  ] as const) {
    if (bytes >= size) return `${(bytes / size).toFixed(1)} ${name}`;
  }
  return `${bytes} bytes`;
}

/** One line about an event, for people. */
export function lineOf(event: TidingsEvent): string {
  const { type, timestamp, seq } = event;
  const said = Object.entries(event).filter(([name]) => !HEAD.includes(name));
  const words = said.map(
    ([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`,
  );
  const place = seq === undefined ? "" : `#${seq} `;
  return toInert(`${timestamp.slice(11, 23)} ${place}${type} ${words.join(" ")}`.trimEnd(), LONGEST_CELL);
}

const HEAD: readonly string[] = ["type", "timestamp", "seq", "eventId", "jobId"];

export function summaryOf({ summary, error, stage }: JobSnapshot): string {
  return error === undefined ? (summary ?? stage) : `${error.code}: ${error.message}`;
}
