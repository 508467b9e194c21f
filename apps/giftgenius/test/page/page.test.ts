/** The page as a person uses it: a real browser, the real application, the real example. */
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { BrowserPages } from "./browser-page.ts";
import { fitsItsWindow, openBrowser, SMALL_CSV, startWith } from "./browser-page.ts";
import type { ServedApp } from "./served-app.ts";
import { serveApp } from "./served-app.ts";

const EXAMPLE = fileURLToPath(new URL("../../examples/employees-2000.csv", import.meta.url));

let browser: BrowserPages;
let server: ServedApp;

beforeAll(async () => {
  [browser, server] = await Promise.all([openBrowser(), serveApp()]);
}, 60_000);
afterEach(() => browser.closePages());
afterAll(async () => {
  await browser?.close();
  await server?.close();
});

test("a file of 2,000 employees becomes a list of gifts, and every stage is shown on the way", async () => {
  const { page, errors, percentages } = await browser.open(server.url);
  await page.setInputFiles("#file", EXAMPLE);
  await page.check("input[name=gifts][value='2']");
  await page.selectOption("#currency", "EUR");
  await page.click("#start");
  await page.waitForSelector("#rows tr");

  expect(await page.textContent("#result-title")).toMatch(/^Gift ideas for 1,9\d\d people$/);
  expect(await page.locator("#rows tr").count()).toBe(100);
  const first = page.locator("#rows tr").first();
  expect(await first.locator(".gifts li").count()).toBe(2);
  expect(await first.locator(".price").first().textContent()).toMatch(/^€\d/);
  expect(await page.textContent("#facts")).toContain("2,000");
  expect(await page.locator("#stages [data-state=done]").count()).toBe(4);
  expect(await page.locator("#row-notes-body").textContent()).toContain("DUPLICATE_PERSON");

  const shown = await percentages();
  expect(shown).toEqual([...shown].sort((a, b) => a - b));
  expect(new URL(page.url()).hash).toMatch(/^#job=bulk_/);
  expect(errors).toEqual([]);
});

test("more people are loaded by page, each once, and the filters look at what is loaded", async () => {
  const { page } = await browser.open(server.url);
  await page.click("#example");
  await page.waitForSelector("[data-filled]");
  await page.click("#start");
  await page.waitForSelector("#rows tr");
  await page.click("#more");
  await page.waitForSelector("#rows tr:nth-child(300)");
  const emails = await page.locator("#rows .email").allTextContents();
  expect(new Set(emails).size).toBe(300);

  await page.fill("#search", emails[250] ?? "");
  expect(await page.locator("#rows tr:visible").count()).toBe(1);
  expect(await page.textContent("#shown")).toMatch(/^1 match among 300 of 1,9\d\d people loaded$/);

  await page.fill("#search", "");
  const department = (await page.locator("#department option").nth(1).textContent()) ?? "";
  await page.selectOption("#department", department);
  const tags = await page.locator("#rows tr:visible .tag").allTextContents();
  expect(new Set(tags)).toEqual(new Set([department]));
});

test("an empty file fails with what to put right, and another file can be chosen", async () => {
  const { page, errors } = await browser.open(server.url);
  await startWith(page, "");
  await page.waitForSelector("#run-error .notice");
  expect(await page.textContent("#run-error")).toContain("EMPTY_FILE");
  expect(await page.locator("#run-error p").count()).toBe(3);
  await expect.poll(() => page.evaluate("document.querySelector('#fill').offsetWidth")).toBe(0);
  expect(await page.locator("#retry").isVisible()).toBe(true);

  await page.click("#another");
  await page.waitForSelector("#choose:not([hidden])");
  expect(new URL(page.url()).hash).toBe("");
  expect(errors).toEqual([]);
});

test("a reload shows the same list again from the address alone, and starts nothing", async () => {
  const { page, errors } = await browser.open(server.url);
  await startWith(page, SMALL_CSV);
  await page.waitForSelector("#rows tr");
  const before = await page.textContent("#rows");
  const jobs = await server.app.tidings.list("local", { limit: 100 });

  await page.reload();
  await page.waitForSelector("#rows tr");
  expect(await page.textContent("#rows")).toBe(before);
  expect(await page.locator("#stages [data-state=done]").count()).toBe(4);
  expect(await server.app.tidings.list("local", { limit: 100 })).toEqual(jobs);
  expect(errors).toEqual([]);
});

test("two presses of Start make one job", async () => {
  const { page } = await browser.open(server.url);
  const before = (await server.app.tidings.list("local", { limit: 100 })).jobs.length;
  await page.setInputFiles("#file", { name: "a.csv", mimeType: "text/csv", buffer: Buffer.from(SMALL_CSV) });
  await page.dblclick("#start");
  await page.waitForSelector("#rows tr");
  expect((await server.app.tidings.list("local", { limit: 100 })).jobs.length).toBe(before + 1);
});

test("when the answer to Start is lost, the page asks again and there is still one job", async () => {
  const { page } = await browser.open(server.url);
  const before = (await server.app.tidings.list("local", { limit: 100 })).jobs.length;
  let lost = 0;
  await page.route("**/mcp", async (route) => {
    const isStart = route.request().postData()?.includes("start_bulk_gift_analysis") === true;
    if (!isStart || lost > 0) return route.continue();
    lost += 1;
    await route.fetch();
    await route.abort();
  });
  await startWith(page, SMALL_CSV);
  await page.waitForSelector("#rows tr");
  expect(lost).toBe(1);
  expect((await server.app.tidings.list("local", { limit: 100 })).jobs.length).toBe(before + 1);
});

test("a changed product feed lights up the refresh button, which makes the list anew", async () => {
  const { page, errors } = await browser.open(server.url);
  await startWith(page, SMALL_CSV);
  await page.waitForSelector("#rows tr");
  expect(await page.locator("#refresh.lit").count()).toBe(0);
  const before = page.url();

  await page.click("#reload-feed");
  await page.waitForSelector("#refresh.lit");
  expect((await page.textContent("#changes"))?.trim()).toBe("1 change");
  await page.waitForSelector("#feed-note:has-text('Product feed read again')");

  await page.reload();
  await page.waitForSelector("#refresh.lit");

  await page.click("#refresh");
  await page.waitForFunction((old) => location.href !== old, before);
  await page.waitForSelector("#run[data-status=completed]");
  await page.waitForSelector("#result:not([data-old])");
  expect(await page.locator("#refresh.lit").count()).toBe(0);
  expect(await page.locator("#rows tr").count()).toBe(1);

  await page.goto(before);
  await page.waitForFunction((old) => location.href !== old, before);
  expect(errors).toEqual([]);
});

test("an unknown job is told from a broken page, and a new list can be started", async () => {
  const { page } = await browser.open(`${server.url}/#job=bulk_${"x".repeat(22)}`);
  await page.waitForSelector("#lost");
  expect(await page.textContent("#lost")).toContain("JOB_NOT_FOUND");
  await page.click("#lost button");
  await page.waitForSelector("#choose:not([hidden])");
});

test.each(["%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E", "..%2F..%2Fuploads", "%E0%A4%A", "a%00b"])(
  "an address that is no job's is unknown: #job=%s",
  async (hash) => {
    const { page, errors } = await browser.open(`${server.url}/#job=${hash}`);
    await page.waitForSelector("#lost");
    expect(await page.locator("img").count()).toBe(0);
    expect(errors).toEqual([]);
  },
);

test("the page fits a window of 320 pixels in every state", async () => {
  const { page } = await browser.open(server.url, { width: 320, height: 700 });
  expect(await fitsItsWindow(page)).toBe(true);
  await page.setInputFiles("#file", EXAMPLE);
  await page.click("#start");
  await page.waitForSelector("#run:not([hidden])");
  expect(await fitsItsWindow(page)).toBe(true);
  await page.waitForSelector("#rows tr");
  await page.click("#row-notes-title");
  await page.click("#steps-title");
  expect(await fitsItsWindow(page)).toBe(true);
});

test("the whole way can be gone with the keyboard", async () => {
  const { page } = await browser.open(server.url);
  await page.waitForSelector("#example:not([hidden])");
  await page.focus("#file");
  await page.keyboard.press("Tab");
  expect(await page.evaluate("document.activeElement.id")).toBe("example");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#start:focus");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#run:focus");
  await page.waitForSelector("#rows tr");
});
