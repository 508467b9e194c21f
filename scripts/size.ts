/**
 * Bundles the entries that run in browsers as a browser's bundler would, and fails when one needs `node:` or is larger
 * than promised: model and client together at most 12 KB gzipped.
 */
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "vite";
import { packageFolder } from "./entries.ts";

const KB = 1024;
const LIMITS = {
  "src/client/index.ts": 12 * KB,
  "src/mcp/client/index.ts": 8 * KB,
} as const;

for (const [entry, limit] of Object.entries(LIMITS)) {
  const { code, foreign } = await bundle(join(packageFolder, entry));
  const size = gzipSync(code, { level: 9 }).byteLength;
  console.log(`${entry}: ${(size / KB).toFixed(1)} KB gzipped of ${limit / KB} KB`);
  if (foreign.length > 0) fail(`${entry} imports ${foreign.join(", ")}, which no browser has.`);
  if (size > limit) fail(`${entry} is ${size - limit} bytes too large.`);
}

async function bundle(entry: string): Promise<{ code: string; foreign: readonly string[] }> {
  const foreign: string[] = [];
  const result = await build({
    configFile: false,
    logLevel: "error",
    build: {
      write: false,
      minify: true,
      target: "es2022",
      modulePreload: false,
      rolldownOptions: {
        input: entry,
        preserveEntrySignatures: "strict",
        external: (id) => {
          if (id.startsWith("node:")) foreign.push(id);
          // A peer that the user has anyway.
          return id.startsWith("node:") || id.startsWith("@modelcontextprotocol/");
        },
      },
    },
  });
  const outputs = (Array.isArray(result) ? result : [result]).flatMap((each) =>
    "output" in each ? each.output : [],
  );
  return { code: outputs.map((chunk) => ("code" in chunk ? chunk.code : "")).join(""), foreign };
}

function fail(sentence: string): void {
  console.error(sentence);
  process.exitCode = 1;
}
