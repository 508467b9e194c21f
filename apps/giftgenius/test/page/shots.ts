/**
 * Takes a picture of every state of the page, of the real application in a real browser:
 *
 *   node --import tsx --conditions=@tidings/source apps/giftgenius/test/page/shots.ts docs/screens
 */
import { mkdir, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import type { Page } from "playwright-core";
import { RetryAfter } from "tidings";
import { openBrowser, SMALL_CSV, startWith } from "./browser-page.ts";
import type { PlayedRun, ServedApp } from "./served-app.ts";
import { gate, serveApp, servePlayedApp } from "./served-app.ts";

const folder = resolve(process.argv[2] ?? "docs/screens");
const browser = await openBrowser();

/** Keeps what the window shows, without the empty space below; what moves stands still, at its end. */
async function shoot(page: Page, name: string): Promise<void> {
  await page.mouse.move(0, 0);
  const { width, height } = page.viewportSize() ?? { width: 0, height: 0 };
  const end = await page.evaluate<number>("document.querySelector('main').getBoundingClientRect().bottom");
  const clip = { x: 0, y: 0, width, height: Math.min(height, Math.ceil(end) + 24) };
  const picture = await page.screenshot({ animations: "disabled", caret: "hide", clip });
  await writeFile(join(folder, `${name}.png`), picture);
  process.stdout.write(`${name}.png ${Math.round(picture.length / 1000)} kB\n`);
}

async function shootReal(server: ServedApp): Promise<void> {
  const { page } = await browser.open(server.url);
  await page.waitForSelector("#example:not([hidden])");
  await shoot(page, "choose");
  await page.click("#example");
  await page.waitForSelector("[data-filled]");
  await page.click("#start");
  await page.waitForSelector("#rows tr");
  await page.waitForSelector("#connection[data-state=live]");
  await shoot(page, "completed");
  await page.click("#reload-feed");
  await page.waitForSelector("#refresh.lit");
  await page.waitForSelector("#feed-note:has-text('Product feed read again')");
  await shoot(page, "refresh-lit");
  await page.emulateMedia({ colorScheme: "dark" });
  await shoot(page, "dark");
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize({ width: 320, height: 900 });
  await shoot(page, "narrow");

  const failed = await browser.open(server.url);
  await startWith(failed.page, "name,budget\nAda,20\n");
  await failed.page.waitForSelector("#run-error .notice");
  await shoot(failed.page, "failed");

  const unknown = await browser.open(`${server.url}/#job=bulk_${"x".repeat(22)}`);
  await unknown.page.waitForSelector("#lost");
  await shoot(unknown.page, "unknown-job");
}

/** Takes pictures of a job whose steps are played, because the real one is over too soon. */
async function shootPlayed(run: PlayedRun, take: (page: Page) => Promise<void>): Promise<void> {
  const server = await servePlayedApp(run);
  const { page } = await browser.open(server.url);
  await startWith(page, SMALL_CSV);
  await take(page);
  await browser.closePages();
  await server.close();
}

const forEver = gate().passed;

await mkdir(folder, { recursive: true });
const server = await serveApp();
await shootReal(server);
await browser.closePages();
await server.close();
await shootPlayed(
  async (context) => {
    await context.progress("extract_interests", 1);
    await context.progress("match", 0.5);
    await forEver;
    return {};
  },
  async (page) => {
    await page.waitForSelector("#bar[aria-valuenow='55']");
    await shoot(page, "running");
    await page.click("#cancel");
    await page.click("#confirm-stop");
    await page.waitForSelector("#run[data-status=canceled]");
    await shoot(page, "canceled");
  },
);
await shootPlayed(
  async (context) => {
    await context.progress("match", 0.5);
    throw new RetryAfter(30_000, "The offers could not be read.", { code: "OFFERS_DOWN" });
  },
  async (page) => {
    await page.waitForSelector("#notices:has-text('Try 1 stopped')");
    await shoot(page, "retrying");
  },
);
await browser.close();
