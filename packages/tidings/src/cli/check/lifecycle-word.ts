/** The many words in which servers say where a job stands, brought to those of the model's lifecycle. */

export type Word =
  | "created"
  | "started"
  | "progress"
  | "retrying"
  | "waiting"
  | "resumed"
  | "partial"
  | "completed"
  | "failed"
  | "canceled";

export type EndWord = "completed" | "failed" | "canceled";

const SPELLINGS: Readonly<Record<Word, string>> = {
  created: "created queued pending submitted accepted scheduled enqueued registered",
  started: "started running working in_progress processing begun",
  progress: "progress progressed",
  retrying: "retrying retried",
  waiting: "input_required waiting paused suspended",
  resumed: "resumed",
  partial: "partial",
  completed: "completed complete succeeded success successful done finished",
  failed: "failed failure error errored",
  canceled: "canceled cancelled aborted stopped",
};

const WORDS: ReadonlyMap<string, Word> = new Map(
  (Object.keys(SPELLINGS) as Word[]).flatMap((word) =>
    SPELLINGS[word].split(" ").map((spelling) => [spelling, word] as const),
  ),
);

export function isEndWord(word: string | undefined): word is EndWord {
  return word === "completed" || word === "failed" || word === "canceled";
}

/** The lower-case words of a method, a type or a status: `notifications/jobProgress` → notifications, job, progress. */
export function wordsOf(text: string): readonly string[] {
  return text
    .slice(0, 200)
    .replace(/([a-z0-9])([A-Z])/g, "$1 $2")
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter((word) => word !== "");
}

/** Names of the whole that is done; whatever else stands there is a part of it: `job.step.completed` ends no job. */
const JOB_NOUNS: ReadonlySet<string> = new Set(
  "job jobs task tasks run runs workflow workflows operation operations execution executions".split(" "),
);
/** Words that say nothing of their own, so that the fields have to. */
const EMPTY_WORDS: ReadonlySet<string> = new Set(
  "notification notifications event events update updates updated status state changed change message progress".split(
    " ",
  ),
);

export interface Name {
  /** The lifecycle word that the name ends in, when it is said of the whole job. */
  readonly word: Word | undefined;
  /** Whether the name holds the word job, or one like it. */
  readonly namesJob: boolean;
  /** Whether the name itself says nothing of what happened: `notifications/job/update`. */
  readonly isEmpty: boolean;
}

/** Reads the name of an event: its method, its type, or the value of its status. */
export function readName(name: string): Name {
  const words = wordsOf(name);
  const [pair, single] = [WORDS.get(words.slice(-2).join("_")), WORDS.get(words.at(-1) ?? "")];
  const before = words.at(pair === undefined ? -2 : -3);
  const isOfJob = before === undefined || JOB_NOUNS.has(before) || EMPTY_WORDS.has(before);
  return {
    word: isOfJob ? (pair ?? single) : undefined,
    namesJob: words.some((word) => JOB_NOUNS.has(word)),
    isEmpty: words.every((word) => JOB_NOUNS.has(word) || EMPTY_WORDS.has(word)),
  };
}

const SAYS_STATE =
  /\b(?:start(?:ed|ing)|running|complet(?:ed|e)|done|finished|succeeded|failed|cancell?ed|progress)\b|\b\d{1,3}(?:\.\d{1,4})?\s?%/i;

/** Whether a text for people says how a job stands. */
export function tellsState(text: string): boolean {
  return SAYS_STATE.test(text.slice(0, 2_000));
}
