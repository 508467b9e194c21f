/** Pages of one browser, each with a record of everything that went wrong in it. */
import type { Browser, Page } from "playwright-core";
import { launchBrowser } from "../browser/launch.ts";

export interface BrowserPages {
  open(url: string, options?: { readonly width?: number; readonly height?: number }): Promise<OpenPage>;
  /** Closes every page that a test left open. */
  closePages(): Promise<void>;
  close(): Promise<void>;
}

export interface OpenPage {
  readonly page: Page;
  /** Errors of the console and of scripts, as the browser words them. */
  readonly errors: readonly string[];
  /** The shown percentages, in order, as a person could have seen them. */
  percentages(): Promise<readonly number[]>;
}

export async function openBrowser(): Promise<BrowserPages> {
  const browser: Browser = await launchBrowser();
  return {
    async open(url, { width = 1180, height = 900 } = {}) {
      const context = await browser.newContext({ viewport: { width, height }, locale: "en-US" });
      const page = await context.newPage();
      const errors: string[] = [];
      page.on("console", (message) => {
        if (message.type() === "error") errors.push(message.text());
      });
      page.on("pageerror", (error) => errors.push(error.message));
      await page.addInitScript(recordPercentages);
      await page.goto(url);
      return { page, errors, percentages: () => page.evaluate("window.shownPercentages") };
    },
    async closePages() {
      await Promise.all(browser.contexts().map((context) => context.close()));
    },
    close: () => browser.close(),
  };
}

/** Runs in the browser before the page's own script. */
const recordPercentages = `
  window.shownPercentages = [];
  new MutationObserver(() => {
    const value = document.querySelector("#bar")?.getAttribute("aria-valuenow");
    if (value !== null && value !== undefined) window.shownPercentages.push(Number(value));
  }).observe(document, { subtree: true, childList: true, attributes: true, attributeFilter: ["aria-valuenow"] });
`;

/** Hands a file to the page and presses Start. */
export async function startWith(page: Page, csv: string | Buffer, name = "employees.csv"): Promise<void> {
  await page.setInputFiles("#file", { name, mimeType: "text/csv", buffer: Buffer.from(csv) });
  await page.click("#start");
  await page.waitForSelector("#run:not([hidden])");
}

export const SMALL_CSV = "email,full_name,interests,budget\nann@example.com,Ann,tea|hiking,40\n";

/** The page is not wider than its window. */
export function fitsItsWindow(page: Page): Promise<boolean> {
  return page.evaluate("document.documentElement.scrollWidth <= window.innerWidth");
}
