/**
 * One handler for `node:http` and everything built on it.
 *
 *   request ──▶ ours? ──▶ Host and Origin ──▶ whose? ──┬── /mcp ──▶ body ──┬── 2025 ──▶ sessions.ts
 *                                                      │                   ├── 2026 listen ──▶ listen.ts
 *                                                      │                   └── 2026 ──▶ the SDK, stateless
 *                                                      └── /jobs/…, /events ──▶ http-jobs.ts
 */

import type { IncomingMessage, ServerResponse } from "node:http";
import type {
  AuthInfo,
  McpServerFactory,
  ServerCapabilities,
  ServerEventBus,
} from "@modelcontextprotocol/server";
import {
  createMcpHandler,
  InMemoryServerEventBus,
  isJsonContentType,
  isLegacyRequest,
  PROTOCOL_VERSION_META_KEY,
} from "@modelcontextprotocol/server";
import { systemClock, systemRandom } from "../../engine/system-clock.ts";
import type { Clock, Random } from "../../model/clock.ts";
import { TidingsError } from "../../model/error.ts";
import { isRecord } from "../../model/schema.ts";
import { printError } from "../../runtime/print-error.ts";
import type { Tidings } from "../../runtime/tidings.ts";
import { INVALID_PARAMS, isHidden } from "../error.ts";
import { REVISION as MODERN_REVISION } from "../wire/2026-07-28.ts";
import type { AccessOptions, Identity } from "./access.ts";
import { createAccess } from "./access.ts";
import { allowOrigin, sendPreflight } from "./cors.ts";
import { serveCancel, serveJobEvents, serveLog, serveSnapshot } from "./http-jobs.ts";
import {
  cutWhenUnread,
  forward,
  readJson,
  requestIdOf,
  sendFailure,
  sendJson,
  sendRpcError,
  sendRpcFailure,
  signalOf,
  toWebRequest,
} from "./http-message.ts";
import type { Route, RouteOptions } from "./http-route.ts";
import { methodsOf, routeOf } from "./http-route.ts";
import { createStreams } from "./http-streams.ts";
import { createJobTokens } from "./job-token.ts";
import { serveListen } from "./listen.ts";
import { asListen, judgeListen } from "./listen-judge.ts";
import { longId, MAX_NAME_LENGTH } from "./name-limit.ts";
import type { OwnerOf } from "./owner.ts";
import { defaultOwner } from "./owner.ts";
import { checkPolls } from "./poll-limit.ts";
import { adopt, innerOf } from "./register-job.ts";
import type { GuardOptions } from "./request-guard.ts";
import { findForbidden } from "./request-guard.ts";
import { createSessions } from "./sessions.ts";
import { closeWhenSlow } from "./slow-body.ts";

/** How MCP, snapshots and event streams are served over HTTP. */
export interface HttpHandlerOptions extends GuardOptions, AccessOptions, Partial<RouteOptions> {
  /** Makes a server: one for each request of 2026-07-28, one for each session of 2025-11-25. It calls `registerJob`. */
  readonly server: McpServerFactory;
  /** Whose jobs a request is about, on every path. Default: the verified token's issuer and subject, else `local`; see `defaultOwner`. */
  readonly owner?: OwnerOf;
  /**
   * Where your program says that lists or resources changed; listens of 2026-07-28 hear it. It knows no owners:
   * whoever listens to a URI is told. What is private goes through `tidings.publish`. Default: one that nobody speaks on.
   */
  readonly bus?: ServerEventBus;
  /** Silence on an event stream never lasts longer, in milliseconds. Default 15 000. */
  readonly heartbeatMs?: number;
  /** How long a reader may take nothing before its stream is cut, in milliseconds. Default 60 000. */
  readonly stallMs?: number;
  /** How long a 2025 session lives without requests and without a GET stream, in milliseconds. Default 30 minutes. */
  readonly sessionIdleMs?: number;
  /** How many 2025 sessions are open at a time; a full house closes the owner's own idle one, or answers 503. Default 10 000. */
  readonly maxSessions?: number;
  /** How many of them one owner may have; one more closes its own idle one, or is answered with 429. Default 1 000. */
  readonly maxSessionsPerOwner?: number;
  /** How long a 2025 session can be sent again what it was told, in milliseconds. Default 5 minutes. */
  readonly sessionReplayMs?: number;
  /**
   * How much is kept for that, of all sessions together, in bytes. Each has an equal part, at most 256 KiB; a client that
   * resumes before what is kept is told of the gap. Default 64 MiB.
   */
  readonly maxReplayBytes?: number;
  /** How many event streams one owner may have open, of all kinds together. Default 10 000. */
  readonly maxStreamsPerOwner?: number;
  /** The longest MCP request body, in bytes. Default 4 MiB. */
  readonly maxBodyBytes?: number;
  /** Where heartbeats, waits and time limits take their time from. Default: the machine's clock. */
  readonly clock?: Clock;
  /** Where ids of sessions and heartbeats come from. Default: the machine's cryptographic source. */
  readonly random?: Random;
  /** Hears of faults that the client is told of without their cause. Default: one JSON line on stderr. */
  readonly onError?: (error: unknown, during: string) => void;
}

