/** The part of an MCP client that is used here: `Client` of `@modelcontextprotocol/client` 2 and of SDK v1 both fit. */

import { unreachable } from "../../client/source/failure.ts";
import type { CallTool } from "../../client/source/poll.ts";

export interface McpClient {
  /** Absent until the client is connected. */
  readonly transport?: object | undefined;
  callTool(
    params: { name: string; arguments?: Record<string, unknown> },
    ...options: never[]
  ): Promise<unknown>;
  /** `modern` on MCP 2026-07-28; SDK v1 does not have it. */
  getProtocolEra?(): string | undefined;
  listen?(filter: object, options?: { signal?: AbortSignal }): Promise<McpSubscription>;
}

export interface McpSubscription {
  readonly closed: Promise<string>;
  close(): Promise<void>;
}

/** A connected client, or a function that gives one: it is asked at every attempt, so it can connect anew. */
export type McpClientOrConnect = McpClient | (() => McpClient | Promise<McpClient>);

/** @throws TidingsError UNREACHABLE when the client is not connected. */
export async function connected(
  given: McpClientOrConnect,
): Promise<McpClient & { readonly transport: object }> {
  const client = typeof given === "function" ? await given() : given;
  const { transport } = client;
  if (transport === undefined) throw unreachable("The MCP client is not connected.");
  return client as McpClient & { readonly transport: object };
}

export function callToolOf(given: McpClientOrConnect): CallTool {
  return async (name, args, options) => {
    const client = await connected(given);
    const params = { name, arguments: args };
    // SDK v1 has a result schema between the two.
    const rest = client.getProtocolEra === undefined ? [undefined, options] : [options];
    return client.callTool(params, ...(rest as never[]));
  };
}
