/** Bounds of what one job keeps: found before anything is written. */
import { TidingsError } from "../model/error.ts";

/** @throws TidingsError PAYLOAD_TOO_LARGE @param what - Begins the sentence: `The result of job "…"`. */
export function checkBytes(json: string, limit: number | undefined, what: string): void {
  // A character takes one to three bytes: most texts need no counting.
  if (limit === undefined || json.length * 3 <= limit) return;
  const bytes = Buffer.byteLength(json);
  if (bytes <= limit) return;
  throw new TidingsError(
    "PAYLOAD_TOO_LARGE",
    `${what} takes ${bytes} bytes, but at most ${limit} are allowed.`,
    {
      hint: "Keep large data in a file or a table of your own, and refer to it.",
      data: { limit, bytes },
    },
  );
}

/** @throws TidingsError TOO_MANY_EVENTS */
export function checkEvents(seq: number, limit: number | undefined, jobId: string): void {
  if (limit === undefined || seq <= limit) return;
  throw new TidingsError(
    "TOO_MANY_EVENTS",
    `Job "${jobId}" has told ${limit} events, and no more are allowed.`,
    {
      hint: "Tell less often: progress is thinned out by itself, events and partial results are not.",
      data: { limit },
    },
  );
}
