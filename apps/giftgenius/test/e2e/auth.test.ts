/** GiftGenius for more than one person: the development tokens, the real server, its page, and what is refused. */
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readConfig } from "../../src/config.ts";
import type { ServerProcess } from "../../src/demo/server-process.ts";
import { RUN_ARGS, startServer } from "../../src/demo/server-process.ts";
import type { CatalogueFolder } from "../jobs/catalogue-folder.ts";
import { copyCatalogue } from "../jobs/catalogue-folder.ts";
import type { BrowserPages } from "../page/browser-page.ts";
import { openBrowser, SMALL_CSV, startWith } from "../page/browser-page.ts";

const DEV_TOKEN = fileURLToPath(new URL("../../src/dev-token/main.ts", import.meta.url));
const run = promisify(execFile);

let folder: string;
let server: ServerProcess;
let catalogue: CatalogueFolder;
let alice: string;
let bob: string;
let told: string;

async function devToken(...args: string[]): Promise<{ stdout: string; stderr: string }> {
  return run(process.execPath, [...RUN_ARGS, DEV_TOKEN, "--folder", join(folder, "keys"), ...args], {
    timeout: 30_000,
  });
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "giftgenius-"));
  const first = await devToken("--sub", "alice");
  alice = first.stdout.trim();
  told = first.stderr;
  bob = (await devToken("--sub", "bob")).stdout.trim();
  const env = Object.fromEntries([...told.matchAll(/(TIDINGS_AUTH_\w+)=(\S+)/g)].map(([, k, v]) => [k, v]));
  catalogue = await copyCatalogue();
  server = await startServer({
    PORT: "0",
    TIDINGS_STORE: `sqlite:${join(folder, "g.db")}`,
    GIFTGENIUS_CATALOGUE: catalogue.path,
    ...env,
  });
}, 60_000);
afterAll(async () => {
  await server?.stop();
  await catalogue?.remove();
  await rm(folder, { recursive: true, force: true });
});

const as = (token: string) => ({ authorization: `Bearer ${token}` });

async function connect(token: string): Promise<Client> {
  const client = new Client(
    { name: "auth", version: "1.0.0" },
    { versionNegotiation: { mode: { pin: "2026-07-28" } } },
  );
  const requestInit = { headers: as(token) };
  await client.connect(new StreamableHTTPClientTransport(new URL(`${server.url}/mcp`), { requestInit }));
  return client;
}

async function upload(token: string): Promise<string> {
  const response = await fetch(`${server.url}/uploads`, {
    method: "POST",
    body: SMALL_CSV,
    headers: as(token),
  });
  expect(response.status).toBe(201);
  return ((await response.json()) as { uploadId: string }).uploadId;
}

describe("the development tokens", () => {
  test("come with the environment to start the server with, and a key that only its owner can read", async () => {
    expect(told).toMatch(/TIDINGS_AUTH_ISSUER=\S+ TIDINGS_AUTH_AUDIENCE=\S+ TIDINGS_AUTH_JWKS=\S+ npm start/);
    expect(told).not.toContain(alice);
    expect((await stat(join(folder, "keys", "private.pem"))).mode & 0o777).toBe(0o600);
    expect(await readFile(join(folder, "keys", "jwks.json"), "utf8")).not.toMatch(/"d":/);
  });

  test("say what is wrong with their options", async () => {
    await expect(devToken("--minutes", "0")).rejects.toMatchObject({
      code: 2,
      stderr: expect.stringContaining("--minutes must be a number above 0"),
    });
    await expect(devToken("--nonsense")).rejects.toMatchObject({ code: 2 });
  });
});

