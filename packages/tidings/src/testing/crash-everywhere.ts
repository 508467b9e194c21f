/**
 * Kills the process of a handler at every commit, and looks whether anybody could tell.
 *
 *   two runs without a kill ──▶ commits 1…n ──▶ for each: killed right before it, killed right after it ──▶ same ending?
 */
import { AssertionError } from "node:assert";
import type { AnyJobDefinition, JobDefinition } from "../runtime/define-job.ts";
import type { Tidings } from "../runtime/tidings.ts";
import { type CrashWorld, type Kill, type Run, runOnce } from "./crash-run.ts";
import { CRASH_STORES, type OpenCrashStore } from "./crash-store.ts";
import { type CrashOutcome, findDifference } from "./difference.ts";
import type { Effects } from "./effects.ts";

export interface CrashOptions {
  /** Where each run keeps its job: memory that outlives the process, a real SQLite file, or a store of your own. Default `memory`. */
  readonly store?: "memory" | "sqlite" | OpenCrashStore;
  /** Default `local`. */
  readonly owner?: string;
  /** The witness that the handler's outside calls go to: see `createEffects`. */
  readonly effects?: Effects;
  /** Looks at more than Tidings knows of, such as tables of your own; what it returns (JSON) is compared too. */
  readonly observe?: (world: CrashWorld) => unknown;
  /** Is given the tidings of each life, for handlers that need one. */
  readonly onOpen?: (tidings: Tidings) => void;
  /** Says what is different, or undefined. Default: the status, the result, the counts, collections, values, effects and what `observe` returned must be equal. */
  readonly compare?: (clean: CrashOutcome, crashed: CrashOutcome) => string | undefined;
  /** How many runs at most; when there are more places to die, they are picked evenly. Default 1 000. */
  readonly limit?: number;
  /** Kills the second life too, at each of its commits. Default false. */
  readonly twoCrashes?: boolean;
  /** How long one run may take, in milliseconds. Default 30 000. */
  readonly timeoutMs?: number;
}

export interface CrashReport {
  /** What a run without a crash commits, in order. */
  readonly commits: readonly string[];
  /** How many runs were made, those without a crash included. */
  readonly runs: number;
  /** How many places to die `limit` left out. */
  readonly skipped: number;
}

/**
 * Runs a handler to its end, then again and again, each time killed right before or right after one of its commits and
 * taken up by a new process; every run must leave the same behind.
 *
 * Time stands still for the runtime while the handler works, and passes by itself where a job waits for it: leases and
 * delays take no time. What the handler itself waits for takes the time that it takes.
 *
 * @throws AssertionError in one sentence: where the process was killed and what is different.
 */
export async function crashEverywhere<Input>(
  // biome-ignore lint/suspicious/noExplicitAny: what a schema makes of its input does not matter here
  job: JobDefinition<string, Input, any>,
  input: Input,
  options: CrashOptions = {},
): Promise<CrashReport> {
  const { store = "memory", compare = findDifference, limit = 1_000, twoCrashes = false } = options;
  const run = (kills: readonly Kill[]): Promise<Run> =>
    runOnce({
      job: job as AnyJobDefinition,
      input,
      owner: options.owner ?? "local",
      openStore: typeof store === "string" ? CRASH_STORES[store] : store,
      kills,
      effects: options.effects,
      observe: options.observe,
      onOpen: options.onOpen,
      timeoutMs: options.timeoutMs ?? 30_000,
    });

  const clean = await run([]);
  await theNextMillisecond();
  const again = await run([]);
  const unsteady = compare(clean.outcome, again.outcome);
  if (unsteady !== undefined) {
    throw failure(
      `Two runs without a crash already differ: ${unsteady}. The handler depends on time or chance: derive what it keeps from its input and effectKey(item), or leave it out with compare.`,
      clean,
      again,
    );
  }

  const commits = clean.commits[0] ?? [];
  const plans = plansFor(commits.length, twoCrashes);
  const chosen = pickEvenly(plans, limit);
  for (const kills of chosen) {
    const crashed = await run(kills);
    const difference = compare(clean.outcome, crashed.outcome);
    if (difference !== undefined) throw failure(`${inWords(kills, crashed)}: ${difference}.`, clean, crashed);
  }
  return { commits, runs: chosen.length + 2, skipped: plans.length - chosen.length };
}

function plansFor(commits: number, twoCrashes: boolean): readonly (readonly Kill[])[] {
  const numbers = Array.from({ length: commits }, (_, index) => index + 1);
  const places = (from: readonly number[]): Kill[] =>
    from.flatMap((commit) => [
      { when: "before", commit },
      { when: "after", commit },
    ]);
  const once = places(numbers);
  if (!twoCrashes) return once.map((kill) => [kill]);
  // The second life has what is left to do, and at most one commit again.
  return once.flatMap((first) => [
    [first],
    ...places(numbers.slice(0, commits - first.commit + 1)).map((second) => [first, second]),
  ]);
}

function pickEvenly<T>(all: readonly T[], limit: number): readonly T[] {
  if (all.length <= limit) return all;
  return Array.from({ length: limit }, (_, index) => all[Math.floor((index * all.length) / limit)] as T);
}

function inWords(kills: readonly Kill[], { commits }: Run): string {
  const places = kills.flatMap(({ when, commit }, life) => {
    const what = commits[life]?.[commit - 1];
    return what === undefined ? [] : [`${when} commit ${commit} (${what})`];
  });
  return `Killed ${places.join(" and, in its second life, ")}, the job ends differently`;
}

function failure(message: string, clean: Run, crashed: Run): AssertionError {
  return new AssertionError({
    message,
    expected: clean.outcome,
    actual: crashed.outcome,
    operator: "crashEverywhere",
    stackStartFn: crashEverywhere,
  });
}

/** So that a handler which keeps the time does not look as if it did not. */
async function theNextMillisecond(): Promise<void> {
  for (const now = Date.now(); Date.now() === now; ) await new Promise((resolve) => setImmediate(resolve));
}
