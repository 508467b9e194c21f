/**
 * What the page does when. The job's id in the address is its whole memory: everything else is read again from it.
 *
 *   choose ──Start──▶ follow ──completed──▶ list ──Refresh──▶ follow, with the old list still there
 *                       └──failed, canceled──▶ Retry ──▶ follow
 */
import { wireChoice } from "./choice.js";
import { el, errorNotice, notice, number, part, write } from "./element.js";
import { reloadFeed, tellFeed, watchFeed } from "./feed.js";
import { connectHost, isFramed } from "./host.js";
import { addRows, filterRows, hideResult, showResult, showResultError } from "./result-view.js";
import { paintConnection, paintRun } from "./run-view.js";
import { createServer, patiently } from "./server.js";
import { createSignIn } from "./sign-in.js";
import { foldEvent, foldFacts, foldSnapshot, hasEnded, newStory } from "./story.js";

const JOB_ID = /^[\w.-]{1,200}$/;
const PAGE_ROWS = 200;
const ANNOUNCE_EVERY_MS = 3_000;

/** Undefined where the application speaks stdio: then no address leads to it. */
const address = document.documentElement.dataset.server;
const signIn = createSignIn(() => (signIn.isWaiting ? paint() : goOn()));
const server = createServer(address?.replace(/\/$/, ""), signIn);
const state = { onTryNow: () => follower?.retryNow() };
let follower;
let feedFollower;
let painted = false;

/** Shows the sections that belong to the state at once, so that they can be given the focus; the rest follows. */
function paint() {
  part("choose").hidden = state.story !== undefined || state.lost === true || signIn.isWaiting;
  part("run").hidden = state.story === undefined;
  if (painted) return;
  painted = true;
  requestAnimationFrame(() => {
    painted = false;
    paintConnection(state.connection);
    paintRun(state);
    const isOld = state.story !== undefined && state.result?.jobId !== state.story.jobId;
    part("result").toggleAttribute("data-old", isOld);
    part("old-note").hidden = !isOld || hasEnded(state.story);
    const running = state.story !== undefined && !hasEnded(state.story);
    const { changes = 0, acting } = state;
    part("refresh").disabled = running || acting === true || state.result === undefined;
    part("refresh").classList.toggle("lit", changes > 0 && !running);
    part("changes").hidden = changes === 0 || running;
    write(part("changes"), changes === 1 ? "1 change" : `${number(changes)} changes`);
    const percent = running && state.story.hasProgress ? `${Math.floor(state.story.percentage)}% · ` : "";
    document.title = `${percent}GiftGenius`;
  });
}

let announcedAt = 0;
let announcement;
/** Tells screen readers, at most every few seconds; what comes in between is replaced by what comes last. */
function announce(text) {
  clearTimeout(announcement);
  const wait = Math.max(0, announcedAt + ANNOUNCE_EVERY_MS - Date.now());
  announcement = setTimeout(() => {
    announcedAt = Date.now();
    write(part("announcer"), text);
  }, wait);
}

// ── Following ─────────────────────────────────────────────────────────────────────────────────────────────────────

/** Shows a job from now on; the list that is there stays until the job has a new one. */
function open(jobId, { keepResult = false, replace = false } = {}) {
  stopFollowing();
  if (!keepResult) forgetResult();
  const story = newStory(jobId);
  Object.assign(state, {
    story,
    lost: false,
    canceling: false,
    stale: false,
    actionError: undefined,
    changes: 0,
  });
  state.isRefresh = state.result !== undefined;
  remember(jobId, replace);
  part("lost")?.remove();
  void readFacts(story);
  let stage = "";
  follower = server.follow(`/jobs/${encodeURIComponent(jobId)}/events`, {
    onFrame({ id, event, data }) {
      state.lastHeardAt = Date.now();
      if (event === "snapshot") foldSnapshot(story, data);
      else foldEvent(story, data, id);
      if (story.stage !== stage) announce(`${Math.floor(story.percentage)} percent. ${story.stage}`);
      stage = story.stage;
      if (hasEnded(story)) atEnd(story);
      paint();
    },
    onConnection(connection) {
      if (connection === "offline" && state.connection !== "offline")
        announce("The server cannot be reached.");
      state.connection = connection;
      paint();
    },
    onSilent: () => readState(story),
    onStale(stale) {
      state.stale = stale;
      paint();
    },
    onEnd: () => readState(story),
    onRefused: (error) => showLost(error),
  });
  paint();
}

