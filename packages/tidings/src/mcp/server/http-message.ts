/** Between `node:http` and what the handlers work with: bodies in, JSON and web responses out. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Clock } from "../../model/clock.ts";
import type { TidingsError } from "../../model/error.ts";
import { isErrorCode } from "../../model/error.ts";
import { HTTP_STATUSES, toAnsweredError, toRpcError, toTidingsError } from "../error.ts";

/** Arguments may be nested 64 deep; `params.arguments` itself lies two levels inside the message. */
const MAX_DEPTH = 66;

export type JsonBody =
  | { readonly outcome: "read"; readonly value: unknown }
  | { readonly outcome: "too_large" }
  | { readonly outcome: "too_deep"; readonly value: unknown }
  | { readonly outcome: "not_json" };

/** Reads a request's body as JSON. What a framework has parsed already is taken as it is. */
export async function readJson(
  req: IncomingMessage & { body?: unknown },
  maxBytes: number,
  parsedBody: unknown = req.body,
): Promise<JsonBody> {
  if (parsedBody !== undefined) return checkDepth(parsedBody);
  const text = await readText(req, maxBytes);
  if (text === undefined) return { outcome: "too_large" };
  try {
    return checkDepth(JSON.parse(text));
  } catch {
    return { outcome: "not_json" };
  }
}

function checkDepth(value: unknown): JsonBody {
  return isDeeperThan(value, MAX_DEPTH) ? { outcome: "too_deep", value } : { outcome: "read", value };
}

/** Without recursion, so that no input overflows the stack. */
function isDeeperThan(value: unknown, depth: number): boolean {
  let level: unknown[] = [value];
  for (let at = 0; level.length > 0; at++) {
    const next: unknown[] = [];
    for (const item of level) {
      if (typeof item !== "object" || item === null) continue;
      if (at >= depth) return true;
      for (const child of Object.values(item)) {
        if (typeof child === "object" && child !== null) next.push(child);
      }
    }
    level = next;
  }
  return false;
}

/** The body as text; undefined as soon as it is longer than `maxBytes`: the rest is thrown away. */
function readText(req: IncomingMessage, maxBytes: number): Promise<string | undefined> {
  if (Number(req.headers["content-length"]) > maxBytes) {
    req.resume();
    return Promise.resolve(undefined);
  }
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    const settle = () => {
      req.off("data", onData);
      req.off("end", onEnd);
      req.off("error", onError);
      req.off("close", onClose);
    };
    const onData = (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes <= maxBytes) {
        chunks.push(chunk);
        return;
      }
      settle();
      req.resume();
      resolve(undefined);
    };
    const onEnd = () => {
      settle();
      resolve(Buffer.concat(chunks).toString("utf8"));
    };
    const onError = (error: Error) => {
      settle();
      reject(error);
    };
    const onClose = () => onError(new Error("The client went away before its request was complete."));
    req.on("data", onData);
    req.on("end", onEnd);
    req.on("error", onError);
    req.on("close", onClose);
    if (req.readableEnded) onEnd();
  });
}

/** The request as the SDK wants it. Its body is not in it: that goes beside it, parsed. */
export function toWebRequest(req: IncomingMessage, path: string, signal?: AbortSignal): Request {
  const headers = new Headers();
  for (const [name, value] of Object.entries(req.headers)) {
    if (value === undefined || name.startsWith(":")) continue;
    headers.set(name, Array.isArray(value) ? value.join(", ") : value);
  }
  return new Request(urlOf(req, path), { method: req.method ?? "GET", headers, signal: signal ?? null });
}

function urlOf(req: IncomingMessage, path: string): URL {
  try {
    return new URL(`http://${req.headers.host ?? "localhost"}${path}`);
  } catch {
    return new URL(`http://localhost${path}`);
  }
}

/** Aborts when the client goes away before it was answered in full. */
export function signalOf(res: ServerResponse): AbortSignal {
  const gone = new AbortController();
  const check = () => {
    if (!res.writableFinished) gone.abort();
  };
  if (res.destroyed) check();
  else res.once("close", check);
  return gone.signal;
}

/** How long an answer may stay as full as it is. */
export interface Patience {
  readonly clock: Pick<Clock, "after">;
  /** In milliseconds; then the connection is cut. */
  readonly stallMs: number;
}

