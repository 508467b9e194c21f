/** What the tests of the MCP bindings share: small jobs, connections with a wire log, a place for a store. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { CallToolResult, ClientOptions } from "@modelcontextprotocol/client";
import { Client } from "@modelcontextprotocol/client";
import type { JSONRPCMessage, McpServerFactory, Transport } from "@modelcontextprotocol/server";
import { InMemoryTransport, McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import type { Tidings } from "tidings";
import { createTidings, defineJob, PermanentError } from "tidings";
import { registerJob } from "tidings/mcp";
import { expect, onTestFinished } from "vitest";
import { z } from "zod";
import { readMessage } from "../../src/model/projection/read.ts";

/** For `expect.poll`: a condition is looked at often and may take long on a busy machine. */
export const PATIENTLY = { interval: 2, timeout: 25_000 };

const gates = new Map<string, { promise: Promise<void>; open: () => void }>();

/** A job that names the gate waits there until the test opens it. */
export function gate(name: string): { open: () => void; promise: Promise<void> } {
  let existing = gates.get(name);
  if (existing === undefined) {
    let open = () => {};
    const promise = new Promise<void>((resolve) => {
      open = resolve;
    });
    existing = { promise, open };
    gates.set(name, existing);
  }
  return existing;
}

/** Counts to `to` in two stages; can wait at a gate in the middle, fail, or write a log line. */
export const count = defineJob("count", {
  input: z.object({
    to: z.number().int().min(1).max(10_000).default(4),
    gate: z.string().optional(),
    fail: z.boolean().optional(),
    log: z.string().optional(),
    touch: z.string().optional(),
  }),
  stages: { first: 50, second: 100 },
  summary: ({ to }) => `Counting to ${to}`,
  async run({ to, gate: name, fail, log, touch }, { progress, emit, log: write, signal }) {
    for (let i = 1; i <= to; i += 1) await progress("first", i / to);
    if (log !== undefined) await write("warning", log);
    if (touch !== undefined)
      await emit({ type: "resource.updated", resourceId: touch, changeType: "snapshot_ready" });
    if (name !== undefined) {
      const aborted = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
      await Promise.race([gate(name).promise, aborted]);
      signal.throwIfAborted();
    }
    if (fail) throw new PermanentError("COUNT_FAILED", "The count went wrong.", { hint: "Count again." });
    for (let i = 1; i <= to; i += 1) await progress("second", i / to);
    return { summary: `Counted to ${to}`, result: { counted: to } };
  },
});

export async function openTidings(store: "memory:" | "sqlite:"): Promise<Tidings> {
  let where: string = store;
  if (store === "sqlite:") {
    const folder = await mkdtemp(join(tmpdir(), "tidings-mcp-"));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    where = `sqlite:${join(folder, "jobs.db")}`;
  }
  const tidings = await createTidings({ store: where, jobs: [count] });
  onTestFinished(() => tidings.close());
  return tidings;
}

/** How many parts of the log are being told; to be called before anybody is told. */
export function countTold(tidings: Tidings): () => number {
  let told = 0;
  const { subscribe } = tidings;
  tidings.subscribe = async (request, subscriber) => {
    const subscription = await subscribe.call(tidings, request, subscriber);
    told += 1;
    let isTold = true;
    return {
      ...subscription,
      stop() {
        if (isTold) told -= 1;
        isTold = false;
        subscription.stop();
      },
    };
  };
  return () => told;
}

export function createCountServer(tidings: Tidings): McpServer {
  const server = new McpServer({ name: "counting", version: "1.0.0" });
  registerJob(server, tidings, count, { tool: "start_count", description: "Counts." });
  return server;
}

export interface WireLog {
  readonly sent: JSONRPCMessage[];
  readonly received: JSONRPCMessage[];
}

