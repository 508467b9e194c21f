/** The server as the demonstration runs it: a process of its own, so that it can really be killed. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

const MAIN = fileURLToPath(new URL("../main.ts", import.meta.url));
/** How Node runs the application from its sources. */
export const RUN_ARGS: readonly string[] = [
  "--import",
  import.meta.resolve("tsx"),
  "--conditions=@tidings/source",
];

export interface ServerProcess {
  readonly url: string;
  readonly pid: number;
  /** SIGKILL: no clean-up of any kind. */
  kill(): Promise<void>;
  /** SIGTERM; resolves with the exit code of the orderly end that follows. */
  stop(): Promise<number | null>;
}

/** Starts GiftGenius and waits until it serves. @throws Error with what the server said when it did not. */
export async function startServer(env: Readonly<Record<string, string>>): Promise<ServerProcess> {
  const child = spawn(process.execPath, [...RUN_ARGS, MAIN], {
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const url = await addressOf(child);
  const end = async (signal: "SIGKILL" | "SIGTERM"): Promise<number | null> => {
    if (child.exitCode !== null || child.signalCode !== null) return child.exitCode;
    const exited = once(child, "exit");
    child.kill(signal);
    await exited;
    return child.exitCode;
  };
  return {
    url,
    pid: child.pid ?? 0,
    kill: async () => void (await end("SIGKILL")),
    stop: () => end("SIGTERM"),
  };
}

function addressOf(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let said = "";
    const listen = (chunk: Buffer): void => {
      said += chunk.toString();
      const address = /GiftGenius is at (http:\/\/\S+?)\//.exec(said)?.[1];
      if (address !== undefined) resolve(address);
    };
    child.stdout?.on("data", listen);
    child.stderr?.on("data", (chunk: Buffer) => {
      said += chunk.toString();
    });
    child.once("error", reject);
    child.once("exit", (code) =>
      reject(new Error(said.trim() || `The server ended with code ${code} before it served.`)),
    );
  });
}
