/** GiftGenius as a process of its own, to be attacked. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const MAIN = fileURLToPath(new URL("../apps/giftgenius/src/main.ts", import.meta.url));
/** Words on stderr that no input may cause. */
const FAULTS =
  /RangeError|Maximum call stack|heap out of memory|unhandled|uncaught|TypeError|ReferenceError/i;

/** What the SDK says under -32603 about params of its own methods that are the client's mistake: a list of schema issues. */
const SCHEMA_ISSUES = /"message":"\[\\n {2}\{\\n {4}\\"(?:code|expected|origin)\\"/;

/** Whether an answer says that the server itself failed (JSON-RPC -32603), and it is not the SDK that only means bad params. */
export function isOwnFault(answer: string): boolean {
  return answer.includes('"code":-32603') && !SCHEMA_ISSUES.test(answer);
}

export interface Victim {
  readonly child: ChildProcess;
  /** What it said on stderr that no input may cause; the first lines of it. */
  readonly faults: readonly string[];
  /** Lines on stderr, by what they were about. */
  readonly complaints: Readonly<Record<string, number>>;
  /** Whether it still runs. */
  readonly alive: boolean;
  /** Resident memory, in MiB; undefined where that cannot be read. */
  memoryMb(): number | undefined;
  /** Ends it in order and removes its files; the exit code. */
  stop(): Promise<number | null>;
}

export async function startVictim(args: readonly string[]): Promise<Victim> {
  const folder = await mkdtemp(join(tmpdir(), "tidings-fuzz-"));
  const run = ["--import", import.meta.resolve("tsx"), "--conditions=@tidings/source", MAIN, ...args];
  const child = spawn(process.execPath, run, {
    env: { ...process.env, PORT: "0", TIDINGS_STORE: `sqlite:${join(folder, "jobs.db")}` },
    stdio: ["pipe", "pipe", "pipe"],
  });
  const exited = once(child, "exit");
  const faults: string[] = [];
  const complaints: Record<string, number> = {};
  let rest = "";
  child.stderr.setEncoding("utf8").on("data", (chunk: string) => {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      if (FAULTS.test(line) && faults.length < 20) faults.push(line.slice(0, 1_500));
      const about = /"during":"([^"]*)","code":"([^"]*)"/.exec(line)?.slice(1).join(" ") ?? line.slice(0, 60);
      if (Object.keys(complaints).length < 50 || about in complaints)
        complaints[about] = (complaints[about] ?? 0) + 1;
    }
  });
  // Everybody who waits for an answer also waits for the end.
  child.setMaxListeners(0);
  child.stdin.on("error", () => undefined);
  const isAlive = (): boolean => child.exitCode === null && child.signalCode === null;
  return {
    child,
    faults,
    complaints,
    get alive() {
      return isAlive();
    },
    memoryMb() {
      try {
        const kilobytes = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, "utf8"))?.[1];
        return kilobytes === undefined ? undefined : Math.round(Number(kilobytes) / 1024);
      } catch {
        return undefined;
      }
    },
    async stop() {
      child.stdin.end();
      if (isAlive() && args.length === 0) child.kill("SIGTERM");
      const timer = setTimeout(() => child.kill("SIGKILL"), 15_000);
      if (isAlive()) await exited;
      clearTimeout(timer);
      await rm(folder, { recursive: true, force: true });
      return child.exitCode;
    },
  };
}
