#!/usr/bin/env node
/** `tidings`: looks after jobs from a terminal or a script. One file for each verb. */
import { readFileSync } from "node:fs";
import { TidingsError } from "../model/error.ts";
import type { Command } from "./command.ts";
import { DONE, FAILED, INTERRUPTED, nearestOf, readArguments, usageError, WRONG_USAGE } from "./command.ts";
import { toInert, toInertJson } from "./inert.ts";
import { createProcessIo, type Io } from "./io.ts";

const VERBS: Readonly<Record<string, () => Promise<Command>>> = {
  inspect: async () => (await import("./inspect.ts")).inspect,
  tail: async () => (await import("./tail.ts")).tail,
  cancel: async () => (await import("./cancel.ts")).cancel,
  retry: async () => (await import("./retry.ts")).retry,
  prune: async () => (await import("./prune.ts")).prune,
  doctor: async () => (await import("./doctor.ts")).doctor,
};
const CHECK = "check";
const CHECK_SUMMARY = "look at anyone's MCP server, or a recorded stream, for six mistakes with events";

async function run(argv: readonly string[], io: Io): Promise<number> {
  const [verb, ...rest] = argv;
  try {
    if (verb === undefined || verb === "--help" || verb === "-h" || verb === "help") {
      io.write(await helpOfAll());
      return verb === undefined ? WRONG_USAGE : DONE;
    }
    if (verb === "--version" || verb === "-v") {
      io.write(`${versionOf()}\n`);
      return DONE;
    }
    if (verb === CHECK) return await (await import("./check/check.ts")).runCheck(rest, io);
    const load = Object.hasOwn(VERBS, verb) ? VERBS[verb] : undefined;
    if (load === undefined) {
      const near = nearestOf(verb, [...Object.keys(VERBS), CHECK]);
      throw usageError(
        `There is no command "${verb}".`,
        near === undefined ? "See tidings --help." : `Did you mean tidings ${near}?`,
      );
    }
    const command = await load();
    const args = readArguments(verb, command, rest);
    if (args.options.help === true) {
      io.write(helpOf(verb, command));
      return DONE;
    }
    return await command.run(args, io);
  } catch (error) {
    if (io.signal.aborted) return INTERRUPTED;
    return tell(error, io, rest.includes("--json") || !io.isTerminal);
  }
}

function tell(error: unknown, io: Io, isJson: boolean): number {
  const known =
    error instanceof TidingsError
      ? error
      : new TidingsError("INTERNAL", `Something failed: ${String(error)}`);
  const { code, message, hint } = known;
  if (isJson)
    io.writeError(`${toInertJson({ error: { code, message, ...(hint === undefined ? {} : { hint }) } })}\n`);
  else io.writeError(`${toInert(hint === undefined ? message : `${message} ${hint}`, 2_000)}\n`);
  return code === "USAGE" ? WRONG_USAGE : FAILED;
}

async function helpOfAll(): Promise<string> {
  const lines = await Promise.all(
    Object.entries(VERBS).map(async ([verb, load]) => `  ${verb.padEnd(8)}  ${(await load()).summary}`),
  );
  return [
    "tidings: durable jobs and events for MCP servers",
    "",
    ...lines,
    `  ${CHECK.padEnd(8)}  ${CHECK_SUMMARY}`,
    "",
    "tidings COMMAND --help says more. A store is named by --store or TIDINGS_STORE, a server by --url.",
    "Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.",
    "",
  ].join("\n");
}

function helpOf(verb: string, { summary, usage, options }: Command): string {
  const rows = Object.entries(options).map(([name, { value, help }]) => {
    const left = value === undefined ? `--${name}` : `--${name} ${value}`;
    return `  ${left.padEnd(22)}  ${help}`;
  });
  return [`tidings ${verb} ${usage}`, "", summary, "", ...rows, ""].join("\n");
}

function versionOf(): string {
  const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"));
  return version;
}

const io = createProcessIo();
process.exitCode = await run(process.argv.slice(2), io);
