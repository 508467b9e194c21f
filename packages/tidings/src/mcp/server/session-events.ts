/**
 * What is pushed on a connection that stays open: stdio and a 2025 session. Each thing that is followed is a part of the
 * log with a position of its own; one feed tells them in turn.
 *
 *   started job     ── from its birth ──┐
 *   subscribed URI  ── from now ────────┼─▶ one message at a time ─▶ sendNotification(method, params)
 *   2026 over stdio ── all, from now ───┘   (awaits the transport, so a slow reader holds the reading back)
 *
 * A part ends with its job, with the unsubscribe, or with the connection. On 2026-07-28 over HTTP there is no such
 * connection, and nothing is followed.
 */
import type { McpServer, ServerContext } from "@modelcontextprotocol/server";
import { TidingsError } from "../../model/error.ts";
import { hasEnded, isEndType } from "../../model/job.ts";
import type { WireNotification } from "../../model/projection/notification.ts";
import type { JobSnapshot } from "../../runtime/snapshot.ts";
import type { Delivery, Tidings } from "../../runtime/tidings.ts";
import * as wire2025 from "../wire/2025-11-25.ts";
import * as wire2026 from "../wire/2026-07-28.ts";
import { snapshotsOf } from "./gap-snapshots.ts";
import { jobIdOf, jobUriOf } from "./job-uri.ts";
import type { GapSign, LogPart } from "./log-feed.ts";
import { createLogFeed } from "./log-feed.ts";
import { checkName, lengthOf, MAX_NAMES_LENGTH } from "./name-limit.ts";

export interface SessionEvents {
  /** Sends the story of a job that this request started, from its birth on. At most once per connection. */
  follow(context: ServerContext, owner: string, jobId: string, birth: string): void;
  /** Sends updates of a resource from now on. @throws TidingsError BAD_INPUT, JOB_NOT_FOUND, TOO_MANY_REQUESTS */
  subscribe(owner: string, uri: string): Promise<void>;
  unsubscribe(uri: string): void;
  /**
   * On 2026-07-28 over stdio: offers every event of the owner from now on to the SDK's listen router, which passes on
   * what was asked for. Elsewhere nothing happens. Resolves once the position is taken.
   */
  offer(context: ServerContext, owner: string): Promise<void>;
  /** The same without a request, for a connection that is known to be 2026-07-28 over stdio. */
  offerAll(owner: string): Promise<void>;
  /**
   * What is told instead of messages that are no longer kept: how the newest 100 jobs of this connection stand, and that
   * everything subscribed may have changed.
   */
  describeGap(owner: string): Promise<readonly WireNotification[]>;
}

const MAX_SUBSCRIPTIONS = 1_000;
/** Jobs that one connection is told of at a time; the oldest makes room and is read by cursor from then on. */
const MAX_JOBS = 1_000;
/** A key repeated after this many other starts on one connection would be told its story again: harmless. */
const MAX_REMEMBERED = 1_000;

