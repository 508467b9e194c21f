/** Mistakes that one event shows alone: missing ids, and system and business events in one. */
import { tellsState, wordsOf } from "./lifecycle-word.ts";
import type { Sighting } from "./sighting.ts";
import type { Findings } from "./verdict.ts";

export function judgeEvents(
  sightings: readonly Sighting[],
  knownJobs: ReadonlySet<string>,
  findings: Findings,
): void {
  const told = new Set<string>();
  let isAnyTold = false;
  for (const { kind, isSystem, saysState, jobId } of sightings) {
    if (kind === "log" || isSystem || !saysState) continue;
    isAnyTold = true;
    if (jobId !== undefined) told.add(jobId);
  }
  const known = [...new Set([...knownJobs, ...sightings.flatMap(({ jobId }) => jobId ?? [])])].slice(0, 100);
  for (const sighting of sightings) {
    if (sighting.kind === "event") judgeIds(sighting, findings);
    judgeMixture(sighting, findings);
    if (sighting.kind !== "log") continue;
    const jobId = sighting.jobId ?? known.find((id) => id.length > 2 && sighting.text?.includes(id));
    // A log line may speak of a job whose events are told as events.
    const isTold = jobId === undefined ? isAnyTold : told.has(jobId);
    if (!isTold) judgeLog(sighting, jobId, findings);
  }
  judgeSpelling(sightings, findings);
  judgeSharedIds(sightings, findings);
}

function judgeIds(sighting: Sighting, findings: Findings): void {
  const { arrival, isSystem, eventId, jobId, timestamp, type } = sighting;
  if (isSystem) return;
  const missing = [
    ...(eventId === undefined ? ["no id of its own"] : []),
    ...(jobId === undefined ? ["no id of its job"] : []),
    ...(timestamp === undefined ? ["no time that can be read"] : []),
  ];
  if (missing.length === 0) return;
  findings.add(
    "MISSING_IDS",
    "missing-field",
    arrival,
    `The event "${type}" has ${list(missing)}.`,
    "Give every event an eventId, the jobId and a timestamp (RFC 3339, UTC) when it is made, and keep them when it is sent again.",
  );
}

function judgeMixture({ arrival, kind, method, type, ...sighting }: Sighting, findings: Findings): void {
  const { isSystem, jobId, saysState, isUnnamed, text } = sighting;
  if (kind === "log") return;
  const [channel, claim] = [sideOf(method), sideOf(type)];
  if (channel !== undefined && claim !== undefined && channel !== claim) {
    findings.add(
      "MIXED_EVENTS",
      "type-against-method",
      arrival,
      `The method "${method}" is a ${channel} message, but the event in it calls itself "${type}".`,
      "Send job events by methods of their own, and system events by others.",
    );
  } else if (isSystem && jobId !== undefined && saysState) {
    findings.add(
      "MIXED_EVENTS",
      "system-moves-job",
      arrival,
      `The system event "${type}" says how the job "${jobId}" stands.`,
      "Let only job events carry a job's status and progress; a system event may at most name the job that it concerns.",
    );
  } else if (!isSystem && isUnnamed && !saysState && text !== undefined && tellsState(text)) {
    findings.add(
      "MIXED_EVENTS",
      "meaning-in-text",
      arrival,
      `What happened stands only in a text of "${type}": no type, status or percentage says it.`,
      "Say it in fields that programs can read (a type such as job.completed), and keep texts for people.",
    );
  }
}

/** @param jobId - The job that the line names, in a field or in its text. */
function judgeLog(
  { arrival, jobId: field, text, saysState }: Sighting,
  jobId: string | undefined,
  findings: Findings,
): void {
  const isStructured = field !== undefined && saysState;
  const isSpoken =
    text !== undefined && tellsState(text) && (jobId !== undefined || /\b(?:job|task)\b/i.test(text));
  if (!isStructured && !isSpoken) return;
  findings.add(
    "MIXED_EVENTS",
    "log-as-event",
    arrival,
    `A log line tells how ${jobId === undefined ? "a job" : `the job "${jobId}"`} stands, and no event does.`,
    "Send an event with an id, the job and a time instead; a log line is for whoever looks for the cause of a fault.",
  );
}

/** One job's id under two names: a reader that knows one of them misses the other events. */
function judgeSpelling(sightings: readonly Sighting[], findings: Findings): void {
  const fields = new Map<string, string>();
  for (const { arrival, kind, jobId, jobField } of sightings) {
    if (kind !== "event" || jobId === undefined || jobField === undefined) continue;
    const first = fields.get(jobId);
    if (first === undefined) fields.set(jobId, jobField);
    else if (first !== jobField) {
      findings.add(
        "MISSING_IDS",
        "two-spellings",
        arrival,
        `The id of the job "${jobId}" stands under "${jobField}" here, and under "${first}" before.`,
        "Use one name for the job's id in every event.",
      );
    }
  }
}

/** One id on two different events: a reader drops the second as a repeat. */
function judgeSharedIds(sightings: readonly Sighting[], findings: Findings): void {
  const cores = new Map<string, { core: string; place: string }>();
  for (const { arrival, kind, eventId, jobId, word, percentage, seq } of sightings) {
    if (kind !== "event" || eventId === undefined) continue;
    const core = JSON.stringify([jobId, word, percentage, seq]);
    const first = cores.get(eventId);
    if (first === undefined) cores.set(eventId, { core, place: arrival.place });
    else if (first.core !== core) {
      findings.add(
        "MISSING_IDS",
        "shared-id",
        arrival,
        `The id "${eventId}" stood on another event before (${first.place}): a reader takes this one for a repeat and drops it.`,
        "Give every event an id of its own, such as a random UUID made with the event.",
      );
    }
  }
}

type Side = "job" | "system";

/** On which side a name puts its message, when it puts it on one. */
function sideOf(name: string): Side | undefined {
  if (name === "notifications/message" || name === "logging/message") return "system";
  const words = wordsOf(name).filter((word) => word !== "notifications");
  return words[0] === "job" || words[0] === "system" ? words[0] : undefined;
}

function list(parts: readonly string[]): string {
  return parts.length < 2 ? parts.join() : `${parts.slice(0, -1).join(", ")} and ${parts.at(-1)}`;
}
