/** `tidings` against a server, over MCP. */

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { makeFolder } from "../engine/folder.ts";
import { createWorld, quick } from "../mcp/http-world.ts";
import { storyOf } from "../runtime/story.ts";
import { runCommand, startCommand } from "./command.ts";

async function openWorld() {
  const store = `sqlite:${makeFolder()}/jobs.db`;
  const world = await createWorld({ store });
  onTestFinished(() => world.close());
  return { ...world, store, mcp: `${world.url}/mcp` };
}

test("jobs are listed, shown, followed and retried as in a store", async () => {
  const { tidings, mcp } = await openWorld();
  const { jobId } = await tidings.start(quick, { steps: 3 });
  await storyOf(tidings, jobId);
  const listed = await runCommand(["inspect", "--url", mcp]);
  expect(listed.lines).toMatchObject([{ jobId, status: "completed" }]);
  const shown = await runCommand(["inspect", jobId, "--events", "--url", mcp]);
  expect(shown.lines[0]).toMatchObject({ job: { jobId } });
  const followed = await runCommand(["tail", jobId, "--url", mcp]);
  expect(followed.code).toBe(0);
  expect(followed.lines).toEqual(shown.lines.slice(1));
  const retried = await runCommand(["retry", jobId, "--url", mcp]);
  expect(retried.lines).toMatchObject([{ retryOf: jobId }]);
});

test("what happens to the owner is followed without naming a job", async () => {
  const { tidings, mcp } = await openWorld();
  const running = startCommand(["tail", "--url", mcp]);
  let isHeard = false;
  const heard = running.until(1).then(() => {
    isHeard = true;
  });
  while (!isHeard) {
    const { jobId } = await tidings.start(quick, { steps: 1 });
    await storyOf(tidings, jobId);
  }
  await heard;
  running.interrupt();
  const { code, lines } = await running.ended;
  expect(code).toBe(130);
  expect(lines[0]).toMatchObject({
    event: { type: expect.stringMatching(/^job\./) },
    cursor: expect.any(String),
  });
});

test("inspect of the store names who reads a job, and how far", async () => {
  const { tidings, mcp, url, store } = await openWorld();
  const { jobId } = await tidings.start(quick, { steps: 3 });
  await storyOf(tidings, jobId);
  await runCommand(["tail", jobId, "--url", mcp]);
  const stream = await fetch(`${url}/jobs/${jobId}/events`, { headers: { "User-Agent": "a browser\u00e9" } });
  await stream.text();
  const { lines } = await runCommand(["inspect", jobId, "--store", store]);
  const { job, readers } = lines[0] as {
    job: { cursor: string };
    readers: { name: string; cursor: string }[];
  };
  expect(readers.map(({ name }) => name)).toContain("tidings");
  expect(readers.find(({ name }) => name === "tidings")?.cursor).toBe(job.cursor);
});

test("doctor finds a healthy server healthy, in both generations", async () => {
  const { mcp } = await openWorld();
  const { code, lines } = await runCommand(["doctor", "--url", mcp]);
  expect(lines.filter(({ level }) => level !== "ok")).toEqual([]);
  expect(lines.map(({ about }) => about)).toEqual(["node", "mcp", "2025-11-25", "streams"]);
  expect(code).toBe(0);
});

test("an address where no MCP server answers is one sentence with what to do", async () => {
  const http = createServer((_, res) => res.writeHead(404).end("nothing"));
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void http.close());
  const { port } = http.address() as AddressInfo;
  const { code, stderr } = await runCommand(["inspect", "--url", `http://127.0.0.1:${port}/mcp`]);
  expect(code).toBe(1);
  expect(JSON.parse(stderr)).toMatchObject({
    error: { code: "UNREACHABLE", hint: expect.stringContaining("--token") },
  });
  const ill = await runCommand(["doctor", "--url", `http://127.0.0.1:${port}/mcp`]);
  expect(ill.code).toBe(1);
  expect(ill.lines.at(-1)).toMatchObject({ level: "problem", about: "mcp" });
});
