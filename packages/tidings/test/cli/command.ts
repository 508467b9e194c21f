/** The real command in a process of its own, as a shell would start it: its output goes into a pipe. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";

const MAIN = fileURLToPath(new URL("../../src/cli/main.ts", import.meta.url));

export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
  /** What stands in the lines of stdout. */
  readonly lines: readonly Record<string, unknown>[];
}

export interface Running {
  readonly ended: Promise<Ended>;
  /** Resolves once stdout holds so many lines. */
  until(lines: number): Promise<void>;
  interrupt(): void;
}

export function startCommand(args: readonly string[], env: Readonly<Record<string, string>> = {}): Running {
  const { TIDINGS_STORE: _store, TIDINGS_TOKEN: _token, ...rest } = process.env;
  const child = spawn(
    process.execPath,
    ["--import", import.meta.resolve("tsx"), "--conditions=@tidings/source", MAIN, ...args],
    { env: { ...rest, ...env }, stdio: ["ignore", "pipe", "pipe"] },
  );
  onTestFinished(() => void child.kill("SIGKILL"));
  let stdout = "";
  let stderr = "";
  let wake = () => {};
  child.stdout.on("data", (chunk) => {
    stdout += chunk;
    wake();
  });
  child.stderr.on("data", (chunk) => {
    stderr += chunk;
  });
  const ended = once(child, "close").then(([code]) => ({
    code: code as number | null,
    stdout,
    stderr,
    get lines() {
      return stdout
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => JSON.parse(line) as Record<string, unknown>);
    },
  }));
  return {
    ended,
    async until(lines) {
      while (stdout.split("\n").length <= lines) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    },
    interrupt: () => void child.kill("SIGINT"),
  };
}

export function runCommand(args: readonly string[], env?: Readonly<Record<string, string>>): Promise<Ended> {
  return startCommand(args, env).ended;
}
