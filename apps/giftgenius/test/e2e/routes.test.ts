/** Uploads and plain routes of GiftGenius, from outside. */
import { createHash } from "node:crypto";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ServerProcess } from "../../src/demo/server-process.ts";
import { startServer } from "../../src/demo/server-process.ts";
import { connectModern } from "./paths.ts";

let folder: string;
let server: ServerProcess;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "giftgenius-"));
  server = await startServer({ TIDINGS_STORE: `sqlite:${join(folder, "g.db")}`, PORT: "0" });
});
afterAll(async () => {
  await server.stop();
  await rm(folder, { recursive: true, force: true });
});

describe("POST /uploads", () => {
  test("answers with size and digest", async () => {
    const file = "email,budget\nada@example.com,20\n";
    const response = await fetch(`${server.url}/uploads`, { method: "POST", body: file });
    expect(response.status).toBe(201);
    expect(await response.json()).toEqual({
      uploadId: expect.stringMatching(/^upl_[0-9A-Za-z_-]{22,}$/),
      bytes: Buffer.byteLength(file),
      sha256: createHash("sha256").update(file).digest("hex"),
    });
  });

  test("refuses a file that says it is larger than 1 GB, before it is read", async () => {
    const status = await new Promise((resolve, reject) => {
      const headers = { "content-length": 1024 ** 3 + 1 };
      const req = request(`${server.url}/uploads`, { method: "POST", headers }, (res) => {
        res.resume();
        resolve(res.statusCode);
      });
      req.on("error", reject);
      req.write("a");
    });
    expect(status).toBe(413);
  });

  test("leaves no file behind when the client goes away in the middle", async () => {
    const uploads = join(folder, "uploads");
    const before = await readdir(uploads);
    const req = request(`${server.url}/uploads`, {
      method: "POST",
      headers: { "content-length": 1_000_000 },
    });
    req.on("error", () => undefined);
    req.write("email,budget\n");
    await expect
      .poll(async () => (await readdir(uploads)).length, { timeout: 10_000 })
      .toBe(before.length + 1);
    req.destroy();
    await expect.poll(() => readdir(uploads), { timeout: 10_000 }).toEqual(before);
  });

  test("is closed to pages of other sites and to other host names", async () => {
    const send = (headers: Record<string, string>) =>
      new Promise((resolve) => {
        request(`${server.url}/uploads`, { method: "POST", headers }, (res) => {
          res.resume();
          resolve(res.statusCode);
        }).end("a");
      });
    expect(await send({ origin: "https://evil.example" })).toBe(403);
    expect(await send({ host: "evil.example" })).toBe(403);
  });
});

describe("what is no file", () => {
  test.each([
    ["a form", { "content-type": "multipart/form-data; boundary=x" }],
    ["compressed bytes", { "content-encoding": "gzip" }],
  ])("is refused by POST /uploads instead of failing later: %s", async (_what, headers) => {
    const response = await fetch(`${server.url}/uploads`, { method: "POST", headers, body: "email\n" });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { code: "BAD_INPUT", hint: expect.any(String) } });
  });
});

describe("plain routes", () => {
  test.each(["/", "/healthz", "/uploads"])("%s says which methods it knows", async (path) => {
    const response = await fetch(server.url + path, { method: "PUT" });
    expect(response.status).toBe(405);
    expect(response.headers.get("allow")).toMatch(/GET|POST/);
    expect(await response.json()).toMatchObject({ error: { code: "METHOD_NOT_ALLOWED" } });
  });

  test.each([
    ["/jobs/bulk_unknown", 404, "JOB_NOT_FOUND"],
    ["/jobs/bulk_unknown/events", 404, "JOB_NOT_FOUND"],
    ["/nowhere", 404, "NOT_FOUND"],
  ])("GET %s is a %d with the error as JSON", async (path, status, code) => {
    const response = await fetch(server.url + path);
    expect(response.status).toBe(status);
    expect(await response.json()).toMatchObject({ error: { code } });
  });

  test("a damaged cursor is a 400 with the error as JSON on SSE, and -32602 with its code on listen", async () => {
    const client = await connectModern(server.url);
    const { structuredContent } = await client.callTool({ name: "refresh_product_feed", arguments: {} });
    const { jobId } = structuredContent as { jobId: string };
    const response = await fetch(`${server.url}/jobs/${jobId}/events?after=damaged`);
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { code: "BAD_CURSOR" } });
    const filter = { "dev.tidings/jobs": { jobIds: [jobId], after: "damaged" } };
    await expect(client.listen(filter as never)).rejects.toMatchObject({
      code: -32602,
      data: { code: "BAD_CURSOR" },
    });
    await client.close();
  });
});
