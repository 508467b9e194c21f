/**
 * The page of GiftGenius as one HTML text: its style and its scripts stand inline, so that it works as a page, and in
 * a host's frame that forbids everything else.
 */
import { readFileSync } from "node:fs";

/** The scripts in the order in which they build upon each other; together they are one module. */
const SCRIPTS = [
  "element.js",
  "story.js",
  "sign-in.js",
  "server.js",
  "host.js",
  "run-view.js",
  "result-view.js",
  "choice.js",
  "feed.js",
  "page.js",
] as const;

const STYLES = ["base.css", "choice.css", "run.css", "list.css"] as const;

export interface PageOptions {
  /**
   * Where the page finds the server, without a closing slash; empty = at the origin that the page comes from;
   * undefined = nowhere, which the page says.
   */
  readonly serverUrl: string | undefined;
  /** The server answers nobody without a token, so the page asks for one at once. Default: only when it is refused. */
  readonly asksForToken?: boolean;
}

let page: string | undefined;

/** Gives the whole page; nothing in it is loaded from elsewhere. */
export function renderPage({ serverUrl, asksForToken = false }: PageOptions): string {
  page ??= assemble();
  const where = serverUrl === undefined ? "" : ` data-server="${escapeAttribute(serverUrl)}"`;
  const asks = asksForToken ? " data-asks-for-token" : "";
  return page.replace(' data-server=""', () => where + asks);
}

function assemble(): string {
  const script = SCRIPTS.map((name) => withoutModuleLines(read(name))).join("\n");
  const style = STYLES.map(read).join("\n");
  return read("page.html")
    .replace("<style></style>", () => `<style>\n${style}</style>`)
    .replace('<script type="module"></script>', () => `<script type="module">\n${script}</script>`);
}

function read(name: string): string {
  return readFileSync(new URL(name, import.meta.url), "utf8");
}

/** The files import from each other only, and all names in them differ: joined, they need neither word. */
function withoutModuleLines(source: string): string {
  return source
    .replace(/^import \{[^}]*\} from "\.\/[a-z-]+\.js";\n/gm, "")
    .replace(/^export (?=(?:async )?function|class|const)/gm, "");
}

function escapeAttribute(text: string): string {
  return text.replace(/[&"<>]/g, (character) => `&#${character.charCodeAt(0)};`);
}
