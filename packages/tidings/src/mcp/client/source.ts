/**
 * A job's story over an MCP client, pushed where the connection allows it:
 *
 *   2026-07-28   subscriptions/listen with "dev.tidings/jobs": { jobIds, after }; without `after`, what happened so far
 *                is read by get_job_events first
 *   2025, stdio  get_job_events from the cursor, then the notifications of the open connection; while it is quiet, a
 *                look now and then, because a lost stream does not show
 *
 * A 2026-07-28 server that does not honour the filter is treated like the second.
 */
import { browserClock } from "../../client/browser-clock.ts";
import type { PolledPage, PollOptions } from "../../client/source/poll.ts";
import { createPollSource, poll } from "../../client/source/poll.ts";
import type { Source, SourceItem, SourceRequest } from "../../client/source/source.ts";
import { createBell } from "../../client/source/wait.ts";
import type { Clock } from "../../model/clock.ts";
import { TidingsError } from "../../model/error.ts";
import { readMessage } from "../../model/projection/read.ts";
import { isRecord } from "../../model/schema.ts";
import { GAP_METHOD, JOBS_FILTER_KEY } from "../wire/2026-07-28.ts";
import type { McpClientOrConnect, McpSubscription } from "./client.ts";
import { callToolOf, connected } from "./client.ts";
import { tap } from "./tap.ts";

export interface McpSourceOptions {
  readonly clock?: Clock;
  /** Events per answer of `get_job_events`. Default 100. */
  readonly limit?: number;
}

/** Pushed messages cannot be held back; what a slow reader leaves lying beyond this is read again from its cursor. */
const MAX_WAITING = 10_000;
/**
 * Quiet times after which the server is asked whether something was missed, in milliseconds. The last one repeats, and
 * holds from the first event on that was pushed.
 */
const SESSION_QUIET_MS = [2_000, 4_000, 8_000, 15_000];
/** A listen stream shows its own end and has heartbeats; only a cursor behind the job's ending stays quiet for ever. */
const LISTEN_QUIET_MS = [1_000, Number.POSITIVE_INFINITY];
/** Three heartbeats. */
const LISTEN_IDLE_MS = 45_000;

/**
 * Creates a source over an MCP client: `follow({ source: mcpSource(client), jobId })`. The client's own handlers go on
 * working. A client whose connection is gone stays gone: give a function that connects to survive that too.
 *
 * @param given - A connected client (SDK v2 or v1, any transport), or a function that gives one.
 */
export function mcpSource(given: McpClientOrConnect, options: McpSourceOptions = {}): Source {
  const { clock = browserClock, limit = 100 } = options;
  const callTool = callToolOf(given);
  return {
    idleMs: LISTEN_IDLE_MS,
    async *open({ jobId, after, signal }: SourceRequest): AsyncGenerator<SourceItem> {
      const client = await connected(given);
      const pushed = createPushed(client.transport, jobId, clock);
      const stop = (): void => pushed.ring();
      signal.addEventListener("abort", stop);
      const ask = (cursor: string | undefined): Promise<PolledPage> =>
        poll(callTool, { jobId, after: cursor, waitSeconds: 0, limit }, signal);
      const isModern = client.getProtocolEra?.() === "modern" && client.listen !== undefined;
      let cursor = after;
      let subscription: McpSubscription | undefined;
      try {
        if (isModern && cursor !== undefined) {
          subscription = await listen(client, jobId, cursor, signal, pushed);
        }
        if (subscription === undefined) {
          cursor = yield* catchUp(ask, cursor);
          if (cursor === ENDED) return;
          if (isModern && after === undefined && cursor !== undefined) {
            subscription = await listen(client, jobId, cursor, signal, pushed);
          }
        }
        let closed = false;
        void subscription?.closed.then(() => {
          closed = true;
          pushed.ring();
        });
        yield { kind: "open", by: "push" };
        const quiets = subscription === undefined ? SESSION_QUIET_MS : LISTEN_QUIET_MS;
        for (let quiet = 0; !signal.aborted; ) {
          const items = pushed.take();
          if (items === undefined) return;
          for (const item of items) {
            // What is skipped here shows as a hole in the story, and the source is opened again before it.
            if (item.kind === "event") cursor = item.cursor ?? cursor;
            yield item;
          }
          // Heartbeats keep a stream, but only events show that it tells of this job.
          if (items.some(({ kind }) => kind !== "alive")) quiet = quiets.length - 1;
          if (closed && items.length === 0) return;
          if (items.length > 0 || (await pushed.wait(quiets[quiet] ?? 0))) continue;
          quiet = Math.min(quiet + 1, quiets.length - 1);
          const page = subscription === undefined ? await ask(cursor) : await look(ask, cursor);
          if (page === undefined) continue;
          cursor = page.cursor ?? cursor;
          yield* page.items;
          if (page.ended && page.events === 0) {
            yield { kind: "end" };
            return;
          }
          yield { kind: "alive" };
        }
      } finally {
        signal.removeEventListener("abort", stop);
        pushed.stop();
        await subscription?.close().catch(() => undefined);
      }
    },
  };
}

