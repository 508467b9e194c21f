/**
 * How fast one core tells many readers, what a quiet stream costs, and what a bad reader does to the rest. The server
 * is a process of its own, the readers are in this one; a reader that stalls and one that takes 1 kB a second are
 * always present. Baselines: a fan-out by hand over `node:http` with frames of the same size, and the SDK's listen.
 */
import { type ChildProcess, fork } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { median, percentile, type Report } from "./report.ts";
import { openBadReaders, openReaders, type Readers } from "./stream-load.ts";
import type { Answer, Ask, Kind } from "./stream-server.ts";

/** Deliveries of a round: enough for a steady pace, and no more of what is slow. */
const DELIVERIES: Readonly<Record<Kind, number>> = { tidings: 300_000, raw: 100_000, sdk: 60_000 };
const ROUNDS = 3;

interface Server {
  readonly port: number;
  ask(ask: Ask): Promise<Answer>;
  stop(): void;
}

async function startServer(kind: Kind, folder: string): Promise<Server> {
  const child: ChildProcess = fork(
    fileURLToPath(new URL("stream-server.ts", import.meta.url)),
    [kind, `sqlite:${join(mkdtempSync(join(folder, "store-")), "jobs.db")}`],
    { execArgv: [...process.execArgv, "--expose-gc"], stdio: ["ignore", "inherit", "inherit", "ipc"] },
  );
  const next = () => new Promise<Answer>((resolve) => child.once("message", resolve));
  const first = await next();
  if (first.answer !== "listening") throw new Error("The server did not begin to listen.");
  return {
    port: first.port,
    ask(ask) {
      const answered = next();
      child.send(ask);
      return answered;
    },
    stop: () => void child.kill("SIGKILL"),
  };
}

function get(): string {
  return "GET /events?resourceId=resource:bench HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n";
}

function listen(reader: number, filter: object): string {
  const meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": { name: "bench", version: "1.0.0" },
    "io.modelcontextprotocol/clientCapabilities": {},
  };
  const method = "subscriptions/listen";
  const body = JSON.stringify({
    jsonrpc: "2.0",
    id: reader,
    method,
    params: { notifications: filter, _meta: meta },
  });
  return [
    "POST /mcp HTTP/1.1",
    "Host: localhost",
    "Content-Type: application/json",
    "Accept: application/json, text/event-stream",
    "MCP-Protocol-Version: 2026-07-28",
    `Mcp-Method: ${method}`,
    `Content-Length: ${Buffer.byteLength(body)}`,
    "",
    body,
  ].join("\r\n");
}

const onResource = (reader: number) => listen(reader, { resourceSubscriptions: ["resource:bench"] });
const REQUESTS: Readonly<
  Record<string, { readonly kind: Kind; readonly request: (reader: number) => string }>
> = {
  "our event stream": { kind: "tidings", request: get },
  "our listen": { kind: "tidings", request: onResource },
  "node:http by hand": { kind: "raw", request: get },
  "the SDK's listen": { kind: "sdk", request: onResource },
};

async function deliveredPerSecond(server: Server, readers: Readers, count: number): Promise<number> {
  readers.reset();
  const begun = performance.now();
  const all = readers.until(count);
  const published = server.ask({ ask: "publish", count });
  await Promise.all([all, published]);
  return (count * readers.count) / ((performance.now() - begun) / 1_000);
}

async function fanOut(folder: string, streams: number, report: Report): Promise<void> {
  const paces = new Map<string, number>();
  for (const [name, { kind, request }] of Object.entries(REQUESTS)) {
    const server = await startServer(kind, folder);
    const bad = await openBadReaders(server.port, request(1_000_000));
    const readers = await openReaders({ port: server.port, count: streams, request });
    const events = Math.round(DELIVERIES[kind] / streams);
    await deliveredPerSecond(server, readers, events);
    const rounds: number[] = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      rounds.push(await deliveredPerSecond(server, readers, events));
    }
    paces.set(name, median(rounds));
    report(`${streams} streams`, `delivered, ${name}`, median(rounds), "1/s");
    readers.close();
    bad.close();
    server.stop();
  }
  const ours = paces.get("our event stream") ?? 0;
  const title = `${streams} streams`;
  report(title, "of node:http by hand", ours / (paces.get("node:http by hand") ?? 0), "ratio", {
    atLeast: 0.7,
  });
  const gate = streams >= 2_000 ? { atLeast: 2 } : {};
  report(
    title,
    "our listen against the SDK's",
    (paces.get("our listen") ?? 0) / (paces.get("the SDK's listen") ?? 0),
    "ratio",
    gate,
  );
}

