/**
 * Follows one job of a server, as a client that loses its connection twice would.
 *
 *   connect ─▶ call the tool ─▶ follow every path ─▶ break in the middle ─▶ follow to the end
 *           ─▶ break again, ask for everything ─▶ the same call with the same key ─▶ leave
 */
import type { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { createBell, pause } from "../../client/source/wait.ts";
import type { Clock, Random } from "../../model/clock.ts";
import { TidingsError } from "../../model/error.ts";
import { CURSOR_META_KEY } from "../../model/projection/notification.ts";
import { isRecord } from "../../model/schema.ts";
import type { Arrival } from "./arrival.ts";
import { bodiesOf, jobIn } from "./exchange.ts";
import { isEndWord } from "./lifecycle-word.ts";
import { findPaths, type Paths } from "./paths.ts";
import { sight } from "./sighting.ts";
import type { OfferedTool } from "./start-tool.ts";
import { guessStartTools, keyArgumentOf } from "./start-tool.ts";
import { createWire, type Wire } from "./wire.ts";

export const ERAS = ["2025-11-25", "2026-07-28"] as const;
export type Era = (typeof ERAS)[number];

export interface ExamineOptions {
  readonly url: URL;
  readonly tool: string | undefined;
  readonly args: Readonly<Record<string, unknown>>;
  readonly headers: Readonly<Record<string, string>>;
  /** Left out: the newest that the server speaks. */
  readonly era: Era | undefined;
  /** How long the job may take. */
  readonly timeoutMs: number;
  /** How long to listen for what should not come. */
  readonly settleMs: number;
  readonly clock: Clock;
  readonly random: Random;
  readonly signal: AbortSignal;
}

export interface Examination {
  readonly era: Era;
  readonly server: string;
  readonly tool: string;
  readonly jobId: string | undefined;
  readonly arrivals: readonly Arrival[];
  readonly isCut: boolean;
  /** The ways on which the server was listened to, each with how it answered. */
  readonly paths: readonly string[];
  /** What a reader of the verdict has to know beside it. */
  readonly remarks: readonly string[];
}

/** How often the two first waits look whether the connection still stands. */
const LOOK_MS = 250;
/** Events of the job before the connection is broken for the first time. */
const EVENTS_BEFORE_BREAK = 2;

/**
 * @throws TidingsError UNREACHABLE when the server or the client library cannot be had; BAD_INPUT when the tool was not
 *   named, does not exist or refused the arguments (`hint` says how to go on).
 */
export async function examine(options: ExamineOptions): Promise<Examination> {
  const { clock, signal, settleMs, timeoutMs } = options;
  const bell = createBell(clock);
  const heard = {
    jobs: new Set<string>(),
    events: 0,
    hasEnded: false,
    cursor: undefined as string | undefined,
    atMs: 0,
  };
  const wire = createWire(clock, (arrival) => {
    heard.atMs = clock.monotonic();
    const seen = sight(arrival, heard.jobs);
    const isOurs = heard.jobs.size === 0 || seen?.jobId === undefined || heard.jobs.has(seen.jobId);
    if (seen !== undefined && seen.kind !== "log" && !seen.isSystem && isOurs) {
      heard.events += 1;
      if (isEndWord(seen.word)) heard.hasEnded = true;
      heard.cursor = cursorIn(arrival.message) ?? heard.cursor;
    }
    bell.ring();
  });
  const stop = (): void => bell.ring();
  signal.addEventListener("abort", stop);

  /** @returns whether it came true in time. */
  async function until(isTrue: () => boolean, ms: number): Promise<boolean> {
    const end = clock.monotonic() + ms;
    for (;;) {
      signal.throwIfAborted();
      if (isTrue()) return true;
      const left = end - clock.monotonic();
      if (left <= 0) return false;
      await bell.wait(Math.min(left, LOOK_MS));
    }
  }
  const quiet = (): Promise<boolean> => {
    heard.atMs = clock.monotonic();
    return until(() => clock.monotonic() - heard.atMs >= settleMs, settleMs * 10);
  };

  const { client, transport } = await connect(options, wire);
  try {
    const era: Era = client.getProtocolEra() === "modern" ? "2026-07-28" : "2025-11-25";
    const tool = await chooseTool(client, options.tool, signal);
    const key = keyArgumentOf(tool);
    const args = { ...options.args };
    if (key !== undefined && args[key] === undefined) args[key] = `tidings-check-${options.random.id()}`;
    const result = await callTool(client, wire, tool.name, args, options);
    const jobId = jobIn(result);
    if (jobId !== undefined) heard.jobs.add(jobId);
    const start = bodiesOf(result)
      .map(({ cursor }) => cursor)
      .find((cursor) => typeof cursor === "string");
    const paths = await findPaths(client, result, jobId);
    await paths.open(start as string | undefined);

    // A server that offers no stream at all has nothing to wait for.
    const canHear = (): boolean => wire.open > 0 || paths.isOpening;
    await until(canHear, settleMs);
    const isMiddle = (): boolean => heard.events >= EVENTS_BEFORE_BREAK || heard.hasEnded;
    const deadline = clock.monotonic() + timeoutMs;
    await until(() => isMiddle() || !canHear(), timeoutMs / 2);
    if (canHear()) await breakAndReturn(false, heard.cursor ?? (start as string | undefined));
    await until(() => heard.hasEnded || !canHear(), Math.max(0, deadline - clock.monotonic()));
    await quiet();
    if (wire.open > 0) {
      await breakAndReturn(true, start as string | undefined);
      await quiet();
    }
    if (key !== undefined) {
      await callTool(client, wire, tool.name, args, options).catch(() => undefined);
      await quiet();
    }
    const { name, version } = client.getServerVersion() ?? { name: "an unnamed server", version: "" };
    return {
      era,
      server: `${name} ${version}`.trim(),
      tool: tool.name,
      jobId,
      arrivals: wire.arrivals,
      isCut: wire.isCut,
      paths: [...wire.streams]
        .filter(([stream]) => !/^(?:notifications|the answer to (?!tools\/call))/.test(stream))
        .map(([stream, status]) => `${stream}: ${status < 300 ? "open" : `refused with HTTP ${status}`}`),
      remarks: remarksOn(heard, jobId, timeoutMs, paths),
    };

    async function breakAndReturn(fromStart: boolean, after: string | undefined): Promise<void> {
      wire.cut(fromStart);
      await paths.open(after);
      await until(() => wire.open > 0, settleMs * 2);
    }
  } finally {
    signal.removeEventListener("abort", stop);
    await Promise.race([transport.terminateSession().catch(() => {}), pause(clock, 2_000, undefined)]);
    await client.close().catch(() => {});
  }
}

function remarksOn(
  heard: { readonly events: number; readonly hasEnded: boolean },
  jobId: string | undefined,
  timeoutMs: number,
  paths: Paths,
): readonly string[] {
  const remarks = [...paths.refusals];
  if (jobId === undefined)
    remarks.push("The tool's answer names no job, so events were recognised without its id.");
  if (heard.events > 0 && !heard.hasEnded) {
    remarks.push(`The job had not ended after ${timeoutMs / 1_000} s; a longer --timeout sees its end.`);
  }
  return remarks;
}

async function connect(
  { url, headers, era, timeoutMs, signal }: ExamineOptions,
  wire: Wire,
): Promise<{ client: Client; transport: StreamableHTTPClientTransport }> {
  const sdk = await import("@modelcontextprotocol/client").catch((cause: unknown) => {
    throw new TidingsError("UNREACHABLE", "The package @modelcontextprotocol/client is not installed.", {
      hint: "Install it beside tidings: npm install @modelcontextprotocol/client. Recorded streams need nothing.",
      cause,
    });
  });
  const mode =
    era === undefined ? ("auto" as const) : era === "2025-11-25" ? ("legacy" as const) : { pin: era };
  const client = new sdk.Client(
    { name: "tidings-check", version: "1.0.0" },
    { versionNegotiation: { mode } },
  );
  // Without a handler the client would drop what it does not know; the wire has written it down already.
  client.fallbackNotificationHandler = () => Promise.resolve();
  const transport = new sdk.StreamableHTTPClientTransport(url, {
    fetch: wire.fetch,
    requestInit: { headers: { ...headers } },
    reconnectionOptions: {
      initialReconnectionDelay: 50,
      maxReconnectionDelay: 1_000,
      reconnectionDelayGrowFactor: 2,
      maxRetries: 10,
    },
  });
  try {
    await client.connect(transport, { timeout: Math.min(timeoutMs, 30_000), signal });
  } catch (cause) {
    signal.throwIfAborted();
    await client.close().catch(() => {});
    throw new TidingsError(
      "UNREACHABLE",
      `No MCP server answered at ${url.origin}${url.pathname}: ${sentenceOf(cause)}`,
      {
        hint: "Check the address (often it ends in /mcp), and --token or --header when the server wants to know who asks.",
        cause,
      },
    );
  }
  return { client, transport };
}

async function chooseTool(
  client: Client,
  name: string | undefined,
  signal: AbortSignal,
): Promise<OfferedTool> {
  const { tools } = await client.listTools(undefined, { signal });
  const tool = tools.find((each) => each.name === name);
  if (tool !== undefined) return tool;
  const likely = guessStartTools(tools).map((each) => each.name);
  const others = tools.map((each) => each.name).filter((each) => !likely.includes(each));
  throw new TidingsError(
    "BAD_INPUT",
    name === undefined ? "No tool was named that starts a job." : `The server has no tool "${name}".`,
    {
      hint:
        tools.length === 0
          ? "This server offers no tools; check a recorded stream instead: --stream FILE."
          : `Name one with --tool, and its arguments with --args. ${likely.length > 0 ? `Probably: ${likely.slice(0, 20).join(", ")}. ` : ""}Others: ${others.slice(0, 50).join(", ") || "none"}.`,
      data: { likely, others },
    },
  );
}

/** The tool's result as it stood on the wire: the client refuses some that a job's start may well have (a task). */
async function callTool(
  client: Client,
  wire: Wire,
  name: string,
  args: Record<string, unknown>,
  { timeoutMs, signal }: ExamineOptions,
): Promise<unknown> {
  const before = wire.arrivals.length;
  let failure: unknown;
  try {
    await client.callTool(
      { name, arguments: args },
      {
        onprogress: () => {},
        timeout: timeoutMs,
        resetTimeoutOnProgress: true,
        maxTotalTimeout: timeoutMs,
        signal,
      },
    );
  } catch (error) {
    signal.throwIfAborted();
    failure = error;
  }
  const answers = wire.arrivals
    .slice(before)
    .filter(({ stream }) => stream.startsWith("the answer to tools/call"))
    .map(({ message }) => message)
    .filter(isRecord);
  const result = answers.map((answer) => answer.result).find(isRecord);
  if (result === undefined) {
    throw new TidingsError("BAD_INPUT", `The tool "${name}" could not be called: ${sentenceOf(failure)}`, {
      hint: "Give the arguments that it wants with --args '{…}' or --args @file.json, and more time with --timeout.",
    });
  }
  if (result.isError === true) {
    throw new TidingsError(
      "BAD_INPUT",
      `The tool "${name}" answered with an error: ${JSON.stringify(result.content).slice(0, 500)}`,
      {
        hint: "Give the arguments that it wants with --args '{…}' or --args @file.json.",
      },
    );
  }
  return result;
}

function cursorIn(message: unknown): string | undefined {
  if (!isRecord(message) || !isRecord(message.params) || !isRecord(message.params._meta)) return undefined;
  const cursor = message.params._meta[CURSOR_META_KEY];
  return typeof cursor === "string" ? cursor : undefined;
}

function sentenceOf(error: unknown): string {
  if (!(error instanceof Error)) return "no answer came.";
  const inner = error.cause instanceof Error ? ` (${error.cause.message})` : "";
  return `${error.message.slice(0, 500)}${inner}`;
}
