/**
 * The server side of the benchmarks of streams, a process of its own: Tidings over SQLite, a fan-out by hand over
 * `node:http`, or the SDK's own `subscriptions/listen`. It does what its parent asks for by messages.
 */
import { createServer, type ServerResponse } from "node:http";
import { setTimeout as pause, setImmediate as turn } from "node:timers/promises";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { createTidings, type TidingsEvent } from "tidings";
import { createHttpHandler } from "tidings/mcp";

export type Kind = "tidings" | "raw" | "sdk";

export type Ask =
  | { readonly ask: "memory" }
  /** Events, told to all streams as fast as the server can; a store is given so many of them at once (default 64). */
  | { readonly ask: "publish"; readonly count: number; readonly atOnce?: number }
  /** Events at a pace. */
  | { readonly ask: "pace"; readonly count: number; readonly perSecond: number };

export type Answer =
  | { readonly answer: "listening"; readonly port: number }
  | { readonly answer: "memory"; readonly rss: number }
  | { readonly answer: "published"; readonly cpuSeconds: number };

interface Server {
  /** Resolves when the server has done its part; the sockets may still be busy. */
  publish(count: number, atOnce?: number): Promise<void>;
}

const RESOURCE = "resource:bench";
/** When it was published, on the machine's monotonic clock, for whoever measures how long it took. */
const stamp = () => `${process.hrtime.bigint()}`;

function eventOf(): {
  readonly type: "resource.updated";
  readonly resourceId: string;
  readonly changeType: string;
} {
  return { type: "resource.updated", resourceId: RESOURCE, changeType: stamp().padEnd(120, ".") };
}

async function openTidings(
  store: string,
): Promise<{ server: Server; listen(port: (port: number) => void): void }> {
  const tidings = await createTidings({ store, jobs: [], concurrency: 0 });
  const handler = createHttpHandler(tidings, {
    server: () =>
      new McpServer(
        { name: "bench", version: "1.0.0" },
        { capabilities: { resources: { subscribe: true } } },
      ),
  });
  const http = createServer((req, res) => void handler.handle(req, res));
  return {
    listen: (ready) => http.listen(0, "127.0.0.1", () => ready((http.address() as { port: number }).port)),
    server: {
      async publish(count, atOnce = 64) {
        for (let done = 0; done < count; done += atOnce) {
          const batch = Array.from({ length: Math.min(atOnce, count - done) }, () =>
            tidings.publish(eventOf(), {}),
          );
          await Promise.all(batch);
        }
      },
    },
  };
}

async function openRaw(): Promise<{ server: Server; listen(port: (port: number) => void): void }> {
  const streams = new Set<ServerResponse>();
  let events = 0;
  const http = createServer((_, res) => {
    res.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-cache, no-transform" });
    res.write(": open\n\n");
    streams.add(res);
    res.on("close", () => streams.delete(res));
  });
  return {
    listen: (ready) => http.listen(0, "127.0.0.1", () => ready((http.address() as { port: number }).port)),
    server: {
      async publish(count) {
        for (let done = 0; done < count; done += 1) {
          events += 1;
          const event = {
            eventId: `evt_${String(events).padStart(22, "0")}`,
            timestamp: new Date().toISOString(),
            ...eventOf(),
          };
          const id = String(events).padStart(22, "0");
          const frame = `id: ${id}\nevent: resource.updated\ndata: ${JSON.stringify(event)}\n\n`;
          // A stream that takes nothing misses the event: by hand there is no log to read it from again.
          for (const stream of streams) if (stream.writableLength < 1_048_576) stream.write(frame);
          await turn();
        }
      },
    },
  };
}

async function openSdk(): Promise<{ server: Server; listen(port: (port: number) => void): void }> {
  const handler = createMcpHandler(
    () =>
      new McpServer(
        { name: "bench", version: "1.0.0" },
        { capabilities: { resources: { subscribe: true } } },
      ),
    { legacy: "reject", maxSubscriptions: 10_000 },
  );
  const http = createServer(async (req, res) => {
    const chunks: Buffer[] = [];
    for await (const chunk of req) chunks.push(chunk);
    const parsedBody = JSON.parse(Buffer.concat(chunks).toString());
    const left = new AbortController();
    res.once("close", () => left.abort());
    const headers = Object.entries(req.headers).map(([name, value]): [string, string] => [
      name,
      String(value),
    ]);
    const init = { method: "POST", headers, signal: left.signal };
    const answer = await handler.fetch(new Request(`http://${req.headers.host}/mcp`, init), { parsedBody });
    res.writeHead(answer.status, Object.fromEntries(answer.headers));
    for await (const chunk of answer.body ?? []) {
      if (!res.write(chunk)) await drained(res);
    }
    res.end();
  });
  return {
    listen: (ready) => http.listen(0, "127.0.0.1", () => ready((http.address() as { port: number }).port)),
    server: {
      async publish(count) {
        for (let done = 0; done < count; done += 1) {
          const event: Partial<TidingsEvent> = {
            eventId: "evt_0000000000000000000000",
            timestamp: new Date().toISOString(),
            ...eventOf(),
          };
          const _meta = { "dev.tidings/event": event };
          handler.bus.publish({ kind: "resource_updated", uri: RESOURCE, params: { _meta } } as never);
          await turn();
        }
      },
    },
  };
}

function drained(res: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      res.off("drain", done);
      res.off("close", done);
      resolve();
    };
    res.once("drain", done);
    res.once("close", done);
  });
}

const [kind, store] = process.argv.slice(2) as [Kind, string];
const { server, listen } = await (kind === "tidings"
  ? openTidings(store)
  : kind === "raw"
    ? openRaw()
    : openSdk());
const say = (answer: Answer) => void process.send?.(answer);

process.on("message", async (ask: Ask) => {
  switch (ask.ask) {
    case "memory":
      for (let times = 0; times < 3; times += 1) {
        globalThis.gc?.();
        await pause(100);
      }
      return say({ answer: "memory", rss: process.memoryUsage().rss });
    case "publish": {
      const before = process.cpuUsage();
      await server.publish(ask.count, ask.atOnce);
      const { user, system } = process.cpuUsage(before);
      return say({ answer: "published", cpuSeconds: (user + system) / 1e6 });
    }
    case "pace": {
      const begun = performance.now();
      for (let done = 0; done < ask.count; ) {
        const due = Math.min(ask.count, Math.ceil(((performance.now() - begun) / 1_000) * ask.perSecond));
        const batch = [];
        for (; done < due; done += 1) batch.push(server.publish(1));
        await Promise.all(batch);
        await pause(1);
      }
      return say({ answer: "published", cpuSeconds: 0 });
    }
  }
});
process.on("disconnect", () => process.exit());
listen((port) => say({ answer: "listening", port }));
