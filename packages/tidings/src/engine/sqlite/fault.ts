/** SQLite's errors as Tidings' errors, and patience with other processes. */
import type { Clock, Random } from "../../model/clock.ts";
import { TidingsError } from "../../model/error.ts";

/** How long another process may hold the file before a write is given up. */
export const BUSY_LIMIT_MS = 5_000;
/** Short, because a busy neighbour leaves only short gaps between its commits. */
const LONGEST_PAUSE_MS = 5;

const SQLITE_FULL = 13;
const REASONS: Readonly<Record<number, string>> = {
  8: "it may not be written",
  10: "the disk reported an input or output error",
  11: "the file is damaged",
  14: "it cannot be opened or made",
  23: "access to it was refused",
  26: "the file is not an SQLite database",
};

export interface Ports {
  readonly clock: Clock;
  readonly random: Random;
}

/** SQLite's primary result code, or undefined for an error that is not SQLite's. */
function codeOf(error: unknown): number | undefined {
  if (!(error instanceof Error) || !("errcode" in error) || typeof error.errcode !== "number")
    return undefined;
  return error.errcode & 0xff;
}

export function isBusy(error: unknown): boolean {
  const code = codeOf(error);
  return code === 5 || code === 6;
}

/** STORE_FULL, STORE_BUSY or STORE_FAILED for an error of SQLite or of the file system; any other error as it is. */
export function toStoreError(error: unknown, path: string, consequence: string): unknown {
  if (error instanceof TidingsError || !(error instanceof Error)) return error;
  if (isBusy(error)) {
    return new TidingsError(
      "STORE_BUSY",
      `The store "${path}" was held by another process for too long, ${consequence}.`,
      { hint: "Try again; if it stays so, look for a process that keeps a transaction open.", cause: error },
    );
  }
  const code = codeOf(error);
  const system = "code" in error && typeof error.code === "string";
  if (code === undefined && !system) return error;
  if (code === SQLITE_FULL || ("code" in error && error.code === "ENOSPC")) {
    return new TidingsError("STORE_FULL", `The store "${path}" is full, ${consequence}.`, {
      hint: "Make room on its disk, or keep less: see retentionBytes and `tidings prune`.",
      data: { retryAfterMs: 5_000 },
      cause: error,
    });
  }
  const reason = code === undefined ? error.message : (REASONS[code] ?? error.message);
  return new TidingsError("STORE_FAILED", `The store "${path}" failed, ${consequence}: ${reason}.`, {
    hint: "Check that the path is right, that its folder may be written and that the disk has room.",
    cause: error,
  });
}

/** Calls `attempt` again, after growing pauses, while another process holds the file; gives up after `BUSY_LIMIT_MS`. */
export async function whileBusy<T>({ clock, random }: Ports, attempt: () => T): Promise<T> {
  const begunAt = clock.monotonic();
  for (let pauseMs = 1; ; pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)) {
    try {
      return attempt();
    } catch (error) {
      if (!isBusy(error) || clock.monotonic() - begunAt >= BUSY_LIMIT_MS) throw error;
    }
    await pause(clock, pauseMs * (0.5 + random.fraction()));
  }
}

/** Waits, and keeps the process alive for it. */
export async function pause(clock: Clock, ms: number): Promise<void> {
  // The clock's timers let the process end, but somebody waits for this write.
  const hold = setInterval(() => {}, 2 ** 30);
  try {
    await new Promise<void>((resolve) => void clock.after(ms, resolve));
  } finally {
    clearInterval(hold);
  }
}
