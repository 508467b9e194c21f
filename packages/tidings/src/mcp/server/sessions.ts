/**
 * MCP 2025-11-25 and older over HTTP: one server and one transport per session.
 *
 *   POST initialize ──▶ session ──┬── POST   requests, answered on their own stream (the SDK's transport)
 *                                 ├── GET    one stream for what the server says by itself (ours)
 *                                 ├── GET with Last-Event-ID: that stream goes on behind it (session-replay.ts)
 *                                 └── DELETE, or idle without a GET stream ──▶ closed
 *
 * The GET stream is ours because the SDK's buffers without bound, refuses a second GET while a dead one lingers, and
 * sends no first byte. Events of jobs wait for the stream: their sender reads the log, so nothing piles up.
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
import { CURSOR_META_KEY } from "../../model/projection/notification.ts";
import { REVISION } from "../wire/2025-11-25.ts";
import { forward, requestIdOf, sendRpcError } from "./http-message.ts";
import type { Streams } from "./http-streams.ts";
import { innerOf } from "./register-job.ts";
import type { SessionReplay } from "./session-replay.ts";
import { createSessionReplay } from "./session-replay.ts";
import type { SseStream } from "./sse.ts";

/** The name of the GET stream among the streams of a session; those of POSTs have random ones. */
const GET_STREAM = "GET";
const RETRY_MS = 1_000;

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
  /** How many sessions are open. */
  readonly size: number;
  close(): Promise<void>;
}

export interface SessionsOptions {
  readonly factory: McpServerFactory;
  readonly streams: Streams;
  readonly clock: Clock;
  readonly random: Random;
  readonly heartbeatMs: number;
  /** How long a session lives without requests and without a GET stream, in milliseconds. */
  readonly idleMs: number;
  readonly maxSessions: number;
}

interface Session {
  readonly id: string;
  readonly owner: string;
  readonly server: McpServer | Server;
  readonly transport: WebStandardStreamableHTTPServerTransport;
  readonly outbox: Outbox;
  readonly replay: SessionReplay;
  requests: number;
  idleSince: number;
  cancelIdle: () => void;
}

