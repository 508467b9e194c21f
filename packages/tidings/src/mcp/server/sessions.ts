/**
 * MCP 2025-11-25 and older over HTTP: one server and one transport per session.
 *
 *   POST initialize ──▶ session ──┬── POST   requests, answered on their own stream (the SDK's transport)
 *                                 ├── GET    one stream for what the server says by itself (ours)
 *                                 ├── GET with Last-Event-ID: that stream goes on behind it (session-replay.ts)
 *                                 └── DELETE, or idle without a GET stream ──▶ closed
 *
 * The GET stream is ours because the SDK's buffers without bound, refuses a second GET while a dead one lingers, and
 * sends no first byte; see session-outbox.ts. What the SDK leaves out of the others is in session-calls.ts.
 */

import type { IncomingMessage, ServerResponse } from "node:http";
import type {
  AuthInfo,
  JSONRPCMessage,
  McpServer,
  McpServerFactory,
  Server,
  TransportSendOptions,
} from "@modelcontextprotocol/server";
import {
  isInitializeRequest,
  SUPPORTED_PROTOCOL_VERSIONS,
  WebStandardStreamableHTTPServerTransport,
} from "@modelcontextprotocol/server";
import type { Clock, Random } from "../../model/clock.ts";
import { TidingsError } from "../../model/error.ts";
import type { WireNotification } from "../../model/projection/notification.ts";
import type { Tidings } from "../../runtime/tidings.ts";
import { REVISION } from "../wire/2025-11-25.ts";
import { toGapNotification } from "../wire/2026-07-28.ts";
import { forward, requestIdOf, sendRpcError, sendRpcFailure } from "./http-message.ts";
import type { Streams } from "./http-streams.ts";
import { checkPolls } from "./poll-limit.ts";
import { findJobServer, innerOf } from "./register-job.ts";
import type { SessionCalls } from "./session-calls.ts";
import { createSessionCalls } from "./session-calls.ts";
import type { Missed, Outbox } from "./session-outbox.ts";
import { createOutbox } from "./session-outbox.ts";
import { createSessionPlaces } from "./session-places.ts";
import type { Resumption, SessionReplay } from "./session-replay.ts";
import { createSessionReplays, GET_STREAM } from "./session-replay.ts";

const RETRY_MS = 1_000;
const MAX_INITIALIZE_LENGTH = 65_536;

export interface SessionRequest {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly webRequest: Request;
  /** Parsed; undefined for GET and DELETE. */
  readonly body: unknown;
  readonly owner: string;
  readonly authInfo: AuthInfo | undefined;
}

export interface Sessions {
  /** Answers one request of the 2025 generation. */
  serve(request: SessionRequest): Promise<void>;
  close(): Promise<void>;
}

export interface SessionsOptions {
  readonly factory: McpServerFactory;
  readonly tidings: Tidings;
  readonly streams: Streams;
  readonly clock: Clock;
  readonly random: Random;
  readonly heartbeatMs: number;
  readonly stallMs: number;
  /** How long a session lives without requests and without a GET stream, in milliseconds. */
  readonly idleMs: number;
  readonly maxSessions: number;
  readonly maxSessionsPerOwner: number;
  /** How long what was said can be sent again, in milliseconds. */
  readonly replayMs: number;
  /** How much is kept for that, of all sessions together, in bytes. */
  readonly replayBytes: number;
}

interface Session {
  readonly id: string;
  readonly owner: string;
  readonly server: McpServer | Server;
  readonly transport: WebStandardStreamableHTTPServerTransport;
  readonly outbox: Outbox;
  readonly replay: SessionReplay;
  readonly calls: SessionCalls;
  requests: number;
  idleSince: number;
  cancelIdle: () => void;
  /** Gives its place back. */
  readonly leave: () => void;
}

