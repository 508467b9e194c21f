import { type ChildProcessByStdio, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";

export interface Neighbour {
  readonly process: ChildProcessByStdio<Writable, Readable, null>;
  /** The next thing that it says; undefined once it has ended. */
  next(): Promise<unknown>;
}

/** Starts `process.ts` on the file, in a process of its own, which ends with the test at the latest. */
export function startNeighbour(
  role: "watch" | "claim" | "cancel" | "write",
  path: string,
  holder = "neighbour",
): Neighbour {
  const script = fileURLToPath(new URL("./process.ts", import.meta.url));
  const child = spawn(
    process.execPath,
    ["--import", import.meta.resolve("tsx"), "--conditions=@tidings/source", script, role, path, holder],
    { stdio: ["pipe", "pipe", "inherit"] },
  );
  onTestFinished(() => void child.kill("SIGKILL"));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    process: child,
    async next() {
      const { value, done } = await lines.next();
      return done === true ? undefined : JSON.parse(value);
    },
  };
}
