import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import type { ServerEvent } from "@modelcontextprotocol/server";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { createTidings, type Tidings } from "tidings";
import { createServerEventBus } from "tidings/mcp";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { systemClock } from "../../src/engine/system-clock.ts";
import { forward, signalOf, toWebRequest } from "../../src/mcp/server/http-message.ts";
import { MODERN, PATIENTLY } from "./support.ts";

const updated = (uri: string): ServerEvent => ({ kind: "resource_updated", uri });

describe("an event bus over the log", () => {
  let folder: string;
  let tidings: Tidings[];
  const errors: unknown[] = [];
  const onError = (error: unknown) => errors.push(error);
  /** A tidings on the one store, as another process would open it. */
  const open = async () => {
    const one = await createTidings({ store: `sqlite:${join(folder, "jobs.db")}`, jobs: [] });
    tidings.push(one);
    return one;
  };
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "tidings-bus-"));
    tidings = [];
    errors.length = 0;
  });
  afterEach(async () => {
    for (const one of tidings) await one.close();
    await rm(folder, { recursive: true, force: true });
    expect(errors).toEqual([]);
  });

  it("carries what one process publishes to the listeners of all, in order, with its params", async () => {
    const buses = [
      await createServerEventBus(await open(), { onError }),
      await createServerEventBus(await open(), { onError }),
    ];
    const heard: ServerEvent[][] = buses.map((bus) => {
      const events: ServerEvent[] = [];
      bus.subscribe((event) => events.push(event));
      return events;
    });
    const published: ServerEvent[] = [
      { kind: "tools_list_changed" },
      { kind: "prompts_list_changed" },
      { kind: "resources_list_changed" },
      ...Array.from({ length: 50 }, (_, at) => updated(`shop://${at}`)),
      { kind: "resource_updated", uri: "shop://feed", params: { _meta: { note: "new" } } },
    ];
    for (const event of published) buses[0]?.publish(event);
    for (const events of heard) {
      await expect.poll(() => events.length, PATIENTLY).toBe(published.length);
      expect(events).toEqual(published);
    }
  });

  it("is heard by a listener from its subscription on, and not after", async () => {
    const bus = await createServerEventBus(await open(), { onError });
    const [first, second]: [ServerEvent[], ServerEvent[]] = [[], []];
    const stop = bus.subscribe((event) => first.push(event));
    bus.subscribe((event) => second.push(event));
    bus.publish(updated("a:1"));
    await expect.poll(() => second.length, PATIENTLY).toBe(1);
    stop();
    stop();
    bus.publish(updated("a:2"));
    await expect.poll(() => second.length, PATIENTLY).toBe(2);
    expect(first).toEqual([updated("a:1")]);
    bus.close();
    bus.publish(updated("a:3"));
    expect(second).toHaveLength(2);
  });

  it("a listener that throws keeps nobody else from hearing", async () => {
    const bus = await createServerEventBus(await open(), { onError });
    const heard: ServerEvent[] = [];
    bus.subscribe(() => {
      throw new Error("I do not listen");
    });
    bus.subscribe((event) => heard.push(event));
    bus.publish(updated("a:1"));
    bus.publish(updated("a:2"));
    await expect.poll(() => heard.length, PATIENTLY).toBe(2);
    expect(errors.splice(0)).toHaveLength(2);
  });

  it("stands in no log of a user", async () => {
    const one = await open();
    const bus = await createServerEventBus(one, { onError });
    const heard: ServerEvent[] = [];
    bus.subscribe((event) => heard.push(event));
    bus.publish(updated("a:1"));
    await expect.poll(() => heard.length, PATIENTLY).toBe(1);
    expect((await one.read({ owner: "local" })).events).toEqual([]);
  });

  it("a stock client that listens at one server of the SDK hears what another publishes", async () => {
    const bus = await createServerEventBus(await open(), { onError });
    const other = await createServerEventBus(await open(), { onError });
    const handler = createMcpHandler(
      () => {
        const server = new McpServer({ name: "bus", version: "1.0.0" });
        server.registerResource("feed", "shop://feed", {}, async (uri) => ({
          contents: [{ uri: uri.href, text: "x" }],
        }));
        server.server.registerCapabilities({ resources: { subscribe: true, listChanged: true } });
        return server;
      },
      { bus },
    );
    const http = createServer(async (req, res) => {
      const chunks: Buffer[] = [];
      for await (const chunk of req) chunks.push(chunk as Buffer);
      const parsedBody = chunks.length === 0 ? undefined : JSON.parse(Buffer.concat(chunks).toString());
      const request = toWebRequest(req, req.url ?? "/", signalOf(res));
      await forward(await handler.fetch(request, { parsedBody }), res, {
        clock: systemClock,
        stallMs: 60_000,
      });
    });
    await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
    const client = new Client({ name: "stock", version: "1.0.0" }, MODERN);
    const heard: unknown[] = [];
    client.setNotificationHandler("notifications/resources/updated", async ({ params }) => {
      heard.push(params.uri);
    });
    const { port } = http.address() as AddressInfo;
    await client.connect(new StreamableHTTPClientTransport(new URL(`http://127.0.0.1:${port}/mcp`)));
    await client.listen({ resourceSubscriptions: ["shop://feed"] });
    other.publish(updated("shop://other"));
    other.publish(updated("shop://feed"));
    await expect.poll(() => heard, PATIENTLY).toEqual(["shop://feed"]);
    await client.close();
    await handler.close();
    http.closeAllConnections();
    await new Promise((resolve) => http.close(resolve));
  });
});
