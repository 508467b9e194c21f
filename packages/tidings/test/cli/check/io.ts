import type { CheckIo } from "../../../src/cli/check/check.ts";
import { runCheck } from "../../../src/cli/check/check.ts";

export interface Run {
  readonly exit: number;
  readonly out: string;
  readonly err: string;
  /** The objects of the JSON lines. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look at whatever is there
  readonly lines: readonly any[];
  /** Codes of the mistakes found. */
  readonly mistakes: readonly string[];
  readonly rules: readonly string[];
}

/** Runs the command as a pipe would see it, or with `isTerminal` as a person would. */
export async function check(argv: readonly string[], options: Partial<CheckIo> = {}): Promise<Run> {
  const [out, err] = [[] as string[], [] as string[]];
  const exit = await runCheck(argv, {
    write: (text) => void out.push(text),
    writeError: (text) => void err.push(text),
    isTerminal: false,
    env: {},
    signal: new AbortController().signal,
    ...options,
  });
  const lines = out.join("").startsWith("{")
    ? out
        .join("")
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line))
    : [];
  return {
    exit,
    out: out.join(""),
    err: err.join(""),
    lines,
    mistakes: lines.find(({ kind }) => kind === "verdict")?.mistakes ?? [],
    rules: [...new Set(lines.filter(({ kind }) => kind === "finding").map(({ rule }) => rule as string))],
  };
}
