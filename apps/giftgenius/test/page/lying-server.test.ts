/** The page against a stream that tells its story wrongly: repeated, out of order, backwards, and on after the end. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { renderPage } from "../../src/page/page.ts";
import type { BrowserPages } from "./browser-page.ts";
import { openBrowser } from "./browser-page.ts";

const JOB = "bulk_lies";
let seq = 0;

function event(type: string, payload: object, number = ++seq): string {
  const data = {
    eventId: `e${number}`,
    type,
    timestamp: "2026-11-30T12:00:00Z",
    jobId: JOB,
    seq: number,
    ...payload,
  };
  return `id: c${number}\nevent: ${type}\ndata: ${JSON.stringify(data)}\n\n`;
}

const progress = (percentage: number, number?: number) =>
  event("job.progress", { percentage, stage: `At ${percentage}`, stageKey: "match" }, number);
const error = { code: "LATE", message: "Too late.", retryable: false };

const STORY = [
  ": a comment\n\n",
  event("job.created", { jobType: "bulk_gift_analysis" }),
  event("job.started", { attempt: 1 }),
  progress(50),
  progress(30),
  progress(50, 3),
  progress(Number.MAX_SAFE_INTEGER),
  event("job.progress", { percentage: "99", stage: 1 }),
  progress(60),
  "data: not for us\nevent: nonsense\r\n",
  "\r\n",
  event("job.canceled", { canceledBy: "user" }),
  event("job.failed", { error }),
  progress(90),
  event("job.completed", { resultResourceId: "resource:gifts:bulk_lies" }),
];

const server = createServer((request, response) => {
  if (request.url === "/") {
    response.setHeader("content-type", "text/html; charset=utf-8");
    response.end(renderPage({ serverUrl: "" }));
  } else if (request.url?.startsWith(`/jobs/${JOB}/events`)) {
    response.setHeader("content-type", "text/event-stream");
    for (const piece of STORY.join("")) response.write(piece);
    response.end();
  } else {
    response.statusCode = 404;
    response.end("{}");
  }
});
let browser: BrowserPages;

beforeAll(async () => {
  await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
  browser = await openBrowser();
}, 60_000);
afterAll(async () => {
  await browser?.close();
  server.close();
});

test("the bar never goes back, the first ending stays, and nonsense is passed over", async () => {
  const { port } = server.address() as AddressInfo;
  const { page, percentages } = await browser.open(`http://127.0.0.1:${port}/#job=${JOB}`);
  await page.waitForSelector("#run[data-status=canceled]");
  await page.waitForFunction(() => document.querySelector("#bar")?.getAttribute("aria-valuenow") === "60");
  const shown = await percentages();
  expect(shown).toEqual([...shown].sort((a, b) => a - b));
  expect(Math.max(...shown)).toBe(60);
  expect(await page.textContent("#run-title")).toBe("Canceled");
  expect(await page.locator("#run-error").textContent()).toBe("");
});
