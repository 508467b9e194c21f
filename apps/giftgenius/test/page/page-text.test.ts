import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { renderPage } from "../../src/page/page.ts";

const html = renderPage({ serverUrl: "" });

test("the page is one text of at most 25 KB compressed", () => {
  expect(gzipSync(html).length).toBeLessThan(25_000);
});

test("the page loads nothing: no address, no style and no script from elsewhere", () => {
  expect(html).not.toMatch(/<(?:link|img|iframe|object|embed)\b/i);
  expect(html).not.toMatch(/\b(?:src|srcset)=/i);
  expect(html).not.toMatch(/@import|url\(|https?:/i);
  expect(html).not.toMatch(/^import /m);
});

test("the page never reads text as markup or as code", () => {
  expect(html).not.toMatch(/innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function/);
});

test("the page keeps nothing beyond its tab, and there only the token that it was given", () => {
  expect(html).not.toMatch(/localStorage|indexedDB|document\.cookie/);
  expect(html.match(/sessionStorage\.\w+\(\w+/g)).toEqual([
    "sessionStorage.getItem(TOKEN_KEY",
    "sessionStorage.setItem(TOKEN_KEY",
  ]);
});

test("the server's address is written as an attribute whatever it holds", () => {
  const address = 'http://127.0.0.1:1/"><script>alert(1)</script>&$&';
  const page = renderPage({ serverUrl: address });
  expect(page).toContain(
    'data-server="http://127.0.0.1:1/&#34;&#62;&#60;script&#62;alert(1)&#60;/script&#62;&#38;$&#38;"',
  );
  expect(page.match(/<script/g)).toHaveLength(1);
});

test("without a server the page has no address, not even its own", () => {
  expect(renderPage({ serverUrl: undefined })).not.toContain("data-server=");
});

test("every stage of the analysis is known to the page by the same key and end", () => {
  const job = readFileSync(new URL("../../src/jobs/bulk-gift-analysis.ts", import.meta.url), "utf8");
  const stages = [...html.matchAll(/\{ key: "(\w+)", end: (\d+),/g)].map(([, key, end]) => [key, end]);
  expect(stages).toHaveLength(4);
  for (const [key, end] of stages) expect(job).toMatch(new RegExp(`${key}: \\{ end: ${end},`));
});