/** A request as `node:http` gives it, with what middleware may have added. */
export type HttpRequest = IncomingMessage & { readonly auth?: AuthInfo; readonly body?: unknown };

/** What `createHttpHandler` returns: mount `handle`, and call `close` before the store is closed. */
export interface HttpHandler {
  /**
   * Answers a request; false when its path is not ours, and then nothing was touched. Resolves once the answer has
   * ended, which for a stream may take days. Never rejects.
   *
   * @param parsedBody - The JSON body, when a framework has read it already. Default: `req.body`.
   */
  handle(req: HttpRequest, res: ServerResponse, parsedBody?: unknown): Promise<boolean>;
  /**
   * Whose request it is, for addresses of your own beside ours: the owner that ours go by. One that nobody may make is
   * answered here, with 401, 403 or 503, and gives undefined. Host and Origin are not looked at; see `findForbidden`.
   * Never rejects.
   */
  identify(req: HttpRequest, res: ServerResponse): Promise<string | undefined>;
  /** Ends all streams in good order and closes all sessions. Later requests are answered with 503. */
  close(): Promise<void>;
}

/** Serves MCP of both generations, snapshots and event streams over HTTP. */
export function createHttpHandler(tidings: Tidings, options: HttpHandlerOptions): HttpHandler {
  const {
    server: makeServer,
    owner: ownerOf = defaultOwner,
    bus = new InMemoryServerEventBus(),
    heartbeatMs = 15_000,
    stallMs = 60_000,
    sessionIdleMs = 1_800_000,
    maxSessions = 10_000,
    maxSessionsPerOwner = 1_000,
    sessionReplayMs = 300_000,
    maxReplayBytes = 64 * 1024 * 1024,
    maxStreamsPerOwner = 10_000,
    maxBodyBytes = 4 * 1024 * 1024,
    clock = systemClock,
    random = systemRandom,
  } = options;
  const onError: typeof printError = (error, during) => {
    // A store that was closed before its handler cuts streams; nobody needs to look for a fault.
    if (!(error instanceof TidingsError && error.code === "STORE_CLOSED"))
      (options.onError ?? printError)(error, during);
  };
  const access = createAccess({
    ...options,
    ownerOf,
    tokens: createJobTokens(tidings, clock),
    clock,
    onError,
  });
  const routes = {
    mcpPath: options.mcpPath ?? "/mcp",
    jobsPath: options.jobsPath ?? "/jobs",
    eventsPath: options.eventsPath ?? "/events",
    metadataPath: access.metadataPath,
  };
  const capabilitiesOf = new WeakMap<Request, ServerCapabilities>();
  let closing: Promise<void> | undefined;

  const factory: McpServerFactory = async (context) => {
    try {
      const server = await makeServer(context);
      adopt(server, { ownerOf, clock, onError });
      if (context.requestInfo !== undefined)
        capabilitiesOf.set(context.requestInfo, innerOf(server).getCapabilities());
      return server;
    } catch (error) {
      onError(error, "making an MCP server");
      throw error;
    }
  };
  const modern = createMcpHandler(factory, { legacy: "reject", keepAliveMs: heartbeatMs });
  const patience = { clock, stallMs };
  const streams = createStreams({ clock, heartbeatMs, stallMs, maxStreamsPerOwner });
  const sessions = createSessions({
    factory,
    tidings,
    streams,
    clock,
    random,
    heartbeatMs,
    stallMs,
    idleMs: sessionIdleMs,
    maxSessions,
    maxSessionsPerOwner,
    replayMs: sessionReplayMs,
    replayBytes: maxReplayBytes,
  });

  async function serve(
    route: Route,
    req: HttpRequest,
    res: ServerResponse,
    parsedBody: unknown,
  ): Promise<void> {
    const forbidden = findForbidden(req, options);
    if (forbidden !== undefined) return refuse(route, res, 403, "FORBIDDEN", forbidden);
    allowOrigin(req, res);
    const methods = methodsOf(route);
    if (req.method === "OPTIONS") return sendPreflight(req, res, methods);
    if (!methods.includes(req.method ?? "")) {
      const message = `${req.method} is not possible here; ${methods.join(", ")} are.`;
      return refuse(route, res, 405, "METHOD_NOT_ALLOWED", message, { Allow: methods.join(", ") });
    }
    if (closing !== undefined) throw stopping();
    if (route.kind === "metadata") return sendJson(res, 200, access.metadata);
    const identity = await access.identify(req, res, route);
    access.endAfter(identity, res);
    if (route.kind === "mcp") return serveMcp(req, res, route.target, identity, parsedBody);
    checkPolls(tidings, clock, identity.owner);
    const request = { req, res, owner: identity.owner, query: route.query };
    const plain = { tidings, streams, clock, onError };
    switch (route.kind) {
      case "job":
        return serveSnapshot(request, route.jobId, plain);
      case "job-events":
        return serveJobEvents(request, route.jobId, plain);
      case "job-cancel":
        return serveCancel(request, route.jobId, plain);
      case "events":
        return serveLog(request, plain);
    }
  }

  async function serveMcp(
    req: HttpRequest,
    res: ServerResponse,
    target: string,
    identity: Identity,
    parsedBody: unknown,
  ): Promise<void> {
    const { owner, authInfo } = identity;
    if (req.method !== "POST" && req.headers["mcp-session-id"] === undefined && isModern(req)) {
      const message = "MCP 2026-07-28 has no sessions: send requests by POST.";
      return sendRpcError(res, 405, { code: -32000, message }, null, { Allow: "POST" });
    }
    let body: unknown;
    if (req.method === "POST") {
      if (!isJsonContentType(req.headers["content-type"])) {
        const message = "Content-Type must be application/json.";
        return sendRpcError(res, 415, { code: -32000, message });
      }
      const read = await readJson(req, maxBodyBytes, parsedBody);
      if (read.outcome !== "read") return refuseBody(res, read, maxBodyBytes);
      body = read.value;
      if (hasLongId(body)) return sendRpcFailure(res, longId());
    }
    const listen = asListen(body);
    // A listen is judged at once, and then lasts for days: nothing of its request is to stay.
    const webRequest = toWebRequest(req, target, listen === undefined ? signalOf(res) : undefined);
    if (req.method !== "POST" || (!isEnveloped(body) && (await isLegacyRequest(webRequest, body)))) {
      return sessions.serve({ req, res, webRequest, body, owner, authInfo });
    }
    const extra = authInfo === undefined ? {} : { authInfo };
    const ask = (parsedBody: unknown) => modern.fetch(webRequest, { ...extra, parsedBody });
    if (listen === undefined) return forward(await ask(body), res, patience);
    const judgement = await judgeListen(body, ask);
    if (judgement.verdict === "refused") return forward(judgement.answer, res, patience);
    const capabilities = capabilitiesOf.get(webRequest) ?? {};
    return serveListen(
      { res, owner, ...listen, server: { capabilities, info: judgement.info } },
      { tidings, streams, bus, clock, random, onError },
    );
  }

  return {
    async handle(req, res, parsedBody) {
      const route = routeOf(req.url, routes);
      if (route === undefined) return false;
      res.on("error", () => {});
      closeWhenSlow(req, res, clock);
      try {
        await serve(route, req, res, parsedBody);
      } catch (error) {
        // A client that went away in the middle of its request is nobody's fault.
        const isGone = req.destroyed && !req.complete;
        if (isHidden(error) && !isGone) onError(error, `${req.method} ${route.kind}`);
        if (route.kind === "mcp") sendRpcFailure(res, error);
        else sendFailure(res, error);
      }
      cutWhenUnread(res, patience);
      return true;
    },
    async identify(req, res) {
      try {
        return (await access.identify(req, res)).owner;
      } catch (error) {
        if (isHidden(error)) onError(error, "finding a request's owner");
        sendFailure(res, error);
        return undefined;
      }
    },
    close() {
      closing ??= (async () => {
        streams.close();
        await Promise.all([sessions.close(), modern.close()]);
      })();
      return closing;
    },
  };
}

