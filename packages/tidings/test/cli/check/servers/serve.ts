/** Serves servers that somebody wrote with the official SDK, sessions and all, on a free port. */
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import type { EventStore } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import type { JSONRPCMessage } from "@modelcontextprotocol/sdk/types.js";
import { isInitializeRequest } from "@modelcontextprotocol/sdk/types.js";
import { onTestFinished } from "vitest";

export interface Fixture {
  /** Registers the tool that starts a job. */
  readonly register: (server: McpServer) => void;
  /** Called whenever a client opens its stream. */
  readonly onStream?: (server: McpServer) => void;
  /** Whether what a client missed is sent again by the SDK's own means. Default true. */
  readonly isReplaying?: boolean;
}

/** Sends any notification, as a person does who does not mind what the SDK's types say. */
export type Tell = (method: string, params: Record<string, unknown>) => Promise<void>;

export function tellOf(server: McpServer): Tell {
  return (method, params) => server.server.notification({ method, params } as never);
}

/** @returns the address of its MCP endpoint. */
export async function serve({ register, onStream, isReplaying = true }: Fixture): Promise<string> {
  const sessions = new Map<string, { transport: StreamableHTTPServerTransport; server: McpServer }>();

  async function begin(): Promise<StreamableHTTPServerTransport> {
    const server = new McpServer({ name: "fixture", version: "1.0.0" }, { capabilities: { logging: {} } });
    register(server);
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => void sessions.set(id, { transport, server }),
      ...(isReplaying ? { eventStore: createEventStore() } : {}),
    });
    await server.connect(transport as never);
    return transport;
  }

  const http = createServer(async (req, res) => {
    const known = sessions.get(String(req.headers["mcp-session-id"]));
    if (known === undefined) {
      const body = await readJson(req);
      if (isInitializeRequest(body)) await (await begin()).handleRequest(req, res, body);
      else res.writeHead(404).end();
      return;
    }
    if (req.method === "GET" && onStream !== undefined) {
      // The stream takes messages once its head is written.
      const writeHead = res.writeHead.bind(res) as (...head: unknown[]) => typeof res;
      res.writeHead = (...head: unknown[]) => {
        setImmediate(() => onStream(known.server));
        return writeHead(...head);
      };
    }
    await known.transport.handleRequest(req, res);
  });
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
  onTestFinished(async () => {
    http.closeAllConnections();
    await new Promise((resolve) => http.close(resolve));
  });
  return `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`;
}

async function readJson(req: AsyncIterable<Buffer>): Promise<unknown> {
  const chunks: Buffer[] = [];
  for await (const chunk of req) chunks.push(chunk);
  try {
    return JSON.parse(Buffer.concat(chunks).toString("utf8"));
  } catch {
    return undefined;
  }
}

/** One session's messages, in memory. */
function createEventStore(): EventStore {
  const stored: { id: string; streamId: string; message: JSONRPCMessage }[] = [];
  return {
    async storeEvent(streamId, message) {
      const id = `e${stored.length + 1}`;
      stored.push({ id, streamId, message });
      return id;
    },
    async replayEventsAfter(lastId, { send }) {
      const at = stored.findIndex(({ id }) => id === lastId);
      const streamId = stored[at]?.streamId ?? "";
      for (const { id, message, streamId: of } of stored.slice(at + 1)) {
        if (of === streamId) await send(id, message);
      }
      return streamId;
    },
  };
}
