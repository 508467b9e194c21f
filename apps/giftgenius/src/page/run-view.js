/** The card of a job: bar, stages, notices, activity, and what can be done now. */
import { clockTime, duration, el, errorNotice, fill, notice, number, part, write } from "./element.js";
import { hasEnded, STAGES } from "./story.js";

const RESTARTS = ["WORKER_LOST", "WORKER_STOPPED"];
const CONNECTION_TEXT = {
  connecting: "Connecting",
  live: "Live",
  reconnecting: "Reconnecting",
  offline: "Offline",
};

/** Paints the connection chip; without a stream there is nothing to say. */
export function paintConnection(connection) {
  const chip = part("connection");
  chip.hidden = connection === undefined;
  if (connection === undefined) return;
  chip.dataset.state = connection;
  write(part("connection-text"), CONNECTION_TEXT[connection]);
}

/**
 * Paints the whole card from the state.
 *
 * @param state - `story`, `connection`, `stale`, `lastHeardAt`, `canceling`, `actionError`, `isRefresh`, `onTryNow`.
 */
export function paintRun(state) {
  const { story } = state;
  if (story === undefined) return;
  const card = part("run");
  const ended = hasEnded(story);
  if (card.dataset.status !== story.status || card.dataset.job !== story.jobId) {
    part("steps").open = story.status !== "completed";
  }
  card.dataset.status = story.status;
  card.dataset.job = story.jobId;
  write(part("run-title"), titleOf(state));
  write(part("run-summary"), summaryOf(story));
  paintBar(state, ended);
  paintStages(story, ended);
  paintNotices(state, ended);
  paintLog(story);
  write(part("job-id"), story.jobId);
  part("cancel").hidden = ended;
  part("cancel").disabled = state.canceling || story.seq === 0;
  write(part("cancel"), state.canceling ? "Cancelling…" : "Cancel");
  part("retry").hidden = story.status !== "failed" && story.status !== "canceled";
  write(part("retry"), story.status === "canceled" ? "Start again" : "Retry");
  part("retry").disabled = state.acting === true;
  part("another").hidden = part("retry").hidden;
  const worthRetrying = story.status === "canceled" || story.error?.retryable === true;
  part("retry").classList.toggle("primary", worthRetrying);
  part("another").classList.toggle("primary", !worthRetrying);
  part("run-actions").hidden = story.status === "completed";
}

function titleOf({ story, canceling, isRefresh }) {
  if (story.status === "completed") return "The list is ready";
  if (story.status === "failed") return "This did not work out";
  if (story.status === "canceled") return "Canceled";
  if (canceling) return "Cancelling…";
  if (story.status === "pending" && story.retrying === undefined) return "Getting started";
  return isRefresh ? "Making the list anew" : "Finding gifts";
}

function summaryOf(story) {
  if (story.status === "canceled") {
    const why = story.reason === undefined ? "" : ` Reason: ${story.reason}`;
    return `Stopped by ${story.canceledBy ?? "somebody"}.${why}`;
  }
  const span = story.status === "completed" && spanOf(story.startedAt, story.endedAt);
  return [story.summary, span && `in ${span}`].filter(Boolean).join(" ");
}

function spanOf(from, to) {
  return Number.isFinite(from) && Number.isFinite(to) ? duration(Math.max(0, to - from)) : undefined;
}

function paintBar({ story }, ended) {
  const bar = part("bar");
  const known = story.hasProgress || story.status === "completed";
  const shown = Math.floor(story.percentage);
  bar.hidden = story.status === "completed";
  bar.dataset.known = String(known || ended);
  part("fill").style.inlineSize = known ? `${story.percentage}%` : ended ? "0" : "";
  if (known) bar.setAttribute("aria-valuenow", String(shown));
  else bar.removeAttribute("aria-valuenow");
  const stage = story.stage === "" ? "Starting" : story.stage;
  bar.setAttribute("aria-valuetext", known ? `${shown} percent, ${stage}` : stage);
  write(part("percent"), known && story.status !== "completed" ? `${number(shown)}%` : "");
  part("run-meta").hidden = ended;
  write(part("run-stage"), story.retrying === undefined ? `${stage}…` : "Waiting for the next try");
  write(
    part("run-eta"),
    Number.isFinite(story.eta) ? `about ${duration(Math.max(1, story.eta) * 1000)} left` : "",
  );
}