/**
 * Creates a source for servers or connections that cannot push: `get_job_events`, asked again and again.
 *
 * @param given - A connected client (SDK v2 or v1, any transport), or a function that gives one.
 */
export function pollSource(given: McpClientOrConnect, options: PollOptions = {}): Source {
  return createPollSource(callToolOf(given), options);
}

/** No cursor can be this: cursors hold no spaces. */
const ENDED = "the job has ended";

/** Everything that happened so far. Answers with the cursor to go on from. */
async function* catchUp(
  ask: (cursor: string | undefined) => Promise<PolledPage>,
  after: string | undefined,
): AsyncGenerator<SourceItem, string | undefined> {
  let cursor = after;
  for (let isFirst = true; ; isFirst = false) {
    const page = await ask(cursor);
    if (isFirst) yield { kind: "open", by: "poll" };
    yield* page.items;
    cursor = page.cursor ?? cursor;
    if (page.events > 0) continue;
    if (!page.ended) return cursor;
    yield { kind: "end" };
    return ENDED;
  }
}

/** Asks beside a stream that works: only a job that is gone matters. */
async function look(
  ask: (cursor: string | undefined) => Promise<PolledPage>,
  cursor: string | undefined,
): Promise<PolledPage | undefined> {
  try {
    return await ask(cursor);
  } catch (error) {
    if (error instanceof TidingsError && error.code === "JOB_NOT_FOUND") throw error;
    return undefined;
  }
}

/** @returns undefined when the server does not honour the filter. */
async function listen(
  client: Awaited<ReturnType<typeof connected>>,
  jobId: string,
  after: string,
  signal: AbortSignal,
  pushed: Pushed,
): Promise<McpSubscription | undefined> {
  const subscription = await client.listen?.({ [JOBS_FILTER_KEY]: { jobIds: [jobId], after } }, { signal });
  if (subscription === undefined || pushed.isAcknowledged()) return subscription;
  await subscription.close().catch(() => undefined);
  return undefined;
}

/** What the connection pushed about one job and was not read yet. */
interface Pushed {
  /** Whether a listen that names the job was acknowledged. */
  isAcknowledged(): boolean;
  /** What has arrived; undefined when it was too much and had to be dropped. */
  take(): readonly SourceItem[] | undefined;
  /** Whether something may have arrived before `ms` milliseconds passed. */
  wait(ms: number): Promise<boolean>;
  ring(): void;
  stop(): void;
}

function createPushed(transport: object, jobId: string, clock: Clock): Pushed {
  const bell = createBell(clock);
  let items: SourceItem[] = [];
  let overflown = false;
  let acknowledged = false;
  const stop = tap(transport, (message) => {
    if (isAcknowledgement(message, jobId)) acknowledged = true;
    const arrived = readPushed(message, jobId);
    if (arrived.length === 0 || overflown) return;
    items.push(...arrived);
    if (items.length > MAX_WAITING) {
      overflown = true;
      items = [];
    }
    bell.ring();
  });
  return {
    isAcknowledged: () => acknowledged,
    take: () => (overflown ? undefined : items.splice(0)),
    wait: (ms) => bell.wait(ms),
    ring: () => bell.ring(),
    stop,
  };
}

function isAcknowledgement(message: unknown, jobId: string): boolean {
  if (!isRecord(message) || message.method !== "notifications/subscriptions/acknowledged") return false;
  const honoured = isRecord(message.params) ? message.params.notifications : undefined;
  const jobs = isRecord(honoured) ? honoured[JOBS_FILTER_KEY] : undefined;
  return isRecord(jobs) && Array.isArray(jobs.jobIds) && jobs.jobIds.includes(jobId);
}

function readPushed(message: unknown, jobId: string): readonly SourceItem[] {
  if (!isRecord(message) || typeof message.method !== "string") return [];
  const { params } = message;
  if (message.method === GAP_METHOD) {
    const snapshots = isRecord(params) && Array.isArray(params.snapshots) ? params.snapshots : [];
    return snapshots
      .filter((snapshot) => isRecord(snapshot) && snapshot.jobId === jobId)
      .map((snapshot) => ({ kind: "snapshot", snapshot }));
  }
  const outcome = readMessage(message);
  if (outcome.kind === "event") {
    const { event, cursor } = outcome;
    if (event.type === "system.heartbeat") return [{ kind: "alive" }];
    return event.jobId === jobId ? [{ kind: "event", event, cursor }] : [];
  }
  const isOurs = outcome.kind === "invalid" && isRecord(params) && params.jobId === jobId;
  return isOurs ? [outcome] : [];
}
