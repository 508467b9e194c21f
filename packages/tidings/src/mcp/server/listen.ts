/**
 * `subscriptions/listen` of MCP 2026-07-28, served in front of the SDK, whose own one knows neither our filter, nor
 * owners, nor slow readers.
 *
 *   POST ──▶ the SDK judges headers and envelope ──▶ filter narrowed ──▶ position taken ──▶ acknowledged ──┐
 *   ┌──────────────────────────────────────────────────────────────────────────────────────────────────────┘
 *   ├── resourceSubscriptions  job://{jobId}, other URIs     notifications/resources/updated { uri, _meta: {event, cursor} }
 *   ├── "dev.tidings/jobs"     events of jobs, from `after`  each event's own notification, and heartbeats with a cursor
 *   │                          older than what is kept       notifications/dev.tidings/gap { snapshots } first
 *   ├── the SDK's event bus    lists and resources           notifications/…/list_changed, notifications/resources/updated
 *   └── the server stops ──▶ result { resultType: "complete" }
 *
 * Every message carries the request's id under `_meta["io.modelcontextprotocol/subscriptionId"]`.
 */

import type { ServerResponse } from "node:http";
import type {
  Implementation,
  ServerCapabilities,
  ServerEvent,
  ServerEventBus,
} from "@modelcontextprotocol/server";
import { SERVER_INFO_META_KEY } from "@modelcontextprotocol/server";
import type { Clock, Random } from "../../model/clock.ts";
import { toTimestamp } from "../../model/clock.ts";
import type { EventOf } from "../../model/event.ts";
import type { WireNotification } from "../../model/projection/notification.ts";
import { CURSOR_META_KEY } from "../../model/projection/notification.ts";
import type { Delivery, Tidings } from "../../runtime/tidings.ts";
import { toRpcError } from "../error.ts";
import type { RequestId } from "../wire/2026-07-28.ts";
import {
  GAP_METHOD,
  JOBS_FILTER_KEY,
  SUBSCRIPTION_ID_META_KEY,
  tag,
  toEventNotification,
  toResourceUpdate,
} from "../wire/2026-07-28.ts";
import { snapshotsOf } from "./http-gap.ts";
import { sendRpcError } from "./http-message.ts";
import type { Streams } from "./http-streams.ts";
import type { JobsFilter, ListenFilter } from "./listen-filter.ts";
import { honour, jobIdOf, readFilter } from "./listen-filter.ts";
import type { SseStream } from "./sse.ts";

export interface ListenRequest {
  readonly res: ServerResponse;
  readonly owner: string;
  readonly id: RequestId;
  /** `params.notifications`, unread. */
  readonly filter: unknown;
  readonly server: { readonly capabilities: ServerCapabilities; readonly info: Implementation | undefined };
}

export interface ListenOptions {
  readonly tidings: Tidings;
  readonly streams: Streams;
  readonly bus: ServerEventBus;
  readonly clock: Clock;
  readonly random: Random;
  readonly heartbeatMs: number;
  readonly onError: (error: unknown, during: string) => void;
}

/** Serves one listen request until its client leaves or the server stops. Headers and envelope were judged before. */
export async function serveListen(request: ListenRequest, options: ListenOptions): Promise<void> {
  const { res, owner, id, server } = request;
  const { tidings, streams } = options;
  let honoured: ListenFilter;
  let start: string;
  try {
    streams.check(owner);
    const filter = readFilter(request.filter);
    const after = filter[JOBS_FILTER_KEY]?.after;
    // Read before anything is answered: a cursor that cannot be honoured must not become a stream.
    if (after !== undefined) await tidings.read({ owner, jobIds: [], after, limit: 1 });
    honoured = await honour(filter, owner, tidings, server.capabilities);
    // Taken before the acknowledgement: whatever happens from then on is told.
    start = await tidings.head(owner);
  } catch (error) {
    sendRpcError(res, 200, toRpcError(error), id);
    return;
  }
  const complete = {
    event: "message",
    data: {
      jsonrpc: "2.0",
      id,
      result: {
        resultType: "complete",
        _meta: {
          [SUBSCRIPTION_ID_META_KEY]: id,
          ...(server.info === undefined ? {} : { [SERVER_INFO_META_KEY]: server.info }),
        },
      },
    },
  };
  const acknowledged = {
    method: "notifications/subscriptions/acknowledged",
    params: { notifications: honoured },
  };
  const bus = listenToBus(options.bus, honoured);
  const stream = streams.open(owner, res, { opening: toFrame(acknowledged, id), farewell: complete });
  if (Object.keys(honoured).length === 0) stream.end(complete);
  const subscription: Subscription = { ...options, owner, id, stream, start };
  const { resourceSubscriptions: uris, [JOBS_FILTER_KEY]: jobs } = honoured;
  try {
    await Promise.all([
      ...(uris === undefined ? [] : [tellResources(subscription, uris)]),
      ...(jobs === undefined ? [] : [tellJobs(subscription, jobs)]),
      bus.forwardTo(subscription),
    ]);
  } catch (error) {
    options.onError(error, "subscriptions/listen");
    // Without the final result: the client sees a drop and listens again from its cursor.
    stream.end();
  } finally {
    bus.close();
  }
  await stream.closed;
}

