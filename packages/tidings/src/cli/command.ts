/** What a verb of the command line is, and how its arguments are read. */
import { parseArgs } from "node:util";
import { TidingsError } from "../model/error.ts";
import type { Io } from "./io.ts";

export const DONE = 0;
export const FAILED = 1;
export const WRONG_USAGE = 2;
export const INTERRUPTED = 130;

export interface Option {
  readonly type: "string" | "boolean";
  /** What stands behind the option in the help: `TEXT`. Only of options with a value. */
  readonly value?: string;
  /** One line for the help. */
  readonly help: string;
}

export interface Arguments {
  readonly options: Readonly<Record<string, string | boolean | undefined>>;
  /** The one argument that is no option: a job's id. */
  readonly job: string | undefined;
}

export interface Command {
  /** One line for the list of commands. */
  readonly summary: string;
  /** What stands behind the verb in the help. */
  readonly usage: string;
  readonly takesJob: "never" | "maybe" | "always";
  readonly options: Readonly<Record<string, Option>>;
  /** Returns the exit code. */
  run(args: Arguments, io: Io): Promise<number>;
}

/** Says which store or server is meant; every verb has them. */
export const TARGET_OPTIONS: Readonly<Record<string, Option>> = {
  store: { type: "string", value: "STORE", help: "such as sqlite:./data/jobs.db; default: TIDINGS_STORE" },
  owner: { type: "string", value: "NAME", help: "whose jobs, in a store; default: local" },
  url: { type: "string", value: "URL", help: "of a server's MCP address, instead of a store" },
  token: { type: "string", value: "TOKEN", help: "bearer token for the server; default: TIDINGS_TOKEN" },
  json: { type: "boolean", help: "JSON lines, also in a terminal" },
};

export function usageError(message: string, hint?: string): TidingsError {
  return new TidingsError("USAGE", message, hint === undefined ? {} : { hint });
}

/** @throws TidingsError USAGE, a sentence about what was typed. */
export function readArguments(verb: string, command: Command, argv: readonly string[]): Arguments {
  const known: Readonly<Record<string, { readonly type: "string" | "boolean" }>> = {
    ...command.options,
    help: { type: "boolean" },
  };
  const { values, positionals, tokens } = parseArgs({
    args: [...argv],
    options: known,
    allowPositionals: true,
    strict: false,
    tokens: true,
  });
  for (const token of tokens) {
    if (token.kind !== "option") continue;
    const option = Object.hasOwn(known, token.name) ? known[token.name] : undefined;
    if (option === undefined) {
      const near = nearestOf(token.name, Object.keys(known));
      throw usageError(
        `tidings ${verb} has no option ${token.rawName}.`,
        near === undefined ? `See tidings ${verb} --help.` : `Did you mean --${near}?`,
      );
    }
    if (option.type === "string" && (token.value === undefined || token.value === "")) {
      throw usageError(`${token.rawName} needs a value.`, `See tidings ${verb} --help.`);
    }
    if (option.type === "boolean" && token.value !== undefined) {
      throw usageError(`${token.rawName} takes no value.`);
    }
  }
  const limit = command.takesJob === "never" ? 0 : 1;
  if (positionals.length > limit) {
    throw usageError(
      `tidings ${verb} does not know what "${positionals[limit]}" means.`,
      `It is: tidings ${verb} ${command.usage}`,
    );
  }
  if (command.takesJob === "always" && positionals.length === 0 && values.help !== true) {
    throw usageError(`tidings ${verb} needs the id of a job.`, "tidings inspect lists them.");
  }
  return { options: values as Arguments["options"], job: positionals[0] };
}

export function textOf({ options }: Arguments, name: string): string | undefined {
  const value = options[name];
  return typeof value === "string" ? value : undefined;
}

/** @throws TidingsError USAGE */
export function wholeNumberOf(args: Arguments, name: string, fallback: number, max: number): number {
  const text = textOf(args, name);
  if (text === undefined) return fallback;
  const value = Number(text);
  if (Number.isInteger(value) && value >= 1 && value <= max) return value;
  throw usageError(`--${name} is "${text}", but must be a whole number from 1 to ${max}.`);
}

const UNITS: Readonly<Record<string, Readonly<Record<string, number>>>> = {
  duration: { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 },
  size: { b: 1, kb: 1_024, mb: 1_024 ** 2, gb: 1_024 ** 3 },
};

/** `30d` in milliseconds, `2gb` in bytes. @throws TidingsError USAGE */
export function measureOf(args: Arguments, name: string, kind: "duration" | "size"): number | undefined {
  const text = textOf(args, name);
  if (text === undefined) return undefined;
  const units = UNITS[kind] ?? {};
  const [, amount, unit = ""] = /^(\d+(?:\.\d+)?)([a-z]+)$/.exec(text.toLowerCase()) ?? [];
  if (amount !== undefined && Object.hasOwn(units, unit)) return Number(amount) * (units[unit] ?? 0);
  const names = Object.keys(units).join(", ");
  throw usageError(
    `--${name} is "${text}", but must be a number with one of ${names}, such as ${kind === "size" ? "2gb" : "30d"}.`,
  );
}

/** The name that was probably meant. */
export function nearestOf(typed: string, names: readonly string[]): string | undefined {
  let nearest: string | undefined;
  let best = Math.max(1, Math.floor(typed.length / 3)) + 1;
  for (const name of names) {
    const distance = name.startsWith(typed) && typed.length > 1 ? 1 : distanceOf(typed, name);
    if (distance < best) [nearest, best] = [name, distance];
  }
  return nearest;
}

/** Letters to add, leave out or change. */
function distanceOf(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const change = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(change, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