describe("a server that people sign in to", () => {
  test("shows its page, its example and its health to everybody, and nothing else", async () => {
    const status = async (path: string, init: RequestInit = {}) => {
      const response = await fetch(server.url + path, init);
      await response.text();
      return response.status;
    };
    expect(await status("/")).toBe(200);
    expect(await status("/healthz")).toBe(200);
    expect(await status("/examples/employees-2000.csv")).toBe(200);
    for (const [path, method] of [
      ["/uploads", "POST"],
      ["/mcp", "POST"],
      ["/mcp", "GET"],
      ["/jobs/x", "GET"],
      ["/jobs/x/events", "GET"],
      ["/jobs/x/cancel", "POST"],
      ["/events", "GET"],
    ] as const) {
      expect([path, await status(path, { method })]).toEqual([path, 401]);
      expect([path, await status(path, { method, headers: as(`${alice.slice(0, -4)}AAAA`) })]).toEqual([
        path,
        401,
      ]);
    }
  });

  test.each(["/uploads", "/mcp", "/events"])(
    "lets a page of an allowed origin read at %s where to sign in and when to come back",
    async (path) => {
      const origin = new URL(server.url).origin;
      const { status, headers } = await fetch(server.url + path, { method: "POST", headers: { origin } });
      expect([401, 405]).toContain(status);
      const exposed = (headers.get("access-control-expose-headers") ?? "").split(", ");
      expect(exposed).toEqual(expect.arrayContaining(["WWW-Authenticate", "Retry-After", "Allow"]));
      expect([headers.has("www-authenticate"), headers.has("allow")]).toContain(true);
    },
  );

  test("an upload belongs to who sent it; for others it was never there", async () => {
    const uploadId = await upload(alice);
    const clients = { alice: await connect(alice), bob: await connect(bob) };
    const start = async (client: Client, id: string) =>
      client.callTool({ name: "start_bulk_gift_analysis", arguments: { uploadId: id } });
    const foreign = await start(clients.bob, uploadId);
    const unknown = await start(clients.bob, `upl_${"A".repeat(24)}`);
    expect(foreign).toMatchObject({ isError: true });
    expect(foreign).toEqual(unknown);
    expect((await start(clients.alice, uploadId)).isError).toBeFalsy();
    for (const client of Object.values(clients)) await client.close();
  });

  test("a gift list is there for its owner only: as a resource, by page, as a snapshot and as a story", async () => {
    const [owner, other] = [await connect(alice), await connect(bob)];
    const started = await owner.callTool({
      name: "start_bulk_gift_analysis",
      arguments: { uploadId: await upload(alice) },
    });
    const { jobId } = started.structuredContent as { jobId: string };
    const story = await fetch(`${server.url}/jobs/${jobId}/events`, { headers: as(alice) });
    expect(await story.text()).toContain("event: job.completed");

    const page = (client: Client, id: string) =>
      client.callTool({ name: "get_gift_recommendations", arguments: { jobId: id } });
    expect((await page(owner, jobId)).structuredContent).toMatchObject({ total: 1, complete: true });
    const madeUp = `bulk_${"A".repeat(22)}`;
    expect(await page(other, jobId)).toEqual(await page(other, madeUp));
    const refusal = (id: string) =>
      other.readResource({ uri: `resource:gifts:${id}` }).then(
        () => "read",
        (error: Error) => error.message.replaceAll(id, "ID"),
      );
    expect(await refusal(jobId)).toBe(await refusal(madeUp));
    for (const path of ["", "/events"]) {
      const answers = await Promise.all(
        [jobId, madeUp].map(async (id) => {
          const response = await fetch(`${server.url}/jobs/${id}${path}`, { headers: as(bob) });
          return [response.status, await response.text()];
        }),
      );
      expect(answers[0]).toEqual(answers[1]);
      expect(answers[0]?.[0]).toBe(404);
    }
    const { structuredContent } = await other.callTool({ name: "list_my_jobs", arguments: {} });
    expect(structuredContent).toEqual({ jobs: [] });
    await owner.close();
    await other.close();
  });
});

