/**
 * Who follows a job, and how far: noted in the owner's values for people who look at it, never relied upon. A reader is
 * named by its client; two of one name count as one.
 */
import type { Clock } from "../model/clock.ts";
import { toTimestamp } from "../model/clock.ts";
import type { Tidings } from "./tidings.ts";

export interface Reader {
  readonly name: string;
  /** The last cursor that it was given. */
  readonly cursor: string;
  /** When that was, RFC 3339. */
  readonly at: string;
}

const KEEP_MS = 86_400_000;
const EVERY_MS = 5_000;
const MAX_READERS = 100;
/** Remembered to spare writes; beyond it some are written more often. */
const MAX_REMEMBERED = 10_000;
const LONGEST_NAME = 80;

const prefixOf = (jobId: string) => `dev.tidings/reader/${jobId}/`;

/** When a reader was noted last, to spare writes. */
const NOTED = new WeakMap<Tidings, Map<string, number>>();

/** Notes how far a reader has come. Costs a write, so it happens at most every few seconds for each, unless it leaves. */
export function noteReader(
  tidings: Tidings,
  clock: Pick<Clock, "now" | "monotonic">,
  reader: {
    readonly owner: string;
    readonly jobId: string;
    /** What its client calls itself. */
    readonly name: string | undefined;
    readonly cursor: string;
    readonly leaves?: boolean;
  },
): void {
  const { owner, jobId, cursor, leaves = false } = reader;
  const name =
    (reader.name ?? "")
      .replace(/[^\x20-\x7e]+/g, " ")
      .trim()
      .slice(0, LONGEST_NAME) || "unnamed";
  const key = `${prefixOf(jobId)}${name}`;
  const place = JSON.stringify([owner, key]);
  const noted = NOTED.get(tidings) ?? new Map<string, number>();
  NOTED.set(tidings, noted);
  const now = clock.monotonic();
  if (!leaves && now - (noted.get(place) ?? Number.NEGATIVE_INFINITY) < EVERY_MS) return;
  if (noted.size >= MAX_REMEMBERED) noted.clear();
  noted.set(place, now);
  const value: Reader = { name, cursor, at: toTimestamp(clock.now()) };
  // A note that is lost changes nothing for anybody.
  tidings.transaction(owner, (values) => values.put(key, value, { expiresInMs: KEEP_MS })).catch(() => {});
}

export async function readersOf(tidings: Tidings, owner: string, jobId: string): Promise<readonly Reader[]> {
  const values = await tidings.transaction(owner, (transaction) =>
    transaction.list(prefixOf(jobId), MAX_READERS),
  );
  return values.map(({ value }) => value as Reader);
}
