/**
 * A job's story as this page folds it. The same event twice changes nothing, the percentage never falls, and after
 * the end nothing about the job changes any more.
 */

/** The stages of the analysis, where each ends in percent. */
export const STAGES = [
  { key: "parse", end: 10, label: "Read the file" },
  { key: "extract_interests", end: 40, label: "Understand interests" },
  { key: "match", end: 70, label: "Match gifts to people" },
  { key: "assemble", end: 100, label: "Put the list together" },
];

const ENDINGS = ["completed", "failed", "canceled"];
const STATUSES = ["pending", "running", ...ENDINGS];
const FACTS = [
  "status",
  "attempt",
  "seq",
  "jobType",
  "summary",
  "resultResourceId",
  "error",
  "canceledBy",
  "reason",
];
const REMEMBERED_IDS = 5_000;
const REMEMBERED_LINES = 200;

export function newStory(jobId) {
  return {
    jobId,
    status: "pending",
    percentage: 0,
    hasProgress: false,
    stage: "",
    stageKey: "",
    attempt: 0,
    seq: 0,
    /** When each stage reached its end, by that end, in ms. */
    reached: new Map(),
    /** Outside services that are slow right now, by name. */
    degraded: new Map(),
    log: [],
    seen: new Set(),
  };
}

export function hasEnded(story) {
  return ENDINGS.includes(story.status);
}

/** Folds one event in; `cursor` is its place in the log. Answers whether it was new. */
export function foldEvent(story, event, cursor) {
  if (typeof event?.eventId !== "string" || typeof event.type !== "string") return false;
  if (story.seen.has(event.eventId)) return false;
  if (event.jobId !== undefined && event.jobId !== story.jobId) return false;
  story.seen.add(event.eventId);
  if (story.seen.size > REMEMBERED_IDS) story.seen.delete(story.seen.values().next().value);
  const at = Date.parse(event.timestamp);
  if (Object.hasOwn(LIFECYCLE, event.type)) {
    if (hasEnded(story) || event.seq <= story.seq) return false;
    LIFECYCLE[event.type](story, event, at, cursor);
  } else if (Object.hasOwn(ASIDE, event.type)) {
    ASIDE[event.type](story, event);
  }
  story.seq = Math.max(story.seq, Number(event.seq) || 0);
  const line = Object.hasOwn(LINES, event.type) ? LINES[event.type](event) : event.type;
  if (line !== undefined) story.log.push({ id: event.eventId, at, level: event.level ?? "info", text: line });
  if (story.log.length > REMEMBERED_LINES) story.log.shift();
  return true;
}

/** Takes over the facts that no event carries. */
export function foldFacts(story, { counts, retryOf, retriedAs }) {
  story.counts = counts ?? story.counts;
  story.retryOf = retryOf ?? story.retryOf;
  story.retriedAs = retriedAs ?? story.retriedAs;
}

/** Takes over a whole snapshot where it is ahead of what was folded: for streams that are silent, or begin late. */
export function foldSnapshot(story, snapshot) {
  if (snapshot?.jobId !== story.jobId) return;
  foldFacts(story, snapshot);
  if (hasEnded(story) || snapshot.seq <= story.seq || !STATUSES.includes(snapshot.status)) return;
  for (const name of FACTS) {
    if (snapshot[name] !== undefined) story[name] = snapshot[name];
  }
  story.startedAt ??= time(snapshot.startedAt);
  story.endedAt = time(snapshot.endedAt);
  story.startCursor ??= snapshot.cursor;
  story.retrying = undefined;
  story.eta = undefined;
  if (snapshot.percentage > 0) advance(story, snapshot, story.endedAt ?? Date.now());
}

function time(timestamp) {
  return timestamp === undefined ? undefined : Date.parse(timestamp);
}

function advance(story, report, at) {
  const { percentage } = report;
  if (!Number.isFinite(percentage) || percentage < story.percentage || percentage > 100) return;
  story.percentage = percentage;
  story.hasProgress = true;
  story.stage = String(report.stage ?? story.stage);
  story.stageKey = report.stageKey ?? "";
  story.eta = report.etaSeconds;
  for (const { end } of STAGES) {
    if (percentage >= end && !story.reached.has(end)) story.reached.set(end, at);
  }
}

function end(status, story, at, facts) {
  Object.assign(story, facts, { status, endedAt: at, eta: undefined, retrying: undefined });
}

/** What each transition does to the story. */
const LIFECYCLE = {
  "job.created": (story, event) => {
    story.jobType = event.jobType;
    story.summary = event.summary ?? story.summary;
    story.retryOf = event.retryOf ?? story.retryOf;
  },
  "job.started": (story, event, at, cursor) => {
    story.status = "running";
    story.attempt = event.attempt ?? story.attempt + 1;
    story.startedAt ??= at;
    story.startCursor ??= cursor;
    story.summary = event.summary ?? story.summary;
    story.retrying = undefined;
    story.eta = undefined;
  },
  "job.progress": (story, event, at) => {
    if (story.status === "running") advance(story, event, at);
  },
  "job.retrying": (story, event, at) => {
    story.status = "pending";
    story.retrying = { error: event.error, nextAt: at + event.delaySeconds * 1000, attempt: event.attempt };
    story.interrupted = event.error?.code;
    story.eta = undefined;
  },
  "job.partial": (story, event) => {
    story.resultResourceId = event.resultResourceId;
  },
  "job.completed": (story, event, at) => {
    advance(story, { ...event, percentage: 100 }, at);
    end("completed", story, at, {
      resultResourceId: event.resultResourceId,
      summary: event.summary ?? story.summary,
    });
  },
  "job.failed": (story, event, at) => end("failed", story, at, { error: event.error }),
  "job.canceled": (story, event, at) =>
    end("canceled", story, at, { canceledBy: event.canceledBy, reason: event.reason }),
};

/** What is worth knowing but never moves the job. */
const ASIDE = {
  "system.degraded": (story, event) => story.degraded.set(event.source, event.message),
  "system.restored": (story, event) => story.degraded.delete(event.source),
};

/** What each event says in the activity list; progress has the bar, and a heartbeat says no more than any byte. */
const LINES = {
  "job.created": () => "The job was registered.",
  "job.started": (event) => (event.attempt > 1 ? `Attempt ${event.attempt} began.` : "The work began."),
  "job.progress": () => undefined,
  "system.heartbeat": () => undefined,
  "job.retrying": (event) => `Attempt ${event.attempt} stopped: ${event.error?.message}`,
  "job.partial": (event) => `${event.added} more results can be read.`,
  "job.completed": (event) => `Done. ${event.summary ?? ""}`,
  "job.failed": (event) => `Failed: ${event.error?.message}`,
  "job.canceled": (event) => `Canceled by ${event.canceledBy}.`,
  "resource.updated": (event) => `${event.resourceId} changed (${event.changeType}).`,
  "resource.list_changed": (event) => `The list ${event.resourceId} changed (${event.changeType}).`,
  "system.log": (event) => event.message,
  "system.degraded": (event) => `${event.source}: ${event.message}`,
  "system.restored": (event) => `${event.source} works normally again.`,
};
