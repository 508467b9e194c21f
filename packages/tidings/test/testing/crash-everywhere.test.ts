/** What `crashEverywhere` says about good handlers and about those with a usual mistake. */
import { randomUUID } from "node:crypto";
import { defineJob, type Tidings } from "tidings";
import { crashEverywhere, createEffects } from "tidings/testing";
import { describe, expect, test } from "vitest";
import { z } from "zod";

const input = z.object({ rows: z.number().int() });
const stages = { read: 10, match: 100 };

/** Goes on where the last commit was, and commits what it did together with where it is. */
const good = defineJob("good", {
  input,
  stages,
  async run({ rows }, { resumed, checkpoint, progress, count }) {
    await progress("read", 1);
    for (let row = Number(resumed ?? 0); row < rows; row += 1) {
      count({ matched: row + 1 });
      await checkpoint(row + 1, async (transaction) => {
        await transaction.append("gifts", [{ row, gift: `gift ${row}` }]);
        await transaction.put("newest", row);
      });
      await progress("match", (row + 1) / rows);
    }
    return { summary: `${rows} gifts`, result: { rows } };
  },
});

/** What a test would print. */
async function complaintOf(work: Promise<unknown>): Promise<string> {
  const error = await work.then(
    () => undefined,
    (thrown: Error) => thrown,
  );
  return error?.message ?? "no complaint";
}

describe("a handler that commits its work together with its checkpoint", () => {
  test("leaves the same behind, wherever it is killed", async () => {
    const report = await crashEverywhere(good, { rows: 4 });
    expect(report.commits).toContain("checkpoint");
    expect(report.commits.at(-1)).toBe("complete");
    expect(report.commits.filter((what) => what === "checkpoint").length).toBe(4);
    // Two without a kill, then one right before and one right after each commit.
    expect(report).toMatchObject({ runs: 2 + 2 * report.commits.length, skipped: 0 });
  });

  test("also over a real SQLite file", async () => {
    const report = await crashEverywhere(good, { rows: 2 }, { store: "sqlite" });
    expect(report.runs).toBe(2 + 2 * report.commits.length);
  });

  test("also when its second process is killed too", async () => {
    const report = await crashEverywhere(good, { rows: 3 }, { twoCrashes: true });
    expect(report.runs).toBeGreaterThan(2 * report.commits.length ** 2);
  });

  test("in as many runs as are allowed, spread over the whole story", async () => {
    const report = await crashEverywhere(good, { rows: 20 }, { limit: 6 });
    expect(report.runs).toBe(2 + 6);
    expect(report.skipped).toBe(2 * report.commits.length - 6);
  });
});

describe("a handler with a usual mistake is told of it:", () => {
  test("what it adds is not in the commit of its checkpoint", async () => {
    const job = defineJob("twice", {
      input,
      async run({ rows }, { resumed, checkpoint }) {
        for (let row = Number(resumed ?? 0); row < rows; row += 1) {
          await checkpoint(row, (transaction) => transaction.append("gifts", [{ row }]));
          await checkpoint(row + 1);
        }
      },
    });
    expect(await complaintOf(crashEverywhere(job, { rows: 3 }))).toBe(
      'Killed after commit 1 (checkpoint), the job ends differently: item 1 stands twice in "gifts": {"row":0}.',
    );
  });

  test("it takes the checkpoint before the work", async () => {
    const job = defineJob("lost", {
      input,
      async run({ rows }, { resumed, checkpoint }) {
        for (let row = Number(resumed ?? 0); row < rows; row += 1) {
          await checkpoint(row + 1);
          await checkpoint(row + 1, (transaction) => transaction.append("gifts", [{ row }]));
        }
      },
    });
    expect(await complaintOf(crashEverywhere(job, { rows: 3 }))).toBe(
      'Killed after commit 1 (checkpoint), the job ends differently: item 1 is missing in "gifts": {"row":0}.',
    );
  });

  test("it counts in a variable that dies with the process", async () => {
    const job = defineJob("forgetful", {
      input,
      async run({ rows }, { resumed, checkpoint }) {
        let cents = 0;
        for (let row = Number(resumed ?? 0); row < rows; row += 1) {
          cents += 100;
          await checkpoint(row + 1);
        }
        return { result: { cents } };
      },
    });
    expect(await complaintOf(crashEverywhere(job, { rows: 3 }))).toBe(
      "Killed after commit 1 (checkpoint), the job ends differently: result.cents is 200 instead of 300.",
    );
  });

  test("it makes random ids", async () => {
    const job = defineJob("random", {
      input,
      async run({ rows }, { checkpoint }) {
        await checkpoint(rows, (transaction) => transaction.append("gifts", [{ id: randomUUID() }]));
      },
    });
    const complaint = await complaintOf(crashEverywhere(job, { rows: 1 }));
    expect(complaint).toMatch(
      /^Two runs without a crash already differ: item 1 of "gifts" is .* instead of /,
    );
    expect(complaint).toContain("effectKey(item)");
  });

  test("its result depends on the time", async () => {
    const job = defineJob("timed", { input, run: () => ({ result: { at: Date.now() } }) });
    expect(await complaintOf(crashEverywhere(job, { rows: 1 }))).toMatch(
      /^Two runs without a crash already differ: result\.at is \d+ instead of \d+\./,
    );
  });

  test("its result depends on the attempt", async () => {
    const job = defineJob("attempted", {
      input,
      run: (_, { attempt }) => ({ result: { attempt } }),
    });
    expect(await complaintOf(crashEverywhere(job, { rows: 1 }))).toBe(
      "Killed before commit 1 (complete), the job ends differently: result.attempt is 2 instead of 1.",
    );
  });
});