function stopFollowing() {
  follower?.stop();
  feedFollower?.stop();
  follower = undefined;
  feedFollower = undefined;
  state.connection = undefined;
}

/** What no event carries: whether this job has a successor, and which list it is to replace. */
async function readFacts(story) {
  const snapshot = await server.snapshot(story.jobId).catch(() => undefined);
  if (snapshot === undefined || state.story !== story) return;
  foldFacts(story, snapshot);
  if (story.retriedAs !== undefined) return open(story.retriedAs, { keepResult: true, replace: true });
  if (story.retryOf !== undefined && snapshot.endedAt === undefined) {
    await readOldResult(story.retryOf, story);
  }
}

/** Where the job stands, when its stream says nothing. */
async function readState(story) {
  const snapshot = await server.snapshot(story.jobId).catch(() => undefined);
  if (snapshot === undefined || state.story !== story || hasEnded(story)) return;
  state.lastHeardAt = Date.now();
  foldSnapshot(story, snapshot);
  if (hasEnded(story)) atEnd(story);
  paint();
}

/** While a refreshed list is being made, the one before it is shown, after a reload of the page too. */
async function readOldResult(jobId, story) {
  if (state.result !== undefined) return;
  const result = await server.readResource(`resource:gifts:${jobId}`).catch(() => undefined);
  if (result === undefined || state.story !== story || state.result !== undefined) return;
  state.result = result;
  state.isRefresh = true;
  showResult(result);
  paint();
}

function atEnd(story) {
  follower?.stop();
  follower = undefined;
  state.connection = undefined;
  state.canceling = false;
  state.stale = false;
  if (story.status === "completed") {
    announce(`Done. ${story.summary ?? ""}`);
    void readResult(story);
  } else {
    announce(story.status === "failed" ? `Failed. ${story.error?.message ?? ""}` : "The job was canceled.");
    if (state.result !== undefined) lightUp(story);
  }
}

async function readResult(story) {
  part("result-error").replaceChildren();
  try {
    const result = await patiently(() =>
      server.readResource(story.resultResourceId ?? `resource:gifts:${story.jobId}`),
    );
    if (state.story !== story) return;
    state.result = result;
    showResult(result);
    lightUp(story);
  } catch (error) {
    if (state.story === story) showResultError(error, () => readResult(story));
  }
  paint();
}

async function loadMore() {
  const { result } = state;
  if (result?.nextCursor === undefined) return;
  part("more").disabled = true;
  part("result-error").replaceChildren();
  try {
    const args = { jobId: result.jobId, cursor: result.nextCursor, limit: PAGE_ROWS };
    const page = await patiently(() => server.call("get_gift_recommendations", args));
    if (state.result !== result) return;
    result.nextCursor = page.nextCursor;
    addRows(result, page.recommendations);
  } catch (error) {
    part("more").disabled = false;
    if (state.result === result) showResultError(error, loadMore);
  }
}

/** From now on the feed's changes since the work began light up the button. */
function lightUp(story) {
  feedFollower?.stop();
  state.changes = 0;
  feedFollower = watchFeed(server, story.startCursor, {
    onChanges(changes) {
      state.changes = changes;
      announce("The product feed has changed. The gift list can be refreshed.");
      paint();
    },
    onConnection(connection) {
      state.connection = connection;
      paint();
    },
  });
}

function forgetResult() {
  state.result = undefined;
  tellFeed("");
  hideResult();
}

/** A job that the server does not know: it says so, and how to go on. */
function showLost(error) {
  // The page asks for a token then, and goes on with what it was about.
  if (error.status === 401) return;
  stopFollowing();
  const jobId = state.story?.jobId;
  Object.assign(state, { story: undefined, lost: true });
  forgetResult();
  const known = { ...error, message: error.message };
  if (error.code === "JOB_NOT_FOUND") {
    known.message = "This list is not here.";
    known.hint = "The address may be wrong, or the list is not kept any longer.";
  }
  part("lost")?.remove();
  const again = el("button", { type: "button", class: "primary", click: goHome }, "Start a new list");
  const about = jobId === undefined ? "" : el("p", { class: "job-id" }, "Job ", el("code", {}, jobId));
  document
    .querySelector("main")
    .prepend(el("section", { class: "card", id: "lost" }, errorNotice(known, again), about));
  paint();
}

