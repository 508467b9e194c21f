/** What a client and an operator learn when an upload cannot be kept, and which pages may upload at all. */
import { mkdtemp, rm } from "node:fs/promises";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { TidingsError } from "tidings";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { GiftGenius } from "../../src/app.ts";
import { openGiftGenius } from "../../src/app.ts";
import { readConfig } from "../../src/config.ts";
import type { HttpServer } from "../../src/http.ts";
import { serveHttp } from "../../src/http.ts";
import { openUploads } from "../../src/uploads.ts";

let app: GiftGenius;
let server: HttpServer | undefined;

beforeEach(async () => {
  app = await openGiftGenius(readConfig({ TIDINGS_STORE: "memory:" }));
});
afterEach(async () => {
  vi.restoreAllMocks();
  await server?.close();
  server = undefined;
  await app.close();
});

async function serve(env: Readonly<Record<string, string>> = {}, uploads = app.uploads): Promise<string> {
  server = await serveHttp({ ...app, uploads }, readConfig({ PORT: "0", ...env }));
  return server.url;
}

interface Answer {
  readonly status: number | undefined;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: string;
}

/** `fetch` does not let its caller choose `Host` and `Origin`. */
function send(url: string, method: string, headers: Record<string, string>, body = ""): Promise<Answer> {
  return new Promise((resolve, reject) => {
    request(`${url}/uploads`, { method, headers }, (response) => {
      let text = "";
      response.on("data", (chunk: Buffer) => {
        text += chunk.toString();
      });
      response.on("end", () =>
        resolve({ status: response.statusCode, headers: response.headers, body: text }),
      );
    })
      .on("error", reject)
      .end(body);
  });
}

test.each([100, 30_000_000])(
  "a file of %i bytes that cannot be written is a 500 that the client reads, and one line for the operator",
  async (bytes) => {
    const stderr = vi.spyOn(process.stderr, "write").mockReturnValue(true);
    const folder = await mkdtemp(join(tmpdir(), "giftgenius-"));
    const uploads = await openUploads(folder, () => app.tidings, { retentionMs: 3_600_000 });
    const url = await serve({}, uploads);
    // As an unmounted or a full disk does it: opening the draft fails.
    await rm(folder, { recursive: true });
    const { status, body } = await send(url, "POST", {}, "x".repeat(bytes));
    expect(status).toBe(500);
    expect(JSON.parse(body)).toMatchObject({ error: { code: "INTERNAL", retryable: true } });
    expect(body).not.toContain("ENOENT");
    const lines = stderr.mock.calls.map(([line]) => JSON.parse(String(line)) as object);
    expect(lines).toEqual([expect.objectContaining({ level: "error", during: "POST /uploads" })]);
    expect(JSON.stringify(lines)).toContain("ENOENT");
    await uploads.close();
  },
);

test("a client that goes away in the middle of its upload is no fault of the server", async () => {
  const stderr = vi.spyOn(process.stderr, "write").mockReturnValue(true);
  let received: Promise<unknown> | undefined;
  const url = await serve(
    {},
    {
      ...app.uploads,
      receive(...file) {
        const upload = app.uploads.receive(...file);
        received = upload.catch(() => undefined);
        return upload;
      },
    },
  );
  const call = request(`${url}/uploads`, { method: "POST", headers: { "content-length": 1_000_000 } });
  call.on("error", () => undefined);
  call.write("email\n");
  await expect.poll(() => received !== undefined).toBe(true);
  call.destroy();
  await received;
  await server?.close();
  server = undefined;
  expect(stderr).not.toHaveBeenCalled();
});

test("a busy store is a 503, as its code says", async () => {
  vi.spyOn(process.stderr, "write").mockReturnValue(true);
  const grant = () => Promise.reject(new TidingsError("STORE_BUSY", "The store is busy."));
  const url = await serve({}, { ...app.uploads, grant });
  const { status, body } = await send(url, "POST", {}, "email\n");
  expect(status).toBe(503);
  expect(JSON.parse(body)).toMatchObject({ error: { code: "STORE_BUSY", retryable: true } });
});

test("pages of other sites and other host names are let in by name only", async () => {
  const foreign = { origin: "https://app.example" };
  const closed = await serve();
  expect((await send(closed, "POST", foreign, "a")).status).toBe(403);
  expect((await send(closed, "POST", { origin: "null" }, "a")).status).toBe(403);
  expect((await send(closed, "POST", { host: "gifts.example" }, "a")).status).toBe(403);
  await server?.close();

  const open = await serve({
    TIDINGS_ALLOWED_HOSTS: "gifts.example, other.example",
    TIDINGS_ALLOWED_ORIGINS: "https://app.example,null",
  });
  const allowed = await send(open, "POST", foreign, "a");
  expect(allowed.status).toBe(201);
  expect(allowed.headers["access-control-allow-origin"]).toBe("https://app.example");
  expect(allowed.headers["access-control-expose-headers"]).toBe("WWW-Authenticate, Retry-After, Allow");
  expect((await send(open, "POST", { origin: "null" }, "a")).status).toBe(201);
  expect((await send(open, "POST", { host: "gifts.example" }, "a")).status).toBe(201);
  expect((await send(open, "POST", { origin: "https://evil.example" }, "a")).status).toBe(403);
  const preflight = await send(open, "OPTIONS", { ...foreign, "access-control-request-method": "POST" });
  expect(preflight.status).toBe(204);
  expect(preflight.headers["access-control-allow-headers"]).toBe("content-type");
  const job = await fetch(`${open}/jobs/bulk_unknown`, { headers: foreign });
  expect(job.status).toBe(404);
});