async function memoryOf(server: Server): Promise<number> {
  const answer = await server.ask({ ask: "memory" });
  return answer.answer === "memory" ? answer.rss : Number.NaN;
}

async function idle(folder: string, report: Report): Promise<void> {
  const streams = 4_000;
  for (const name of ["our event stream", "our listen", "node:http by hand"]) {
    const { kind, request } = REQUESTS[name] as (typeof REQUESTS)[string];
    const server = await startServer(kind, folder);
    // What is needed once is there before the first measurement.
    const warm = await openReaders({ port: server.port, count: 100, request });
    const before = await memoryOf(server);
    const readers = await openReaders({ port: server.port, count: streams, request });
    const each = ((await memoryOf(server)) - before) / streams / 1_024;
    report("an idle stream", name, each, "KiB", kind === "tidings" ? { atMost: 25 } : {});
    readers.close();
    warm.close();
    server.stop();
  }
}

async function stalled(folder: string, report: Report): Promise<void> {
  const count = 1_000_000;
  for (const name of ["our event stream", "the SDK's listen"]) {
    const { kind, request } = REQUESTS[name] as (typeof REQUESTS)[string];
    const server = await startServer(kind, folder);
    const bad = await openBadReaders(server.port, request(1_000_000));
    // The store's and the runtime's own buffers reach their size first.
    await server.ask({ ask: "publish", count: 50_000, atOnce: 512 });
    const before = await memoryOf(server);
    await server.ask({ ask: "publish", count, atOnce: 512 });
    const grown = ((await memoryOf(server)) - before) / 1024 ** 2;
    report("a stalled reader and 1 M events", name, grown, "MiB", kind === "tidings" ? { atMost: 32 } : {});
    bad.close();
    server.stop();
  }
}

async function latency(folder: string, report: Report): Promise<void> {
  const { kind, request } = REQUESTS["our event stream"] as (typeof REQUESTS)[string];
  const server = await startServer(kind, folder);
  const bad = await openBadReaders(server.port, request(0));
  const readers = await openReaders({ port: server.port, count: 10, request, timed: true });
  await server.ask({ ask: "pace", count: 1_000, perSecond: 1_000 });
  readers.reset();
  const all = readers.until(5_000);
  await server.ask({ ask: "pace", count: 5_000, perSecond: 1_000 });
  await all;
  report("1,000 events/s, before the commit to seen", "p50", percentile(readers.delays, 50), "ms");
  report("1,000 events/s, before the commit to seen", "p95", percentile(readers.delays, 95), "ms", {
    atMost: 50,
  });
  readers.close();
  bad.close();
  server.stop();
}

async function crowd(folder: string, report: Report): Promise<void> {
  const streams = 4_000;
  const { kind, request } = REQUESTS["our event stream"] as (typeof REQUESTS)[string];
  const server = await startServer(kind, folder);
  const bad = await openBadReaders(server.port, request(0));
  let readers = await openReaders({ port: server.port, count: streams, request, timed: true });
  const all = readers.until(20);
  await server.ask({ ask: "pace", count: 20, perSecond: 4 });
  await all;
  report("4,000 streams, one event to all", "p99", percentile(readers.delays, 99), "ms", { atMost: 500 });

  const cursor = readers.cursor;
  readers.close();
  await server.ask({ ask: "publish", count: 100 });
  const begun = performance.now();
  const again = () => get().replace("\r\n\r\n", `\r\nLast-Event-ID: ${cursor}\r\n\r\n`);
  readers = await openReaders({ port: server.port, count: streams, request: again });
  await readers.until(100);
  report(
    "4,000 streams come back",
    "caught up with 100 events in",
    (performance.now() - begun) / 1_000,
    "s",
    { atMost: 30 },
  );
  readers.close();
  bad.close();
  server.stop();
}

export async function benchStreams(report: Report): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "tidings-bench-"));
  try {
    for (const streams of [500, 2_000, 4_000]) await fanOut(folder, streams, report);
    await idle(folder, report);
    await latency(folder, report);
    await crowd(folder, report);
    await stalled(folder, report);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
