import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { describe, expect, it } from "vitest";

async function bundle(entry: string) {
  const { outputFiles, metafile } = await build({
    entryPoints: [fileURLToPath(new URL(`../../src/${entry}`, import.meta.url))],
    bundle: true,
    minify: true,
    format: "esm",
    // Anything of `node:` fails to resolve here.
    platform: "browser",
    write: false,
    metafile: true,
  });
  const inputs = Object.keys(metafile.inputs);
  return { bytes: gzipSync(outputFiles[0]?.contents ?? "", { level: 9 }).length, inputs };
}

describe("the client in a browser", () => {
  it("is at most 12 KB with its model, gzipped, and touches nothing of Node", async () => {
    const { bytes, inputs } = await bundle("client/index.ts");
    expect(bytes).toBeLessThanOrEqual(12_288);
    expect(inputs.filter((path) => !/\/src\/(client|model)\//.test(path))).toEqual([]);
  });

  it("brings no SDK along for MCP", async () => {
    const { inputs } = await bundle("mcp/client/index.ts");
    expect(inputs.filter((path) => !/\/src\/(client|model|mcp\/client|mcp\/wire)\//.test(path))).toEqual([]);
  });
});
