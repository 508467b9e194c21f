/** A job's story by plain HTTP: `GET {url}/jobs/{jobId}/events` as server-sent events, read with `fetch`. */

import { readEvent } from "../../model/projection/read.ts";
import { isRecord } from "../../model/schema.ts";
import { readError, unreachable } from "./failure.ts";
import type { Source, SourceItem, SourceRequest } from "./source.ts";
import type { SseFrame } from "./sse-parser.ts";
import { createSseParser } from "./sse-parser.ts";

export interface SseOptions {
  /** Where the server's `/jobs` is mounted, such as `https://example.com`; empty = this page's own origin. */
  readonly url: string;
  /** Headers of every request; a function is asked each time, so that tokens can be renewed. */
  readonly headers?:
    | Readonly<Record<string, string>>
    | (() => Readonly<Record<string, string>> | Promise<Readonly<Record<string, string>>>);
  readonly fetch?: typeof fetch;
  /** How often the server gives a sign of life, in milliseconds; three missed ones end a connection. Default 15,000. */
  readonly heartbeatMs?: number;
}

/** Creates a source that reads server-sent events. Works in browsers, also where EventSource cannot send headers. */
export function createSseSource(options: SseOptions): Source {
  let base = options.url;
  while (base.endsWith("/")) base = base.slice(0, -1);
  return {
    idleMs: 3 * (options.heartbeatMs ?? 15_000),
    async *open({ jobId, after, reconnect, signal }: SourceRequest): AsyncGenerator<SourceItem> {
      const path = `${base}/jobs/${encodeURIComponent(jobId)}/events`;
      const byHeader = reconnect && after !== undefined;
      const query = after === undefined || byHeader ? "" : `?after=${encodeURIComponent(after)}`;
      const { headers = {}, fetch: get = fetch } = options;
      const response = await get(path + query, {
        headers: {
          accept: "text/event-stream",
          ...(typeof headers === "function" ? await headers() : headers),
          ...(byHeader ? { "last-event-id": after } : {}),
        },
        cache: "no-store",
        signal,
      });
      if (response.status === 204) {
        yield { kind: "end" };
        return;
      }
      if (response.status !== 200 || response.body === null) {
        const seconds = Number(response.headers.get("retry-after") ?? 0);
        if (seconds > 0) yield { kind: "patience", ms: seconds * 1000 };
        throw await refusalOf(response, path);
      }
      if (!(response.headers.get("content-type") ?? "").toLowerCase().startsWith("text/event-stream")) {
        await response.body.cancel();
        throw unreachable(`${path} answered with ${response.headers.get("content-type")}, not with events.`);
      }
      yield { kind: "open", by: "push" };
      yield* read(response.body);
    },
  };
}

async function* read(body: ReadableStream<Uint8Array>): AsyncGenerator<SourceItem> {
  const parser = createSseParser();
  const reader = body.getReader();
  let retryMs: number | undefined;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const frames = parser.feed(value);
      if (parser.retryMs !== undefined && parser.retryMs !== retryMs) {
        retryMs = parser.retryMs;
        yield { kind: "patience", ms: retryMs };
      }
      if (frames.length === 0) yield { kind: "alive" };
      for (const frame of frames) yield toItem(frame);
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

function toItem(frame: SseFrame): SourceItem {
  let data: unknown;
  try {
    data = JSON.parse(frame.data);
  } catch {
    return { kind: "invalid", problem: "the data of a server-sent event is no JSON" };
  }
  const cursor = frame.id === "" ? undefined : frame.id;
  if (frame.event === "snapshot") {
    return {
      kind: "snapshot",
      snapshot: isRecord(data) && cursor !== undefined ? { cursor, ...data } : data,
    };
  }
  const outcome = readEvent(isRecord(data) ? { type: frame.event, ...data } : data);
  if (outcome.kind === "event")
    return { kind: "event", event: outcome.event, cursor: cursor ?? outcome.cursor };
  return { kind: "invalid", problem: outcome.kind === "invalid" ? outcome.problem : "this is no event" };
}

/** Only the server's own word ends the attempts: a proxy's 404 during a deployment must not. */
async function refusalOf(response: Response, path: string): Promise<Error> {
  let body: unknown;
  try {
    body = JSON.parse(await response.text());
  } catch {
    body = undefined;
  }
  const info = isRecord(body) ? (body.error ?? body) : undefined;
  return readError(info) ?? unreachable(`${path} answered with status ${response.status}.`);
}