/** A transport that writes down what passes. */
export function tap(inner: Transport): { transport: Transport; log: WireLog } {
  const log: WireLog = { sent: [], received: [] };
  const transport: Transport = {
    async start() {
      inner.onmessage = (message, extra) => {
        log.received.push(message);
        transport.onmessage?.(message, extra);
      };
      inner.onclose = () => transport.onclose?.();
      inner.onerror = (error) => transport.onerror?.(error);
      await inner.start();
    },
    send: (message, options) => {
      log.sent.push(message);
      return inner.send(message, options);
    },
    close: () => inner.close(),
  };
  return { transport, log };
}

export const MODERN: ClientOptions = { versionNegotiation: { mode: { pin: "2026-07-28" } } };
export type Era = "2025-11-25" | "2026-07-28";
export const ERAS: readonly Era[] = ["2025-11-25", "2026-07-28"];

export interface Connection {
  readonly client: Client;
  readonly log: WireLog;
  /** Notifications that no handler took, in order of arrival. */
  readonly notifications: Notification[];
}

export interface Notification {
  readonly method: string;
  readonly params?: Record<string, unknown> | undefined;
}

/** Connects the official client to a server factory as stdio does, through memory. */
export async function connect(
  factory: McpServerFactory,
  era: Era = "2025-11-25",
  wrap: (transport: Transport) => Transport = (transport) => transport,
): Promise<Connection> {
  const [clientSide, serverSide] = InMemoryTransport.createLinkedPair();
  const handle = serveStdio(factory, { transport: wrap(serverSide) });
  onTestFinished(() => handle.close());
  const { transport, log } = tap(clientSide);
  const client = new Client({ name: "test", version: "1.0.0" }, era === "2026-07-28" ? MODERN : {});
  const notifications: Notification[] = [];
  client.fallbackNotificationHandler = async (notification) => {
    notifications.push(notification as Notification);
  };
  await client.connect(transport);
  onTestFinished(() => client.close());
  return { client, log, notifications };
}

export interface Answer {
  readonly isError: boolean;
  // biome-ignore lint/suspicious/noExplicitAny: tests look at whatever is there
  readonly content: any;
}

/** Calls a tool and checks what every answer of ours has: the same JSON in the text. */
export async function call(
  client: Client,
  name: string,
  args: Record<string, unknown> = {},
): Promise<Answer> {
  const result = (await client.callTool({ name, arguments: args })) as CallToolResult;
  const [text] = result.content;
  if (text?.type !== "text") throw new Error(`The answer of ${name} has no text.`);
  if (JSON.stringify(JSON.parse(text.text)) !== JSON.stringify(result.structuredContent)) {
    throw new Error(`The text of ${name} differs from its structured content: ${text.text}`);
  }
  return { isError: result.isError === true, content: result.structuredContent };
}

/** The events of a job as the log has them. */
export async function storyOf(tidings: Tidings, jobId: string, owner = "local") {
  const { events } = await tidings.read({ owner, jobIds: [jobId], limit: 1000 });
  return events;
}

/** The events that messages carry, in order. */
export function eventsIn(messages: readonly unknown[]) {
  return messages.flatMap((message) => {
    const read = readMessage(message);
    return read.kind === "event" ? [read] : [];
  });
}

export function methodsIn(messages: readonly JSONRPCMessage[]): string[] {
  return messages.flatMap((message) => ("method" in message ? [message.method] : []));
}

/** Resolves once the job has ended. */
export async function ended(tidings: Tidings, jobId: string, owner = "local"): Promise<void> {
  const stop = new AbortController();
  for await (const item of tidings.tail({ owner, jobIds: [jobId], signal: stop.signal })) {
    if (item.kind === "event" && /^job\.(completed|failed|canceled)$/.test(item.event.type)) break;
  }
}

/** Resolves once the connection was sent the ending of a job. */
export async function toldTheEnd({ notifications }: Connection, jobId: string): Promise<void> {
  await expect
    .poll(
      () =>
        eventsIn(notifications).some(
          ({ event }) => event.jobId === jobId && /completed|failed|canceled/.test(event.type),
        ),
      PATIENTLY,
    )
    .toBe(true);
}
