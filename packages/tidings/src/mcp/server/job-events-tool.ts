/** `get_job_events`: the log of one job by page, with a long poll; for widgets and other clients that cannot be pushed to. */
import type { Clock } from "../../model/clock.ts";
import { toTimestamp } from "../../model/clock.ts";
import type { Job, Status } from "../../model/job.ts";
import { hasEnded } from "../../model/job.ts";
import { toFlat } from "../../model/projection/notification.ts";
import { reduce } from "../../model/reduce.ts";
import type { JobSnapshot } from "../../runtime/snapshot.ts";
import { createWakeUp } from "../../runtime/tail.ts";
import type { EventPage, Tidings } from "../../runtime/tidings.ts";

export interface JobEventsRequest {
  readonly jobId: string;
  readonly after?: string;
  readonly waitSeconds?: number;
  readonly limit?: number;
}

export interface JobEventsAnswer {
  /** Flat `params` of each event's notification, with its cursor under `_meta`. */
  readonly events: readonly Readonly<Record<string, unknown>>[];
  /** Go on after it. */
  readonly cursor: string;
  /** The job's state where `events` end: it is terminal only once the ending was handed out. */
  readonly status: Status;
  /** Events after `after` are no longer kept; `snapshot` stands for them. */
  readonly truncated: boolean;
  readonly snapshot?: JobSnapshot;
  /** When to ask again: 0 when more is ready. */
  readonly nextPollMs: number;
  readonly serverTime: string;
}

const POLL_MS = 1000;
/** After the end only informational events can follow. */
const POLL_ENDED_MS = 30_000;

/** @throws TidingsError JOB_NOT_FOUND, BAD_CURSOR */
export async function readJobEvents(
  tidings: Tidings,
  owner: string,
  request: JobEventsRequest,
  { clock, signal }: { readonly clock: Clock; readonly signal: AbortSignal },
): Promise<JobEventsAnswer> {
  const { jobId, after, waitSeconds = 0, limit = 100 } = request;
  const wakeUp = createWakeUp();
  let isOver = waitSeconds === 0;
  const giveUp = () => {
    isOver = true;
    wakeUp.wake();
  };
  // Watching begins before the first read, so what is committed in between wakes it.
  const stopWatching = isOver ? undefined : tidings.watch(owner, wakeUp.wake);
  const stopTimer = isOver ? undefined : clock.after(waitSeconds * 1000, giveUp);
  signal.addEventListener("abort", giveUp);
  try {
    for (;;) {
      wakeUp.reset();
      const snapshot = await tidings.get(owner, jobId);
      const page = await tidings.read({
        owner,
        jobIds: [jobId],
        limit,
        ...(after === undefined ? {} : { after }),
      });
      const hasNews = page.events.length > 0 || page.truncated || hasEnded(snapshot.status);
      if (hasNews || isOver || signal.aborted) {
        const status = statusAfter(page) ?? (await statusBefore(tidings, owner, snapshot, page));
        return answer(snapshot, page, status, clock);
      }
      await wakeUp.woken();
    }
  } finally {
    signal.removeEventListener("abort", giveUp);
    stopTimer?.();
    stopWatching?.();
  }
}

function answer(snapshot: JobSnapshot, page: EventPage, status: Status, clock: Clock): JobEventsAnswer {
  return {
    events: page.events.map(({ event, cursor }) => toFlat(event, cursor)),
    cursor: page.cursor,
    status,
    truncated: page.truncated,
    ...(page.truncated ? { snapshot } : {}),
    nextPollMs: page.hasMore ? 0 : hasEnded(status) ? POLL_ENDED_MS : POLL_MS,
    serverTime: toTimestamp(clock.now()),
  };
}

/** What the page's own events say; undefined when none of them moves the state machine. */
function statusAfter(page: EventPage): Status | undefined {
  let job: Job | undefined;
  for (const { event } of page.events) job = reduce(job, event);
  return job?.status;
}

/** The job's state before what follows a page that says nothing: an ending that is still to come has not happened yet. */
async function statusBefore(
  tidings: Tidings,
  owner: string,
  { jobId, status }: JobSnapshot,
  page: EventPage,
): Promise<Status> {
  let next = page;
  while (hasEnded(status) && next.hasMore) {
    next = await tidings.read({ owner, jobIds: [jobId], after: next.cursor });
    if (statusAfter(next) !== undefined) return "running";
  }
  return status;
}