/** What is written at a time, in bytes: whoever takes this much within the stall time is not cut, however long the whole is. */
const SLICE_BYTES = 65_536;

/** Writes a web response, at the client's pace; a client that takes nothing for too long is cut. */
export async function forward(response: Response, res: ServerResponse, patience: Patience): Promise<void> {
  if (res.destroyed) {
    await response.body?.cancel().catch(() => {});
    return;
  }
  res.writeHead(response.status, Object.fromEntries(response.headers));
  if (response.body === null) {
    res.end();
    return;
  }
  res.flushHeaders();
  const reader = response.body.getReader();
  const cancel = () => void reader.cancel().catch(() => {});
  res.once("close", cancel);
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done || res.destroyed) break;
      for (let at = 0; at < value.length && !res.destroyed; at += SLICE_BYTES) {
        if (res.write(value.subarray(at, at + SLICE_BYTES))) continue;
        const stop = patience.clock.after(patience.stallMs, () => res.destroy());
        await drained(res);
        stop();
      }
    }
  } finally {
    res.off("close", cancel);
    res.end();
  }
}

/** Cuts an answer that was said to the end, when its reader does not take the rest of it. */
export function cutWhenUnread(res: ServerResponse, { clock, stallMs }: Patience): void {
  if (res.destroyed || res.writableFinished) return;
  const stop = clock.after(stallMs, () => res.destroy());
  res.once("close", stop);
}

/** Resolves once a full answer takes more, or is closed. */
export function drained(res: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      res.off("drain", done);
      res.off("close", done);
      resolve();
    };
    res.once("drain", done);
    res.once("close", done);
  });
}

export function sendJson(
  res: ServerResponse,
  status: number,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): void {
  if (res.headersSent || res.destroyed) return;
  const bytes = Buffer.from(JSON.stringify(body));
  res.writeHead(status, {
    "Content-Type": "application/json",
    "Content-Length": String(bytes.length),
    "Cache-Control": "no-store",
    ...headers,
  });
  res.end(bytes);
}

/** `{ error: { code, message, hint?, retryable, data? } }` under the status of the code; an answer that has begun is cut. */
export function sendFailure(res: ServerResponse, error: unknown): void {
  if (res.headersSent) return void res.destroy();
  const known = toTidingsError(error);
  // The rest of a refused body is not read: the connection cannot be used again.
  const closing = known.code === "PAYLOAD_TOO_LARGE" ? CLOSING : {};
  sendJson(res, statusOf(known), { error: toAnsweredError(known) }, { ...closing, ...patienceOf(known) });
}

/** The same as a JSON-RPC error, under the status of its code; an answer that has begun is cut. */
export function sendRpcFailure(res: ServerResponse, error: unknown, id: unknown = null): void {
  if (res.headersSent) return void res.destroy();
  const known = toTidingsError(error);
  sendRpcError(res, statusOf(known), toRpcError(known), id, patienceOf(known));
}

/** When to ask again, for errors that pass by themselves. */
function patienceOf(error: TidingsError): Readonly<Record<string, string>> {
  const ms = error.data?.retryAfterMs ?? (statusOf(error) === 503 ? UNAVAILABLE_MS : undefined);
  return typeof ms === "number" ? { "Retry-After": String(Math.ceil(ms / 1_000)) } : {};
}

/** Nobody can say how long a fault lasts. */
const UNAVAILABLE_MS = 5_000;

const CLOSING = { Connection: "close" };

export function statusOf({ code }: TidingsError): number {
  return isErrorCode(code) ? HTTP_STATUSES[code] : 400;
}

/** A JSON-RPC error under an HTTP status. */
export function sendRpcError(
  res: ServerResponse,
  status: number,
  error: { readonly code: number; readonly message: string; readonly data?: unknown },
  id: unknown = null,
  headers: Readonly<Record<string, string>> = {},
): void {
  sendJson(res, status, { jsonrpc: "2.0", error, id: isRequestId(id) ? id : null }, headers);
}

function isRequestId(id: unknown): id is string | number {
  return typeof id === "string" || typeof id === "number";
}

/** The id to answer under when a body was read but cannot be served. */
export function requestIdOf(body: unknown): string | number | null {
  const id = typeof body === "object" && body !== null ? (body as { id?: unknown }).id : undefined;
  return isRequestId(id) ? id : null;
}