/** Where no address leads to the application, the page cannot watch; the job goes on all the same. */
function showUnserved(job) {
  const text = `This page cannot reach GiftGenius, which speaks stdio here: ask for ${job} with get_job.`;
  part("home").hidden = true;
  part("choose").hidden = true;
  part("unserved")?.remove();
  document.querySelector("main").prepend(el("section", { id: "unserved" }, notice("quiet", text)));
}

// ── Acting ────────────────────────────────────────────────────────────────────────────────────────────────────────

async function act(work) {
  if (state.acting) return;
  state.acting = true;
  state.actionError = undefined;
  paint();
  try {
    await work();
  } catch (error) {
    state.actionError = error;
    state.canceling = false;
    announce(error.message);
  }
  state.acting = false;
  paint();
}

function cancel() {
  const { story } = state;
  void act(async () => {
    state.canceling = true;
    paint();
    // How it ended is told by the stream alone.
    await patiently(() => server.call("cancel_job", { jobId: story.jobId }));
  });
}

/** A job again, with the same file and options. Asked twice, the server gives the same successor. */
function again() {
  void act(async () => {
    const { jobId } = await patiently(() => server.call("retry_job", { jobId: state.story.jobId }));
    open(jobId, { keepResult: true });
    part("run").focus({ preventScroll: false });
  });
}

async function copyJobId() {
  const code = part("job-id");
  try {
    await navigator.clipboard.writeText(code.textContent);
    write(part("copy"), "Copied");
    setTimeout(() => write(part("copy"), "Copy"), 2_000);
  } catch {
    getSelection().selectAllChildren(code);
  }
}

// ── The address ───────────────────────────────────────────────────────────────────────────────────────────────────

function remember(jobId, replace) {
  if (isFramed || jobInAddress() === jobId) return;
  history[replace ? "replaceState" : "pushState"](null, "", `#job=${encodeURIComponent(jobId)}`);
}

function jobInAddress() {
  const text = new URLSearchParams(location.hash.slice(1)).get("job");
  return text === null || text === "" ? undefined : text;
}

function readAddress() {
  signIn.takeFromAddress();
  const jobId = jobInAddress();
  if (jobId === undefined) return showChoice();
  if (jobId === state.story?.jobId) return;
  if (JOB_ID.test(jobId)) return open(jobId);
  showLost({ code: "JOB_NOT_FOUND" });
}

/** With a token: what was refused is asked again. */
function goOn() {
  if (state.story !== undefined) open(state.story.jobId, { keepResult: true });
  else if (!isFramed) readAddress();
  else paint();
}

function goHome() {
  if (!isFramed) history.pushState(null, "", location.pathname);
  showChoice();
  part("file").focus();
}

function showChoice() {
  stopFollowing();
  forgetResult();
  part("lost")?.remove();
  Object.assign(state, { story: undefined, lost: false, actionError: undefined });
  paint();
}

// ── Wiring ────────────────────────────────────────────────────────────────────────────────────────────────────────

if (address !== undefined) {
  wireChoice(server, (jobId) => {
    open(jobId);
    part("run").focus({ preventScroll: true });
  });
}
part("cancel").addEventListener("click", () => part("confirm").showModal());
part("confirm").addEventListener("close", () => {
  if (part("confirm").returnValue === "stop" && !hasEnded(state.story)) cancel();
  part("confirm").returnValue = "";
});
part("retry").addEventListener("click", again);
part("refresh").addEventListener("click", again);
part("another").addEventListener("click", goHome);
part("new-list").addEventListener("click", goHome);
part("home").addEventListener("click", (event) => {
  event.preventDefault();
  goHome();
});
part("reload-feed").addEventListener("click", () => reloadFeed(server));
part("copy").addEventListener("click", copyJobId);
part("more").addEventListener("click", loadMore);
for (const id of ["search", "department"]) {
  part(id).addEventListener("input", () => state.result && filterRows(state.result));
}
window.addEventListener("hashchange", readAddress);
window.addEventListener("popstate", readAddress);
for (const type of ["online", "pageshow"]) {
  window.addEventListener(type, () => {
    follower?.retryNow();
    feedFollower?.retryNow();
  });
}
setInterval(() => {
  if (state.story !== undefined && !hasEnded(state.story)) paint();
}, 1_000);
if (address === undefined) showUnserved("the job");
if (isFramed) {
  connectHost((jobId) => {
    if (!JOB_ID.test(jobId) || jobId === state.story?.jobId) return;
    if (address === undefined) showUnserved(jobId);
    else open(jobId);
  });
} else if (address !== undefined) readAddress();
if (address !== undefined) signIn.askIfNeeded();
