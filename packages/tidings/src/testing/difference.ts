/** Says in one sentence what is different between two endings of one job. */
import type { Status } from "../model/job.ts";
import { canonicalJson } from "../runtime/digest.ts";
import type { Effect } from "./effects.ts";

/** What a job left behind: everything that must not depend on when its process was killed. */
export interface CrashOutcome {
  readonly status: Status;
  readonly percentage: number;
  readonly summary: string | undefined;
  readonly resultResourceId: string | undefined;
  /** Why the job failed: code and sentence. */
  readonly error: string | undefined;
  readonly result: unknown;
  readonly counts: Readonly<Record<string, number>>;
  /** The collections that the handler added to, by name. */
  readonly collections: Readonly<Record<string, readonly unknown[]>>;
  /** The owner's values that the handler wrote, by key; undefined when it deleted them. */
  readonly values: Readonly<Record<string, unknown>>;
  /** What `observe` returned. */
  readonly observed: unknown;
  readonly effects: readonly Effect[];
}

const LONGEST_TEXT = 120;

/** The first difference; undefined when both are the same. */
export function findDifference(clean: CrashOutcome, crashed: CrashOutcome): string | undefined {
  if (clean.status !== crashed.status) {
    const why = crashed.error === undefined ? "" : ` (${crashed.error})`;
    return `the job is ${crashed.status}${why} instead of ${clean.status}`;
  }
  for (const name of namesOf(clean.collections, crashed.collections)) {
    const difference = inList(name, clean.collections[name] ?? [], crashed.collections[name] ?? []);
    if (difference !== undefined) return difference;
  }
  return (
    inEffects(clean.effects, crashed.effects) ??
    inValue("result", clean.result, crashed.result) ??
    inValue("counts", clean.counts, crashed.counts) ??
    inValue("values", clean.values, crashed.values) ??
    inValue("observed", clean.observed, crashed.observed) ??
    inValue("summary", clean.summary, crashed.summary) ??
    inValue("resultResourceId", clean.resultResourceId, crashed.resultResourceId) ??
    inValue("error", clean.error, crashed.error) ??
    inValue("percentage", clean.percentage, crashed.percentage)
  );
}

function inList(name: string, clean: readonly unknown[], crashed: readonly unknown[]): string | undefined {
  const wanted = clean.map(canonicalJson);
  const found = crashed.map(canonicalJson);
  for (let index = 0; index < Math.max(wanted.length, found.length); index += 1) {
    const want = wanted[index];
    const have = found[index];
    if (want === have) continue;
    if (have !== undefined && wanted.includes(have) && times(found, have) > times(wanted, have)) {
      return `item ${wanted.indexOf(have) + 1} stands ${inWords(times(found, have))} in "${name}": ${short(have)}`;
    }
    if (want !== undefined && times(found, want) < times(wanted, want) && (!have || wanted.includes(have))) {
      return `item ${index + 1} is missing in "${name}": ${short(want)}`;
    }
    return `item ${index + 1} of "${name}" is ${short(have)} instead of ${short(want)}`;
  }
  return undefined;
}

function inEffects(clean: readonly Effect[], crashed: readonly Effect[]): string | undefined {
  const wanted = new Map(clean.map(({ key, what }) => [key, canonicalJson(what)]));
  for (const { key, what } of crashed) {
    if (!wanted.has(key)) {
      return `an effect happened under the key ${short(canonicalJson(key))}, which no run without a crash uses (its keys: ${short(canonicalJson([...wanted.keys()]))}): take keys from effectKey(item)`;
    }
    if (wanted.get(key) !== canonicalJson(what)) {
      return `the effect ${short(canonicalJson(key))} asked for ${short(canonicalJson(what))} instead of ${short(wanted.get(key))}`;
    }
  }
  const happened = new Set(crashed.map(({ key }) => key));
  const lost = [...wanted.keys()].find((key) => !happened.has(key));
  return lost === undefined ? undefined : `the effect ${short(canonicalJson(lost))} never happened`;
}

function inValue(path: string, clean: unknown, crashed: unknown): string | undefined {
  if (canonicalJson(clean) === canonicalJson(crashed)) return undefined;
  if (Array.isArray(clean) && Array.isArray(crashed)) return inList(path, clean, crashed);
  if (isRecord(clean) && isRecord(crashed)) {
    for (const name of namesOf(clean, crashed)) {
      const difference = inValue(`${path}.${name}`, clean[name], crashed[name]);
      if (difference !== undefined) return difference;
    }
  }
  return `${path} is ${short(canonicalJson(crashed))} instead of ${short(canonicalJson(clean))}`;
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function namesOf(...records: readonly object[]): readonly string[] {
  return [...new Set(records.flatMap((record) => Object.keys(record)))].sort();
}

function times(texts: readonly string[], text: string): number {
  return texts.filter((other) => other === text).length;
}

function inWords(count: number): string {
  return count === 2 ? "twice" : `${count} times`;
}

function short(text: string | undefined): string {
  if (text === undefined) return "missing";
  return text.length > LONGEST_TEXT ? `${text.slice(0, LONGEST_TEXT)}…` : text;
}
