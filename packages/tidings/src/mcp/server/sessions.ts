/**
 * MCP 2025-11-25 and older over HTTP: one server and one transport per session.
 *
 *   POST initialize ──▶ session ──┬── POST   requests, answered on their own stream (the SDK's transport)
 *                                 ├── GET    one stream for what the server says by itself (ours)
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
import { forward, requestIdOf, sendRpcError } from "./http-message.ts";
import type { Streams } from "./http-streams.ts";
import type { SseStream } from "./sse.ts";

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
    const outbox = createOutbox();
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: () => random.id(),
      keepAliveMs: heartbeatMs,
      onsessioninitialized: (id) => {
        const session: Session = {
          id,
          owner,
          server,
          transport,
          outbox,
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

  async function listen(session: Session, { req, res, owner }: SessionRequest): Promise<void> {
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
    const stream = streams.open(owner, res, { headers: { "Mcp-Session-Id": session.id } });
    session.outbox.open(stream);
    await stream.closed;
    if (sessions.has(session.id)) rest(session);
  }

  return {
    get size() {
      return sessions.size;
    },
    async serve(request) {
      const { req, res, webRequest, body, authInfo } = request;
      if (req.headers["mcp-session-id"] === undefined && isInitializeRequest(body)) return begin(request);
      const session = find(request);
      if (session === undefined) return;
      if (req.method === "GET") return listen(session, request);
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
    },
    async close() {
      await Promise.all([...sessions.values()].map(({ server }) => server.close()));
    },
  };
}

function belongsToRequest(message: JSONRPCMessage, sending: TransportSendOptions | undefined): boolean {
  return sending?.relatedRequestId !== undefined || "result" in message || "error" in message;
}

/** What the server says by itself: it goes to the session's one GET stream. */
interface Outbox {
  readonly isOpen: boolean;
  /** The newest stream is the session's; the one before it ends. */
  open(stream: SseStream): void;
  /**
   * Resolves once the message was handed over. Without a stream, an event waits for one (its sender can wait: the
   * event stands in the log); anything else is dropped, because its sender may be a tool that must answer.
   */
  send(message: JSONRPCMessage): Promise<void>;
  close(): void;
}

function createOutbox(): Outbox {
  let stream: SseStream | undefined;
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
    open(next) {
      if (next.signal.aborted) return;
      const before = stream;
      stream = next;
      before?.end();
      next.signal.addEventListener("abort", () => {
        if (stream === next) stream = undefined;
      });
      if (over) next.end();
      wake();
    },
    async send(message) {
      while (!over) {
        if (await stream?.send({ event: "message", data: message })) return;
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
