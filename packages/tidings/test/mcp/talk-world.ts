/** A server whose tool `talk` says much about one call, and sessions that are read frame by frame. */
import { McpServer } from "@modelcontextprotocol/server";
import type { HttpHandlerOptions } from "tidings/mcp";
import { registerJob } from "tidings/mcp";
import { z } from "zod";
import type { Tidings } from "../../src/runtime/tidings.ts";
import { post } from "./http-mcp.ts";
import type { Frame, Reader } from "./http-reader.ts";
import { openEvents, readEvents } from "./http-reader.ts";
import type { World } from "./http-world.ts";
import { createGate, createWorld, gated, gates, quick } from "./http-world.ts";

export interface TalkWorld extends World {
  /** The servers of the sessions, oldest first. */
  readonly servers: McpServer[];
  /** Calls of `talk` whose handlers were told to stop. */
  readonly aborted: string[];
}

/**
 * `talk { name, before, after, size }` says so many things of that size about its own call, waits at the gate `name` in
 * between, and answers with its name.
 */
export async function createTalkWorld(
  options: Partial<HttpHandlerOptions> & { readonly store?: string } = {},
): Promise<TalkWorld> {
  const servers: McpServer[] = [];
  const aborted: string[] = [];
  let tidings: Tidings | undefined;
  const server = () => {
    const server = new McpServer({ name: "talking", version: "1.0.0" }, { capabilities: { logging: {} } });
    if (tidings === undefined) throw new Error("A session began before its world.");
    registerJob(server, tidings, quick, { tool: "start_quick" });
    registerJob(server, tidings, gated, { tool: "start_gated" });
    const inputSchema = z.object({
      name: z.string(),
      before: z.number().default(0),
      after: z.number().default(0),
      size: z.number().default(0),
    });
    server.registerTool("talk", { inputSchema }, async ({ name, before, after, size }, { mcpReq }) => {
      mcpReq.signal.addEventListener("abort", () => aborted.push(name));
      const say = async (text: string) =>
        mcpReq.notify({ method: "notifications/talk", params: { name, text, filler: "x".repeat(size) } });
      for (let at = 1; at <= before; at++) await say(`before ${at}`);
      await gates.get(name)?.opened;
      for (let at = 1; at <= after; at++) await say(`after ${at}`);
      return { content: [{ type: "text", text: name }] };
    });
    servers.push(server);
    return server;
  };
  const world = await createWorld({
    server,
    wrap: (plain) => {
      tidings = plain;
      return plain;
    },
    ...options,
  });
  return Object.assign(world, { servers, aborted });
}

export function gateOf(name: string): { readonly open: () => void } {
  const gate = createGate();
  gates.set(name, gate);
  return gate;
}

/** Calls `talk` and gives the stream of its answer. */
export async function talk(
  { url }: World,
  session: string,
  args: { name: string; before?: number; after?: number; size?: number },
  { id = 1 as string | number, headers = {} as Record<string, string> } = {},
): Promise<Reader> {
  const body = { jsonrpc: "2.0", id, method: "tools/call", params: { name: "talk", arguments: args } };
  return readEvents(
    await post(url, body, {
      "Mcp-Session-Id": session,
      "MCP-Protocol-Version": "2025-11-25",
      ...headers,
    }),
  );
}

/** Opens one of a session's streams with GET. */
export function get(
  { url }: World,
  session: string,
  lastEventId?: string,
  headers: Record<string, string> = {},
): Promise<Reader> {
  return openEvents(`${url}/mcp`, {
    headers: {
      Accept: "text/event-stream",
      "Mcp-Session-Id": session,
      ...(lastEventId === undefined ? {} : { "Last-Event-ID": lastEventId }),
      ...headers,
    },
  });
}

/** What a frame says in one word: the text of something said, `answer`, or its method. */
export function textOf({ data }: Frame): string {
  if (data === "") return "primed";
  const message = JSON.parse(data) as { method?: string; params?: { text?: string; data?: string } };
  if (message.method === undefined) return "answer";
  return message.params?.text ?? message.method;
}

/** Reads frames until so many have come. */
export async function take(reader: Reader, count: number): Promise<Frame[]> {
  const frames: Frame[] = [];
  return reader.until((frame) => frames.push(frame) === count);
}
