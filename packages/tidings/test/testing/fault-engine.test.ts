/** Every way in which a store can fail under a job, and what is left of the job then. */
import { createTidings, defineJob, openEngine } from "tidings";
import { createFaultEngine, createManualClock, createSeededRandom, type FaultRule } from "tidings/testing";
import { describe, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { advancing, isEnding, open, storyOf, typesOf } from "../runtime/story.ts";

const work = defineJob("work", {
  input: z.object({ rows: z.number().int() }),
  attempts: 10,
  async run({ rows }, { resumed, checkpoint }) {
    for (let row = Number(resumed ?? 0); row < rows; row += 1) {
      await checkpoint(row + 1, (transaction) => transaction.append("rows", [row]));
    }
    return { result: rows };
  },
});

async function memory(clock = createManualClock()) {
  const engine = await openEngine("memory:", { clock, random: createSeededRandom(1) });
  onTestFinished(() => engine.close());
  return { clock, engine };
}

const request = {
  owner: "local",
  jobId: "job",
  jobType: "work",
  input: {},
  digest: "",
  maxAttempts: 3,
} as const;

describe("a write that fails", () => {
  test("before its commit keeps nothing and says so", async () => {
    const { engine } = await memory();
    const faulty = createFaultEngine(engine, { rules: [{ fault: "before", methods: ["start"], at: [1] }] });
    await expect(faulty.start(request)).rejects.toMatchObject({
      code: "STORE_FAILED",
      message: expect.stringContaining("so nothing was changed"),
    });
    expect(await engine.get("local", "job")).toBeUndefined();
    expect((await faulty.start(request)).outcome).toBe("created");
    expect(faulty.writes).toBe(2);
  });

  test("after its commit is kept all the same, and the caller is told that nobody knows", async () => {
    const { engine } = await memory();
    const faulty = createFaultEngine(engine, { rules: [{ fault: "after" }] });
    await expect(faulty.start(request)).rejects.toMatchObject({
      code: "STORE_FAILED",
      message: expect.stringContaining("uncertain whether the change was kept"),
    });
    expect((await engine.get("local", "job"))?.job.status).toBe("pending");
  });

  test("with an error of the test's choice, when the test's own condition holds", async () => {
    const { engine } = await memory();
    const faulty = createFaultEngine(engine, {
      rules: [
        { fault: "before", when: ({ method }) => method === "publish", error: () => new Error("ENOSPC") },
      ],
    });
    await faulty.start(request);
    await expect(faulty.publish("local", [])).rejects.toThrow("ENOSPC");
  });

  test("late is done when its time has come", async () => {
    const { engine, clock } = await memory();
    const faulty = createFaultEngine(engine, { rules: [{ fault: "slow", slowMs: 5_000 }], clock });
    const starting = faulty.start(request);
    clock.advance(4_999);
    expect(await engine.get("local", "job")).toBeUndefined();
    clock.advance(1);
    expect((await starting).outcome).toBe("created");
  });

  test("by chance fails alike for the same seed", async () => {
    const failuresOf = async (seed: number) => {
      const { engine } = await memory();
      const faulty = createFaultEngine(engine, { rules: [{ fault: "before", chance: 0.3 }], seed });
      const failed: number[] = [];
      for (let index = 0; index < 50; index += 1) {
        await faulty.start({ ...request, jobId: `job_${index}` }).catch(() => failed.push(index));
      }
      return failed;
    };
    const first = await failuresOf(7);
    expect(first.length).toBeGreaterThan(5);
    expect(first.length).toBeLessThan(30);
    expect(await failuresOf(7)).toEqual(first);
    expect(await failuresOf(8)).not.toEqual(first);
  });
});

describe("an engine that goes dead", () => {
  test.each([
    ["die-before", undefined],
    ["die-after", "pending"],
  ] as const)("at a write (%s) answers nobody and wakes nobody", async (fault, status) => {
    const { engine } = await memory();
    const faulty = createFaultEngine(engine, { rules: [{ fault, at: [1] }] });
    let woken = 0;
    faulty.watch("local", () => {
      woken += 1;
    });
    const answers: unknown[] = [];
    const hear = (promise: Promise<unknown>) =>
      void promise.then(
        (answer) => answers.push(answer),
        (error: unknown) => answers.push(error),
      );
    hear(faulty.start(request));
    await faulty.died;
    expect(faulty.diedAt).toMatchObject({ method: "start", number: 1 });
    hear(faulty.get("local", "job"));
    hear(faulty.transaction("local", () => undefined));
    const heard = woken;
    await engine.start({ ...request, jobId: "other" });
    expect((await engine.get("local", "job"))?.job.status).toBe(status);
    expect(answers).toEqual([]);
    expect(woken).toBe(heard);
  });

  test("takes an open transaction along", async () => {
    const { engine } = await memory();
    const faulty = createFaultEngine(engine, { rules: [] });
    let entered = () => {};
    const inside = new Promise<void>((resolve) => {
      entered = resolve;
    });
    void faulty.transaction("local", async (transaction) => {
      await transaction.put("key", "value");
      entered();
      await new Promise(() => undefined);
    });
    await inside;
    faulty.kill();
    expect(await engine.transaction("local", (transaction) => transaction.get("key"))).toBeUndefined();
  });
});

describe("a job over a store that fails", () => {
  const sites: readonly FaultRule[] = (["before", "after"] as const).flatMap((fault) =>
    (["start", "claim", "apply", "renew"] as const).flatMap((method) =>
      [1, 2, 3].map((at) => ({ fault, methods: [method], at: [at] })),
    ),
  );

  test.each(sites)("$fault $methods $at ends well, each row once, with one ending", async (rule) => {
    const { engine, clock } = await memory();
    const faulty = createFaultEngine(engine, { rules: [rule], clock });
    const tidings = await open({ store: faulty, jobs: [work], clock, onError: () => undefined });
    const start = () => tidings.start(work, { rows: 3 }, { idempotencyKey: "once" });
    // An error is indeterminate: whoever started asks again with the same key.
    const { jobId } = await start().catch(start);
    const heard = await advancing(clock, storyOf(tidings, jobId));
    // Who listens is also told that the store failed; no log keeps that.
    const story = heard.filter(({ type }) => !type.startsWith("system."));
    expect(typesOf(story).filter((type) => isEnding({ type }))).toEqual(["job.completed"]);
    expect(story.map(({ seq }) => seq)).toEqual(story.map((_, index) => index + 1));
    expect((await tidings.items("local", jobId, "rows", { offset: 0, limit: 10 })).items).toEqual([0, 1, 2]);
    expect(await tidings.list("local", {})).toMatchObject({ jobs: [{ jobId }] });
  });

  test("again and again, at any write, ends well all the same", async () => {
    for (let seed = 1; seed <= 20; seed += 1) {
      const { engine, clock } = await memory();
      const rules: FaultRule[] = [
        { fault: "before", chance: 0.1, methods: ["apply", "claim", "renew"] },
        { fault: "after", chance: 0.1, methods: ["apply", "claim", "renew"] },
      ];
      const faulty = createFaultEngine(engine, { rules, seed, clock });
      const patient = { ...work, attempts: 1_000 };
      const tidings = await createTidings({
        store: faulty,
        jobs: [patient],
        clock,
        onError: () => undefined,
      });
      const { jobId } = await tidings.start(patient, { rows: 5 });
      const story = await advancing(clock, storyOf(tidings, jobId));
      expect(story.at(-1)?.type, `seed ${seed}`).toBe("job.completed");
      const { items } = await tidings.items("local", jobId, "rows", { offset: 0, limit: 10 });
      expect(items, `seed ${seed}`).toEqual([0, 1, 2, 3, 4]);
      // An ending that was kept but not acknowledged is written again, after a pause of the standing clock.
      await advancing(clock, tidings.close({ graceMs: 0 }));
    }
  });
});
