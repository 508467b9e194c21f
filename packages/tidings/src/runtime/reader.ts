/**
 * Who follows a job, and how far: noted in the owner's values for people who look at it, never relied upon. A reader is
 * named by its client; two of one name count as one.
 *
 * All readers of a job stand in one value, which is written every few seconds at most, however many come and go.
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
/** Of one job; who was noted longest ago makes room. */
const MAX_READERS = 100;
/** Jobs whose last note is remembered to spare writes; beyond it some are written more often. */
const MAX_REMEMBERED = 10_000;
const LONGEST_NAME = 80;

const keyOf = (jobId: string) => `dev.tidings/readers/${jobId}`;

/** What is not written yet of one job. */
interface Notes {
  readonly pending: Map<string, Reader>;
  lastAt: number;
  isScheduled: boolean;
}

const NOTES = new WeakMap<Tidings, Map<string, Notes>>();

/** Notes how far a reader has come. */
export function noteReader(
  tidings: Tidings,
  clock: Clock,
  reader: {
    readonly owner: string;
    readonly jobId: string;
    /** What its client calls itself. */
    readonly name: string | undefined;
    readonly cursor: string;
  },
): void {
  const { owner, jobId, cursor } = reader;
  const name =
    (reader.name ?? "")
      .replace(/[^\x20-\x7e]+/g, " ")
      .trim()
      .slice(0, LONGEST_NAME) || "unnamed";
  const notes = notesOf(tidings, JSON.stringify([owner, jobId]));
  add(notes.pending, { name, cursor, at: toTimestamp(clock.now()) });
  if (notes.isScheduled) return;
  const write = () => {
    notes.isScheduled = false;
    notes.lastAt = clock.monotonic();
    const pending = [...notes.pending.values()];
    notes.pending.clear();
    // A note that is lost changes nothing for anybody.
    writeReaders(tidings, owner, jobId, pending).catch(() => {});
  };
  const waitMs = notes.lastAt + EVERY_MS - clock.monotonic();
  if (waitMs <= 0) write();
  else {
    notes.isScheduled = true;
    clock.after(waitMs, write);
  }
}

function notesOf(tidings: Tidings, place: string): Notes {
  const all = NOTES.get(tidings) ?? new Map<string, Notes>();
  NOTES.set(tidings, all);
  let notes = all.get(place);
  if (notes === undefined) {
    notes = { pending: new Map(), lastAt: Number.NEGATIVE_INFINITY, isScheduled: false };
    const [oldest] = all.keys();
    if (all.size >= MAX_REMEMBERED && oldest !== undefined) all.delete(oldest);
    all.set(place, notes);
  }
  return notes;
}

/** The newest stand last. */
function add(readers: Map<string, Reader>, reader: Reader): void {
  readers.delete(reader.name);
  readers.set(reader.name, reader);
  const [oldest] = readers.keys();
  if (readers.size > MAX_READERS && oldest !== undefined) readers.delete(oldest);
}

function writeReaders(
  tidings: Tidings,
  owner: string,
  jobId: string,
  readers: readonly Reader[],
): Promise<void> {
  return tidings.transaction(owner, async (values) => {
    const before = ((await values.get(keyOf(jobId))) ?? []) as readonly Reader[];
    const all = new Map(before.map((reader) => [reader.name, reader]));
    for (const reader of readers) add(all, reader);
    await values.put(keyOf(jobId), [...all.values()], { expiresInMs: KEEP_MS });
  });
}

export async function readersOf(tidings: Tidings, owner: string, jobId: string): Promise<readonly Reader[]> {
  return tidings.transaction(
    owner,
    async (values) => ((await values.get(keyOf(jobId))) ?? []) as readonly Reader[],
  );
}
