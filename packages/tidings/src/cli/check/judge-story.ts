/** Mistakes that show in the order of one job's events: repeats, progress that falls, sequences that cannot be. */
import type { EndWord } from "./lifecycle-word.ts";
import { isEndWord } from "./lifecycle-word.ts";
import type { Sighting } from "./sighting.ts";
import type { Findings } from "./verdict.ts";

/** @param story - The sightings of one job, in the order of arrival. */
export function judgeStory(story: readonly Sighting[], findings: Findings): void {
  const told = withoutRepeats(story, findings);
  for (const part of inOrder(told)) {
    judgeProgress(part, findings);
    judgeSequence(part, findings);
  }
}

/** What nobody takes for news, left out: known ids, and (as findings) the same thing under another id. */
function withoutRepeats(story: readonly Sighting[], findings: Findings): readonly Sighting[] {
  const ids = new Set<string>();
  const earlier = new Map<string, Sighting>();
  const told: Sighting[] = [];
  let latest: Sighting | undefined;
  let retries = 0;
  let hasEnded = false;
  for (const sighting of story) {
    const { arrival, eventId, jobId, content, word } = sighting;
    if (eventId !== undefined && ids.has(eventId)) continue;
    if (eventId !== undefined) ids.add(eventId);
    if (word === "retrying") retries += 1;
    // A second attempt may begin in the same words.
    const key = word === "started" ? `${retries} ${content}` : content;
    const twin = earlier.get(key);
    if (twin === undefined) earlier.set(key, sighting);
    else if (sighting.kind === "event" && isRepeat(sighting, twin, hasEnded ? undefined : latest)) {
      findings.add(
        "UNRECOGNISABLE_REPEAT",
        "new-id-for-old-event",
        arrival,
        eventId === undefined
          ? `"${sighting.type}" of ${nameOf(jobId)} came again without an id (first: ${twin.arrival.place}).`
          : `"${sighting.type}" of ${nameOf(jobId)} came again under another id: "${eventId}", before "${twin.eventId ?? "none"}" (${twin.arrival.place}).`,
        "Make an event's id once, store it with the event, and send it again as it is.",
      );
      continue;
    }
    if (isEndWord(word)) hasEnded = true;
    if (word === "progress") latest = sighting;
    told.push(sighting);
  }
  return told;
}

/**
 * Whether a sighting tells what its twin told: on another connection or stream, and certainly the same.
 *
 * @param latest - The last report of the job; undefined once it has ended.
 */
function isRepeat(sighting: Sighting, twin: Sighting, latest: Sighting | undefined): boolean {
  const isElsewhere =
    sighting.arrival.leg !== twin.arrival.leg || sighting.arrival.stream !== twin.arrival.stream;
  if (!isElsewhere) return false;
  if (sighting.seq !== undefined && sighting.seq === twin.seq) return true;
  if (sighting.timestamp !== undefined && sighting.timestamp === twin.timestamp && sighting.seq === twin.seq)
    return true;
  if (sighting.word === "progress") {
    // The latest value again is a sign of life that changes nothing; an older one is an old event.
    return sighting.seq === undefined && (latest === undefined || sighting.percentage !== latest.percentage);
  }
  return isOnce(sighting);
}

function isOnce({ word, isState }: Sighting): boolean {
  return (word === "created" || word === "started" || isEndWord(word)) && !isState;
}

/** By the server's own numbers when every event has one; else as they came on each stream. */
function inOrder(told: readonly Sighting[]): readonly (readonly Sighting[])[] {
  if (told.every(({ seq }) => seq !== undefined)) {
    return [[...told].sort((one, other) => (one.seq as number) - (other.seq as number))];
  }
  const streams = new Map<string, Sighting[]>();
  for (const sighting of told) {
    const stream = streams.get(sighting.arrival.stream);
    if (stream === undefined) streams.set(sighting.arrival.stream, [sighting]);
    else stream.push(sighting);
  }
  return [...streams.values()];
}

function judgeProgress(told: readonly Sighting[], findings: Findings): void {
  let highest: Sighting | undefined;
  for (const sighting of told) {
    const { percentage, jobId, arrival } = sighting;
    if (percentage === undefined) continue;
    const before = highest?.percentage;
    if (before === undefined || percentage >= before) highest = sighting;
    else {
      findings.add(
        "FALLING_PROGRESS",
        "percentage-falls",
        arrival,
        `The progress of ${nameOf(jobId)} fell from ${round(before)} to ${round(percentage)} (${highest?.arrival.place}).`,
        "Report the highest value reached, also after a retry or a restart, and leave out what lies below it.",
      );
    }
  }
}

function judgeSequence(told: readonly Sighting[], findings: Findings): void {
  let status: "pending" | "running" | EndWord | undefined;
  let last: Sighting | undefined;
  for (const sighting of told) {
    const { word, isState, arrival, jobId, eventId, kind } = sighting;
    if (word === undefined) continue;
    const report = (rule: string, what: string, fix: string): void =>
      findings.add("ILLEGAL_SEQUENCE", rule, arrival, what, fix);
    const before = `(${last?.arrival.place})`;
    if (isEndWord(status)) {
      // A state may be told again; an ending may not happen again.
      if (word === status && isState && (kind === "task" || eventId === undefined)) continue;
      if (isEndWord(word)) {
        report(
          "two-endings",
          `${capital(nameOf(jobId))} ended twice: ${word}, after it was ${status} ${before}.`,
          "Write an ending only while the job has none, in the same transaction that looks.",
        );
      } else {
        report(
          "after-the-end",
          `${capital(nameOf(jobId))} was told to be in "${word}" after it was ${status} ${before}.`,
          "Send nothing that moves a job once it has ended; start a new job instead of going on with an old one.",
        );
      }
      continue;
    }
    if (word === "created" && !isState && status !== undefined) {
      report(
        "created-late",
        `${capital(nameOf(jobId))} was created after other events of it ${before}.`,
        "Send the creation first and once.",
      );
      continue;
    }
    if (word === "started" && !isState && status === "running") {
      report(
        "started-again",
        `${capital(nameOf(jobId))} was started while it was running already ${before}.`,
        "Send the start first and once for each attempt, and say job.retrying between two attempts.",
      );
    }
    // More results can be read; that moves nothing.
    if (word === "partial") continue;
    status = isEndWord(word) ? word : word === "created" || word === "retrying" ? "pending" : "running";
    last = sighting;
  }
}

function nameOf(jobId: string | undefined): string {
  return jobId === undefined ? "a job without an id" : `the job "${jobId}"`;
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function round(percentage: number): string {
  return String(Math.round(percentage * 100) / 100);
}
