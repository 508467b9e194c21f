/**
 * Our own field of `subscriptions/listen`, over stdio. The SDK serves listens in front of the server and drops fields
 * that it does not know, so this transport stands in front of the SDK:
 *
 *   listen ──▶ narrow the filter, check the cursor, take the position ──▶ SDK (standard fields, capacity, ids)
 *   acknowledged ◀── with our field added ◀───────────────────────────────── SDK
 *   events       ◀── tail from the position, tagged with the listen's id
 *   cancelled / the listen's result ──▶ the tail stops
 */
import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/server";
import type { WireNotification } from "../../model/projection/notification.ts";
import { CURSOR_META_KEY } from "../../model/projection/notification.ts";
import { isRecord } from "../../model/schema.ts";
import type { Tidings } from "../../runtime/tidings.ts";
import { toRpcError } from "../error.ts";
import type { RequestId } from "../wire/2026-07-28.ts";
import {
  GAP_METHOD,
  JOBS_FILTER_KEY,
  SUBSCRIPTION_ID_META_KEY,
  tag,
  toEventNotification,
} from "../wire/2026-07-28.ts";
import { snapshotsOf } from "./http-gap.ts";
import type { JobsFilter } from "./listen-filter.ts";
import { honour, readFilter } from "./listen-filter.ts";

/** The SDK narrows these by what the server really declares. */
const EVERY_CAPABILITY = {
  tools: { listChanged: true },
  prompts: { listChanged: true },
  resources: { listChanged: true, subscribe: true },
} as const;

interface Listen {
  readonly jobs: JobsFilter;
  readonly after: string;
  readonly stop: AbortController;
}

export interface ListenTransport extends Transport {
  /** Resolves once the connection has ended. */
  readonly closed: Promise<void>;
}

export function createListenTransport(
  inner: Transport,
  tidings: Tidings,
  owner: string,
  onError: (error: Error) => void,
): ListenTransport {
  const listens = new Map<RequestId, Listen>();
  let inbound: Promise<void> = Promise.resolve();
  let resolveClosed: () => void = () => {};
  const closed = new Promise<void>((resolve) => {
    resolveClosed = resolve;
  });

  function end(id: unknown): void {
    listens.get(id as RequestId)?.stop.abort();
    listens.delete(id as RequestId);
  }

  /** The message as the SDK shall see it; undefined when it was answered here. */
  async function admit(message: JSONRPCMessage): Promise<JSONRPCMessage | undefined> {
    if (!("method" in message)) return message;
    const params: unknown = message.params;
    if (!isRecord(params)) return message;
    if (message.method === "notifications/cancelled") end(params.requestId);
    if (message.method !== "subscriptions/listen" || !("id" in message)) return message;
    const { id } = message;
    try {
      const honoured = await honour(readFilter(params.notifications), owner, tidings, EVERY_CAPABILITY);
      const { [JOBS_FILTER_KEY]: jobs, ...notifications } = honoured;
      end(id);
      if (jobs !== undefined) {
        const { after = await tidings.head(owner) } = jobs;
        await tidings.read({ owner, after, jobIds: [], limit: 1 });
        listens.set(id, { jobs, after, stop: new AbortController() });
      }
      return { ...message, params: { ...params, notifications } } as JSONRPCMessage;
    } catch (error) {
      await inner.send({ jsonrpc: "2.0", id, error: toRpcError(error) });
      return undefined;
    }
  }

  async function tail(id: RequestId, { jobs, after, stop }: Listen): Promise<void> {
    const { after: _, ...filter } = jobs;
    for await (const item of tidings.tail({ owner, ...filter, after, signal: stop.signal })) {
      const notification =
        item.kind === "event"
          ? toEventNotification(item, id)
          : await toGapNotification(tidings, owner, filter, item.cursor, id);
      if (stop.signal.aborted) return;
      await inner.send({ jsonrpc: "2.0", ...notification });
    }
  }

  const transport: ListenTransport = {
    closed,

    async start() {
      inner.onmessage = (message, extra) => {
        inbound = inbound
          .then(() => admit(message))
          .then((admitted) => {
            if (admitted !== undefined) transport.onmessage?.(admitted, extra);
          })
          .catch(onError);
      };
      inner.onerror = (error) => transport.onerror?.(error);
      inner.onclose = () => {
        for (const id of listens.keys()) end(id);
        transport.onclose?.();
        resolveClosed();
      };
      await inner.start();
    },

    async send(message, options) {
      if (!("method" in message)) {
        if ("id" in message) end(message.id);
        return inner.send(message, options);
      }
      const id = acknowledgedId(message);
      const listen = id === undefined ? undefined : listens.get(id);
      if (id === undefined || listen === undefined) return inner.send(message, options);
      await inner.send(withJobs(message, listen.jobs), options);
      tail(id, listen).catch(onError);
    },

    close: () => inner.close(),
  };
  return transport;
}

/** Events before the next one are no longer kept: how the jobs stand now is told instead. */
async function toGapNotification(
  tidings: Tidings,
  owner: string,
  filter: Omit<JobsFilter, "after">,
  cursor: string,
  id: RequestId,
): Promise<WireNotification> {
  const snapshots = await snapshotsOf(tidings, owner, filter);
  return tag({ method: GAP_METHOD, params: { snapshots, _meta: { [CURSOR_META_KEY]: cursor } } }, id);
}

/** The id of the listen that a message acknowledges. */
function acknowledgedId(message: JSONRPCMessage): RequestId | undefined {
  if (!("method" in message) || message.method !== "notifications/subscriptions/acknowledged")
    return undefined;
  const meta: unknown = message.params?._meta;
  const id = isRecord(meta) ? meta[SUBSCRIPTION_ID_META_KEY] : undefined;
  return typeof id === "string" || typeof id === "number" ? id : undefined;
}

function withJobs(message: JSONRPCMessage, jobs: JobsFilter): JSONRPCMessage {
  const params = "params" in message && isRecord(message.params) ? message.params : {};
  const honoured = isRecord(params.notifications) ? params.notifications : {};
  return {
    ...message,
    params: { ...params, notifications: { ...honoured, [JOBS_FILTER_KEY]: jobs } },
  } as JSONRPCMessage;
}
