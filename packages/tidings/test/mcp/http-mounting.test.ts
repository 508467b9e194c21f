/** The handler inside other people's servers. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, it } from "vitest";
import type { HttpHandler } from "../../src/mcp/server/http-handler.ts";
import { createHttpHandler } from "../../src/mcp/server/http-handler.ts";
import { createTidings } from "../../src/runtime/create-tidings.ts";
import { initialize, listen, modern } from "./http-mcp.ts";
import { openEvents } from "./http-reader.ts";
import { quick, serverFactory } from "./http-world.ts";

const cleanups: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

/** @param mount - How the framework hands a request over. */
async function serve(
  mount: (handler: HttpHandler) => Parameters<typeof createServer>[1],
  options: { mcpPath?: string; jobsPath?: string; eventsPath?: string } = {},
) {
  const tidings = await createTidings({ store: "memory:", jobs: [quick] });
  const handler = createHttpHandler(tidings, { server: serverFactory(tidings), ...options });
  const server = createServer(mount(handler) as never);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  cleanups.push(
    () => tidings.close(),
    () => new Promise((resolve) => server.close(resolve)),
    async () => server.closeAllConnections(),
    () => handler.close(),
  );
  return { tidings, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

async function readBody(req: AsyncIterable<Buffer>): Promise<unknown> {
  let text = "";
  for await (const chunk of req) text += chunk;
  return text === "" ? undefined : JSON.parse(text);
}

const frameworks: Record<string, (handler: HttpHandler) => Parameters<typeof createServer>[1]> = {
  "a body parser that sets req.body": (handler) => async (req, res) => {
    Object.assign(req, { body: await readBody(req) });
    await handler.handle(req, res);
  },
  "a framework that hands the parsed body over": (handler) => async (req, res) => {
    await handler.handle(req, res, await readBody(req));
  },
};

it.each(Object.entries(frameworks))("works behind %s, in both generations", async (_, mount) => {
  const { url } = await serve(mount);
  const called = await modern(url, "tools/call", { name: "start_quick", arguments: { steps: 1 } });
  expect(called.status).toBe(200);
  expect(await called.json()).toMatchObject({ result: { structuredContent: { status: "pending" } } });
  expect(await initialize(url)).toMatch(/./);
  const listening = await listen(url, { "dev.tidings/jobs": {} });
  expect((await listening.next())?.method).toBe("notifications/subscriptions/acknowledged");
  listening.reader.close();
});

it("serves at other paths when told so", async () => {
  const { tidings, url } = await serve((handler) => (req, res) => void handler.handle(req, res), {
    jobsPath: "/api/jobs",
    eventsPath: "/api/events",
  });
  const { jobId } = await tidings.start(quick, { steps: 1 });
  const frames = await (await openEvents(`${url}/api/jobs/${jobId}/events`)).rest();
  expect(frames.at(-1)?.event).toBe("job.completed");
});
