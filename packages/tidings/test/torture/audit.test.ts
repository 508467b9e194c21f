/** The torture's judge sees each broken promise: otherwise its silence would mean nothing. */
import { createTidings, defineJob, openEngine, type Tidings } from "tidings";
import { beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { audit } from "../../../../scripts/torture-audit.ts";
import type { LedgerLine } from "../../../../scripts/torture-ledger.ts";
import { makeFolder } from "../engine/folder.ts";
import { storyOf } from "../runtime/story.ts";

const work = defineJob("work", {
  input: z.object({ steps: z.number().int() }),
  async run({ steps }, { checkpoint }) {
    for (let step = 0; step < steps; step += 1) {
      await checkpoint(step + 1, (transaction) => transaction.append("steps", [{ step }]));
    }
  },
});

describe("the judge of a store and its ledger", () => {
  let path: string;
  let ledger: LedgerLine[];

  beforeEach(async () => {
    path = `${makeFolder()}/jobs.db`;
    const tidings: Tidings = await createTidings({ store: `sqlite:${path}`, jobs: [work] });
    const { jobId } = await tidings.start(work, { steps: 2 });
    const story = await storyOf(tidings, jobId);
    await tidings.close();
    ledger = [
      { kind: "job", key: "order-1", jobId, steps: 2 },
      ...story.map((event) => ({ kind: "event", cursor: "", event }) as const),
    ];
  });

  const problems = async () => (await audit(path, ledger, { mustHaveEnded: true })).problems;

  test("has nothing to say when all was kept", async () => {
    expect(await problems()).toEqual([]);
  });

  test("names a job that is gone", async () => {
    ledger.push({ kind: "job", key: "order-2", jobId: "work_gone", steps: 1 });
    expect(await problems()).toEqual(["lost: job work_gone was acknowledged"]);
  });

  test("names two jobs for one key", async () => {
    ledger.push({ kind: "job", key: "order-1", jobId: "work_other", steps: 2 });
    expect(await problems()).toContainEqual(
      expect.stringMatching(/^two jobs, .* and work_other, were acknowledged/),
    );
  });

  test("names an event that is gone and one that was changed", async () => {
    const [, first] = ledger;
    if (first?.kind !== "event") throw new Error("The ledger holds an event.");
    ledger.push({ ...first, event: { ...first.event, eventId: "gone" } });
    ledger.push({ ...first, event: { ...first.event, jobType: "other" } });
    expect(await problems()).toEqual([
      "lost: event gone was seen by a client",
      expect.stringMatching(/^changed: event /),
    ]);
  });

  test("names a step that was done twice, a job without an end and a gap in a story", async () => {
    const [line] = ledger;
    const jobId = line?.kind === "job" ? line.jobId : "";
    const engine = await openEngine(`sqlite:${path}`);
    await engine.transaction("local", ({ sql }) => {
      const database = sql as { exec(text: string): void };
      database.exec("DELETE FROM tidings_event WHERE seq = 2");
      database.exec("UPDATE tidings_item SET body = replace(body, '1', '0')");
    });
    const unfinished = await createTidings({ store: engine, jobs: [work], concurrency: 0 });
    await unfinished.start(work, { steps: 1 });
    await unfinished.close();
    const found = await problems();
    expect(found).toContainEqual(expect.stringContaining(`the numbers of job ${jobId} are [1,3`));
    expect(found).toContainEqual(
      expect.stringContaining(`job ${jobId} (completed) holds the steps [0,0] of 2`),
    );
    expect(found).toContainEqual(expect.stringMatching(/^job work_.* never ended$/));
  });
});