export function createSessionEvents(
  server: McpServer,
  tidings: Tidings,
  report: (error: unknown) => void,
): SessionEvents {
  const { server: connection } = server;
  /** The ways to stop telling of jobs, by job, oldest first. */
  const followed = new Map<string, () => void>();
  /** Jobs that were told of. */
  const told = new Set<string>();
  const subscriptions = new Map<string, AbortController>();
  const feed = createLogFeed(tidings, ({ method, params }) => sendNotification(method, params), report);
  let offering = false;

  function isModern(): boolean {
    return (connection.getNegotiatedProtocolVersion() ?? "") >= wire2026.REVISION;
  }

  function canPush({ http, sessionId }: ServerContext): boolean {
    return http === undefined || (sessionId !== undefined && !isModern());
  }

  function stop(): void {
    for (const subscription of subscriptions.values()) subscription.abort();
    subscriptions.clear();
    feed.stop();
    told.clear();
    offering = false;
  }

  const chained = new WeakSet<() => void>();
  /** Other code may set `onclose` at any time, so it is looked at again whenever something new is followed. */
  function stopAtClose(): void {
    const before = connection.onclose;
    if (before !== undefined && chained.has(before)) return;
    const onclose = () => {
      stop();
      before?.();
    };
    chained.add(onclose);
    connection.onclose = onclose;
  }

  async function sendNotification(method: string, params: Readonly<Record<string, unknown>>): Promise<void> {
    if (connection.transport === undefined) return;
    try {
      if (method === "notifications/message") {
        // The SDK knows the level that the client asked for.
        const message = params as unknown as Parameters<typeof connection.sendLoggingMessage>[0];
        await connection.sendLoggingMessage(message, connection.transport.sessionId);
      } else await connection.notification({ method, params });
    } catch (error) {
      if (connection.transport !== undefined) report(error);
    }
  }

  function add(part: LogPart): () => void {
    stopAtClose();
    return feed.add(part);
  }

  const toEvent = (delivery: Delivery): WireNotification[] => [
    isModern() ? wire2026.toEventNotification(delivery) : wire2025.toEventNotification(delivery),
  ];

  /** How a job stands, for events of it that are no longer kept; nothing more comes when it has ended or is gone. */
  async function gapOfJob(
    owner: string,
    jobId: string,
    toSign: (snapshots: readonly JobSnapshot[]) => WireNotification,
  ): Promise<GapSign> {
    const snapshots = await snapshotsOf(tidings, owner, { jobIds: [jobId] });
    const isLast = snapshots.every(({ status }) => hasEnded(status));
    return { notifications: [toSign(snapshots)], isLast };
  }

  /** What a subscription to a URI is told; undefined when nothing more can come. */
  async function resolveUri(owner: string, uri: string): Promise<LogPart | undefined> {
    const jobId = jobIdOf(uri);
    if (jobId === undefined) {
      const projectGap = async (cursor: string) => ({
        notifications: [wire2025.toPlainUpdate(uri, cursor)],
        isLast: false,
      });
      const after = await tidings.head(owner);
      return { owner, filter: { resourceIds: [uri] }, after, project: toEvent, projectGap };
    }
    const { status, cursor: after } = await tidings.get(owner, jobId);
    if (hasEnded(status)) return undefined;
    return {
      owner,
      filter: { jobIds: [jobId] },
      after,
      project: (delivery) => [wire2025.toResourceUpdate(uri, delivery)],
      projectGap: (cursor) => gapOfJob(owner, jobId, () => wire2025.toPlainUpdate(uri, cursor)),
      isLast: isEnding,
    };
  }

  async function offerAll(owner: string): Promise<void> {
    if (offering) return;
    offering = true;
    try {
      const after = await tidings.head(owner);
      if (!offering) return;
      const onLeave = () => {
        offering = false;
      };
      add({ owner, after, project: toOffers, projectGap: (cursor) => offerGap(owner, cursor), onLeave });
    } catch (error) {
      offering = false;
      throw error;
    }
  }

  async function offerGap(owner: string, cursor: string): Promise<GapSign> {
    const snapshots = await snapshotsOf(tidings, owner, {});
    const notifications = snapshots.map(({ jobId }) => wire2025.toPlainUpdate(jobUriOf(jobId), cursor));
    return { notifications, isLast: false };
  }

  return {
    follow(context, owner, jobId, birth) {
      if (!canPush(context) || connection.transport === undefined) return;
      if (followed.has(jobId) || told.has(jobId)) return;
      if (followed.size >= MAX_JOBS) first(followed.values())?.();
      const leave = add({
        owner,
        filter: { jobIds: [jobId] },
        after: birth,
        project: toEvent,
        projectGap: (cursor) =>
          gapOfJob(owner, jobId, (snapshots) => wire2026.toGapNotification(snapshots, cursor)),
        isLast: isEnding,
        onLeave() {
          followed.delete(jobId);
          told.add(jobId);
          if (told.size > MAX_REMEMBERED) told.delete(first(told) ?? "");
        },
      });
      followed.set(jobId, leave);
    },

    async subscribe(owner, uri) {
      checkName(uri, "The uri");
      if (subscriptions.has(uri)) return;
      if (subscriptions.size >= MAX_SUBSCRIPTIONS) {
        throw tooMany(`This session has ${MAX_SUBSCRIPTIONS} subscriptions already.`, MAX_SUBSCRIPTIONS);
      }
      if (lengthOf(subscriptions.keys()) + uri.length > MAX_NAMES_LENGTH) {
        const limit = MAX_NAMES_LENGTH;
        throw tooMany(`The subscriptions of this session have ${limit} characters in all already.`, limit);
      }
      const subscription = new AbortController();
      const { signal } = subscription;
      subscriptions.set(uri, subscription);
      const forget = () => {
        if (subscriptions.get(uri) === subscription) subscriptions.delete(uri);
      };
      try {
        const part = await resolveUri(owner, uri);
        if (signal.aborted) return;
        if (part === undefined) forget();
        else signal.addEventListener("abort", add({ ...part, onLeave: forget }));
      } catch (error) {
        forget();
        throw error;
      }
    },

    unsubscribe(uri) {
      subscriptions.get(uri)?.abort();
      subscriptions.delete(uri);
    },

    async offer(context, owner) {
      if (context.http === undefined && isModern()) await offerAll(owner);
    },

    offerAll,

    async describeGap(owner) {
      // Before the snapshots: whoever reads on after it misses nothing that they do not show.
      const cursor = await tidings.head(owner);
      const jobIds = [...[...followed.keys()].reverse(), ...[...told].reverse()];
      const snapshots = await snapshotsOf(tidings, owner, { jobIds });
      const updates = [...subscriptions.keys()].map((uri) => wire2025.toPlainUpdate(uri, cursor));
      return [wire2026.toGapNotification(snapshots, cursor), ...updates];
    },
  };
}

function tooMany(sentence: string, limit: number): TidingsError {
  const hint = "Unsubscribe from resources that you no longer need.";
  return new TidingsError("TOO_MANY_REQUESTS", sentence, { hint, data: { limit } });
}

const isEnding = ({ event }: Delivery): boolean => isEndType(event.type);

function first<T>(items: Iterable<T>): T | undefined {
  for (const item of items) return item;
  return undefined;
}

/** Updates of `job://{jobId}` for every event of a job, and of a resource for an event that says it changed. */
function toOffers(delivery: Delivery): WireNotification[] {
  const { type, jobId, resourceId } = delivery.event;
  const uris = jobId === undefined ? [] : [jobUriOf(jobId)];
  if (type === "resource.updated" && resourceId !== undefined) uris.push(resourceId);
  return uris.map((uri) => wire2026.toResourceUpdate(uri, delivery));
}