/**
 * Whether a body is a request in the envelope of 2026-07-28 beyond doubt. Most are, and the SDK, which has the word on the
 * others, reads a message with three schemas before it knows.
 */
function isEnveloped(body: unknown): boolean {
  if (!isRecord(body) || "result" in body || "error" in body || body.method === "initialize") return false;
  const meta = isRecord(body.params) ? body.params._meta : undefined;
  return isRecord(meta) && PROTOCOL_VERSION_META_KEY in meta;
}

/** An answer carries the id again, and a listen each of its events. */
function hasLongId(body: unknown): boolean {
  const messages: readonly unknown[] = Array.isArray(body) ? body : [body];
  return messages.some(
    (message) => isRecord(message) && typeof message.id === "string" && message.id.length > MAX_NAME_LENGTH,
  );
}

function isModern(req: IncomingMessage): boolean {
  return String(req.headers["mcp-protocol-version"] ?? "") >= MODERN_REVISION;
}

/** Refuses a request before it was read, in the form that its address speaks. */
function refuse(
  { kind }: Route,
  res: ServerResponse,
  status: number,
  code: string,
  message: string,
  headers: Readonly<Record<string, string>> = {},
): void {
  const retryable = false;
  if (kind !== "mcp") sendJson(res, status, { error: { code, message, retryable } }, headers);
  else sendRpcError(res, status, { code: -32000, message, data: { code, retryable } }, null, headers);
}

function stopping(): TidingsError {
  return new TidingsError("STORE_CLOSED", "The server is stopping and takes no more requests.", {
    hint: "Connect again in a moment.",
  });
}

function refuseBody(
  res: ServerResponse,
  read: Exclude<Awaited<ReturnType<typeof readJson>>, { outcome: "read" }>,
  maxBodyBytes: number,
): void {
  if (read.outcome === "not_json") {
    sendRpcError(res, 400, { code: -32700, message: "The request body is not valid JSON." });
  } else if (read.outcome === "too_deep") {
    const message = "The arguments are nested deeper than 64 levels.";
    const data = { code: "BAD_INPUT", hint: "Send flatter arguments.", retryable: false };
    sendRpcError(res, 400, { code: INVALID_PARAMS, message, data }, requestIdOf(read.value));
  } else {
    const message = `The request body is longer than ${maxBodyBytes} bytes.`;
    const hint = "Send less, or upload the data.";
    const data = { code: "PAYLOAD_TOO_LARGE", hint, retryable: false, limit: maxBodyBytes };
    sendRpcError(res, 413, { code: -32000, message, data }, null, { Connection: "close" });
  }
}
