import { McpServer } from "@modelcontextprotocol/server";
import type { Tidings } from "tidings";
import { defaultOwner, registerJob } from "tidings/mcp";
import { describe, expect, it } from "vitest";
import { systemClock } from "../../src/engine/system-clock.ts";
import { adopt } from "../../src/mcp/server/register-job.ts";
import type { Clock } from "../../src/model/clock.ts";
import { call, connect, count, ended, gate, openTidings, PATIENTLY } from "./support.ts";

/** A connection whose waits can be counted and whose time stands still until the test ends a wait. */
async function connectCounted() {
  const tidings = await openTidings("memory:");
  const waits = new Set<() => void>();
  const watches = new Set<() => void>();
  const asked: number[] = [];
  const clock: Clock = {
    ...systemClock,
    after(ms, ring) {
      asked.push(ms);
      waits.add(ring);
      return () => void waits.delete(ring);
    },
  };
  const counted: Tidings = {
    ...tidings,
    watch(owner, wake) {
      watches.add(wake);
      const stop = tidings.watch(owner, wake);
      return () => {
        watches.delete(wake);
        stop();
      };
    },
  };
  const { client } = await connect(() => {
    const server = new McpServer({ name: "counting", version: "1.0.0" });
    registerJob(server, counted, count, { tool: "start_count" });
    adopt(server, { ownerOf: defaultOwner, clock, onError: console.error });
    return server;
  });
  const startAndHold = async (name: string) => {
    const { jobId } = await tidings.start(count, { gate: name });
    await expect.poll(async () => (await tidings.get("local", jobId)).percentage, PATIENTLY).toBe(50);
    return { jobId, after: (await tidings.get("local", jobId)).cursor };
  };
  return { tidings, client, waits, watches, asked, startAndHold };
}

describe("a waiting get_job_events", () => {
  it("waits as long as it was asked to, then answers with nothing new, and lets go of everything", async () => {
    const { client, waits, watches, asked, startAndHold } = await connectCounted();
    const { jobId, after } = await startAndHold("wait-1");
    const waiting = call(client, "get_job_events", { jobId, after, waitSeconds: 12.5 });
    await expect.poll(() => waits.size, PATIENTLY).toBe(1);
    expect(asked).toEqual([12_500]);
    expect(watches.size).toBe(1);
    for (const ring of waits) ring();
    expect((await waiting).content).toMatchObject({
      events: [],
      cursor: after,
      status: "running",
      nextPollMs: 1000,
    });
    expect([waits.size, watches.size]).toEqual([0, 0]);
    gate("wait-1").open();
  });

  it("is woken by what happens to its job, not answered by what happens to others", async () => {
    const { tidings, client, waits, watches, startAndHold } = await connectCounted();
    const { jobId, after } = await startAndHold("wait-2");
    let answered = false;
    const waiting = call(client, "get_job_events", { jobId, after, waitSeconds: 25 }).finally(() => {
      answered = true;
    });
    await expect.poll(() => waits.size, PATIENTLY).toBe(1);
    const other = await tidings.start(count, { to: 1 });
    await ended(tidings, other.jobId);
    expect(answered).toBe(false);
    gate("wait-2").open();
    expect((await waiting).content.events[0]).toMatchObject({ type: "job.progress", jobId });
    expect([waits.size, watches.size]).toEqual([0, 0]);
  });

  it("lets go of everything when the request is canceled", async () => {
    const { client, waits, watches, startAndHold } = await connectCounted();
    const { jobId, after } = await startAndHold("wait-3");
    const stop = new AbortController();
    const waiting = client.callTool(
      { name: "get_job_events", arguments: { jobId, after, waitSeconds: 25 } },
      { signal: stop.signal },
    );
    await expect.poll(() => waits.size, PATIENTLY).toBe(1);
    stop.abort();
    await expect(waiting).rejects.toThrow();
    await expect.poll(() => waits.size + watches.size, PATIENTLY).toBe(0);
    gate("wait-3").open();
  });

  it("lets go of everything when the connection closes", async () => {
    const { client, waits, watches, startAndHold } = await connectCounted();
    const { jobId, after } = await startAndHold("wait-4");
    const waiting = call(client, "get_job_events", { jobId, after, waitSeconds: 25 });
    await expect.poll(() => waits.size, PATIENTLY).toBe(1);
    await Promise.all([expect(waiting).rejects.toThrow(), client.close()]);
    await expect.poll(() => waits.size + watches.size, PATIENTLY).toBe(0);
    gate("wait-4").open();
  });

  it("loses no event that comes between its reading and its waiting, in 200 rounds", async () => {
    const { tidings, client } = await connectCounted();
    for (let round = 0; round < 200; round += 1) {
      const { jobId } = (await call(client, "start_count", { to: 1 })).content;
      let after: string | undefined;
      const types: string[] = [];
      while (!types.includes("job.completed")) {
        const { content } = await call(client, "get_job_events", {
          jobId,
          waitSeconds: 25,
          ...(after && { after }),
        });
        // Time stands still here: a wake-up that was lost would never be made good.
        types.push(...content.events.map(({ type }: { type: string }) => type));
        after = content.cursor;
      }
      expect(types).toHaveLength((await tidings.read({ owner: "local", jobIds: [jobId] })).events.length);
    }
  });
});
