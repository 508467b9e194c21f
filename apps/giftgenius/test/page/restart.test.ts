/** What a person sees when the server dies under the page. */
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startServer } from "../../src/demo/server-process.ts";
import type { BrowserPages } from "./browser-page.ts";
import { openBrowser, startWith } from "./browser-page.ts";
import { temporaryFolder } from "./served-app.ts";

let browser: BrowserPages;

beforeAll(async () => {
  browser = await openBrowser();
}, 60_000);
afterAll(() => browser?.close());

const PEOPLE = 20_000;

function manyPeople(): string {
  const rows = ["email,full_name,department,interests,budget"];
  for (let i = 0; i < PEOPLE; i += 1) rows.push(`p${i}@example.com,Person ${i},Sales,coffee|hiking,60`);
  return rows.join("\n");
}

test("the server is killed in the middle of the work: the page says so, waits, and goes on to the whole list", async () => {
  const folder = await temporaryFolder();
  const env = { HOST: "127.0.0.1", PORT: "0", TIDINGS_STORE: `sqlite:${join(folder.path, "jobs.db")}` };
  let server = await startServer(env);
  try {
    const { port } = new URL(server.url);
    const { page, percentages } = await browser.open(server.url);
    await startWith(page, manyPeople());
    await page.waitForFunction(
      () => Number(document.querySelector("#bar")?.getAttribute("aria-valuenow")) > 40,
    );
    await server.kill();
    await page.waitForSelector("#connection:not([data-state=live])");
    await page.waitForSelector("#connection[data-state=offline]");
    await page.waitForSelector("#notices:has-text('cannot be reached')");

    server = await startServer({ ...env, PORT: port });
    await page.waitForSelector("#log-lines:has-text('Attempt 2 began.')", { state: "attached" });
    await page.waitForSelector("#rows tr", { timeout: 60_000 });
    expect(await page.textContent("#result-title")).toBe("Gift ideas for 20,000 people");
    const shown = await percentages();
    expect(shown).toEqual([...shown].sort((a, b) => a - b));
  } finally {
    await server.stop();
    await folder.remove();
  }
}, 120_000);
