/** No server is left behind by the demonstration, whatever goes wrong while it restarts. */
import { expect, test } from "vitest";
import { createRestartable } from "../../src/demo/restartable.ts";
import type { ServerProcess } from "../../src/demo/server-process.ts";

function fakeServer(pid: number, log: string[]): ServerProcess {
  return {
    url: "http://127.0.0.1:1",
    pid,
    kill: async () => void log.push(`${pid} killed`),
    stop: async () => {
      log.push(`${pid} stopped`);
      return 0;
    },
  };
}

const quiet = (): void => undefined;

test("stopping in the middle of a restart stops the server that the restart brings up", async () => {
  const log: string[] = [];
  let arrive: (server: ServerProcess) => void = () => undefined;
  const next = new Promise<ServerProcess>((resolve) => {
    arrive = resolve;
  });
  const server = createRestartable(fakeServer(1, log), () => next);
  server.killAndRestart(quiet);
  const stopped = server.stop();
  arrive(fakeServer(2, log));
  await stopped;
  expect(log).toEqual(["1 killed", "2 stopped"]);
});

test("a restart that fails is told to whoever waits for it, and stopping is still possible", async () => {
  const log: string[] = [];
  const server = createRestartable(fakeServer(1, log), () => Promise.reject(new Error("The port is taken.")));
  server.killAndRestart(quiet);
  await expect(server.restarted()).rejects.toThrow("The port is taken.");
  await server.stop();
  expect(log).toEqual(["1 killed"]);
});

test("without a restart the first server is stopped", async () => {
  const log: string[] = [];
  const server = createRestartable(fakeServer(1, log), () => Promise.reject(new Error("Not asked for.")));
  await server.restarted();
  await server.stop();
  expect(log).toEqual(["1 stopped"]);
});
