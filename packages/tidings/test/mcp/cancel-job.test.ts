import { McpServer } from "@modelcontextprotocol/server";
import { createTidings, defineJob } from "tidings";
import { registerJob } from "tidings/mcp";
import { describe, expect, it, onTestFinished } from "vitest";
import { z } from "zod";
import { call, connect, ended, PATIENTLY, storyOf } from "./support.ts";

type Manner = "throws" | "returns" | "ignores";

/** A job that tells the test when it begins, and ends in its own manner once it was told to stop. */
async function connectStubborn() {
  const begun = new Map<string, () => void>();
  const finish = new Map<string, () => void>();
  const effects = { attempts: 0, stopped: 0 };
  const stubborn = defineJob("stubborn", {
    input: z.object({ name: z.string(), manner: z.enum(["throws", "returns", "ignores"]) }),
    async run({ name, manner }, { signal }) {
      effects.attempts += 1;
      const stopped = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
      const finished = new Promise<void>((resolve) => finish.set(name, resolve));
      begun.get(name)?.();
      await Promise.race(manner === "ignores" ? [finished] : [finished, stopped]);
      effects.stopped += 1;
      if (signal.aborted && manner === "throws") throw new Error("stopped");
      if (signal.aborted && manner === "returns") return { summary: "stopped early" };
      return { summary: "done" };
    },
  });
  const tidings = await createTidings({ store: "memory:", jobs: [stubborn], concurrency: 4 });
  onTestFinished(() => tidings.close());
  const { client } = await connect(() => {
    const server = new McpServer({ name: "s", version: "1.0.0" });
    registerJob(server, tidings, stubborn, { tool: "start" });
    return server;
  });
  return {
    tidings,
    client,
    effects,
    finish: (name: string) => finish.get(name)?.(),
    start: async (name: string, manner: Manner) => {
      const running = new Promise<void>((resolve) => begun.set(name, resolve));
      const { jobId } = (await call(client, "start", { name, manner })).content;
      return { jobId: jobId as string, running };
    },
    cancel: async (jobId: string) => (await call(client, "cancel_job", { jobId, reason: "enough" })).content,
  };
}

const endings = (types: readonly string[]) =>
  types.filter((type) => /^job\.(completed|failed|canceled)$/.test(type));

describe("cancel_job (FC-42)", () => {
  it.each(["throws", "returns", "ignores"] as const)(
    "ends a job whose handler %s on abort exactly once, as canceled, without another attempt, in 200 rounds",
    async (manner) => {
      const { tidings, start, cancel, finish, effects } = await connectStubborn();
      for (let round = 0; round < 200; round += 1) {
        const name = `${manner}-${round}`;
        const { jobId, running } = await start(name, manner);
        // Even rounds cancel while the job may still wait or is being claimed, odd ones while it runs.
        if (round % 2 === 1) await running;
        expect(await cancel(jobId)).toMatchObject({
          status: "canceled",
          canceledBy: "user",
          reason: "enough",
        });
        if (manner === "ignores") finish(name);
        // The handler of the others ends because its signal fired, and by nothing else.
        await expect.poll(() => effects.stopped, PATIENTLY).toBe(effects.attempts);
        expect(await cancel(jobId)).toMatchObject({ status: "canceled" });
        const types = (await storyOf(tidings, jobId)).map(({ event }) => event.type);
        expect(endings(types)).toEqual(["job.canceled"]);
        expect(types).not.toContain("job.retrying");
      }
      expect(effects.attempts).toBeLessThanOrEqual(200);
      const { jobs } = await tidings.list("local", { limit: 100 });
      expect(jobs.every(({ status, attempt }) => status === "canceled" && attempt <= 1)).toBe(true);
    },
  );

  it("agrees with the story whoever wins: a cancel in the last moment reports the ending that stands, in 200 rounds", async () => {
    const { tidings, start, cancel, finish } = await connectStubborn();
    for (let round = 0; round < 200; round += 1) {
      const name = `race-${round}`;
      const { jobId, running } = await start(name, "ignores");
      await running;
      finish(name);
      for (let turn = 0; turn < round % 7; turn += 1) await Promise.resolve();
      const { status } = await cancel(jobId);
      await ended(tidings, jobId);
      const types = (await storyOf(tidings, jobId)).map(({ event }) => event.type);
      expect(endings(types)).toEqual([`job.${status}`]);
    }
  });
});
