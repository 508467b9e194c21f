/**
 * A `fetch` that writes down every MCP message which passes it, and can break the streams that it opened.
 *
 *   client ──▶ fetch ──▶ server      sent: the body of each POST
 *   client ◀── copy ◀─── server      received: JSON bodies, and each server-sent event
 *                 ╳ cut(): GET streams and listens end in an error, as when a connection is lost
 */
import { createSseParser } from "../../client/source/sse-parser.ts";
import { JOBS_FILTER_KEY } from "../../mcp/wire/2026-07-28.ts";
import type { Clock } from "../../model/clock.ts";
import { isRecord } from "../../model/schema.ts";
import type { Arrival } from "./arrival.ts";
import { createResending, MAX_MESSAGES } from "./arrival.ts";

export type Fetch = (url: string | URL, init?: RequestInit) => Promise<Response>;

export interface Wire {
  readonly fetch: Fetch;
  readonly arrivals: readonly Arrival[];
  /** Whether messages passed that were not written down because there were too many. */
  readonly isCut: boolean;
  /** How each stream was answered last: an HTTP status; by the stream's name. */
  readonly streams: ReadonlyMap<string, number>;
  /** How many event streams are open, answers to calls included. */
  readonly open: number;
  /** Breaks every GET stream and listen. @param fromStart - Later GET streams ask for everything since their first id. */
  cut(fromStart: boolean): void;
}

export const SESSION_STREAM = "the session's GET stream";
const LISTEN_PREFIX = "subscriptions/listen";
/** A JSON answer longer than this is not read. */
const MAX_BODY_CHARS = 32_000_000;

export function createWire(clock: Clock, onArrival: (arrival: Arrival) => void): Wire {
  const arrivals: Arrival[] = [];
  const streams = new Map<string, number>();
  const resending = createResending();
  const open = new Set<object>();
  const breakers = new Set<() => void>();
  let leg = 0;
  let isCut = false;
  let firstId: string | undefined;
  let fromStart = false;

  function note(text: string, stream: string, id = ""): void {
    if (arrivals.length >= MAX_MESSAGES) {
      isCut = true;
      return;
    }
    const message = parse(text);
    const resent = resending.isResent(stream, id, text) ? { isResent: true } : {};
    for (const each of Array.isArray(message) ? message : [message]) {
      const returned = leg === 0 ? "" : `, after reconnect ${leg}`;
      const place = `message ${arrivals.length + 1} (${stream}${returned})`;
      const arrival = { message: each ?? text, text, place, leg, stream, ...resent, atMs: clock.monotonic() };
      arrivals.push(arrival);
      onArrival(arrival);
    }
  }

  function copy(body: ReadableStream<Uint8Array>, stream: string): ReadableStream<Uint8Array> {
    const reader = body.getReader();
    const parser = createSseParser();
    let breakNow = () => {};
    const end = (): void => {
      open.delete(reader);
      breakers.delete(breakNow);
    };
    open.add(reader);
    return new ReadableStream<Uint8Array>({
      start(controller) {
        breakNow = () => {
          end();
          controller.error(new Error("The connection was broken on purpose."));
          reader.cancel().catch(() => {});
        };
        if (isFollowed(stream)) breakers.add(breakNow);
      },
      async pull(controller) {
        try {
          const { value, done } = await reader.read();
          if (done) {
            end();
            controller.close();
            return;
          }
          for (const { data, id } of parser.feed(value)) {
            if (stream === SESSION_STREAM && id !== "") firstId ??= id;
            note(data, stream, id);
          }
          controller.enqueue(value);
        } catch (error) {
          end();
          controller.error(error);
          reader.cancel().catch(() => {});
        }
      },
      cancel(reason) {
        end();
        return reader.cancel(reason);
      },
    });
  }

  return {
    async fetch(url, init = {}) {
      const stream = streamOf(init);
      if (typeof init.body === "string") note(init.body, stream);
      const response = await fetch(url, fromStart && firstId !== undefined ? since(firstId, init) : init);
      streams.set(stream, response.status);
      const kind = response.headers.get("content-type") ?? "";
      const { status, statusText, headers, body } = response;
      if (body === null) return response;
      if (kind.startsWith("text/event-stream")) {
        return new Response(copy(body, stream), { status, statusText, headers });
      }
      if (!kind.startsWith("application/json") || status === 204) return response;
      const text = await readText(body);
      note(text, stream);
      return new Response(text, { status, statusText, headers });
    },
    arrivals,
    get isCut() {
      return isCut;
    },
    streams,
    get open() {
      return open.size;
    },
    cut(askFromStart) {
      leg += 1;
      fromStart = askFromStart;
      for (const breakNow of [...breakers]) breakNow();
    },
  };
}

function since(id: string, init: RequestInit): RequestInit {
  if (init.method !== "GET") return init;
  const headers = new Headers(init.headers);
  headers.set("last-event-id", id);
  return { ...init, headers };
}

function isFollowed(stream: string): boolean {
  return stream === SESSION_STREAM || stream.startsWith(LISTEN_PREFIX);
}

/** The name that a stream keeps when it is opened again. */
function streamOf({ method, body }: RequestInit): string {
  if (method === "GET") return SESSION_STREAM;
  const message = typeof body === "string" ? parse(body) : undefined;
  if (!isRecord(message) || typeof message.method !== "string") return "a POST";
  if (message.method !== LISTEN_PREFIX) {
    return message.id === undefined ? message.method : `the answer to ${message.method} ${message.id}`;
  }
  const filter = isRecord(message.params) ? message.params.notifications : undefined;
  return `${LISTEN_PREFIX} for ${isRecord(filter) && Object.hasOwn(filter, JOBS_FILTER_KEY) ? "jobs" : "resources"}`;
}

/** @throws RangeError when the body is longer than anybody needs. */
async function readText(body: ReadableStream<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  const reader = body.getReader();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return text + decoder.decode();
    text += decoder.decode(value, { stream: true });
    if (text.length > MAX_BODY_CHARS) {
      await reader.cancel();
      throw new RangeError(`An answer has more than ${MAX_BODY_CHARS} characters.`);
    }
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
