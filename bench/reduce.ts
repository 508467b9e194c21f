/** How many events a second the fold takes in a real browser, in the bundle that a page would load. */
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { launchBrowser } from "../apps/giftgenius/test/browser/launch.ts";
import { median, type Report } from "./report.ts";

const EVENTS = 200_000;
const ROUNDS = 5;

export async function benchReduce(report: Report): Promise<void> {
  const { outputFiles } = await build({
    entryPoints: [fileURLToPath(new URL("../packages/tidings/src/client/index.ts", import.meta.url))],
    bundle: true,
    minify: true,
    format: "iife",
    globalName: "tidings",
    platform: "browser",
    write: false,
  });
  const browser = await launchBrowser();
  try {
    const page = await browser.newPage();
    await page.addScriptTag({ content: outputFiles[0]?.text ?? "" });
    const paces = await page.evaluate(measure, { events: EVENTS, rounds: ROUNDS });
    report("reduce, browser build in Chromium", "events", median(paces), "1/s", { atLeast: 1_000_000 });
  } finally {
    await browser.close();
  }
}

/** Runs in the page. */
function measure({ events, rounds }: { events: number; rounds: number }): number[] {
  const { reduce } = (
    globalThis as unknown as { tidings: { reduce: (job: unknown, event: unknown) => unknown } }
  ).tidings;
  const timestamp = "2026-12-01T10:15:00.000Z";
  const about = { jobId: "job_1", timestamp };
  const story: object[] = [
    { ...about, eventId: "evt_1", type: "job.created", seq: 1, jobType: "work" },
    { ...about, eventId: "evt_2", type: "job.started", seq: 2, attempt: 1 },
  ];
  for (let seq = 3; seq <= events; seq += 1) {
    const said = {
      percentage: (seq / events) * 100,
      stage: "Matching gifts",
      stageKey: "match",
      etaSeconds: 9,
    };
    // As from a wire: each event an object of its own.
    const event = { ...about, eventId: `evt_${seq}`, type: "job.progress", seq, ...said };
    story.push(JSON.parse(JSON.stringify(event)));
  }
  const paces: number[] = [];
  for (let round = 0; round <= rounds; round += 1) {
    let job: unknown;
    const begun = performance.now();
    for (const event of story) job = reduce(job, event);
    const seconds = (performance.now() - begun) / 1_000;
    if ((job as { seq: number }).seq !== events) throw new Error("Not every event was folded.");
    if (round > 0) paces.push(events / seconds);
  }
  return paces;
}
