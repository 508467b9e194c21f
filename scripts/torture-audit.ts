/** Compares the store with the ledger: nothing that a client was told may be missing or different. */
import { isDeepStrictEqual } from "node:util";
import type { TidingsEvent } from "tidings";
import { openEngine } from "tidings";
import type { LedgerLine } from "./torture-ledger.ts";

const OWNER = "local";
const PAGE = 1_000;
const ENDINGS: readonly string[] = ["job.completed", "job.failed", "job.canceled"];

export interface AuditReport {
  readonly jobs: number;
  readonly events: number;
  readonly ended: number;
  /** Attempts that a kill cut short and another attempt followed. */
  readonly interrupted: number;
  /** Sentences, each about one broken promise; empty when all are kept. */
  readonly problems: readonly string[];
}

/**
 * Reads the whole store and holds it against the ledger.
 *
 * @param options.mustHaveEnded - Whether a job without an ending is a problem.
 */
export async function audit(
  path: string,
  ledger: readonly LedgerLine[],
  { mustHaveEnded }: { readonly mustHaveEnded: boolean },
): Promise<AuditReport> {
  const engine = await openEngine(`sqlite:${path}`);
  const problems: string[] = [];
  try {
    const stories = new Map<string, TidingsEvent[]>();
    const kept = new Map<string, TidingsEvent>();
    let events = 0;
    for (let after = 0; ; ) {
      const { entries, through } = await engine.read(OWNER, {}, after, PAGE);
      for (const { event } of entries) {
        const { jobId = "" } = event;
        stories.set(jobId, [...(stories.get(jobId) ?? []), event]);
        if (kept.has(event.eventId)) problems.push(`event ${event.eventId} stands twice in the log`);
        kept.set(event.eventId, event);
        events += 1;
      }
      if (entries.length < PAGE) break;
      after = through;
    }
    let ended = 0;
    let interrupted = 0;
    for (const [jobId, story] of stories) {
      const report = judgeStory(jobId, story, mustHaveEnded);
      problems.push(...report.problems);
      ended += report.ended;
      interrupted += report.interrupted;
    }
    const jobOf = new Map<string, string>();
    for (const line of ledger) {
      if (line.kind === "event") {
        const { eventId } = line.event;
        const event = kept.get(eventId);
        if (event === undefined) problems.push(`lost: event ${eventId} was seen by a client`);
        else if (!isDeepStrictEqual(event, line.event)) {
          const [is, was] = [event, line.event].map((each) => JSON.stringify(each));
          problems.push(`changed: event ${eventId} is ${is}, a client saw ${was}`);
        }
        continue;
      }
      const other = jobOf.get(line.key);
      if (other !== undefined && other !== line.jobId)
        problems.push(`two jobs, ${other} and ${line.jobId}, were acknowledged for one key ${line.key}`);
      jobOf.set(line.key, line.jobId);
      if (!stories.has(line.jobId)) problems.push(`lost: job ${line.jobId} was acknowledged`);
      else problems.push(...(await judgeSteps(line.jobId, line.steps)));
    }
    problems.push(...(await judgeFile()));
    return { jobs: stories.size, events, ended, interrupted, problems };
  } finally {
    await engine.close();
  }

  /** What a handler commits with its checkpoint stands there once, whatever was killed. */
  async function judgeSteps(jobId: string, steps: number): Promise<string[]> {
    const record = await engine.get(OWNER, jobId);
    const { items } = await engine.items(OWNER, jobId, "steps", 0, 1_000);
    const done = items.map((item) => (item as { step: number }).step);
    const inOrder = done.every((step, index) => step === index);
    const complete = record?.job.status !== "completed" || done.length === steps;
    if (inOrder && complete) return [];
    return [`job ${jobId} (${record?.job.status}) holds the steps ${JSON.stringify(done)} of ${steps}`];
  }

  async function judgeFile(): Promise<string[]> {
    const verdict = await engine.transaction(OWNER, ({ sql }) => {
      const database = sql as { prepare(text: string): { all(): readonly unknown[] } };
      return JSON.stringify(database.prepare("PRAGMA integrity_check").all());
    });
    return verdict === '[{"integrity_check":"ok"}]' ? [] : [`the file is damaged: ${verdict}`];
  }
}

function judgeStory(
  jobId: string,
  story: readonly TidingsEvent[],
  mustHaveEnded: boolean,
): { readonly problems: string[]; readonly ended: number; readonly interrupted: number } {
  const problems: string[] = [];
  const seqs = story.map(({ seq }) => seq);
  if (!seqs.every((seq, index) => seq === index + 1))
    problems.push(`the numbers of job ${jobId} are ${JSON.stringify(seqs)}`);
  const endings = story.filter(({ type }) => ENDINGS.includes(type));
  if (endings.length > 1) problems.push(`job ${jobId} has ${endings.length} endings`);
  if (endings.length === 1 && !ENDINGS.includes(story.at(-1)?.type ?? ""))
    problems.push(`job ${jobId} goes on after its ending: ${story.map(({ type }) => type).join(", ")}`);
  if (endings.some(({ type }) => type !== "job.completed"))
    problems.push(`job ${jobId} did not end well: ${JSON.stringify(endings)}`);
  if (mustHaveEnded && endings.length === 0) problems.push(`job ${jobId} never ended`);
  const interrupted = story.filter(({ type }) => type === "job.retrying").length;
  return { problems, ended: endings.length, interrupted };
}
