/** Mistakes around requests: progress after the answer, progress that falls before it, one key that starts two jobs. */
import { isRecord } from "../../model/schema.ts";
import type { Arrival } from "./arrival.ts";
import type { Exchange } from "./exchange.ts";
import type { Findings, Unjudged } from "./verdict.ts";

type Token = string | number;

interface Pending {
  readonly id: Token;
  /** Whether a record without the request made us guess that the token is the request's id, as the official clients choose it. */
  readonly isGuess: boolean;
  answer?: Arrival;
  highest: number;
}

/** Two streams have no common order; what is this close together is given the benefit of the doubt. */
const RACE_MS = 500;

/** @returns what could not be judged. */
export function judgeExchanges(
  arrivals: readonly Arrival[],
  exchanges: readonly Exchange[],
  findings: Findings,
): readonly Unjudged[] {
  judgeKeys(exchanges, findings);
  const answers = new Map(exchanges.map((exchange) => [exchange.answer, exchange]));
  const byToken = new Map<Token, Pending>();
  const byId = new Map<Token, Pending>();
  let [isAsked, isAnswered, isSeen] = [false, false, false];
  for (const arrival of arrivals) {
    const { message } = arrival;
    if (!isRecord(message)) continue;
    const exchange = answers.get(arrival);
    if (exchange !== undefined) {
      const pending = byId.get(exchange.id) ?? guess(exchange, byToken);
      byId.delete(exchange.id);
      if (pending === undefined) continue;
      if (isTask2025(message)) byToken.delete(tokenOf(exchange.request?.message) ?? exchange.id);
      else pending.answer = arrival;
      if (!pending.isGuess) isAnswered = true;
      continue;
    }
    const token = tokenOf(message);
    if (token !== undefined && isToken(message.id)) {
      const pending = { id: message.id, isGuess: false, highest: Number.NEGATIVE_INFINITY };
      byToken.set(token, pending);
      byId.set(message.id, pending);
      isAsked = true;
    } else if (message.method === "notifications/progress" && isRecord(message.params)) {
      const { progressToken, progress } = message.params;
      if (!isToken(progressToken)) continue;
      isSeen = true;
      judgeProgress(arrival, progressToken, progress, byToken.get(progressToken), findings);
    }
  }
  if (isAnswered || findings.kept.some(({ mistake }) => mistake === "PROGRESS_AFTER_ANSWER")) return [];
  const why = isAsked
    ? "the request that asked for progress was not answered"
    : isSeen
      ? "the record does not hold the requests that the progress belongs to"
      : "no request asked for progress (_meta.progressToken), and none came";
  return [{ mistake: "PROGRESS_AFTER_ANSWER", why, isPart: false }];
}

function judgeProgress(
  arrival: Arrival,
  token: Token,
  progress: unknown,
  pending: Pending | undefined,
  findings: Findings,
): void {
  if (pending === undefined) return;
  const { answer } = pending;
  if (answer !== undefined && isAfter(arrival, answer)) {
    findings.add(
      "PROGRESS_AFTER_ANSWER",
      "progress-after-answer",
      arrival,
      `Progress for the token ${JSON.stringify(token)} came after its request was answered (${answer.place}).`,
      "Tell what a job does after the answer by events of its own (notifications/job/progress), not by notifications/progress.",
    );
  }
  if (typeof progress !== "number" || !Number.isFinite(progress)) return;
  if (progress < pending.highest) {
    findings.add(
      "FALLING_PROGRESS",
      "token-falls",
      arrival,
      `The progress for the token ${JSON.stringify(token)} fell from ${pending.highest} to ${progress}.`,
      "MCP asks that each progress value is higher than the one before; leave out what lies below.",
    );
  }
  pending.highest = Math.max(pending.highest, progress);
}

function isAfter(arrival: Arrival, answer: Arrival): boolean {
  if (arrival.stream === answer.stream || arrival.atMs === undefined || answer.atMs === undefined)
    return true;
  return arrival.atMs - answer.atMs > RACE_MS;
}

/** The record holds no request: progress for the answer's id, as clients choose their tokens, would be late. */
function guess(exchange: Exchange, byToken: Map<Token, Pending>): Pending | undefined {
  if (exchange.request !== undefined) return undefined;
  const pending = { id: exchange.id, isGuess: true, highest: Number.NEGATIVE_INFINITY };
  byToken.set(exchange.id, pending);
  return pending;
}

/** In 2025-11-25 the token of a call that became a task stays valid for the task's life. */
function isTask2025(answer: Record<string, unknown>): boolean {
  return isRecord(answer.result) && isRecord(answer.result.task);
}

function tokenOf(message: unknown): Token | undefined {
  if (!isRecord(message) || !isRecord(message.params) || !isRecord(message.params._meta)) return undefined;
  const { progressToken } = message.params._meta;
  return isToken(progressToken) ? progressToken : undefined;
}

function isToken(value: unknown): value is Token {
  return typeof value === "string" || typeof value === "number";
}

function judgeKeys(exchanges: readonly Exchange[], findings: Findings): void {
  const first = new Map<string, Exchange>();
  for (const exchange of exchanges) {
    const { keyed, jobId, answer } = exchange;
    if (keyed === undefined || jobId === undefined) continue;
    const before = first.get(keyed);
    if (before === undefined) first.set(keyed, exchange);
    else if (before.jobId !== jobId) {
      findings.add(
        "UNRECOGNISABLE_REPEAT",
        "two-jobs-for-one-key",
        answer,
        `The same call with the same idempotency key started a second job: "${jobId}", before "${before.jobId}" (${before.answer.place}).`,
        "Store the key together with the job, and answer a repeated key with the job that it stands for.",
      );
    }
  }
}
