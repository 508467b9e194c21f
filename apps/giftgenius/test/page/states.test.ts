/** Every state that a job can be in, as the page shows it. Server, tools and streams are real; the tests play the work. */
import { RetryAfter } from "tidings";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { BrowserPages, OpenPage } from "./browser-page.ts";
import { fitsItsWindow, openBrowser, SMALL_CSV, startWith } from "./browser-page.ts";
import type { PlayedRun, ServedApp } from "./served-app.ts";
import { gate, listOf, servePlayedApp } from "./served-app.ts";

let browser: BrowserPages;
let server: ServedApp | undefined;

beforeAll(async () => {
  browser = await openBrowser();
}, 60_000);
afterEach(async () => {
  await browser.closePages();
  await server?.close();
  server = undefined;
});
afterAll(() => browser?.close());

/** Opens the page on a server whose job does `run`, and starts it. */
async function started(run: PlayedRun): Promise<OpenPage> {
  server = await servePlayedApp(run);
  const opened = await browser.open(server.url);
  await startWith(opened.page, SMALL_CSV);
  return opened;
}

test("before the first progress the bar has no value; then it has one, with words", async () => {
  const begin = gate();
  const end = gate();
  const { page } = await started(async (context) => {
    await begin.passed;
    await context.progress("extract_interests", 0.5);
    await end.passed;
    return listOf(context, [{ fullName: "Ann" }]);
  });
  await page.waitForSelector("#run[data-status=running]");
  expect(await page.getAttribute("#bar", "aria-valuenow")).toBeNull();
  expect(await page.locator("#stages [aria-current=step]").textContent()).toContain("Read the file");

  begin.open();
  await page.waitForSelector("#bar[aria-valuenow='25']");
  expect(await page.getAttribute("#bar", "aria-valuetext")).toBe(
    "25 percent, Extracting interests and departments",
  );
  expect(await page.locator("#stages [aria-current=step]").textContent()).toContain("Understand interests");
  expect(await page.locator("#stages [data-state=done]").count()).toBe(1);
  await page.waitForSelector("#connection[data-state=live]");

  end.open();
  await page.waitForSelector("#rows tr");
  expect(await page.locator("#stages [aria-current=step]").count()).toBe(0);
});

test("Cancel asks first, says that it is cancelling, and ends only by the server's event", async () => {
  const answer = gate();
  const { page } = await started(async (context) => {
    await context.progress("match", 0.5);
    await new Promise((resolve) => context.signal.addEventListener("abort", resolve));
    return {};
  });
  await page.waitForSelector("#bar[aria-valuenow='55']");
  await page.route("**/mcp", async (route) => {
    if (route.request().postData()?.includes("cancel_job")) await answer.passed;
    await route.continue();
  });

  await page.click("#cancel");
  await page.click("#confirm button[value=keep]");
  expect(await page.locator("#confirm").isVisible()).toBe(false);
  expect(await page.textContent("#cancel")).toBe("Cancel");

  await page.click("#cancel");
  await page.click("#confirm-stop");
  await page.waitForSelector("#cancel:disabled");
  expect(await page.textContent("#cancel")).toBe("Cancelling…");
  expect(await page.getAttribute("#run", "data-status")).toBe("running");

  answer.open();
  await page.waitForSelector("#run[data-status=canceled]");
  expect(await page.textContent("#run-title")).toBe("Canceled");
  expect(await page.locator("#stages [data-state=stopped]").count()).toBe(1);
  expect(await page.getAttribute("#bar", "aria-valuenow")).toBe("55");
});

test("a slow outside service is told of for as long as it is slow", async () => {
  const restore = gate();
  const end = gate();
  const { page } = await started(async (context) => {
    await context.progress("match", 0.2);
    const since = "2026-11-30T12:00:00Z";
    await context.emit({ type: "system.degraded", source: "offers", message: "It answers slowly.", since });
    await restore.passed;
    await context.emit({ type: "system.restored", source: "offers", since });
    await context.log("warning", "A line for people who look closely.");
    await end.passed;
    return listOf(context, [{ fullName: "Ann" }]);
  });
  await page.waitForSelector("#notices:has-text('offers is slow')");
  restore.open();
  await page.waitForFunction(() => document.querySelector("#notices")?.textContent === "");
  await page.click("#log summary");
  await page.waitForSelector("#log-lines:has-text('A line for people who look closely.')");
  end.open();
});

test("a failed attempt is told of, the bar stays where it was, and the next attempt goes on", async () => {
  const second = gate();
  const { page, percentages } = await started(async (context) => {
    if (context.attempt === 1) {
      await context.progress("match", 0.5);
      throw new RetryAfter(0, "The offers could not be read.", { code: "OFFERS_DOWN" });
    }
    await context.progress("parse", 0.5);
    await second.passed;
    return listOf(context, [{ fullName: "Ann" }]);
  });
  await page.waitForSelector("#notices:has-text('This is try number 2.')");
  expect(await page.getAttribute("#bar", "aria-valuenow")).toBe("55");
  expect(await page.textContent("#log-lines")).toContain("Attempt 1 stopped: The offers could not be read.");
  second.open();
  await page.waitForSelector("#rows tr");
  const shown = await percentages();
  expect(shown).toEqual([...shown].sort((a, b) => a - b));
});