describe("the page", () => {
  let browser: BrowserPages;
  beforeAll(async () => {
    browser = await openBrowser();
  }, 60_000);
  afterAll(() => browser?.close());

  test("takes the token out of the address and signs all its requests with it, after a reload too", async () => {
    const { page, errors } = await browser.open(`${server.url}/#token=${alice}`);
    expect(page.url()).toBe(`${server.url}/`);
    await startWith(page, SMALL_CSV);
    await page.waitForSelector("#rows tr");
    await page.reload();
    await page.waitForSelector("#rows tr");
    expect(page.url()).not.toContain(alice.slice(-20));
    expect(errors).toEqual([]);
    await page.close();
  });

  test("asks for the token, says when one is not accepted, and goes on with the list that it was opened for", async () => {
    const first = await browser.open(`${server.url}/#token=${alice}`);
    await startWith(first.page, SMALL_CSV);
    await first.page.waitForSelector("#rows tr");
    const address = first.page.url();
    await first.page.context().close();

    const { page } = await browser.open(address);
    await page.waitForSelector("#sign-in:not([hidden])");
    expect(await page.isVisible("#choose")).toBe(false);
    await page.fill("#token", "not.a.token");
    await page.click("#sign-in button");
    await page.waitForSelector("#sign-in-text:has-text('not accepted')");
    await page.fill("#token", alice);
    await page.click("#sign-in button");
    await page.waitForSelector("#rows tr");
    expect(await page.isVisible("#sign-in")).toBe(false);
    await page.close();
  });

  test("lights up for everybody whose list came from the feed before, whoever had it read again", async () => {
    const { page, errors } = await browser.open(`${server.url}/#token=${bob}`);
    await startWith(page, SMALL_CSV);
    await page.waitForSelector("#rows tr");
    expect(await page.locator("#refresh.lit").count()).toBe(0);

    catalogue.rename("NEW-");
    const client = await connect(alice);
    await client.callTool({ name: "refresh_product_feed", arguments: {} });
    await page.waitForSelector("#refresh.lit");
    expect((await page.textContent("#changes"))?.trim()).toBe("1 change");
    expect(errors).toEqual([]);
    await client.close();
    await page.context().close();
  });

  test("tells another person that the list is not there", async () => {
    const first = await browser.open(`${server.url}/#token=${alice}`);
    await startWith(first.page, SMALL_CSV);
    await first.page.waitForSelector("#rows tr");
    const fragment = new URL(first.page.url()).hash.slice(1);
    const { page } = await browser.open(`${server.url}/#${fragment}&token=${bob}`);
    await page.waitForSelector("#lost:has-text('This list is not here')");
    expect(page.url()).toBe(`${server.url}/#${fragment}`);
  });
});

describe("the settings", () => {
  const jwks = "https://login.example/keys";
  const NAMES = { TIDINGS_AUTH_ISSUER: "a", TIDINGS_AUTH_AUDIENCE: "b" };
  test.each([
    [
      { TIDINGS_AUTH_ISSUER: "a" },
      /TIDINGS_AUTH_AUDIENCE and TIDINGS_AUTH_JWKS are missing: signing in needs all/,
    ],
    [{ TIDINGS_AUTH_ISSUER: "a", TIDINGS_AUTH_JWKS: jwks }, /^TIDINGS_AUTH_AUDIENCE is missing/],
    [
      { TIDINGS_AUTH_ISSUER: "a", TIDINGS_AUTH_AUDIENCE: "b", TIDINGS_AUTH_JWKS: "/nowhere/keys.json" },
      /^TIDINGS_AUTH_JWKS is "\/nowhere\/keys.json": neither an address nor a file/,
    ],
    [
      { ...NAMES, TIDINGS_AUTH_JWKS: "https://" },
      /^TIDINGS_AUTH_JWKS is "https:\/\/": .*no complete address/,
    ],
    [
      { ...NAMES, TIDINGS_AUTH_JWKS: "http://login.example/keys" },
      /^TIDINGS_AUTH_JWKS is "http:.*need https/,
    ],
    [{ ...NAMES, TIDINGS_AUTH_JWKS: tmpdir() }, /^TIDINGS_AUTH_JWKS is ".*": .*not a readable JSON file/],
    [{ ...NAMES, TIDINGS_AUTH_JWKS: DEV_TOKEN }, /^TIDINGS_AUTH_JWKS is ".*": .*not a readable JSON file/],
    [{ TIDINGS_ALLOW_ANONYMOUS: "maybe" }, /^TIDINGS_ALLOW_ANONYMOUS is "maybe"/],
  ])("are refused with a sentence: %o", (env, sentence) => {
    expect(() => readConfig(env)).toThrow(sentence);
  });

  test.each(["0.0.0.0", "::", "192.0.2.1", "127.0.0.1.evil.example"])(
    "without sign-in nothing is served on %s, unless that is wanted",
    async (host) => {
      const start = (more: Record<string, string>) =>
        startServer({ PORT: "0", TIDINGS_STORE: "memory:", HOST: host, ...more });
      await expect(start({})).rejects.toThrow(
        /^HOST is ".+", which other machines may reach.*TIDINGS_AUTH_ISSUER.*or TIDINGS_ALLOW_ANONYMOUS=1/,
      );
      if (host !== "0.0.0.0") return;
      const open = await start({ TIDINGS_ALLOW_ANONYMOUS: "1" });
      expect((await fetch(`${open.url}/jobs/x`)).status).toBe(404);
      await open.stop();
    },
  );
});
