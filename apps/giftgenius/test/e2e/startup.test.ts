/** What an operator sees when the server cannot start: one clear sentence on stderr, nothing on stdout, exit code 1. */
import { spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createTidings, openEngine } from "tidings";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { RUN_ARGS, startServer } from "../../src/demo/server-process.ts";
import { connectModern, openStdio } from "./paths.ts";

const MAIN = fileURLToPath(new URL("../../src/main.ts", import.meta.url));

function run(
  env: Readonly<Record<string, string>>,
): Promise<{ code: number | null; out: string; err: string }> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [...RUN_ARGS, MAIN], {
      env: { ...process.env, ...env },
      timeout: 20_000,
    });
    let out = "";
    let err = "";
    child.stdout.on("data", (chunk: Buffer) => {
      out += chunk.toString();
    });
    child.stderr.on("data", (chunk: Buffer) => {
      err += chunk.toString();
    });
    child.once("exit", (code) => resolve({ code, out, err }));
  });
}

describe("a server that cannot start", () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "giftgenius-"));
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  async function expectSentence(env: Readonly<Record<string, string>>, sentence: RegExp): Promise<void> {
    const { code, out, err } = await run({ PORT: "0", TIDINGS_STORE: "memory:", ...env });
    expect(err.trim().split("\n")).toEqual([expect.stringMatching(sentence)]);
    expect(out).toBe("");
    expect(code).toBe(1);
  }

  test("says so when its port is in use", async () => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
    const { port } = other.address() as AddressInfo;
    await expectSentence(
      { PORT: String(port) },
      new RegExp(`^Port ${port} on 127\\.0\\.0\\.1 is already in use\\.`),
    );
    other.close();
  });

  test.each(["/proc/nowhere/giftgenius.db", "/dev/null/giftgenius.db"])(
    "says so when nothing can be written at %s, instead of hanging",
    (path) => expectSentence({ TIDINGS_STORE: `sqlite:${path}` }, new RegExp(`^The store "${path}" failed`)),
  );

  test("says so when the file is no database", async () => {
    const path = join(folder, "notes.txt");
    await writeFile(path, "this is no database, but it is long enough to look at");
    await expectSentence({ TIDINGS_STORE: `sqlite:${path}` }, /is not an SQLite database/);
  });

  test("says so when a newer version wrote the store", async () => {
    const path = join(folder, "newer.db");
    const tidings = await createTidings({ store: await openEngine(`sqlite:${path}`), jobs: [] });
    await tidings.transaction("local", ({ sql }) =>
      (sql as { exec(statement: string): void }).exec("PRAGMA user_version = 99"),
    );
    await tidings.close();
    await expectSentence(
      { TIDINGS_STORE: `sqlite:${path}` },
      /has version 99, but this program knows only versions up to/,
    );
  });

  test.each([
    [{ PORT: "seventy" }, /^PORT is "seventy", but must be a whole number/],
    [{ TIDINGS_LEASE_MS: "-1" }, /^TIDINGS_LEASE_MS is "-1", but must be a whole number/],
    [{ TIDINGS_STORE: "mysql://db" }, /^The store "mysql:\/\/db" is not understood\./],
    [{ GIFTGENIUS_CATALOGUE: "/nowhere" }, /\/nowhere/],
  ])("says which setting is wrong: %o", (env, sentence) => expectSentence(env, sentence));
});

describe("a server that starts", () => {
  test("tells hosts of an address for the page's frame over HTTP, and of none on stdio", async () => {
    const uri = "ui://giftgenius/page";
    const server = await startServer({ PORT: "0", TIDINGS_STORE: "memory:" });
    const client = await connectModern(server.url);
    const served = await client.readResource({ uri });
    expect(served.contents[0]?._meta).toMatchObject({ ui: { csp: { connectDomains: [server.url] } } });
    await client.close();
    await server.stop();

    const stdio = openStdio({ TIDINGS_STORE: "memory:" });
    await stdio.request("initialize", {
      protocolVersion: "2025-11-25",
      capabilities: {},
      clientInfo: { name: "host", version: "1.0.0" },
    });
    stdio.notify("notifications/initialized");
    const { result } = await stdio.request("resources/read", { uri });
    const [page] = (result as { contents: { text: string; _meta: object }[] }).contents;
    expect(page?._meta).toMatchObject({ ui: { csp: { connectDomains: [] } } });
    expect(page?.text).not.toContain("data-server=");
    expect(await stdio.close()).toBe(0);
  });

  test("makes the folders of its store, says that it is healthy, and ends in order with code 0", async () => {
    const folder = await mkdtemp(join(tmpdir(), "giftgenius-"));
    const server = await startServer({
      PORT: "0",
      TIDINGS_STORE: `sqlite:${join(folder, "deep", "down", "g.db")}`,
    });
    const response = await fetch(`${server.url}/healthz`);
    expect(response.status).toBe(200);
    expect(await response.json()).toEqual({
      status: "ok",
      store: "sqlite",
      version: expect.stringMatching(/^\d+\.\d+\.\d+$/),
    });
    expect(await server.stop()).toBe(0);
    await rm(folder, { recursive: true, force: true });
  });
});
