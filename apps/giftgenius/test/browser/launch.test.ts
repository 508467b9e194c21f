import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { launchBrowser } from "./launch.ts";

const server = createServer((_request, response) => {
  response.setHeader("content-type", "text/html; charset=utf-8");
  response.end(
    `<!doctype html><title>—</title><script>document.title = navigator.language + " " + (1 + 1)</script>`,
  );
});

beforeAll(() => new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready)));
afterAll(() => server.close());

test("a real browser opens a page of a local server, runs its script and takes a picture", async () => {
  const browser = await launchBrowser();
  try {
    await (await browser.newContext()).close();
    const page = await browser.newPage();
    await page.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
    expect(await page.title()).toMatch(/ 2$/);
    expect((await page.screenshot()).subarray(1, 4).toString()).toBe("PNG");
  } finally {
    await browser.close();
  }
});
