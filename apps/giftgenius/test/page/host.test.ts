/** The page as a frame inside a host that speaks MCP Apps. */
import type { Frame, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { renderPage } from "../../src/page/page.ts";
import type { BrowserPages } from "./browser-page.ts";
import { openBrowser, SMALL_CSV } from "./browser-page.ts";
import type { ServedApp } from "./served-app.ts";
import { serveApp } from "./served-app.ts";

let browser: BrowserPages;
let server: ServedApp;

/** A site that this server is told of, and one that it is not. */
const KNOWN_SITE = "https://host.example";
const OTHER_SITE = "https://other.example";

beforeAll(async () => {
  const env = { TIDINGS_ALLOWED_ORIGINS: `${KNOWN_SITE},null` };
  [browser, server] = await Promise.all([openBrowser(), serveApp(env)]);
}, 60_000);
afterEach(() => browser.closePages());
afterAll(async () => {
  await browser?.close();
  await server?.close();
});

/** A host that answers the handshake and keeps what the page said; `say` sends the page a notification. */
const HOST = `<!doctype html><body><iframe style="width:600px;height:400px"></iframe><script>
  const frame = document.querySelector("iframe");
  window.heard = [];
  window.say = (method, params, id) => frame.contentWindow.postMessage({ jsonrpc: "2.0", id, method, params }, "*");
  window.addEventListener("message", ({ source, data }) => {
    if (source !== frame.contentWindow) return;
    window.heard.push(data);
    if (data.method !== "ui/initialize") return;
    const result = { protocolVersion: data.params.protocolVersion, hostCapabilities: {}, hostContext: { theme: "dark" } };
    source.postMessage({ jsonrpc: "2.0", id: data.id, result }, "*");
  });
  fetch("/framed").then((answer) => answer.text()).then((text) => { frame.srcdoc = text; });
</script>`;

interface HostOptions {
  /** Where the host's own page comes from. Default: the application's origin. */
  readonly site?: string;
  /** The frame has no origin, as hosts do it to pages that they do not know. */
  readonly isOpaque?: boolean;
  /** What the page is told of the application's address. */
  readonly serverUrl?: string | undefined;
}

async function openHost(
  options: HostOptions = {},
): Promise<{ host: Page; frame: Frame; heard: () => Promise<string[]> }> {
  const { site = server.url, isOpaque = false } = options;
  const serverUrl = "serverUrl" in options ? options.serverUrl : server.url;
  const body = isOpaque
    ? HOST.replace(
        "<iframe",
        '<iframe allow="local-network-access *; loopback-network *; local-network *" sandbox="allow-scripts allow-forms"',
      )
    : HOST;
  const { page: host } = await browser.open("about:blank");
  // Browsers ask their user before a site may use an address of the user's own machine.
  await host.context().grantPermissions(["local-network-access"]);
  await host.route("**/host", (route) => route.fulfill({ contentType: "text/html", body }));
  await host.route("**/framed", (route) => route.fulfill({ body: renderPage({ serverUrl }) }));
  await host.goto(`${site}/host`);
  const heard = () => host.evaluate<string[]>("window.heard.map((message) => message.method ?? 'answer')");
  await expect.poll(heard).toContain("ui/notifications/initialized");
  const frame = host.frames()[1];
  if (frame === undefined) throw new Error("The host has no frame.");
  return { host, frame, heard };
}

async function startJob(): Promise<string> {
  const upload = await fetch(`${server.url}/uploads`, { method: "POST", body: SMALL_CSV });
  const { uploadId } = (await upload.json()) as { uploadId: string };
  const stored = await server.app.uploads.find("local", uploadId);
  const job = server.app.tidings.jobs.get("bulk_gift_analysis");
  if (job === undefined) throw new Error("The application has no analysis.");
  const input = { file: stored, currency: "USD", giftsPerEmployee: 3, locale: "en" };
  return (await server.app.tidings.start(job, input)).jobId;
}

test("the page introduces itself, takes the host's theme and follows the job of a tool result", async () => {
  const { host, frame, heard } = await openHost();
  await expect.poll(() => frame.evaluate<string>("document.documentElement.style.colorScheme")).toBe("dark");
  expect((await heard())[0]).toBe("ui/initialize");

  const jobId = await startJob();
  const say = (params: object) =>
    host.evaluate((p) => (window as never as Say).say("ui/notifications/tool-result", p), params);
  await say({});
  await say({ content: [], structuredContent: { jobId } });
  await say({ content: [], structuredContent: { jobId } });
  await frame.waitForSelector("#rows tr");
  expect(await frame.textContent("#job-id")).toBe(jobId);
  expect(await heard()).toContain("ui/notifications/size-changed");
});

test("a host that never sends a result leaves the page useful: a file can be chosen", async () => {
  const { frame } = await openHost();
  await frame.setInputFiles("#file", { name: "a.csv", mimeType: "text/csv", buffer: Buffer.from(SMALL_CSV) });
  await frame.click("#start");
  await frame.waitForSelector("#rows tr");
});

test.each([
  ["without an origin", { isOpaque: true }],
  ["of a site that the server was told of", { site: KNOWN_SITE }],
])("a frame %s starts a job and shows its list", async (_what, options) => {
  const { frame } = await openHost(options);
  await frame.setInputFiles("#file", { name: "a.csv", mimeType: "text/csv", buffer: Buffer.from(SMALL_CSV) });
  await frame.click("#start");
  await frame.waitForSelector("#rows tr");
});

test("a frame of any other site cannot reach the server, and says so", async () => {
  const { frame } = await openHost({ site: OTHER_SITE });
  await frame.setInputFiles("#file", { name: "a.csv", mimeType: "text/csv", buffer: Buffer.from(SMALL_CSV) });
  await frame.click("#start");
  await frame.waitForSelector("#start-error:has-text('cannot be reached')");
});

test("on stdio the page says that no server can be reached from it, and where to look, instead of waiting", async () => {
  const { host, frame } = await openHost({ serverUrl: undefined });
  const requests: string[] = [];
  host.on("request", (request) => requests.push(request.url()));
  await frame.waitForSelector("#unserved:has-text('get_job')");
  expect(await frame.locator("#choose").isVisible()).toBe(false);
  const params = { content: [], structuredContent: { jobId: "bulk_1234567890123456789012" } };
  await host.evaluate((p) => (window as never as Say).say("ui/notifications/tool-result", p), params);
  await frame.waitForSelector("#unserved:has-text('bulk_1234567890123456789012')");
  expect(requests).toEqual([]);
});

test("a host that takes the frame down gets its answer", async () => {
  const { host, heard } = await openHost();
  await host.evaluate(() => (window as never as Say).say("ui/resource-teardown", {}, 7));
  await expect.poll(heard).toContain("answer");
});

interface Say {
  say(method: string, params: object, id?: number): void;
}