describe("effects outside the store", () => {
  const effects = createEffects();

  test("under the job's own keys may happen again, and are never left out", async () => {
    const job = defineJob("mails", {
      input,
      async run({ rows }, { resumed, checkpoint, effectKey }) {
        for (let row = Number(resumed ?? 0); row < rows; row += 1) {
          await effects.happen(effectKey(`row-${row}`), { row });
          await checkpoint(row + 1);
        }
      },
    });
    await crashEverywhere(job, { rows: 3 }, { effects });
    // The last run was killed right after its end: nothing was done again.
    expect(new Set(effects.seen.map(({ key }) => key)).size).toBe(3);
  });

  test("under a key that another attempt does not find again are caught", async () => {
    const job = defineJob("fresh_keys", {
      input,
      async run(_, { attempt, checkpoint }) {
        await effects.happen(`mail-${attempt}`);
        await checkpoint(1);
      },
    });
    expect(await complaintOf(crashEverywhere(job, { rows: 1 }, { effects }))).toContain(
      'an effect happened under the key "mail-2", which no run without a crash uses',
    );
  });

  test("that are checked off before they happen are caught", async () => {
    const job = defineJob("too_early", {
      input,
      async run({ rows }, { resumed, checkpoint, effectKey }) {
        for (let row = Number(resumed ?? 0); row < rows; row += 1) {
          await checkpoint(row + 1);
          await effects.happen(effectKey(`row-${row}`));
        }
      },
    });
    expect(await complaintOf(crashEverywhere(job, { rows: 2 }, { effects }))).toMatch(
      /^Killed after commit 1 \(checkpoint\), the job ends differently: the effect ".*:row-0" never happened\.$/,
    );
  });
});

test("a handler that fails for good fails alike wherever it is killed, and one that tries again gets there", async () => {
  let tries = 0;
  const flaky = defineJob("flaky", {
    input,
    async run(_, { resumed, checkpoint }) {
      tries += 1;
      await checkpoint({ tries: ((resumed as { tries: number } | undefined)?.tries ?? 0) + 1 });
      if (((resumed as { tries: number } | undefined)?.tries ?? 0) < 1)
        throw new Error("The first try fails.");
      return { result: "done" };
    },
  });
  const report = await crashEverywhere(flaky, { rows: 1 });
  expect(report.commits).toEqual(["checkpoint", "retry", "checkpoint", "complete"]);
  expect(tries).toBeGreaterThan(report.runs);
});

test("what only the application knows of is compared too", async () => {
  let tidings: Tidings | undefined;
  const job = defineJob("ledger", {
    input,
    async run(_, { checkpoint }) {
      await tidings?.transaction("local", async (transaction) => {
        await transaction.put("sum", Number((await transaction.get("sum")) ?? 0) + 1);
      });
      await checkpoint(1);
    },
  });
  const complaint = await complaintOf(
    crashEverywhere(
      job,
      { rows: 1 },
      {
        onOpen: (opened) => {
          tidings = opened;
        },
        observe: async (world) => ({
          double: await world.tidings.transaction(world.owner, async (transaction) => transaction.get("sum")),
        }),
      },
    ),
  );
  expect(complaint).toBe(
    "Killed after commit 1 (transaction), the job ends differently: values.sum is 2 instead of 1.",
  );
});

test("a handler that never ends is reported instead of waited for", async () => {
  const job = defineJob("endless", { input, run: () => new Promise<never>(() => undefined) });
  await expect(crashEverywhere(job, { rows: 1 }, { timeoutMs: 200 })).rejects.toMatchObject({
    code: "JOB_TIMEOUT",
    message: expect.stringContaining("it is running, attempt 1"),
  });
});