export function createSessions(options: SessionsOptions): Sessions {
  const { factory, tidings, streams, clock, random, heartbeatMs, idleMs } = options;
  const replays = createSessionReplays(options);
  const places = createSessionPlaces(options.maxSessions, options.maxSessionsPerOwner);
  const sessions = new Map<string, Session>();

  async function begin(request: SessionRequest): Promise<void> {
    const { res, body, owner } = request;
    const refusal = isTooLong(body) ? tooLong() : findRoom(owner);
    if (refusal !== undefined) return sendRpcFailure(res, refusal, requestIdOf(body));
    const leave = places.take(owner);
    try {
      const response = await open(request, leave);
      await forward(response, res, options);
    } catch (error) {
      leave();
      throw error;
    }
  }

  /** Answers `initialize`; a session that came of it has the place. */
  async function open(
    { webRequest, body, owner, authInfo }: SessionRequest,
    leave: () => void,
  ): Promise<Response> {
    const server = await factory({
      era: "legacy",
      requestInfo: webRequest,
      ...(authInfo === undefined ? {} : { authInfo }),
    });
    const replay = replays.open(async () => toMessage(toGapNotification([], await tidings.head(owner))));
    const outbox = createOutbox(replay);
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: () => random.id(),
      keepAliveMs: heartbeatMs,
      retryInterval: RETRY_MS,
      eventStore: replay.eventStore,
      onsessioninitialized: (id) => {
        const session: Session = {
          id,
          owner,
          server,
          transport,
          outbox,
          replay,
          calls,
          requests: 0,
          idleSince: clock.monotonic(),
          cancelIdle: () => {},
          leave,
        };
        sessions.set(id, session);
        rest(session);
      },
    });
    const calls = createSessionCalls({
      send: transport.send.bind(transport),
      closeStream: (id) => transport.closeSSEStream(id),
      replay,
    });
    transport.send = (message: JSONRPCMessage, sending?: TransportSendOptions) =>
      belongsToRequest(message, sending) ? calls.send(message, sending) : outbox.send(message);
    const close = transport.close.bind(transport);
    transport.close = async () => {
      await calls.answerAll();
      await close();
    };
    transport.onclose = () => {
      const id = transport.sessionId ?? "";
      sessions.get(id)?.cancelIdle();
      sessions.delete(id);
      leave();
      outbox.close();
      replay.close();
    };
    await server.connect(transport);
    const response = await transport.handleRequest(webRequest, {
      parsedBody: body,
      ...(authInfo === undefined ? {} : { authInfo }),
    });
    if (transport.sessionId === undefined) await server.close();
    return response;
  }

  /**
   * Where there is no place, the owner's own session that has rested longest makes room, never another owner's: so a
   * client that begins anew after each crash is never shut out by what it left behind.
   */
  function findRoom(owner: string): TidingsError | undefined {
    const refusal = places.refusal(owner);
    if (refusal === undefined) return undefined;
    let oldest: Session | undefined;
    for (const session of sessions.values()) {
      if (session.owner !== owner || session.requests > 0 || session.outbox.isOpen) continue;
      if (oldest === undefined || session.idleSince < oldest.idleSince) oldest = session;
    }
    if (oldest === undefined) return refusal;
    void end(oldest);
    return undefined;
  }

  /** It is gone at once; its open calls are answered after that. */
  function end(session: Session): Promise<void> {
    session.cancelIdle();
    sessions.delete(session.id);
    session.leave();
    return session.server.close();
  }

  function rest(session: Session): void {
    session.cancelIdle();
    session.idleSince = clock.monotonic();
    session.cancelIdle = clock.after(idleMs, () => {
      if (session.requests > 0 || session.outbox.isOpen) rest(session);
      else void end(session);
    });
  }

  function find({ req, res, body, owner }: SessionRequest): Session | undefined {
    const id = req.headers["mcp-session-id"];
    if (id === undefined) {
      const message =
        "The Mcp-Session-Id header is missing. Send `initialize` first and repeat the id it answers with.";
      sendRpcError(res, 400, { code: -32000, message }, requestIdOf(body));
      return undefined;
    }
    const session = typeof id === "string" ? sessions.get(id) : undefined;
    if (session?.owner === owner) return session;
    sendRpcError(res, 404, { code: -32001, message: "Session not found" }, requestIdOf(body));
    return undefined;
  }

  async function listen(session: Session, request: SessionRequest): Promise<void> {
    const { req, res, owner } = request;
    if (!req.headers.accept?.includes("text/event-stream")) {
      const message = "This address answers GET with an event stream: send Accept: text/event-stream.";
      sendRpcError(res, 406, { code: -32000, message });
      return;
    }
    const version = req.headers["mcp-protocol-version"];
    if (version !== undefined && !SUPPORTED_PROTOCOL_VERSIONS.includes(String(version))) {
      const message = `The protocol version ${JSON.stringify(version)} is not supported.`;
      sendRpcError(res, 400, { code: -32000, message });
      return;
    }
    checkPolls(tidings, clock, owner);
    const { replay, outbox } = session;
    const header = req.headers["last-event-id"];
    const lastEventId = header === undefined ? undefined : String(header);
    const resumption = lastEventId === undefined ? undefined : replay.resume(lastEventId);
    if (lastEventId !== undefined && resumption?.stream === undefined) {
      return resumption?.isCancelled ? sendNothing(res) : refuseResumption(res, resumption);
    }
    if (resumption?.stream !== undefined && resumption.stream !== GET_STREAM) {
      session.calls.resume(resumption.stream, res);
      return answer(session, request);
    }
    const gap = resumption?.isTruncated ? await describeGap(session) : [];
    // Resumed, the position stays where it was until the client has been sent what it missed.
    const id = lastEventId ?? replay.position();
    const stream = streams.open(owner, res, {
      headers: { "Mcp-Session-Id": session.id },
      ...(knowsPriming(session) ? { opening: { id, retryMs: RETRY_MS } } : {}),
    });
    const missed = lastEventId === undefined ? [] : (replay.resume(lastEventId)?.messages ?? []);
    outbox.open(stream, [...gap, ...missed]);
    await stream.closed;
    if (sessions.has(session.id)) rest(session);
  }

  /** What is told instead of messages of the GET stream that are no longer kept. */
  async function describeGap({ server, owner }: Session): Promise<readonly Missed[]> {
    const events = findJobServer(server)?.session;
    const notifications = (await events?.describeGap(owner)) ?? [
      toGapNotification([], await tidings.head(owner)),
    ];
    return notifications.map((notification) => ({ message: toMessage(notification) }));
  }

  /** Lets the SDK's transport answer. */
  async function answer(
    session: Session,
    { res, webRequest, body, authInfo }: SessionRequest,
  ): Promise<void> {
    const forget = session.calls.begin(body, res);
    if (forget === undefined) {
      const message = "A call of this session with the same id is not answered yet.";
      return sendRpcError(res, 400, { code: -32600, message }, requestIdOf(body));
    }
    session.requests++;
    try {
      const response = await session.transport.handleRequest(webRequest, {
        ...(body === undefined ? {} : { parsedBody: body }),
        ...(authInfo === undefined ? {} : { authInfo }),
      });
      if (response.status !== 200) forget();
      if (response.ok) await session.calls.endCancelled(body);
      await forward(response, res, options);
    } finally {
      session.requests--;
      if (sessions.has(session.id)) rest(session);
    }
  }

  return {
    async serve(request) {
      const { req, body } = request;
      if (req.headers["mcp-session-id"] === undefined && isInitializeRequest(body)) return begin(request);
      const session = find(request);
      if (session === undefined) return;
      return req.method === "GET" ? listen(session, request) : answer(session, request);
    },
    async close() {
      await Promise.all([...sessions.values()].map(end));
    },
  };
}

