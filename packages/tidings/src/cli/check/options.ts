/** What was typed after `tidings check`. */
import { parseArgs } from "node:util";
import { TidingsError } from "../../model/error.ts";
import type { Era } from "./examine.ts";
import { ERAS } from "./examine.ts";

export const HELP = `Usage: tidings check URL --tool NAME [--args JSON|@FILE]
       tidings check --stream FILE|-

Looks at an MCP server, or at a recorded stream, for six mistakes with events: missing ids, falling progress, illegal
sequences, repeats that nobody can recognise, system and business events in one, progress after the answer.

  --tool NAME        the tool that starts a job; without it, the tools are listed with a guess
  --args JSON|@FILE  its arguments; default {}
  --era ERA          2025-11-25, 2026-07-28, or both; default: the newest that the server speaks
  --token TOKEN      sent as Authorization: Bearer TOKEN; default: TIDINGS_TOKEN
  --header 'N: V'    any header, as often as needed
  --timeout SECONDS  how long the job may take; default 60
  --settle SECONDS   how long to listen for what should not come; default 2
  --record FILE      keep what was seen, for --stream
  --stream FILE      a recording instead of a server: JSON lines, or raw server-sent events; - reads stdin
  --json             JSON lines instead of a report; the default when the output is no terminal
  --help

The tool is really called, so a job is really started; with an idempotency key among its arguments it is called twice.
Exit codes: 0 no mistake found, 1 mistakes found, 2 wrong usage, 3 nothing could be examined, 130 interrupted.
`;

export type CheckOptions = { readonly isJson: boolean | undefined } & (
  | { readonly input: "help" }
  | { readonly input: "stream"; readonly file: string }
  | {
      readonly input: "server";
      readonly url: URL;
      readonly tool: string | undefined;
      /** JSON, or `@` and the name of a file that holds it. */
      readonly args: string | undefined;
      /** Left out: the newest that the server speaks. */
      readonly eras: readonly (Era | undefined)[];
      readonly headers: Readonly<Record<string, string>>;
      readonly timeoutMs: number;
      readonly settleMs: number;
      readonly record: string | undefined;
    }
);

/** @throws TidingsError BAD_INPUT, in a sentence. */
export function readOptions(
  argv: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): CheckOptions {
  const { values, positionals } = parse(argv);
  const isJson = values.json;
  if (values.help === true) return { input: "help", isJson };
  if (values.stream !== undefined) {
    if (positionals.length > 0)
      throw usage("A recorded stream and an address were given.", "Give one of the two.");
    return { input: "stream", file: values.stream, isJson };
  }
  const [address, ...rest] = positionals;
  if (address === undefined)
    throw usage("No address was given.", "Type: tidings check http://127.0.0.1:3000/mcp --tool NAME");
  if (rest.length > 0)
    throw usage(`"${rest[0]}" was not expected.`, "Give one address, and everything else as an option.");
  return {
    input: "server",
    isJson,
    url: readUrl(address),
    tool: values.tool,
    args: values.args,
    eras: readEras(values.era),
    headers: readHeaders(values.header ?? [], values.token ?? env.TIDINGS_TOKEN),
    timeoutMs: readSeconds("--timeout", values.timeout, 60, 0.1),
    settleMs: readSeconds("--settle", values.settle, 2, 0.05),
    record: values.record,
  };
}

function parse(argv: readonly string[]) {
  try {
    return parseArgs({
      args: [...argv],
      allowPositionals: true,
      options: {
        tool: { type: "string" },
        args: { type: "string" },
        era: { type: "string" },
        token: { type: "string" },
        header: { type: "string", multiple: true },
        timeout: { type: "string" },
        settle: { type: "string" },
        record: { type: "string" },
        stream: { type: "string" },
        json: { type: "boolean" },
        help: { type: "boolean", short: "h" },
      },
    });
  } catch (error) {
    throw usage(
      error instanceof Error ? error.message : "The options could not be read.",
      "See tidings check --help.",
    );
  }
}

function readUrl(address: string): URL {
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (url !== undefined && (url.protocol === "http:" || url.protocol === "https:")) return url;
  throw usage(`"${address}" is no address of a server.`, "Give one that begins with http:// or https://.");
}

function readEras(era: string | undefined): readonly (Era | undefined)[] {
  if (era === undefined) return [undefined];
  if (era === "both") return ERAS;
  const known = ERAS.find((each) => each === era);
  if (known === undefined) throw usage(`--era "${era}" is not known.`, `Give ${ERAS.join(", ")} or both.`);
  return [known];
}

function readHeaders(given: readonly string[], token: string | undefined): Readonly<Record<string, string>> {
  const headers = new Headers();
  try {
    if (token !== undefined && token !== "") headers.set("authorization", `Bearer ${token}`);
    for (const header of given) {
      const colon = header.indexOf(":");
      if (colon < 1) throw new TypeError("no colon");
      headers.set(header.slice(0, colon).trim(), header.slice(colon + 1).trim());
    }
  } catch {
    // What was given may be a secret: it is not repeated.
    throw usage(
      "A header or the token cannot be sent as it is.",
      "Write --header 'Name: value', in plain ASCII.",
    );
  }
  return Object.fromEntries(headers);
}

function readSeconds(name: string, text: string | undefined, byDefault: number, least: number): number {
  const seconds = text === undefined ? byDefault : Number(text);
  if (Number.isFinite(seconds) && seconds >= least && seconds <= 86_400) return seconds * 1_000;
  throw usage(
    `${name} ${JSON.stringify(text)} is no length of time.`,
    `Give seconds between ${least} and 86400.`,
  );
}

export function usage(sentence: string, hint: string): TidingsError {
  return new TidingsError("BAD_INPUT", sentence, { hint });
}
