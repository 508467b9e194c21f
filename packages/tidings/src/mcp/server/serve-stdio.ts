/** MCP over stdio, both generations, with everything else kept away from stdout. */
import type { Readable, Writable } from "node:stream";
import type { McpServerFactory } from "@modelcontextprotocol/server";
import { StdioServerTransport, serveStdio } from "@modelcontextprotocol/server/stdio";
import { systemClock, systemRandom } from "../../engine/system-clock.ts";
import type { Clock, Random } from "../../model/clock.ts";
import { printError } from "../../runtime/print-error.ts";
import type { Tidings } from "../../runtime/tidings.ts";
import type { OwnerOf } from "./owner.ts";
import { defaultOwner } from "./owner.ts";
import { adopt, findJobServer } from "./register-job.ts";
import { createListenTransport } from "./stdio-listen.ts";
import { takeStdout } from "./stdout-guard.ts";

/** How MCP is served on stdio. */
export interface StdioOptions {
  /** The owner of everything on this connection; asked once, without `authInfo`. Default `local`. */
  readonly owner?: OwnerOf;
  /** Default: the process's stdin. */
  readonly stdin?: Readable;
  /** Default: the process's stdout, which from then on carries nothing but JSON-RPC. */
  readonly stdout?: Writable;
  /** How often a listen with our filter is told that it is alive, in milliseconds. Default 15 000. */
  readonly heartbeatMs?: number;
  /** Where the time of heartbeats and of waits comes from. Default: the machine's clock. */
  readonly clock?: Clock;
  /** Where ids of heartbeats come from. Default: the machine's cryptographic source. */
  readonly random?: Random;
  /** Hears of faults of the connection. Default: one JSON line on stderr. */
  readonly onError?: (error: Error) => void;
}

/** A connection that is being served. */
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
  const {
    owner: ownerOf = defaultOwner,
    heartbeatMs = 15_000,
    clock = systemClock,
    random = systemRandom,
    onError = (error: Error) => printError(error, "a stdio connection"),
  } = options;
  const owner = ownerOf({});
  const report = (error: unknown) => onError(error instanceof Error ? error : new Error(String(error)));
  const stdout = options.stdout ?? takeStdout();
  // Each message that waits for a slow reader listens for its turn; that they are many is no leak.
  stdout.setMaxListeners(0);
  const transport = createListenTransport(new StdioServerTransport(options.stdin ?? process.stdin, stdout), {
    tidings,
    owner,
    clock,
    random,
    heartbeatMs,
    onError: report,
  });
  const handle = serveStdio(
    async (context) => {
      const server = await factory(context);
      adopt(server, { ownerOf, clock, onError: report });
      if (context.era === "modern") await findJobServer(server)?.session.offerAll(owner);
      return server;
    },
    { transport, onerror: onError },
  );
  return {
    close: () => handle.close().then(() => transport.closed),
    closed: transport.closed,
  };
}
