/** A real Chromium for tests. It travels inside an npm package: nothing is downloaded, nothing is installed. */
import { existsSync } from "node:fs";
import { mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import chromium from "@sparticuz/chromium";
import type { Browser } from "playwright-core";
import { chromium as playwright } from "playwright-core";

/**
 * Flags of the package that serve other ends than tests: one process for everything, in which closing a page closes
 * the browser; and no same-origin policy, with which tests would see what no visitor's browser allows.
 */
const UNWANTED: readonly string[] = [
  "--single-process",
  "--no-zygote",
  "--disable-web-security",
  "--disable-site-isolation-trials",
  "--allow-running-insecure-content",
];

/** Starts a headless Chromium, also as root. Close it when done. */
export async function launchBrowser(): Promise<Browser> {
  const folder = await unpack();
  return playwright.launch({
    args: [...chromium.args.filter((flag) => !UNWANTED.includes(flag)), "--no-sandbox"],
    executablePath: join(folder, "chromium"),
    env: { ...process.env, FONTCONFIG_FILE: join(folder, "fonts.conf") },
    headless: true,
  });
}

/**
 * Unpacks the browser once per machine. The package unpacks straight into the temporary folder, where a second
 * process would start a file that is half there: so each unpacks into a folder of its own, and the first renames it.
 */
async function unpack(): Promise<string> {
  const shared = join(tmpdir(), "tidings-chromium-147.0.0");
  if (existsSync(shared)) return shared;
  const own = await mkdtemp(join(tmpdir(), "tidings-chromium-"));
  const before = process.env.TMPDIR;
  process.env.TMPDIR = own;
  try {
    await chromium.executablePath();
  } finally {
    if (before === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = before;
  }
  await writeFile(join(own, "fonts.conf"), fontsConfig(shared));
  try {
    await rename(own, shared);
  } catch (error) {
    await rm(own, { recursive: true, force: true });
    if (!existsSync(shared)) throw error;
  }
  return shared;
}

/** The machine's fonts, and the package's for a machine that has none. */
function fontsConfig(folder: string): string {
  const folders = ["/usr/share/fonts", "/usr/local/share/fonts", join(folder, "fonts")];
  return [
    '<?xml version="1.0"?>',
    '<!DOCTYPE fontconfig SYSTEM "fonts.dtd">',
    "<fontconfig>",
    ...folders.map((path) => `  <dir>${path}</dir>`),
    `  <cachedir>${join(folder, "fonts-cache")}</cachedir>`,
    "</fontconfig>",
    "",
  ].join("\n");
}
