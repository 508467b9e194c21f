/**
 * Looks for the six mistakes in a record of messages. Pure: the same record always gives the same verdict.
 *
 *   arrivals ──▶ exchanges (requests and answers) ──▶ judge-exchanges.ts   progress after the answer, one key twice
 *       │             └─ the jobs that answers name
 *       └──────▶ sightings (events, recognised) ──┬─▶ judge-event.ts       missing ids, mixed events: one by one
 *                                                 └─▶ judge-story.ts       repeats, order, progress: job by job
 */
import type { Arrival } from "./arrival.ts";
import { MAX_MESSAGES } from "./arrival.ts";
import type { Exchange } from "./exchange.ts";
import { exchangesIn, jobsIn } from "./exchange.ts";
import { judgeEvents } from "./judge-event.ts";
import { judgeExchanges } from "./judge-exchanges.ts";
import { judgeStory } from "./judge-story.ts";
import { isEndWord } from "./lifecycle-word.ts";
import type { Mistake } from "./mistake.ts";
import { MISTAKE_CODES } from "./mistake.ts";
import { type Sighting, sight } from "./sighting.ts";
import type { Finding, Unjudged, Verdict } from "./verdict.ts";
import { createFindings } from "./verdict.ts";

/** @param isCut - Whether messages were left out of the record because there were too many. */
export function judge(record: readonly Arrival[], isCut = false): Verdict {
  const findings = createFindings();
  const arrivals = record.filter(({ isResent }) => isResent !== true);
  const exchanges = exchangesIn(arrivals);
  const knownJobs = jobsIn(exchanges);
  const sightings = arrivals.flatMap((arrival) => sight(arrival, knownJobs) ?? []);
  const events = sightings.filter(({ kind, isSystem }) => kind !== "log" && !isSystem);
  judgeEvents(sightings, knownJobs, findings);
  const stories = storiesOf(events);
  for (const story of stories.values()) judgeStory(story, findings);
  const progressed = judgeExchanges(arrivals, exchanges, findings);
  const unjudged = [
    ...unjudgedEvents(sightings, events, findings.kept.length > 0),
    ...unjudgedRepeats(record, events, exchanges),
    ...progressed,
  ];
  if (isCut) {
    const why = `only the first ${MAX_MESSAGES} messages were looked at`;
    unjudged.push(...MISTAKE_CODES.map((mistake) => ({ mistake, why, isPart: true })));
  }
  return {
    findings: inReadingOrder(findings.kept, arrivals),
    more: findings.more,
    unjudged,
    messages: record.length,
    events: countEvents(events),
    jobs: stories.size,
    reconnects: legsOf(record),
  };
}

/** By mistake, then by the order of arrival. */
function inReadingOrder(kept: readonly Finding[], arrivals: readonly Arrival[]): readonly Finding[] {
  const places = new Map(arrivals.map((arrival, index) => [arrival, index]));
  const placeOf = ({ mistake, arrival }: Finding): number =>
    MISTAKE_CODES.indexOf(mistake) * (arrivals.length + 1) + (places.get(arrival) ?? 0);
  return [...kept].sort((one, other) => placeOf(one) - placeOf(other));
}

/** By job; events that name none belong to one story only when no other is told. */
function storiesOf(events: readonly Sighting[]): ReadonlyMap<string, readonly Sighting[]> {
  const stories = new Map<string, Sighting[]>();
  const nameless: Sighting[] = [];
  for (const event of events) {
    if (event.jobId === undefined) nameless.push(event);
    else {
      const story = stories.get(event.jobId);
      if (story === undefined) stories.set(event.jobId, [event]);
      else story.push(event);
    }
  }
  const [only] = stories.values();
  if (nameless.length === 0 || stories.size > 1) return stories;
  const all = new Set([...nameless, ...(only ?? [])]);
  return new Map([["", events.filter((event) => all.has(event))]]);
}

function unjudgedEvents(
  sightings: readonly Sighting[],
  events: readonly Sighting[],
  hasFindings: boolean,
): readonly Unjudged[] {
  if (events.length === 0) {
    const seen =
      sightings.length === 0 ? "no event of a job was seen" : "only log lines were seen, no event of a job";
    const codes: Mistake[] = ["MISSING_IDS", "FALLING_PROGRESS", "ILLEGAL_SEQUENCE", "MIXED_EVENTS"];
    return codes
      .filter((mistake) => !(hasFindings && mistake === "MIXED_EVENTS"))
      .map((mistake) => ({ mistake, why: seen, isPart: false }));
  }
  const unjudged: Unjudged[] = [];
  if (new Set(events.map(({ percentage }) => percentage)).size < 2 || count(events, "percentage") < 2) {
    unjudged.push({
      mistake: "FALLING_PROGRESS",
      why: "fewer than two values of a job's progress were seen",
      isPart: false,
    });
  }
  if (count(events, "word") === 0) {
    unjudged.push({ mistake: "ILLEGAL_SEQUENCE", why: "no event says how its job stands", isPart: false });
  } else if (!events.some(({ word }) => isEndWord(word))) {
    unjudged.push({
      mistake: "ILLEGAL_SEQUENCE",
      why: "no job's ending was seen, so nothing is known about what comes after it",
      isPart: true,
    });
  }
  return unjudged;
}

function unjudgedRepeats(
  arrivals: readonly Arrival[],
  events: readonly Sighting[],
  exchanges: readonly Exchange[],
): readonly Unjudged[] {
  const mistake = "UNRECOGNISABLE_REPEAT";
  const unjudged: Unjudged[] = [];
  if (legsOf(arrivals) === 0) {
    unjudged.push({ mistake, why: "the connection was not broken and made again", isPart: true });
  } else if (!hasRepeats(events) && !arrivals.some(({ isResent }) => isResent === true)) {
    unjudged.push({
      mistake,
      why: "nothing was sent again after the connection was made again",
      isPart: true,
    });
  }
  const keys = exchanges.flatMap(({ keyed }) => keyed ?? []);
  if (new Set(keys).size === keys.length) {
    const why =
      keys.length === 0
        ? "no call carried an idempotency key, so nothing is known about a start that is repeated"
        : "no call was repeated with its idempotency key";
    unjudged.push({ mistake, why, isPart: unjudged.length === 0 });
  }
  return unjudged;
}

/** Whether something was told again that had been told before a reconnect. */
function hasRepeats(events: readonly Sighting[]): boolean {
  const first = new Map<string, number>();
  for (const { arrival, eventId, jobId, content } of events) {
    for (const key of [eventId === undefined ? undefined : `id ${eventId}`, `content ${jobId} ${content}`]) {
      if (key === undefined) continue;
      const leg = first.get(key);
      if (leg === undefined) first.set(key, arrival.leg);
      else if (leg < arrival.leg) return true;
    }
  }
  return false;
}

function countEvents(events: readonly Sighting[]): number {
  const ids = new Set(events.flatMap(({ eventId }) => eventId ?? []));
  return ids.size + events.filter(({ eventId }) => eventId === undefined).length;
}

function count(events: readonly Sighting[], field: "percentage" | "word"): number {
  return events.filter((event) => event[field] !== undefined).length;
}

function legsOf(arrivals: readonly Arrival[]): number {
  let legs = 0;
  for (const { leg } of arrivals) legs = Math.max(legs, leg);
  return legs;
}