test("Retry after a failure follows the new job, and two presses make one", async () => {
  let runs = 0;
  const { page } = await started(async (context) => {
    runs += 1;
    if (runs <= 3) throw new RetryAfter(0, "The offers could not be read.", { code: "OFFERS_DOWN" });
    return listOf(context, [{ fullName: "Ann" }]);
  });
  await page.waitForSelector("#run[data-status=failed]");
  expect(await page.textContent("#run-error")).toContain("OFFERS_DOWN");
  const before = page.url();
  await page.dblclick("#retry");
  await page.waitForSelector("#rows tr");
  expect(page.url()).not.toBe(before);
  expect((await server?.app.tidings.list("local"))?.jobs).toHaveLength(2);

  await page.goto("about:blank");
  await page.goto(before);
  await page.waitForSelector("#rows tr");
  expect(page.url()).not.toBe(before);
});

test("the old list stays while a refreshed one is made, and after a reload of the page too", async () => {
  const end = gate();
  let runs = 0;
  const { page } = await started(async (context) => {
    runs += 1;
    if (runs === 1) return listOf(context, [{ fullName: "Old Ann" }]);
    await context.progress("match", 0.1);
    await end.passed;
    return listOf(context, [{ fullName: "New Ann" }]);
  });
  await page.waitForSelector("#rows:has-text('Old Ann')");
  await page.click("#refresh");
  await page.waitForSelector("#run[data-status=running]");
  await page.waitForSelector("#result[data-old]:has-text('Old Ann')");
  expect(await page.locator("#refresh").isDisabled()).toBe(true);

  await page.reload();
  await page.waitForSelector("#result[data-old]:has-text('Old Ann')");
  end.open();
  await page.waitForSelector("#result:not([data-old]):has-text('New Ann')");
  expect(await page.textContent("#rows")).not.toContain("Old Ann");
});

test("a reload in the middle of the work shows the same again and goes on to the end", async () => {
  const end = gate();
  let runs = 0;
  const { page, errors } = await started(async (context) => {
    runs += 1;
    await context.progress("extract_interests", 1);
    await context.progress("match", 0.5);
    await end.passed;
    return listOf(context, [{ fullName: "Ann" }]);
  });
  await page.waitForSelector("#bar[aria-valuenow='55']");
  await page.reload();
  await page.waitForSelector("#bar[aria-valuenow='55']");
  expect(await page.locator("#stages [data-state=done]").count()).toBe(2);
  end.open();
  await page.waitForSelector("#rows tr");
  expect(runs).toBe(1);
  expect(errors).toEqual([]);
});

test("names, reasons and departments are text, whatever they hold", async () => {
  const hostile = '<img src=x onerror="window.hacked = true"><script>window.hacked = true</script>';
  const { page, errors } = await started((context) =>
    listOf(context, [
      { fullName: hostile, department: hostile, title: hostile },
      { fullName: "‮evil‬", department: "x".repeat(300), title: "y".repeat(300) },
    ]),
  );
  await page.waitForSelector("#rows tr");
  expect(await page.locator("#rows tr").first().locator("strong").textContent()).toBe(hostile);
  expect(await page.locator("main img, main script").count()).toBe(0);
  expect(await page.evaluate("window.hacked")).toBeUndefined();
  await page.setViewportSize({ width: 320, height: 700 });
  expect(await fitsItsWindow(page)).toBe(true);
  expect(errors).toEqual([]);
});

test("a silent connection is noticed after 45 seconds, told of, and opened again", async () => {
  server = await servePlayedApp(async (context) => {
    await context.progress("match", 0.5);
    await new Promise((resolve) => context.signal.addEventListener("abort", resolve));
    return {};
  });
  const { page } = await browser.open("about:blank");
  await page.clock.install();
  await page.goto(server.url);
  await startWith(page, SMALL_CSV);
  await page.clock.runFor(1_000);
  await page.waitForSelector("#bar[aria-valuenow='55']");

  let asked = 0;
  await page.route("**/jobs/*", (route) => {
    asked += 1;
    return route.continue();
  });
  await page.clock.runFor(21_000);
  await expect.poll(() => asked).toBeGreaterThan(0);

  await page.route("**/jobs/*/events*", () => {});
  await page.clock.runFor(25_000);
  await page.waitForSelector("#notices:has-text('No sign of life')", { state: "attached" });

  await page.unrouteAll({ behavior: "ignoreErrors" });
  await page.clock.runFor(60_000);
  await expect.poll(() => page.getAttribute("#connection", "data-state")).toBe("live");
  await page.clock.runFor(1_000);
  await page.waitForFunction(() => document.querySelector("#notices")?.textContent === "");
});
