/**
 * Progress in stages. Each stage has a stable key, a text for people and the percentage at which it ends. A stage's
 * boundary (its end) is always reported, exactly once, whatever else is coalesced.
 */
import { TidingsError } from "./error.ts";

/** One line of a progress bar. */
export interface ProgressReport {
  readonly percentage: number;
  readonly stage: string;
  readonly stageKey: string;
  readonly etaSeconds?: number;
}

/** Where each stage ends, in percent, in order; the last one at 100. A text for people may be given beside it. */
export type StageSpec = Readonly<Record<string, number | { readonly end: number; readonly label: string }>>;

export interface Stage {
  readonly key: string;
  readonly label: string;
  readonly start: number;
  readonly end: number;
}

/**
 * Reads a stage list. The default is one stage `work` from 0 to 100.
 *
 * @throws TidingsError BAD_DEFINITION when ends do not rise, leave 0–100 or do not reach 100.
 */
export function readStages(spec: StageSpec | undefined, owner: string): readonly Stage[] {
  const stages: Stage[] = [];
  let start = 0;
  for (const [key, value] of Object.entries(spec ?? { work: 100 })) {
    const end = typeof value === "number" ? value : value.end;
    if (!Number.isFinite(end) || end <= start || end > 100) {
      throw new TidingsError(
        "BAD_DEFINITION",
        `Stage "${key}" of "${owner}" ends at ${end}, but must end above ${start} and at most at 100.`,
        { hint: "List the stages in order, each with the percentage at which it ends." },
      );
    }
    if (typeof value !== "number" && value.label === "") {
      throw new TidingsError(
        "BAD_DEFINITION",
        `Stage "${key}" of "${owner}" has an empty label; people read it.`,
      );
    }
    stages.push({ key, label: typeof value === "number" ? humanise(key) : value.label, start, end });
    start = end;
  }
  if (start !== 100) {
    throw new TidingsError(
      "BAD_DEFINITION",
      `The last stage of "${owner}" ends at ${start}, but must end at 100.`,
    );
  }
  return stages;
}

/** A stage's place on the bar, in tenths of a percent: never at the boundary before the stage is really done. */
export function percentageAt(stage: Stage, fraction: number): number {
  if (fraction >= 1) return stage.end;
  const exact = stage.start + (stage.end - stage.start) * Math.max(0, fraction);
  const tenth = Math.floor(exact * 10) / 10;
  return Math.max(stage.start, tenth < stage.end ? tenth : stage.start);
}

/** The boundaries above `shown` and up to `reached`: what must be reported before anything later may be. */
export function boundariesBetween(
  stages: readonly Stage[],
  shown: number,
  reached: number,
): ProgressReport[] {
  return stages
    .filter((stage) => stage.end > shown && stage.end <= reached)
    .map((stage) => ({ percentage: stage.end, stage: stage.label, stageKey: stage.key }));
}

/**
 * The reports that follow when `key` is `fraction` done (0–1) and `shown` percent were reported: skipped boundaries
 * first, then the place itself. Empty when nothing rises. A fraction that is not finite counts as 0; one above 1 as 1.
 */
export function reportsFor(
  stages: readonly Stage[],
  shown: number,
  key: string,
  fraction: number,
): ProgressReport[] {
  const stage = stages.find((candidate) => candidate.key === key);
  if (stage === undefined) {
    throw new TidingsError(
      "BAD_DEFINITION",
      `progress("${key}", …) names no stage; this job has ${stages.map((s) => s.key).join(", ")}.`,
    );
  }
  const percentage = percentageAt(stage, Number.isFinite(fraction) ? Math.min(1, fraction) : 0);
  const reports = boundariesBetween(stages, shown, percentage);
  const last = reports.at(-1)?.percentage ?? shown;
  if (percentage > last) reports.push({ percentage, stage: stage.label, stageKey: stage.key });
  return reports;
}

/** What an estimate needs before it is shown: this much time and this many points of progress. */
export const ETA_EVIDENCE = { elapsedMs: 2_000, points: 3 } as const;

/** A running estimate: the pace of this attempt, smoothed. */
export interface EtaEstimate {
  readonly startedAtMs: number;
  readonly startedAtPercentage: number;
  readonly smoothedMsLeft?: number;
}

/**
 * Seconds that remain, from the pace of this attempt; undefined without evidence. Feed it each report in turn and
 * keep what it returns.
 */
export function estimateEta(
  estimate: EtaEstimate,
  percentage: number,
  nowMs: number,
): { readonly estimate: EtaEstimate; readonly etaSeconds?: number } {
  const elapsedMs = nowMs - estimate.startedAtMs;
  const points = percentage - estimate.startedAtPercentage;
  if (percentage >= 100 || elapsedMs < ETA_EVIDENCE.elapsedMs || points < ETA_EVIDENCE.points) {
    return { estimate };
  }
  const msLeft = (elapsedMs / points) * (100 - percentage);
  const before = estimate.smoothedMsLeft;
  const smoothedMsLeft = before === undefined ? msLeft : before * 0.6 + msLeft * 0.4;
  return {
    estimate: { ...estimate, smoothedMsLeft },
    etaSeconds: Math.max(1, Math.round(smoothedMsLeft / 1000)),
  };
}

function humanise(key: string): string {
  const words = key.replaceAll("_", " ").trim();
  return words === "" ? key : words.charAt(0).toUpperCase() + words.slice(1);
}
