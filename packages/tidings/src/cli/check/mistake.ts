/** The six mistakes that `tidings check` looks for, in the order of its report. Documented in docs/check.md. */
export const MISTAKES = {
  MISSING_IDS: {
    title: "Missing ids",
    why: "A reader cannot tell a repeat from news, or does not know which job it hears of and when that was.",
  },
  FALLING_PROGRESS: {
    title: "Falling progress",
    why: "People see a bar that jumps back, and no longer believe what it says.",
  },
  ILLEGAL_SEQUENCE: {
    title: "Illegal sequence",
    why: "Two readers of the same events end in different states, and an end that is no end runs its side effects again.",
  },
  UNRECOGNISABLE_REPEAT: {
    title: "Repeats that nobody can recognise",
    why: "After every broken connection a reader does the same thing twice: a second card, a second dialog, a second payment.",
  },
  MIXED_EVENTS: {
    title: "System and business events in one",
    why: "Programs have to search texts for words, and a changed log line changes what they do.",
  },
  PROGRESS_AFTER_ANSWER: {
    title: "Progress after the answer",
    why: "A client forgets a progress token when its request is answered: what comes later is dropped, and nobody sees it.",
  },
} as const satisfies Record<string, { readonly title: string; readonly why: string }>;

/** Stable code of a mistake. */
export type Mistake = keyof typeof MISTAKES;

export const MISTAKE_CODES = Object.keys(MISTAKES) as readonly Mistake[];
