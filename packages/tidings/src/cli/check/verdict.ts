import type { Arrival } from "./arrival.ts";
import type { Mistake } from "./mistake.ts";

export interface Finding {
  readonly mistake: Mistake;
  /** Which form of the mistake; stable, kebab-case. */
  readonly rule: string;
  /** One sentence: what happened, to what. */
  readonly what: string;
  /** One sentence: what to do. */
  readonly fix: string;
  /** The offending message; neither shortened nor made inert. */
  readonly arrival: Arrival;
}

/** What could not be judged, in whole or in part, and why. */
export interface Unjudged {
  readonly mistake: Mistake;
  /** A clause without a full stop. */
  readonly why: string;
  /** The rest of the mistake was judged. */
  readonly isPart: boolean;
}

export interface Verdict {
  /** The first of each rule; see `more`. */
  readonly findings: readonly Finding[];
  /** How many more of a rule there are than `findings` holds. */
  readonly more: Readonly<Record<string, number>>;
  readonly unjudged: readonly Unjudged[];
  readonly messages: number;
  /** Different events of jobs. */
  readonly events: number;
  readonly jobs: number;
  readonly reconnects: number;
}

const KEPT_PER_RULE = 3;

/** Gathers findings; of each rule the first few. */
export interface Findings {
  add(mistake: Mistake, rule: string, arrival: Arrival, what: string, fix: string): void;
  readonly kept: readonly Finding[];
  readonly more: Readonly<Record<string, number>>;
}

export function createFindings(): Findings {
  const kept: Finding[] = [];
  const more: Record<string, number> = {};
  const counts = new Map<string, number>();
  return {
    add(mistake, rule, arrival, what, fix) {
      const count = (counts.get(rule) ?? 0) + 1;
      counts.set(rule, count);
      if (count <= KEPT_PER_RULE) kept.push({ mistake, rule, what, fix, arrival });
      else more[rule] = count - KEPT_PER_RULE;
    },
    kept,
    more,
  };
}
