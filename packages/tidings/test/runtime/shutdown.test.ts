/** FC-47: a deployment stops the server, or kills it; nobody waits for hours. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { fileURLToPath } from "node:url";
import type { CustomEvent, Tidings } from "tidings";
import { expect, onTestFinished, test } from "vitest";
import { makeFolder } from "../engine/folder.ts";
import { spinning, steady, stuck } from "./shutdown/server.ts";
import { open, storyOf, typesOf } from "./story.ts";

const LEASE_MS = 10_000;
/** The time that the server gives its handlers, and as much again for a busy machine. */
const GRACE_MS = 1_000;

interface Server {
  readonly process: ChildProcess;
  readonly port: number;
}

async function startServer(store: string, port = 0): Promise<Server> {
  const child = fork(fileURLToPath(new URL("./shutdown/server.ts", import.meta.url)), [store, `${port}`], {
    execArgv: ["--import", import.meta.resolve("tsx"), "--conditions=@tidings/source"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  const [heard] = (await once(child, "message")) as [number];
  return { process: child, port: heard };
}

interface Stream {
  /** The ids of its events, once it has ended in good order; one that is cut rejects. */
  readonly ended: Promise<readonly string[]>;
}

async function openStream(port: number, jobId: string, lastEventId?: string): Promise<Stream> {
  const headers: Record<string, string> = lastEventId === undefined ? {} : { "last-event-id": lastEventId };
  const response = await fetch(`http://127.0.0.1:${port}/jobs/${jobId}/events`, { headers });
  expect(response.status).toBe(200);
  const ended = response.text().then((text) => [...text.matchAll(/^id: ?(.+)$/gm)].map(([, id]) => id ?? ""));
  return { ended };
}

async function isFree(port: number): Promise<boolean> {
  const probe = createServer();
  probe.listen(port, "127.0.0.1");
  const free = await Promise.race([
    once(probe, "listening").then(() => true),
    once(probe, "error").then(() => false),
  ]);
  probe.close();
  return free;
}

const startedAs =
  (attempt: number) =>
  (event: CustomEvent): boolean =>
    event.type === "job.started" && event.attempt === attempt;

async function allStarted(tidings: Tidings, jobIds: readonly string[], attempt: number): Promise<void> {
  await Promise.all(jobIds.map((jobId) => storyOf(tidings, jobId, startedAs(attempt))));
}

test("FC-47: SIGTERM ends it in its grace time, a kill costs one attempt, and five jobs go on at once", async () => {
  const store = `sqlite:${makeFolder()}/jobs.db`;
  const tidings = await open({ store, jobs: [steady, stuck, spinning], concurrency: 0 });
  const first = await startServer(store);
  const jobIds: string[] = [];
  for (const job of [steady, steady, steady, stuck, spinning])
    jobIds.push((await tidings.start(job, {})).jobId);
  await allStarted(tidings, jobIds, 1);
  await storyOf(tidings, jobIds[4] ?? "", ({ type }) => type === "system.log");
  const streams: Stream[] = [];
  for (let index = 0; index < 20; index += 1) {
    streams.push(await openStream(first.port, jobIds[index % 5] ?? ""));
  }

  const askedAt = performance.now();
  first.process.kill("SIGTERM");
  const [code] = (await once(first.process, "exit")) as [number | null];
  expect(code).toBe(0);
  expect(performance.now() - askedAt).toBeLessThan(2 * GRACE_MS + 1_000);
  expect(await isFree(first.port)).toBe(true);
  const read = await Promise.all(streams.map(({ ended }) => ended));
  for (const ids of read) expect(ids.length).toBeGreaterThan(0);
  for (const jobId of jobIds) {
    const snapshot = await tidings.get("local", jobId);
    expect(snapshot).toMatchObject({ status: "pending", error: { code: "WORKER_STOPPED" } });
  }

  const second = await startServer(store, first.port);
  await allStarted(tidings, jobIds, 2);
  second.process.kill("SIGKILL");
  await once(second.process, "exit");

  const restartedAt = performance.now();
  const third = await startServer(store, first.port);
  await allStarted(tidings, jobIds, 3);
  expect(performance.now() - restartedAt).toBeLessThan(LEASE_MS);
  for (const jobId of jobIds) {
    const story = await storyOf(tidings, jobId);
    expect(typesOf(story).at(-1)).toBe("job.completed");
    const reasons = story.flatMap(({ type, error }) =>
      type === "job.retrying" ? [(error as { code: string }).code] : [],
    );
    expect(reasons).toEqual(["WORKER_STOPPED", "WORKER_LOST"]);
    expect(await tidings.get("local", jobId)).toMatchObject({ status: "completed", attempt: 3 });
  }
  // A reader goes on where the first server left it, without a repeat.
  const rest = await (await openStream(third.port, jobIds[0] ?? "", read[0]?.at(-1))).ended;
  expect(rest.length).toBeGreaterThan(0);
  expect(rest.filter((id) => read[0]?.includes(id))).toEqual([]);
}, 60_000);