function paintStages(story, ended) {
  const list = part("stages");
  if (list.childElementCount === 0) {
    list.append(
      ...STAGES.map(({ label }) =>
        el(
          "li",
          {},
          el("i", { "aria-hidden": "true" }),
          el("span", {}, label),
          el("span", { class: "unseen" }),
          el("time"),
        ),
      ),
    );
  }
  const current = STAGES.findIndex(({ end }) => !story.reached.has(end));
  STAGES.forEach(({ end }, index) => {
    const [, , word, time] = list.children[index].children;
    const from = index === 0 ? story.startedAt : story.reached.get(STAGES[index - 1].end);
    const to = story.reached.get(end);
    const isCurrent = index === current && !ended && story.status === "running";
    const stopped = index === current && (story.status === "failed" || story.status === "canceled");
    const stage = to !== undefined ? "done" : isCurrent ? "current" : stopped ? "stopped" : "next";
    const item = list.children[index];
    item.dataset.state = stage;
    if (isCurrent) item.setAttribute("aria-current", "step");
    else item.removeAttribute("aria-current");
    write(word, { done: "done", current: "now", stopped: "stopped here", next: "" }[stage]);
    write(time, spanOf(from, to ?? (isCurrent ? Date.now() : undefined)) ?? "");
  });
}

function paintNotices(state, ended) {
  const { story, connection, stale, lastHeardAt, actionError, onTryNow } = state;
  const notices = [];
  if (!ended && connection === "offline") {
    notices.push([
      "warn",
      "The server cannot be reached. The job is safe there; this page keeps trying.",
      "try",
    ]);
  } else if (!ended && stale) {
    notices.push([
      "warn",
      `No sign of life from the server since ${clockTime(lastHeardAt)}. Trying again.`,
      "try",
    ]);
  }
  for (const [source, message] of ended ? [] : story.degraded) {
    notices.push(["warn", `${source} is slow, results may arrive later: ${message}`]);
  }
  const again = againText(story);
  if (!ended && again !== undefined) notices.push(["quiet", again]);
  fill(part("notices"), JSON.stringify(notices), () =>
    notices.map(([kind, text, action]) =>
      notice(
        kind,
        text,
        action === "try" ? el("button", { type: "button", class: "link", click: onTryNow }, "Try now") : "",
      ),
    ),
  );
  const error = actionError ?? (story.status === "failed" ? (story.error ?? {}) : undefined);
  fill(part("run-error"), JSON.stringify([error?.code, error?.message, error?.hint]), () =>
    error === undefined ? [] : [errorNotice(error)],
  );
}

function againText(story) {
  const restarted = RESTARTS.includes(story.interrupted);
  if (story.retrying !== undefined) {
    const seconds = Math.ceil((story.retrying.nextAt - Date.now()) / 1000);
    const when = seconds > 0 ? `in ${seconds} s` : "now";
    if (restarted) return `The server was interrupted. The work goes on ${when}.`;
    return `Try ${story.retrying.attempt} stopped: ${story.retrying.error?.message ?? ""} The next one begins ${when}.`;
  }
  if (story.attempt < 2) return undefined;
  if (restarted) return "The server was restarted; going on where the work stopped.";
  return `This is try number ${story.attempt}.`;
}

function paintLog(story) {
  write(part("log-count"), story.log.length === 0 ? "" : `(${number(story.log.length)})`);
  const last = story.log.at(-1)?.id ?? "none";
  fill(part("log-lines"), `${story.jobId} ${story.log.length} ${last}`, () =>
    story.log.map(({ at, level, text }) =>
      el(
        "li",
        { "data-level": level },
        el("time", {}, Number.isFinite(at) ? clockTime(at) : ""),
        el("span", { dir: "auto" }, String(text)),
      ),
    ),
  );
}
