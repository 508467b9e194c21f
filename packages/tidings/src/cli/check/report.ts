/** Says a verdict: for people in a terminal, in JSON lines for programs. */
import { toInert, toInertJson } from "../inert.ts";
import type { Mistake } from "./mistake.ts";
import { MISTAKE_CODES, MISTAKES } from "./mistake.ts";
import type { Verdict } from "./verdict.ts";

/** What was looked at. */
export interface Subject {
  readonly name: string;
  /** Facts about the examination, each one line. */
  readonly facts: readonly string[];
  /** What a reader of the verdict has to know beside it. */
  readonly remarks: readonly string[];
}

/** Exit codes, as documented. */
export type Exit = 0 | 1 | 3;

export function exitOf(verdict: Verdict): Exit {
  if (verdict.findings.length > 0) return 1;
  return verdict.events === 0 ? 3 : 0;
}

export function printText(subject: Subject, verdict: Verdict, isColoured: boolean): string {
  const paint = (code: number, text: string): string =>
    isColoured ? `\u001b[${code}m${text}\u001b[0m` : text;
  const lines = [toInert(subject.name), ...subject.facts.map((fact) => `  ${toInert(fact)}`), ""];
  for (const code of MISTAKE_CODES) {
    const { title, why } = MISTAKES[code];
    const findings = verdict.findings.filter(({ mistake }) => mistake === code);
    const unjudged = verdict.unjudged.filter(({ mistake }) => mistake === code);
    const isOpen = unjudged.some(({ isPart }) => !isPart);
    if (findings.length > 0) lines.push(paint(31, `✗ ${title} (${code})`));
    else if (isOpen) lines.push(paint(33, `? ${title}: could not be judged`));
    else lines.push(paint(32, `✓ ${title}: none`));
    for (const { arrival, what } of findings) {
      lines.push(`    ${toInert(arrival.place)}: ${toInert(what)}`, `      ${toInert(arrival.text, 300)}`);
    }
    const rules = [...new Map(findings.map(({ rule, fix }) => [rule, fix]))];
    for (const [rule] of rules) {
      if (verdict.more[rule] !== undefined)
        lines.push(`    … and ${verdict.more[rule]} more like this (${rule}).`);
    }
    if (findings.length > 0) {
      lines.push(`    Why it hurts: ${why}`, ...rules.map(([, fix]) => `    What to do: ${toInert(fix)}`));
    }
    for (const { why: reason, isPart } of unjudged) {
      lines.push(`    ${isPart ? "Not judged in part" : "Not judged"}: ${toInert(reason)}.`);
    }
  }
  lines.push("", ...subject.remarks.map((remark) => `Note: ${toInert(remark)}`), sumUp(verdict), "");
  return lines.join("\n");
}

export function printJson(subject: Subject, verdict: Verdict): string {
  const lines: object[] = [
    { kind: "subject", name: subject.name, facts: subject.facts, remarks: subject.remarks },
    ...verdict.findings.map(({ arrival, ...finding }) => ({
      kind: "finding",
      ...finding,
      why: MISTAKES[finding.mistake].why,
      place: toInert(arrival.place),
      message: toInert(arrival.text, 300),
    })),
    ...Object.entries(verdict.more).map(([rule, count]) => ({ kind: "more", rule, count })),
    ...verdict.unjudged.map((unjudged) => ({ kind: "unjudged", ...unjudged })),
    {
      kind: "verdict",
      mistakes: mistakesOf(verdict),
      messages: verdict.messages,
      events: verdict.events,
      jobs: verdict.jobs,
      reconnects: verdict.reconnects,
      exit: exitOf(verdict),
    },
  ];
  return lines.map((line) => `${toInertJson(line)}\n`).join("");
}

function sumUp(verdict: Verdict): string {
  const { messages, events, jobs, reconnects } = verdict;
  const seen = `${count(messages, "message")}, ${count(events, "event")} of ${count(jobs, "job")}, ${count(reconnects, "reconnect")}`;
  const mistakes = mistakesOf(verdict).length;
  if (mistakes > 0) return `${mistakes} of ${MISTAKE_CODES.length} mistakes found in ${seen}.`;
  return events === 0 ? `Nothing could be examined: ${seen}.` : `No mistake found in ${seen}.`;
}

function mistakesOf({ findings }: Verdict): readonly Mistake[] {
  return MISTAKE_CODES.filter((code) => findings.some(({ mistake }) => mistake === code));
}

function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}
