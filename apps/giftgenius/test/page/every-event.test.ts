/** What a person sees of each type of event: a type without a visible effect on the page does not pass. */
import { readdirSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { CatalogueType } from "tidings";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { renderPage } from "../../src/page/page.ts";
import type { BrowserPages } from "./browser-page.ts";
import { openBrowser } from "./browser-page.ts";

interface Effect {
  /** The event's own fields. */
  readonly fields: object;
  /** Where the page shows it, and by which words; `value` is the bar's. */
  readonly shows: { readonly part: string; readonly text: string } | { readonly value: string } | "nothing";
}

const error = { code: "OFFERS_DOWN", message: "The offers are down.", retryable: true };
const since = "2026-11-30T12:00:00Z";

const EFFECTS: Readonly<Record<CatalogueType, Effect>> = {
  "job.created": {
    fields: { jobType: "bulk_gift_analysis", summary: "Choosing gifts" },
    shows: { part: "#run-summary", text: "Choosing gifts" },
  },
  "job.started": { fields: { attempt: 1 }, shows: { part: "#run-title", text: "Finding gifts" } },
  "job.progress": {
    fields: { percentage: 55, stage: "Matching", stageKey: "match" },
    shows: { value: "55" },
  },
  "job.retrying": {
    fields: { attempt: 1, error, delaySeconds: 60 },
    shows: { part: "#notices", text: "Try 1 stopped: The offers are down." },
  },
  "job.partial": {
    fields: { added: 20, resultResourceId: "resource:gifts:x", cursor: "p" },
    shows: { part: "#log-lines", text: "20 more results can be read." },
  },
  "job.completed": {
    fields: { resultResourceId: "resource:gifts:x", summary: "3 employees, 9 gifts" },
    shows: { part: "#run-title", text: "The list is ready" },
  },
  "job.failed": { fields: { error }, shows: { part: "#run-error", text: "The offers are down." } },
  "job.canceled": {
    fields: { canceledBy: "agent", reason: "enough" },
    shows: { part: "#run-summary", text: "Stopped by agent. Reason: enough" },
  },
  "resource.updated": {
    fields: { resourceId: "resource:product-feed", changeType: "snapshot_ready" },
    shows: { part: "#log-lines", text: "resource:product-feed changed (snapshot_ready)." },
  },
  "resource.list_changed": {
    fields: { resourceId: "resource:gifts", changeType: "added" },
    shows: { part: "#log-lines", text: "The list resource:gifts changed (added)." },
  },
  "system.log": {
    fields: { level: "warning", message: "A line for people." },
    shows: { part: "#log-lines", text: "A line for people." },
  },
  "system.degraded": {
    fields: { source: "offers", message: "It answers slowly.", since },
    shows: { part: "#notices", text: "offers is slow, results may arrive later: It answers slowly." },
  },
  "system.restored": {
    fields: { source: "offers", since },
    shows: { part: "#log-lines", text: "offers works normally again." },
  },
  // Says no more than any byte on the stream does: the page lives.
  "system.heartbeat": { fields: { cursor: "c" }, shows: "nothing" },
};
const TYPES = Object.keys(EFFECTS) as CatalogueType[];

/** The story of a job in whose id the type stands, up to the event of that type. */
function storyOf(jobId: string): string {
  const type = TYPES.find((each) => jobId === jobOf(each)) ?? "job.created";
  const before = { "job.created": 0, "job.started": 1 }[type as string] ?? 2;
  const events = [
    ...(["job.created", "job.started"] as const).slice(0, before).map((each) => ({
      type: each,
      ...EFFECTS[each].fields,
    })),
    { type, ...EFFECTS[type].fields },
  ];
  return events
    .map((event, index) => {
      const head = { eventId: `e${index}`, timestamp: new Date().toISOString(), jobId, seq: index + 1 };
      return `id: c${index}\nevent: ${event.type}\ndata: ${JSON.stringify({ ...head, ...event })}\n\n`;
    })
    .join("");
}

function jobOf(type: string): string {
  return `job_${type}`;
}

const server = createServer((request, response) => {
  const jobId = /^\/jobs\/([^/?]+)\/events/.exec(request.url ?? "")?.[1];
  if (request.url === "/") {
    response.setHeader("content-type", "text/html; charset=utf-8");
    response.end(renderPage({ serverUrl: "" }));
  } else if (jobId !== undefined) {
    response.setHeader("content-type", "text/event-stream");
    // The stream stays open: the job goes on.
    response.write(storyOf(decodeURIComponent(jobId)));
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
afterEach(() => browser.closePages());
afterAll(async () => {
  await browser?.close();
  server.closeAllConnections();
  server.close();
});

test("every type of the catalogue has its effect here", () => {
  const schemas = readdirSync(new URL("../../../../packages/tidings/schema", import.meta.url))
    .map((name) => name.replace(/\.json$/, ""))
    .filter((name) => name !== "message");
  expect([...TYPES].sort()).toEqual(schemas.sort());
});

test.each(TYPES)("%s can be seen on the page", async (type) => {
  const { port } = server.address() as AddressInfo;
  const { page } = await browser.open(`http://127.0.0.1:${port}/#job=${jobOf(type)}`);
  const { shows } = EFFECTS[type];
  if (shows === "nothing") {
    await page.waitForSelector("#run[data-status=running]");
    expect(await page.textContent("#log-lines")).not.toContain(type);
  } else if ("value" in shows) {
    await page.waitForSelector(`#bar[aria-valuenow="${shows.value}"]`);
  } else {
    await page.waitForSelector(`${shows.part}:has-text("${shows.text}")`, { state: "attached" });
  }
});
