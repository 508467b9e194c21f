/** `tidings check`: looks at anyone's MCP server, or at a recorded stream, for the six mistakes with events. */
import { readFile, writeFile } from "node:fs/promises";
import { systemClock, systemRandom } from "../../engine/system-clock.ts";
import { TidingsError } from "../../model/error.ts";
import { isRecord } from "../../model/schema.ts";
import { toInert, toInertJson } from "../inert.ts";
import { examine } from "./examine.ts";
import { judge } from "./judge.ts";
import type { CheckOptions } from "./options.ts";
import { HELP, readOptions, usage } from "./options.ts";
import { readRecording, writeLine } from "./recording.ts";
import type { Subject } from "./report.ts";
import { exitOf, printJson, printText } from "./report.ts";
import type { Verdict } from "./verdict.ts";

/** What the command needs of the process around it. */
export interface CheckIo {
  write(text: string): void;
  writeError(text: string): void;
  /** Whether `write` goes to a terminal. */
  readonly isTerminal: boolean;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Aborts when the user interrupts. */
  readonly signal: AbortSignal;
}

type ServerOptions = Extract<CheckOptions, { input: "server" }>;

const USAGE = 2;
const NOT_EXAMINED = 3;
const INTERRUPTED = 130;
const MAX_RECORDING_BYTES = 256_000_000;

/**
 * Runs `tidings check` with what was typed after it. Never rejects.
 *
 * @returns the exit code: 0 no mistake found, 1 mistakes found, 2 wrong usage, 3 nothing could be examined, 130 interrupted.
 */
export async function runCheck(argv: readonly string[], io: CheckIo): Promise<number> {
  let isJson = !io.isTerminal;
  try {
    const options = readOptions(argv, io.env);
    isJson = options.isJson ?? isJson;
    if (options.input === "help") {
      io.write(HELP);
      return 0;
    }
    const say = (subject: Subject, verdict: Verdict): number => {
      const isColoured = io.isTerminal && (io.env.NO_COLOR ?? "") === "";
      io.write(isJson ? printJson(subject, verdict) : printText(subject, verdict, isColoured));
      return exitOf(verdict);
    };
    return options.input === "stream"
      ? await checkStream(options.file, say)
      : await checkServer(options, io, say);
  } catch (error) {
    if (io.signal.aborted) return INTERRUPTED;
    return tell(error, io, isJson);
  }
}

async function checkStream(
  file: string,
  say: (subject: Subject, verdict: Verdict) => number,
): Promise<number> {
  const text = await readText(file);
  const { arrivals, unread, isCut } = readRecording(text);
  const name = file === "-" ? "A recorded stream from stdin" : `A recorded stream: ${file}`;
  const remarks = unread === 0 ? [] : [`${unread} lines are no JSON messages and were left out.`];
  return say({ name, facts: [], remarks }, judge(arrivals, isCut));
}

async function checkServer(
  options: ServerOptions,
  io: CheckIo,
  say: (subject: Subject, verdict: Verdict) => number,
): Promise<number> {
  const { eras, url, tool, headers, timeoutMs, settleMs, record } = options;
  const args = await readArguments(options.args);
  const exits: number[] = [];
  const recorded: string[] = [];
  for (const era of eras) {
    try {
      const { signal } = io;
      const clocks = { clock: systemClock, random: systemRandom };
      const seen = await examine({ url, tool, args, headers, era, timeoutMs, settleMs, signal, ...clocks });
      recorded.push(...seen.arrivals.map(writeLine));
      const facts = [
        `${seen.server}, MCP ${seen.era}`,
        `tool ${seen.tool}, ${seen.jobId === undefined ? "no job named in its answer" : `job ${seen.jobId}`}`,
        ...seen.paths.map((path) => `listened on ${path}`),
      ];
      const name = `${url.origin}${url.pathname}`;
      exits.push(say({ name, facts, remarks: seen.remarks }, judge(seen.arrivals, seen.isCut)));
    } catch (error) {
      // One generation that a server does not speak is no reason to keep silent about the other.
      if (eras.length === 1 || !(error instanceof TidingsError && error.code === "UNREACHABLE")) throw error;
      io.writeError(`MCP ${era}: ${toInert(error.message)}\n`);
      exits.push(NOT_EXAMINED);
    }
  }
  if (record !== undefined) await keep(record, recorded);
  if (exits.includes(1)) return 1;
  return exits.includes(0) ? 0 : NOT_EXAMINED;
}

async function keep(file: string, lines: readonly string[]): Promise<void> {
  try {
    await writeFile(file, lines.map((line) => `${line}\n`).join(""));
  } catch (error) {
    throw usage(
      `The file ${file} could not be written: ${codeOf(error)}.`,
      "Check its folder, and whether you may write there.",
    );
  }
}

async function readArguments(given: string | undefined): Promise<Readonly<Record<string, unknown>>> {
  if (given === undefined) return {};
  const text = given.startsWith("@") ? await readText(given.slice(1)) : given;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw usage("--args is no JSON.", 'Write --args \'{"name": "value"}\', or --args @file.json.');
  }
  if (!isRecord(value))
    throw usage("--args is no JSON object.", 'A tool\'s arguments have names: \'{"name": "value"}\'.');
  return value;
}

async function readText(file: string): Promise<string> {
  if (file === "-") {
    const chunks: Buffer[] = [];
    let size = 0;
    for await (const chunk of process.stdin) {
      size += (chunk as Buffer).length;
      if (size > MAX_RECORDING_BYTES) throw tooLarge("What came from stdin");
      chunks.push(chunk as Buffer);
    }
    return Buffer.concat(chunks).toString("utf8");
  }
  try {
    const bytes = await readFile(file);
    if (bytes.length > MAX_RECORDING_BYTES) throw tooLarge(`The file ${file}`);
    return bytes.toString("utf8");
  } catch (error) {
    if (error instanceof TidingsError) throw error;
    throw usage(
      `The file ${file} could not be read: ${codeOf(error)}.`,
      "Check its name, and whether you may read it.",
    );
  }
}

function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "no reason was given";
}

function tooLarge(what: string): TidingsError {
  const limit = MAX_RECORDING_BYTES;
  return new TidingsError("PAYLOAD_TOO_LARGE", `${what} has more than ${limit} bytes.`, {
    hint: "Cut the recording into parts that each hold whole jobs.",
    data: { limit },
  });
}

function tell(error: unknown, { writeError }: CheckIo, isJson: boolean): number {
  const known =
    error instanceof TidingsError
      ? error
      : new TidingsError("UNREACHABLE", error instanceof Error ? error.message : "The check broke off.", {
          cause: error,
        });
  const { hint } = known;
  if (isJson) writeError(`${toInertJson({ kind: "error", ...known.toInfo(), ...known.data })}\n`);
  else
    writeError(`${toInert(known.message, 1_000)}\n${hint === undefined ? "" : `${toInert(hint, 2_000)}\n`}`);
  return known.code === "BAD_INPUT" ? USAGE : NOT_EXAMINED;
}
