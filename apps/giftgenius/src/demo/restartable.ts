/** A server that may be killed and started again; whatever happens meanwhile, none is left behind. */
import type { ServerProcess } from "./server-process.ts";

export interface Restartable {
  /** Kills the server at once and starts it again behind the caller's back. */
  killAndRestart(note: (line: string) => void): void;
  /** Waits for the last restart. @throws Error when the server did not start again. */
  restarted(): Promise<void>;
  /** Stops the server that runs, or that a restart still brings up. */
  stop(): Promise<void>;
}

export function createRestartable(
  first: ServerProcess,
  startAgain: () => Promise<ServerProcess>,
): Restartable {
  let running: Promise<ServerProcess> = Promise.resolve(first);

  async function replace(old: ServerProcess, note: (line: string) => void): Promise<ServerProcess> {
    await old.kill();
    note(`\nKilled the server (SIGKILL, process ${old.pid}) and starting it again …\n`);
    const next = await startAgain();
    note(`\nIt runs again (process ${next.pid})\n`);
    return next;
  }

  return {
    killAndRestart(note) {
      running = running.then((old) => replace(old, note));
      // Whoever waits for it is told; nobody may be waiting yet.
      running.catch(() => undefined);
    },
    restarted: () => running.then(() => undefined),
    async stop() {
      const server = await running.catch(() => undefined);
      await server?.stop();
    },
  };
}
