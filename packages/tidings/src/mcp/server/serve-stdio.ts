/** MCP over stdio, both generations, with everything else kept away from stdout. */
import type { Readable, Writable } from "node:stream";
import type { McpServerFactory } from "@modelcontextprotocol/server";
import { McpServer } from "@modelcontextprotocol/server";
import { StdioServerTransport, serveStdio } from "@modelcontextprotocol/server/stdio";
import type { Tidings } from "../../runtime/tidings.ts";
import type { OwnerOf } from "./owner.ts";
import { defaultOwner } from "./owner.ts";
import { findJobServer } from "./register-job.ts";
import { createListenTransport } from "./stdio-listen.ts";
import { takeStdout } from "./stdout-guard.ts";

export interface StdioOptions {
  /** The owner of everything on this connection. Default `local`. */
  readonly owner?: OwnerOf;
  /** Default: the process's stdin. */
  readonly stdin?: Readable;
  /** Default: the process's stdout, which from then on carries nothing but JSON-RPC. */
  readonly stdout?: Writable;
  /** Hears of faults of the connection. Default: they are printed on stderr. */
  readonly onError?: (error: Error) => void;
}

export interface StdioHandle {
  /** Ends the connection. */
  close(): Promise<void>;
  /** Resolves when the connection has ended, by `close` or because the client closed stdin, and all was written. */
  readonly closed: Promise<void>;
}

/**
 * Serves MCP on stdin and stdout. Events of started jobs and of listens are sent as notifications; what the process
 * prints on stdout goes to stderr. When `closed` resolves, close the tidings and let the process end.
 *
 * @param factory - Makes the server, for which it calls `registerJob`; called once per connection (and once more when a
 *   client probes for the newer generation).
 */
export function serveTidingsStdio(
  tidings: Tidings,
  factory: McpServerFactory,
  options: StdioOptions = {},
): StdioHandle {
  const { owner: ownerOf = defaultOwner, onError = console.error } = options;
  const owner = ownerOf({});
  const stdout = options.stdout ?? takeStdout();
  const transport = createListenTransport(
    new StdioServerTransport(options.stdin ?? process.stdin, stdout),
    tidings,
    owner,
    onError,
  );
  const handle = serveStdio(
    async (context) => {
      const server = await factory(context);
      const session = server instanceof McpServer ? findJobServer(server)?.session : undefined;
      if (context.era === "modern") await session?.offerAll(owner);
      return server;
    },
    { transport, onerror: onError },
  );
  return {
    close: () => handle.close().then(() => transport.closed),
    closed: transport.closed,
  };
}