/** Older clients take an event without data for broken JSON. */
function knowsPriming({ server }: Session): boolean {
  return (innerOf(server).getNegotiatedProtocolVersion() ?? "") >= REVISION;
}

/** What event streams take for "do not come again": whoever cancelled a call waits for nothing. */
function sendNothing(res: ServerResponse): void {
  res.writeHead(204, { "Cache-Control": "no-store" });
  res.end();
}

/** What a client says of itself is kept as long as its session. */
function isTooLong(initialize: unknown): boolean {
  return JSON.stringify(initialize).length > MAX_INITIALIZE_LENGTH;
}

function tooLong(): TidingsError {
  return new TidingsError(
    "PAYLOAD_TOO_LARGE",
    `The initialize request is longer than ${MAX_INITIALIZE_LENGTH} characters.`,
    { hint: "Send less about the client.", data: { limit: MAX_INITIALIZE_LENGTH } },
  );
}

function refuseResumption(res: ServerResponse, resumption: Resumption | undefined): void {
  const hint = "Open the stream without it, and read jobs on from their cursors.";
  const data = { code: "BAD_CURSOR", hint, retryable: false };
  const isOurs = resumption !== undefined;
  const message = isOurs
    ? "The call behind this Last-Event-ID has ended, and nothing of it is kept any more."
    : "This Last-Event-ID was not issued in this session.";
  sendRpcError(res, isOurs ? 410 : 400, { code: -32000, message, data });
}

function toMessage({ method, params }: WireNotification): JSONRPCMessage {
  return { jsonrpc: "2.0", method, params: { ...params } };
}

function belongsToRequest(message: JSONRPCMessage, sending: TransportSendOptions | undefined): boolean {
  return sending?.relatedRequestId !== undefined || "result" in message || "error" in message;
}
