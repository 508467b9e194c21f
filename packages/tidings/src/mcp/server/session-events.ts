/**
 * What is pushed on a connection that stays open: stdio and a 2025 session. One tail of the log for each thing that is
 * followed, one queue for what is sent.
 *
 *   started job     ── tail from its birth ──┐
 *   subscribed URI  ── tail from now ────────┼─▶ one message at a time ─▶ sendNotification(method, params)
 *   2026 over stdio ── tail of the owner ────┘   (awaits the transport, so a slow reader holds the tails back)
 *
 * A tail ends with its job, with the unsubscribe, or with the connection. What cannot be delivered is dropped: the
 * client reads it by cursor. On 2026-07-28 over HTTP there is no such connection, and nothing is followed.
 */
import type { McpServer, ServerContext } from "@modelcontextprotocol/server";
import type { EventFilter } from "../../engine/engine.ts";
import { TidingsError } from "../../model/error.ts";
import { hasEnded } from "../../model/job.ts";
import type { WireNotification } from "../../model/projection/notification.ts";
import type { Delivery, Tidings } from "../../runtime/tidings.ts";
import * as wire2025 from "../wire/2025-11-25.ts";
import * as wire2026 from "../wire/2026-07-28.ts";

export interface SessionEvents {
  /** Sends the story of a job that this request started, from its birth on. At most once per connection. */
  follow(context: ServerContext, owner: string, jobId: string, birth: string): void;
  /** Sends updates of a resource from now on. @throws TidingsError JOB_NOT_FOUND, TOO_MANY_REQUESTS */
  subscribe(owner: string, uri: string): Promise<void>;
  unsubscribe(uri: string): void;
  /**
   * On 2026-07-28 over stdio: offers every event of the owner from now on to the SDK's listen router, which passes on
   * what was asked for. Elsewhere nothing happens. Resolves once the position is taken.
   */
  offer(context: ServerContext, owner: string): Promise<void>;
  /** The same without a request, for a connection that is known to be 2026-07-28 over stdio. */
  offerAll(owner: string): Promise<void>;
  /** How many tails run. */
  readonly tails: number;
}

const JOB_URI = /^job:\/\/([^/]+)$/;
const MAX_SUBSCRIPTIONS = 1000;
/** A key repeated after this many other starts on one connection would be told its story again: harmless. */
const MAX_REMEMBERED = 10_000;
const ENDINGS: readonly string[] = ["job.completed", "job.failed", "job.canceled"];

/** A part of the log that is sent, and how. */
interface Followed extends EventFilter {
  readonly owner: string;
  readonly after: string;
  readonly project: (delivery: Delivery) => readonly WireNotification[];
  readonly isLast: (delivery: Delivery) => boolean;
}

export function createSessionEvents(
  server: McpServer,
  tidings: Tidings,
  report: (error: unknown) => void,
): SessionEvents {
  const { server: connection } = server;
  const followed = new Set<string>();
  const subscriptions = new Map<string, AbortController>();
  const tails = new Set<AbortController>();
  let offering = false;
  let queue: Promise<void> = Promise.resolve();

  function isModern(): boolean {
    return (connection.getNegotiatedProtocolVersion() ?? "") >= wire2026.REVISION;
  }

  function canPush({ http, sessionId }: ServerContext): boolean {
    return http === undefined || (sessionId !== undefined && !isModern());
  }

  function stop(): void {
    for (const tail of tails) tail.abort();
    followed.clear();
    subscriptions.clear();
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

  function send(notification: WireNotification, signal: AbortSignal): Promise<void> {
    queue = queue.then(() =>
      signal.aborted ? undefined : sendNotification(notification.method, notification.params),
    );
    return queue;
  }

  function begin(): AbortController {
    stopAtClose();
    const controller = new AbortController();
    tails.add(controller);
    return controller;
  }

  /** Resolves when the tail has ended, for whatever reason. */
  async function run(controller: AbortController, { project, isLast, ...what }: Followed): Promise<void> {
    const { signal } = controller;
    try {
      // The answer to the request comes first: a client should know the job's id before its first event.
      await new Promise((resolve) => setImmediate(resolve));
      for await (const item of tidings.tail({ ...what, signal })) {
        if (item.kind === "gap") continue;
        for (const notification of project(item)) await send(notification, signal);
        if (isLast(item)) break;
      }
    } catch (error) {
      if (!(error instanceof TidingsError && error.code === "STORE_CLOSED")) report(error);
    } finally {
      tails.delete(controller);
    }
  }

  const toEvent = (delivery: Delivery): WireNotification[] => [
    isModern() ? wire2026.toEventNotification(delivery) : wire2025.toEventNotification(delivery),
  ];

  /** What a subscription to a URI follows; undefined when nothing more can come. */
  async function resolveUri(owner: string, uri: string): Promise<Followed | undefined> {
    const jobId = JOB_URI.exec(uri)?.[1];
    if (jobId === undefined) {
      const after = await tidings.head(owner);
      return { owner, resourceIds: [uri], after, project: toEvent, isLast: () => false };
    }
    const { status, cursor: after } = await tidings.get(owner, jobId);
    if (hasEnded(status)) return undefined;
    const project = (delivery: Delivery) => [wire2025.toResourceUpdate(uri, delivery)];
    return { owner, jobIds: [jobId], after, project, isLast: isEnding };
  }

  async function offerAll(owner: string): Promise<void> {
    if (offering) return;
    offering = true;
    const controller = begin();
    try {
      const after = await tidings.head(owner);
      void run(controller, { owner, after, project: toOffers, isLast: () => false });
    } catch (error) {
      offering = false;
      tails.delete(controller);
      throw error;
    }
  }

  return {
    follow(context, owner, jobId, birth) {
      if (!canPush(context) || connection.transport === undefined || followed.has(jobId)) return;
      followed.add(jobId);
      for (const oldest of followed) {
        if (followed.size <= MAX_REMEMBERED) break;
        followed.delete(oldest);
      }
      void run(begin(), { owner, jobIds: [jobId], after: birth, project: toEvent, isLast: isEnding });
    },

    async subscribe(owner, uri) {
      if (subscriptions.has(uri)) return;
      if (subscriptions.size >= MAX_SUBSCRIPTIONS) {
        throw new TidingsError(
          "TOO_MANY_REQUESTS",
          `This session has ${MAX_SUBSCRIPTIONS} subscriptions already.`,
          { hint: "Unsubscribe from resources that you no longer need." },
        );
      }
      const controller = begin();
      subscriptions.set(uri, controller);
      const forget = () => {
        tails.delete(controller);
        if (subscriptions.get(uri) === controller) subscriptions.delete(uri);
      };
      try {
        const what = await resolveUri(owner, uri);
        if (what === undefined || controller.signal.aborted) forget();
        else void run(controller, what).then(forget);
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

    get tails() {
      return tails.size;
    },
  };
}

const isEnding = ({ event }: Delivery): boolean => ENDINGS.includes(event.type);

/** Updates of `job://{jobId}` for every event of a job, and of a resource for an event that says it changed. */
function toOffers(delivery: Delivery): WireNotification[] {
  const { type, jobId, resourceId } = delivery.event;
  const uris = jobId === undefined ? [] : [`job://${jobId}`];
  if (type === "resource.updated" && resourceId !== undefined) uris.push(resourceId);
  return uris.map((uri) => wire2026.toResourceUpdate(uri, delivery));
}
