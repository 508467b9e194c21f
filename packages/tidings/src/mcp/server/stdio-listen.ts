/**
 * Our own field of `subscriptions/listen`, over stdio. The SDK serves listens in front of the server and drops fields
 * that it does not know, so this transport stands in front of the SDK:
 *
 *   listen ──▶ narrow the filter, check the cursor, take the position ──▶ SDK (standard fields, capacity, ids)
 *   acknowledged ◀── with our field added ◀───────────────────────────────── SDK
 *   events, gaps, heartbeats ◀── from the position, tagged with the listen's id
 *   cancelled / the listen's result ──▶ the tail stops
 */
import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/server";
import type { WireNotification } from "../../model/projection/notification.ts";
import { isRecord } from "../../model/schema.ts";
import { isHidden, toRpcError } from "../error.ts";
import type { RequestId } from "../wire/2026-07-28.ts";
import { JOBS_FILTER_KEY, SUBSCRIPTION_ID_META_KEY } from "../wire/2026-07-28.ts";
import { createLineFaults } from "./line-faults.ts";
import type { JobsFilter } from "./listen-filter.ts";
import { honour, readFilter, weightOf } from "./listen-filter.ts";
import { longId, MAX_NAME_LENGTH } from "./name-limit.ts";
import { correctParamsError } from "./params-error.ts";
import { checkPolls } from "./poll-limit.ts";
import type { JobListen } from "./tell-jobs.ts";
import { tellJobs } from "./tell-jobs.ts";

/** The SDK narrows these by what the server really declares. */
const EVERY_CAPABILITY = {
  tools: { listChanged: true },
  prompts: { listChanged: true },
  resources: { listChanged: true, subscribe: true },
} as const;

interface Listen {
  readonly jobs: JobsFilter;
  readonly start: string;
  readonly stop: AbortController;
}

export interface ListenTransport extends Transport {
  /** Resolves once the connection has ended. */
  readonly closed: Promise<void>;
}

export interface ListenTransportOptions
  extends Pick<JobListen, "tidings" | "owner" | "clock" | "random" | "heartbeatMs"> {
  readonly onError: (error: unknown) => void;
}

export function createListenTransport(inner: Transport, options: ListenTransportOptions): ListenTransport {
  const { tidings, owner, clock, onError } = options;
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
      if (typeof id === "string" && id.length > MAX_NAME_LENGTH) throw longId();
      const filter = readFilter(params.notifications);
      checkPolls(tidings, clock, owner, weightOf(filter));
      const honoured = await honour(filter, owner, tidings, EVERY_CAPABILITY);
      const { [JOBS_FILTER_KEY]: jobs, ...notifications } = honoured;
      end(id);
      if (jobs !== undefined) {
        const start = jobs.after ?? (await tidings.head(owner));
        await tidings.read({ owner, after: start, jobIds: [], limit: 1 });
        listens.set(id, { jobs, start, stop: new AbortController() });
      }
      return { ...message, params: { ...params, notifications } } as JSONRPCMessage;
    } catch (error) {
      if (isHidden(error)) onError(error);
      await inner.send({ jsonrpc: "2.0", id, error: toRpcError(error) });
      return undefined;
    }
  }

  function tell(id: RequestId, { jobs, start, stop }: Listen): Promise<void> {
    const send = (notification: WireNotification) => inner.send({ jsonrpc: "2.0", ...notification });
    return tellJobs({ ...options, owner, id, jobs, start, signal: stop.signal, send });
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
      inner.onerror = createLineFaults(clock, (error) => transport.onerror?.(error));
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
        return inner.send(correctParamsError(message), options);
      }
      const id = acknowledgedId(message);
      const listen = id === undefined ? undefined : listens.get(id);
      if (id === undefined || listen === undefined) return inner.send(message, options);
      await inner.send(withJobs(message, listen.jobs), options);
      tell(id, listen).catch(onError);
    },

    close: () => inner.close(),
  };
  return transport;
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
