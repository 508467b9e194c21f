/** The public entries of the package, read from its `exports`. */
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";

export const root: string = fileURLToPath(new URL("..", import.meta.url));
export const packageFolder: string = fileURLToPath(new URL("../packages/tidings/", import.meta.url));

export interface Entry {
  /** What a user imports: `tidings`, `tidings/mcp/client`. */
  readonly specifier: string;
  /** A name fit for a file: `tidings`, `mcp-client`. */
  readonly name: string;
  /** Path of the declarations inside the package. */
  readonly types: string;
}

export async function entries(): Promise<readonly Entry[]> {
  const text = await readFile(new URL("../packages/tidings/package.json", import.meta.url), "utf8");
  const { exports } = JSON.parse(text) as { exports: Record<string, string | { types: string }> };
  return Object.entries(exports).flatMap(([path, target]) => {
    if (typeof target === "string") return [];
    const below = path.replace(/^\.\/?/, "");
    return [
      {
        specifier: below === "" ? "tidings" : `tidings/${below}`,
        name: below === "" ? "tidings" : below.replaceAll("/", "-"),
        types: target.types,
      },
    ];
  });
}
