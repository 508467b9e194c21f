/** Every way to follow a job, each as one function that returns the job's events as that path gave them. */
import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as TransportV1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { readMessage } from "tidings/client";
import { RUN_ARGS } from "../../src/demo/server-process.ts";

export interface Seen {
  readonly eventId: string;
  readonly type: string;
  readonly seq?: number;
  readonly [field: string]: unknown;
}

/** What one path saw, and the messages that it saw it in. */
export interface PathStory {
  readonly events: readonly Seen[];
  readonly methods: readonly string[];
}

const MAIN = fileURLToPath(new URL("../../src/main.ts", import.meta.url));

export function isEnding(type: string): boolean {
  return type === "job.completed" || type === "job.failed" || type === "job.canceled";
}

/** Collects notifications until the job has ended. */
export function collector(): { take(message: unknown): void; readonly story: Promise<PathStory> } {
  const events: Seen[] = [];
  const methods: string[] = [];
  let finish: (story: PathStory) => void = () => undefined;
  const story = new Promise<PathStory>((resolve) => {
    finish = resolve;
  });
  return {
    story,
    take(message) {
      const { method } = message as { method?: string };
      if (method === undefined) return;
      const read = readMessage(message);
      if (read.kind !== "event") return;
      methods.push(method);
      events.push(read.event as Seen);
      if (isEnding(read.event.type)) finish({ events, methods });
    },
  };
}

export async function connectModern(url: string): Promise<Client> {
  const client = new Client(
    { name: "modern", version: "1.0.0" },
    { versionNegotiation: { mode: { pin: "2026-07-28" } } },
  );
  await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`)));
  return client;
}

export async function connectSession(url: string): Promise<Client> {
  const client = new Client({ name: "session", version: "1.0.0" });
  await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`)));
  return client;
}

export async function connectV1(url: string): Promise<ClientV1> {
  const client = new ClientV1({ name: "v1", version: "1.0.0" });
  await client.connect(new TransportV1(new URL(`${url}/mcp`)) as Parameters<ClientV1["connect"]>[0]);
  return client;
}

/** Server-sent events as `curl` reads them: text, frame by frame, until the server ends the stream. */
export async function readSse(
  url: string,
  headers: Record<string, string> = {},
): Promise<{ status: number; frames: { id: string; event: string; data: string }[] }> {
  const response = await fetch(url, { headers });
  const frames = (await response.text())
    .split("\n\n")
    .map((frame) =>
      Object.fromEntries(
        frame
          .split("\n")
          .filter((line) => line !== "" && !line.startsWith(":"))
          .map((line) => [
            line.slice(0, line.indexOf(":")),
            line.slice(line.indexOf(":") + 1).replace(/^ /, ""),
          ]),
      ),
    )
    .filter((frame) => frame.data !== undefined) as { id: string; event: string; data: string }[];
  return { status: response.status, frames };
}

export interface StdioPeer {
  /** Every line that the server printed on stdout. */
  readonly lines: readonly string[];
  request(method: string, params: object): Promise<Record<string, unknown>>;
  notify(method: string, params?: object): void;
  onNotification(listener: (message: unknown) => void): void;
  close(): Promise<number | null>;
}

/** A client of nine lines: what goes over the pipe is what is tested. */
export function openStdio(env: Readonly<Record<string, string>>): StdioPeer {
  const child: ChildProcess = spawn(process.execPath, [...RUN_ARGS, MAIN, "--stdio"], {
    env: { ...process.env, ...env },
    stdio: ["pipe", "pipe", "inherit"],
  });
  const lines: string[] = [];
  const waiting = new Map<number, (message: Record<string, unknown>) => void>();
  let listener: (message: unknown) => void = () => undefined;
  let lastId = 0;
  createInterface({ input: child.stdout as NodeJS.ReadableStream }).on("line", (line) => {
    lines.push(line);
    const message = JSON.parse(line) as { id?: number };
    if (message.id === undefined) listener(message);
    else waiting.get(message.id)?.(message as Record<string, unknown>);
  });
  const send = (message: object): void => {
    child.stdin?.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  };
  return {
    lines,
    request(method, params) {
      lastId += 1;
      const id = lastId;
      return new Promise((resolve) => {
        waiting.set(id, resolve);
        send({ id, method, params });
      });
    },
    notify: (method, params) => send({ method, ...(params === undefined ? {} : { params }) }),
    onNotification(next) {
      listener = next;
    },
    close() {
      return new Promise((resolve) => {
        child.once("exit", (code) => resolve(code));
        child.stdin?.end();
      });
    },
  };
}