interface Subscription extends ListenOptions {
  readonly owner: string;
  readonly id: RequestId;
  readonly stream: SseStream;
  /** The owner's newest cursor before the acknowledgement. */
  readonly start: string;
}

function toFrame(notification: WireNotification, id: RequestId) {
  return { event: "message", data: { jsonrpc: "2.0", ...tag(notification, id) } };
}

async function tellResources(subscription: Subscription, uris: readonly string[]): Promise<void> {
  const { tidings, owner, id, stream, start } = subscription;
  const jobIds = uris.map(jobIdOf).filter((jobId) => jobId !== undefined);
  const resourceIds = uris.filter((uri) => jobIdOf(uri) === undefined);
  const tail = tidings.tail({ owner, jobIds, resourceIds, after: start, signal: stream.signal });
  for await (const item of tail) {
    if (item.kind === "gap") {
      // The standard's plain form: something changed, read it again.
      for (const uri of uris) {
        await stream.send(toFrame({ method: "notifications/resources/updated", params: { uri } }, id));
      }
      continue;
    }
    for (const uri of urisOf(item, uris)) await stream.send(toFrame(toResourceUpdate(uri, item), id));
  }
}

function urisOf({ event }: Delivery, uris: readonly string[]): readonly string[] {
  const own = event.jobId === undefined ? undefined : `job://${event.jobId}`;
  return uris.filter((uri) => uri === own || uri === event.resourceId);
}

async function tellJobs(subscription: Subscription, jobs: JobsFilter): Promise<void> {
  const { tidings, owner, id, stream } = subscription;
  const { after = subscription.start, ...filter } = jobs;
  let cursor = after;
  const stopHeartbeats = beat(subscription, () => cursor);
  try {
    for await (const item of tidings.tail({ owner, ...filter, after, signal: stream.signal })) {
      if (item.kind === "gap") {
        const snapshots = await snapshotsOf(tidings, owner, filter);
        const params = { snapshots, _meta: { [CURSOR_META_KEY]: item.cursor } };
        await stream.send(toFrame({ method: GAP_METHOD, params }, id));
        continue;
      }
      cursor = item.cursor;
      await stream.send(toFrame(toEventNotification(item, id), id));
    }
  } finally {
    stopHeartbeats();
  }
}

/** "I am alive, and you have had everything up to this cursor." Never stored, and nothing waits for it. */
function beat({ clock, random, heartbeatMs, id, stream }: Subscription, cursor: () => string): () => void {
  let stop = () => {};
  const arm = () => {
    stop = clock.after(heartbeatMs, () => {
      const event: EventOf<"system.heartbeat"> = {
        eventId: `evt_${random.id()}`,
        type: "system.heartbeat",
        timestamp: toTimestamp(clock.now()),
        source: "tidings",
        cursor: cursor(),
      };
      if (!stream.isFull) void stream.send(toFrame(toEventNotification({ event }, id), id));
      arm();
    });
  };
  arm();
  return () => stop();
}

/** Hears the SDK's bus. What waits for a slow reader is kept once per kind and URI, so it stays bounded. */
function listenToBus(bus: ServerEventBus, honoured: ListenFilter) {
  const pending = new Map<string, WireNotification>();
  let wake = () => {};
  const stopListening = bus.subscribe((event) => {
    const notification = toBusNotification(event, honoured);
    if (notification === undefined) return;
    pending.set(JSON.stringify([notification.method, notification.params.uri]), notification);
    wake();
  });
  return {
    close: stopListening,
    async forwardTo({ stream, id }: Subscription): Promise<void> {
      stream.signal.addEventListener("abort", () => wake());
      while (!stream.signal.aborted) {
        const [next] = pending;
        if (next === undefined) {
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
          continue;
        }
        const [key, notification] = next;
        pending.delete(key);
        await stream.send(toFrame(notification, id));
      }
    },
  };
}

function toBusNotification(event: ServerEvent, honoured: ListenFilter): WireNotification | undefined {
  switch (event.kind) {
    case "tools_list_changed":
      return honoured.toolsListChanged && listChanged("tools", event);
    case "prompts_list_changed":
      return honoured.promptsListChanged && listChanged("prompts", event);
    case "resources_list_changed":
      return honoured.resourcesListChanged && listChanged("resources", event);
    case "resource_updated": {
      // Jobs are told from the log only, where their owner is known; the bus has no owners.
      const wanted = jobIdOf(event.uri) === undefined && honoured.resourceSubscriptions?.includes(event.uri);
      if (!wanted) return undefined;
      return { method: "notifications/resources/updated", params: { ...event.params, uri: event.uri } };
    }
  }
}

function listChanged(kind: "tools" | "prompts" | "resources", event: ServerEvent): WireNotification {
  return { method: `notifications/${kind}/list_changed`, params: { ...event.params } };
}
