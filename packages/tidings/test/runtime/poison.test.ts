/** FC-38 without isolation: the handler takes its whole process along, again and again, and somebody starts it anew. */
import { type ChildProcess, fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { Tidings } from "tidings";
import { describe, expect, onTestFinished, test } from "vitest";
import { makeFolder } from "../engine/folder.ts";
import { healthy, poison } from "./poison/worker.ts";
import { open, storyOf, typesOf } from "./story.ts";

/** A process that says nothing for so long is killed and started anew. */
const SILENCE_MS = 1_500;

/** Keeps one worker alive on the store until the test ends. Counts its lives. */
function supervise(store: string): { readonly lives: () => number } {
  const script = fileURLToPath(new URL("./poison/worker.ts", import.meta.url));
  let lives = 0;
  let over = false;
  let child: ChildProcess;
  const start = (): void => {
    lives += 1;
    child = fork(script, [store], {
      execArgv: ["--import", import.meta.resolve("tsx"), "--conditions=@tidings/source"],
    });
    let silence: NodeJS.Timeout | undefined;
    child.on("message", () => {
      clearTimeout(silence);
      silence = setTimeout(() => child.kill("SIGKILL"), SILENCE_MS);
    });
    child.once("exit", () => {
      clearTimeout(silence);
      if (!over) start();
    });
  };
  start();
  onTestFinished(() => {
    over = true;
    child.kill("SIGKILL");
  });
  return { lives: () => lives };
}

async function openWorld(): Promise<{ store: string; tidings: Tidings }> {
  const store = `sqlite:${makeFolder()}/jobs.db`;
  return { store, tidings: await open({ store, jobs: [poison, healthy], concurrency: 0 }) };
}

/** Every one of them ended well, with each row once. */
async function expectWhole(tidings: Tidings, jobIds: readonly string[]): Promise<void> {
  for (const jobId of jobIds) {
    expect(typesOf(await storyOf(tidings, jobId)).at(-1)).toBe("job.completed");
    const { items } = await tidings.items("local", jobId, "rows", { offset: 0, limit: 100 });
    expect(items).toEqual(Array.from({ length: 20 }, (_, row) => row));
  }
}

describe("FC-38: a poison job in the worker's own process", () => {
  test.each(["exits at once", "exits at row 50", "loops"] as const)(
    "that %s is started three times, then fails; the twenty behind it and beside it all end well",
    async (how) => {
      const { store, tidings } = await openWorld();
      const { jobId } = await tidings.start(poison, { how });
      const others: string[] = [];
      for (let count = 0; count < 20; count += 1) others.push((await tidings.start(healthy, {})).jobId);
      const worker = supervise(store);
      const story = await storyOf(tidings, jobId);
      expect(typesOf(story).filter((type) => type === "job.started")).toHaveLength(3);
      expect(story.at(-1)).toMatchObject({
        type: "job.failed",
        error: {
          code: "WORKER_LOST",
          message: `The process that ran attempt 3 of job "${jobId}" went away before it ended.`,
        },
      });
      await expectWhole(tidings, others);
      expect(worker.lives()).toBe(4);
    },
    60_000,
  );

  test("is ended by a cancel while it loops, and not started again", async () => {
    const { store, tidings } = await openWorld();
    const { jobId } = await tidings.start(poison, { how: "loops" });
    const { jobId: other } = await tidings.start(healthy, {});
    supervise(store);
    await storyOf(tidings, jobId, ({ type }) => type === "system.log");
    await tidings.cancel("local", jobId, { canceledBy: "user" });
    await expectWhole(tidings, [other]);
    expect(typesOf(await storyOf(tidings, jobId))).toEqual([
      "job.created",
      "job.started",
      "system.log",
      "job.canceled",
    ]);
  });
});
