/** A real server on a free port, with small jobs, for the tests of the HTTP paths. */
import type { IncomingMessage, Server } from "node:http";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { AuthInfo, McpServerFactory } from "@modelcontextprotocol/server";
import { McpServer } from "@modelcontextprotocol/server";
import { z } from "zod";
import type { Engine } from "../../src/engine/engine.ts";
import { openEngine } from "../../src/engine/open-engine.ts";
import { systemClock, systemRandom } from "../../src/engine/system-clock.ts";
import type { HttpHandler, HttpHandlerOptions } from "../../src/mcp/server/http-handler.ts";
import { createHttpHandler } from "../../src/mcp/server/http-handler.ts";
import { registerJob } from "../../src/mcp/server/register-job.ts";
import type { Clock } from "../../src/model/clock.ts";
import { createTidings } from "../../src/runtime/create-tidings.ts";
import { defineJob } from "../../src/runtime/define-job.ts";
import { PermanentError } from "../../src/runtime/error.ts";
import type { Tidings } from "../../src/runtime/tidings.ts";

/** Runs until it is let go, so that a test decides when something happens. */
export interface Gate {
  open(): void;
  readonly opened: Promise<void>;
}

export function createGate(): Gate {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { open, opened };
}

export const gates = new Map<string, Gate>();

export const quick = defineJob("quick", {
  input: z.object({
    steps: z.number().int().min(1).max(1000).default(2),
    lines: z.number().int().min(0).default(0),
    note: z.string().optional(),
  }),
  stages: { work: 50, finish: 100 },
  summary: ({ note }) => note ?? "A quick job",
  async run({ steps, note, lines }, { progress, log }) {
    if (note !== undefined) await log("info", note);
    for (let line = 1; line <= lines; line++) await log("debug", `line ${line}`);
    for (let step = 1; step <= steps; step++) await progress("work", step / steps);
    return { summary: "done", result: { steps } };
  },
});

export const gated = defineJob("gated", {
  input: z.object({ gate: z.string() }),
  async run({ gate }, { progress, signal }) {
    await progress("work", 0.1);
    const aborted = new Promise<never>((_, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason));
    });
    await Promise.race([gates.get(gate)?.opened, aborted]);
    return { result: "let go" };
  },
});

export const failing = defineJob("failing", {
  input: z.object({}),
  run() {
    throw new PermanentError("EMPTY_FILE", "The file holds nothing.", { hint: "Choose another file." });
  },
});

export const serverFactory =
  (tidings: Tidings): McpServerFactory =>
  () => {
    const server = new McpServer({ name: "http-world", version: "1.0.0" });
    registerJob(server, tidings, quick, { tool: "start_quick" });
    registerJob(server, tidings, gated, { tool: "start_gated" });
    registerJob(server, tidings, failing, { tool: "start_failing" });
    return server;
  };

/** One request that reached the server: what was used, and what was not. */
export interface Seen {
  readonly method: string;
  readonly path: string;
  readonly rpc: string | undefined;
}

export interface World {
  readonly tidings: Tidings;
  readonly engine: Engine;
  readonly handler: HttpHandler;
  readonly server: Server;
  readonly url: string;
  readonly port: number;
  /** Every request so far. */
  readonly seen: Seen[];
  readonly errors: unknown[];
  close(): Promise<void>;
}

/** Without a verifier, requests that carry `Authorization: Bearer NAME` are NAME's, as a middleware would have it. */
function authOf(req: IncomingMessage): AuthInfo | undefined {
  const token = req.headers.authorization?.replace(/^Bearer /, "");
  return token === undefined ? undefined : { token, clientId: token, scopes: [] };
}

export async function createWorld(
  options: Partial<HttpHandlerOptions> & {
    /** Default `memory:`. */
    readonly store?: string;
    /** The clock of the jobs; `clock` is the handler's. */
    readonly tidingsClock?: Clock;
    readonly wrap?: (tidings: Tidings) => Tidings;
  } = {},
): Promise<World> {
  const {
    store = "memory:",
    tidingsClock = systemClock,
    wrap = (plain) => plain,
    ...handlerOptions
  } = options;
  const errors: unknown[] = [];
  const onError = (error: unknown) => errors.push(error);
  const engine = await openEngine(store, { clock: tidingsClock, random: systemRandom });
  const jobs = [quick, gated, failing];
  const tidings = wrap(await createTidings({ store: engine, jobs, clock: tidingsClock, onError }));
  const handler = createHttpHandler(tidings, { server: serverFactory(tidings), onError, ...handlerOptions });
  const seen: Seen[] = [];
  const server = createServer(async (req, res) => {
    const rpc = req.headers["mcp-method"];
    seen.push({
      method: req.method ?? "",
      path: req.url ?? "",
      rpc: typeof rpc === "string" ? rpc : undefined,
    });
    const auth = authOf(req);
    if (auth !== undefined && options.auth === undefined) Object.assign(req, { auth });
    if (!(await handler.handle(req, res))) {
      res.writeHead(404);
      res.end("not ours");
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    tidings,
    engine,
    handler,
    server,
    port,
    url: `http://127.0.0.1:${port}`,
    seen,
    errors,
    async close() {
      await handler.close();
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
      await tidings.close();
    },
  };
}