export function createSessions(options: SessionsOptions): Sessions {
  const { factory, streams, clock, random, heartbeatMs, idleMs, maxSessions } = options;
  const sessions = new Map<string, Session>();

  async function begin({ res, webRequest, body, owner, authInfo }: SessionRequest): Promise<void> {
    if (!makeRoom(owner)) {
      sendRpcError(
        res,
        503,
        { code: -32000, message: "All sessions of this server are in use; try again later." },
        requestIdOf(body),
        { "Retry-After": "30" },
      );
      return;
    }
    const server = await factory({
      era: "legacy",
      requestInfo: webRequest,
      ...(authInfo === undefined ? {} : { authInfo }),
    });
    const replay = createSessionReplay(random);
    const outbox = createOutbox(replay);
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: () => random.id(),
      keepAliveMs: heartbeatMs,
      eventStore: replay.eventStore,
      onsessioninitialized: (id) => {
        const session: Session = {
          id,
          owner,
          server,
          transport,
          outbox,
          replay,
          requests: 0,
          idleSince: clock.monotonic(),
          cancelIdle: () => {},
        };
        sessions.set(id, session);
        rest(session);
      },
    });
    const answer = transport.send.bind(transport);
    transport.send = (message: JSONRPCMessage, sending?: TransportSendOptions) =>
      belongsToRequest(message, sending) ? answer(message, sending) : outbox.send(message);
    transport.onclose = () => {
      const session = sessions.get(transport.sessionId ?? "");
      session?.cancelIdle();
      sessions.delete(transport.sessionId ?? "");
      outbox.close();
    };
    await server.connect(transport);
    const response = await transport.handleRequest(webRequest, {
      parsedBody: body,
      ...(authInfo === undefined ? {} : { authInfo }),
    });
    if (transport.sessionId === undefined) await server.close();
    await forward(response, res);
  }

  /** A full house closes the owner's own session that has rested longest, never another owner's. */
  function makeRoom(owner: string): boolean {
    if (sessions.size < maxSessions) return true;
    let oldest: Session | undefined;
    for (const session of sessions.values()) {
      if (session.owner !== owner || session.requests > 0 || session.outbox.isOpen) continue;
      if (oldest === undefined || session.idleSince < oldest.idleSince) oldest = session;
    }
    if (oldest === undefined) return false;
    void oldest.server.close();
    return true;
  }

  function rest(session: Session): void {
    session.cancelIdle();
    session.idleSince = clock.monotonic();
    session.cancelIdle = clock.after(idleMs, () => {
      if (session.requests > 0 || session.outbox.isOpen) rest(session);
      else void session.server.close();
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
    const lastEventId = req.headers["last-event-id"];
    const resumed = lastEventId === undefined ? undefined : session.replay.streamOf(String(lastEventId));
    if (lastEventId !== undefined && resumed === undefined) {
      const message =
        "Last-Event-ID cannot be honoured: it was not issued in this session, or what followed is no longer kept.";
      const hint = "Open the stream without it, and read jobs on from their cursors.";
      sendRpcError(res, 400, { code: -32000, message, data: { code: "BAD_CURSOR", hint, retryable: false } });
      return;
    }
    if (resumed !== undefined && resumed !== GET_STREAM) return answer(session, request);
    const priming = knowsPriming(session)
      ? { opening: { id: session.replay.keep(GET_STREAM, undefined).id, retryMs: RETRY_MS } }
      : {};
    const stream = streams.open(owner, res, { headers: { "Mcp-Session-Id": session.id }, ...priming });
    session.outbox.open(stream, lastEventId === undefined ? undefined : String(lastEventId));
    await stream.closed;
    if (sessions.has(session.id)) rest(session);
  }

  /** Lets the SDK's transport answer. */
  async function answer(
    session: Session,
    { res, webRequest, body, authInfo }: SessionRequest,
  ): Promise<void> {
    session.requests++;
    try {
      const response = await session.transport.handleRequest(webRequest, {
        ...(body === undefined ? {} : { parsedBody: body }),
        ...(authInfo === undefined ? {} : { authInfo }),
      });
      await forward(response, res);
    } finally {
      session.requests--;
      if (sessions.has(session.id)) rest(session);
    }
  }

  return {
    get size() {
      return sessions.size;
    },
    async serve(request) {
      const { req, body } = request;
      if (req.headers["mcp-session-id"] === undefined && isInitializeRequest(body)) return begin(request);
      const session = find(request);
      if (session === undefined) return;
      return req.method === "GET" ? listen(session, request) : answer(session, request);
    },
    async close() {
      await Promise.all([...sessions.values()].map(({ server }) => server.close()));
    },
  };
}

/** Older clients take an event without data for broken JSON. */
function knowsPriming({ server }: Session): boolean {
  return (innerOf(server).getNegotiatedProtocolVersion() ?? "") >= REVISION;
}

function belongsToRequest(message: JSONRPCMessage, sending: TransportSendOptions | undefined): boolean {
  return sending?.relatedRequestId !== undefined || "result" in message || "error" in message;
}

/** What the server says by itself: it goes to the session's one GET stream. */
interface Outbox {
  readonly isOpen: boolean;
  /** The newest stream is the session's; the one before it ends. @param after - The id behind which it goes on. */
  open(stream: SseStream, after: string | undefined): void;
  /**
   * Resolves once the message was handed over. Without a stream, an event waits for one (its sender can wait: the
   * event stands in the log); anything else is kept for a resumption only, because its sender may be a tool that must
   * answer.
   */
  send(message: JSONRPCMessage): Promise<void>;
  close(): void;
}

function createOutbox(replay: SessionReplay): Outbox {
  let stream: SseStream | undefined;
  /** What the stream was told by its resumption. */
  let resumed: ReadonlySet<string> = new Set();
  let over = false;
  let waiting: (() => void)[] = [];

  const wake = () => {
    const woken = waiting;
    waiting = [];
    for (const resolve of woken) resolve();
  };

  return {
    get isOpen() {
      return stream !== undefined;
    },
    open(next, after) {
      if (next.signal.aborted) return;
      const before = stream;
      stream = next;
      before?.end();
      next.signal.addEventListener("abort", () => {
        if (stream === next) stream = undefined;
      });
      const missed = after === undefined ? [] : replay.after(after);
      for (const { id, message } of missed) void next.send({ id, event: "message", data: message });
      resumed = new Set(missed.map(({ id }) => id));
      if (over) next.end();
      wake();
    },
    async send(message) {
      if (over) return;
      const { id } = replay.keep(GET_STREAM, message);
      while (!over) {
        if (resumed.has(id)) return;
        if (await stream?.send({ id, event: "message", data: message })) return;
        // Not sent, or perhaps lost with its stream: an event is sent again, for readers know repeats by their id.
        if (!isEvent(message)) return;
        if (stream === undefined && !over) await new Promise<void>((resolve) => waiting.push(resolve));
      }
    },
    close() {
      over = true;
      stream?.end();
      wake();
    },
  };
}

function isEvent(message: JSONRPCMessage): boolean {
  const params = "params" in message ? message.params : undefined;
  const meta = (params as { _meta?: unknown } | undefined)?._meta;
  return typeof meta === "object" && meta !== null && Object.hasOwn(meta, CURSOR_META_KEY);
}
