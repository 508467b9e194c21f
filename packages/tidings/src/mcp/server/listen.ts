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
import { systemRandom } from "../../engine/system-clock.ts";
import type { Clock, Random } from "../../model/clock.ts";
import type { WireNotification } from "../../model/projection/notification.ts";
import type { Delivery, Tidings } from "../../runtime/tidings.ts";
import { isHidden, toRpcError } from "../error.ts";
import { toPlainUpdate } from "../wire/2025-11-25.ts";
import type { RequestId } from "../wire/2026-07-28.ts";
import {
  JOBS_FILTER_KEY,
  SUBSCRIPTION_ID_META_KEY,
  tag,
  toEventNotification,
  toGapNotification,
  toResourceUpdate,
} from "../wire/2026-07-28.ts";
import { snapshotsOf } from "./gap-snapshots.ts";
import { createHeartbeat } from "./heartbeat.ts";
import { sendRpcError } from "./http-message.ts";
import type { Streams } from "./http-streams.ts";
import { jobIdOf, jobUriOf } from "./job-uri.ts";
import type { JobsFilter, ListenFilter } from "./listen-filter.ts";
import { honour, readFilter, weightOf } from "./listen-filter.ts";
import type { ListenCall } from "./listen-judge.ts";
import { checkPolls } from "./poll-limit.ts";
import { pushTo } from "./push.ts";
import type { SseFrame, SseStream } from "./sse.ts";
import { formatFrame } from "./sse.ts";

export interface ListenRequest extends ListenCall {
  readonly res: ServerResponse;
  readonly owner: string;
  readonly server: { readonly capabilities: ServerCapabilities; readonly info: Implementation | undefined };
}

export interface ListenOptions {
  readonly tidings: Tidings;
  readonly streams: Streams;
  readonly bus: ServerEventBus;
  readonly clock: Clock;
  readonly random: Random;
  readonly onError: (error: unknown, during: string) => void;
}

/** Serves one listen request until its client leaves or the server stops. Headers and envelope were judged before. */
export function serveListen(request: ListenRequest, options: ListenOptions): Promise<void> {
  const { res, id } = request;
  const { onError } = options;
  // No `await`: a listen may take days, and of its request only this much is kept.
  return listen(request, options).catch((error) => {
    if (isHidden(error)) onError(error, "subscriptions/listen");
    sendRpcError(res, 200, toRpcError(error), id);
  });
}

interface Listening extends Pick<ListenOptions, "tidings" | "bus" | "onError"> {
  readonly owner: string;
  readonly id: RequestId;
  readonly honoured: ListenFilter;
  readonly stream: SseStream;
  /** The owner's newest cursor before the acknowledgement. */
  readonly start: string;
  /** How far our own filter was told. */
  readonly told: { cursor: string };
}

/** Opens the stream with the acknowledgement, and tells. @throws TidingsError when nothing was sent. */
async function listen(
  { res, owner, id, server, filter: asked }: ListenRequest,
  { tidings, streams, bus, clock, random, onError }: ListenOptions,
): Promise<void> {
  streams.check(owner);
  const filter = readFilter(asked);
  checkPolls(tidings, clock, owner, weightOf(filter));
  const after = filter[JOBS_FILTER_KEY]?.after;
  // Read before anything is answered: a cursor that cannot be honoured must not become a stream.
  if (after !== undefined) await tidings.read({ owner, jobIds: [], after, limit: 1 });
  const honoured = await honour(filter, owner, tidings, server.capabilities);
  // Taken before the acknowledgement: whatever happens from then on is told.
  const start = await tidings.head(owner);
  const told = { cursor: after ?? start };
  const acknowledged = {
    method: "notifications/subscriptions/acknowledged",
    params: { notifications: honoured },
  };
  const farewell = toCompletion(id, server.info);
  const beat = () =>
    formatFrame(toFrame(toEventNotification(createHeartbeat({ clock, random }, told.cursor)), id));
  const stream = streams.open(owner, res, {
    opening: toFrame(acknowledged, id),
    farewell,
    ...(honoured[JOBS_FILTER_KEY] === undefined ? {} : { heartbeat: beat }),
  });
  if (Object.keys(honoured).length === 0) stream.end(farewell);
  return tell({ tidings, bus, onError, owner, id, honoured, stream, start, told });
}

async function tell(listening: Listening): Promise<void> {
  const { honoured, stream, onError } = listening;
  const { resourceSubscriptions: uris, [JOBS_FILTER_KEY]: jobs } = honoured;
  try {
    await Promise.all([
      ...(uris === undefined ? [] : [tellResources(listening, uris)]),
      ...(jobs === undefined ? [] : [tellJobs(listening, jobs)]),
      ...(isOnBus(honoured) ? [tellBus(listening)] : []),
    ]);
  } catch (error) {
    onError(error, "subscriptions/listen");
    // Without the final result: the client sees a drop and listens again from its cursor.
    stream.end();
  }
  await stream.closed;
}

