/** Keys of a job's outside effects: stable ones for handlers, and a note of each for people who look at the job. */
import type { Change, Engine, JobRecord } from "../engine/engine.ts";

/** The collection of a job that lists its outside effects, in the order in which their keys were asked for. */
export const EFFECTS_COLLECTION = "dev.tidings/effects";

/** An outside effect of a job. Noted once, with the first commit after its key was asked for, or at the attempt's end. */
export interface OutsideEffect {
  /** What the handler named; of a very long name the beginning. */
  readonly item: string;
  /** What outside services were given; of a very long key the beginning. */
  readonly key: string;
}

/** So many are noted of one job; beyond it keys are given, but nobody would read the list. */
const MOST_NOTED = 10_000;
/** In UTF-16 units. */
const LONGEST_NOTE = 300;

export interface EffectKeys {
  keyOf(item: string): string;
  /** What is not noted yet, for the next commit. */
  take(): Promise<readonly OutsideEffect[]>;
  /** That commit failed, or it is another process that asked for these. */
  giveBack(effects: readonly OutsideEffect[]): void;
}

export function createEffectKeys(engine: Engine, record: JobRecord): EffectKeys {
  const { owner, job } = record;
  const asked = new Set<string>();
  /** What earlier attempts noted; the first attempt has none. */
  let noted: ReadonlySet<string> | undefined = job.attempt > 1 ? undefined : new Set();
  let waiting: OutsideEffect[] = [];

  async function readNoted(): Promise<ReadonlySet<string>> {
    const { items } = await engine.items(owner, job.jobId, EFFECTS_COLLECTION, 0, MOST_NOTED);
    return new Set((items as readonly OutsideEffect[]).map(({ key }) => key));
  }

  return {
    keyOf(item) {
      const key = `${job.jobId}:${item}`;
      const note = { item: shortened(String(item)), key: shortened(key) };
      if (asked.size < MOST_NOTED && !asked.has(note.key)) {
        asked.add(note.key);
        waiting.push(note);
      }
      return key;
    },
    async take() {
      if (waiting.length === 0) return waiting;
      noted ??= await readNoted();
      const known = noted;
      const room = Math.max(0, MOST_NOTED - known.size);
      const taken = waiting.filter(({ key }) => !known.has(key)).slice(0, room);
      waiting = [];
      return taken;
    },
    giveBack(effects) {
      waiting = [...effects, ...waiting];
    },
  };
}

/** The callback of a change, with what is to be noted of outside effects. */
export function withEffects(
  write: Change["write"],
  effects: readonly OutsideEffect[],
): Pick<Change, "write"> {
  if (effects.length === 0) return write === undefined ? {} : { write };
  return {
    async write(transaction) {
      await write?.(transaction);
      await transaction.append(EFFECTS_COLLECTION, effects);
    },
  };
}

function shortened(text: string): string {
  return (text.length > LONGEST_NOTE ? `${text.slice(0, LONGEST_NOTE - 1)}…` : text).toWellFormed();
}