/** The final message of a listen that ends in good order. */
function toCompletion(id: RequestId, info: Implementation | undefined): string {
  const _meta = {
    [SUBSCRIPTION_ID_META_KEY]: id,
    ...(info === undefined ? {} : { [SERVER_INFO_META_KEY]: info }),
  };
  const result = { resultType: "complete", _meta };
  return formatFrame({ event: "message", data: { jsonrpc: "2.0", id, result } });
}

function toFrame(notification: WireNotification, id: RequestId): SseFrame {
  return { event: "message", data: { jsonrpc: "2.0", ...tag(notification, id) } };
}

async function tellResources(listening: Listening, uris: readonly string[]): Promise<void> {
  const { tidings, owner, id, stream, start } = listening;
  const jobIds = uris.map(jobIdOf).filter((jobId) => jobId !== undefined);
  const resourceIds = uris.filter((uri) => jobIdOf(uri) === undefined);
  const request = { owner, jobIds, resourceIds, after: start };
  await pushTo(stream, tidings, request, {
    toText: (item) =>
      urisOf(item, uris)
        .map((uri) => textOf(item, uri, id))
        .join(""),
    // The standard's plain form: something changed, read it again.
    gapToFrames: async (cursor) => uris.map((uri) => toFrame(toPlainUpdate(uri, cursor), id)),
  });
}

/** Events and gaps, for a listen with our own filter. */
function tellJobs(listening: Listening, jobs: JobsFilter): Promise<void> {
  const { tidings, owner, id, stream, told } = listening;
  const { after = listening.start, ...filter } = jobs;
  return pushTo(
    stream,
    tidings,
    { owner, ...filter, after },
    {
      toText: (item) => textOf(item, undefined, id),
      onTold({ cursor }) {
        told.cursor = cursor;
      },
      async gapToFrames(lost) {
        const snapshots = await snapshotsOf(tidings, owner, filter);
        return [toFrame(toGapNotification(snapshots, lost), id)];
      },
    },
  );
}

/** Stands for the id of a listen in a text that all listens share. Random, so that no event can contain it. */
const ANY_ID = systemRandom.id();
const TEXTS = new WeakMap<Delivery, Map<string | undefined, readonly string[]>>();

/**
 * An event as the update of a resource, or as its own notification without one. Every stream is given the same objects,
 * so a text is made once for all listens, up to their ids.
 */
function textOf(delivery: Delivery, uri: string | undefined, id: RequestId): string {
  let texts = TEXTS.get(delivery);
  if (texts === undefined) {
    texts = new Map();
    TEXTS.set(delivery, texts);
  }
  let parts = texts.get(uri);
  if (parts === undefined) {
    const notification =
      uri === undefined ? toEventNotification(delivery, ANY_ID) : toResourceUpdate(uri, delivery, ANY_ID);
    const frame: SseFrame = { event: "message", data: { jsonrpc: "2.0", ...notification } };
    parts = formatFrame(frame).split(JSON.stringify(ANY_ID));
    texts.set(uri, parts);
  }
  return parts.join(JSON.stringify(id));
}

function urisOf({ event }: Delivery, uris: readonly string[]): readonly string[] {
  const own = event.jobId === undefined ? undefined : jobUriOf(event.jobId);
  return uris.filter((uri) => uri === own || uri === event.resourceId);
}

/** Whether the SDK's bus can have anything for a listen. Jobs are told from the log only, where their owner is known. */
function isOnBus({ [JOBS_FILTER_KEY]: _, resourceSubscriptions = [], ...lists }: ListenFilter): boolean {
  return Object.keys(lists).length > 0 || resourceSubscriptions.some((uri) => jobIdOf(uri) === undefined);
}

/** Tells what is said on the SDK's bus. What waits for a slow reader is kept once per kind and URI, so it stays bounded. */
async function tellBus({ bus, honoured, stream, id }: Listening): Promise<void> {
  const pending = new Map<string, WireNotification>();
  let wake = () => {};
  const stopListening = bus.subscribe((event) => {
    const notification = toBusNotification(event, honoured);
    if (notification === undefined) return;
    pending.set(JSON.stringify([notification.method, notification.params.uri]), notification);
    wake();
  });
  stream.signal.addEventListener("abort", () => wake());
  try {
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
  } finally {
    stopListening();
  }
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
