import { defineJob, EFFECTS_COLLECTION, RetryAfter, type Tidings } from "tidings";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { open, storyOf } from "./story.ts";

const nothing = z.object({});

async function notedBy(tidings: Tidings, jobId: string): Promise<readonly unknown[]> {
  return (await tidings.items("local", jobId, EFFECTS_COLLECTION, { offset: 0, limit: 20_000 })).items;
}

describe("an outside effect", () => {
  test("carries one stable key per job and item, in every attempt", async () => {
    const sent: string[] = [];
    const mail = defineJob("mail", {
      input: nothing,
      async run(_input, { attempt, effectKey }) {
        sent.push(effectKey("ada@example.com"), effectKey("bob@example.com"));
        if (attempt === 1) throw new RetryAfter(0, "The mail server asks for a pause.");
      },
    });
    const tidings = await open({ store: "memory:", jobs: [mail] });
    const one = await tidings.start(mail, {});
    await storyOf(tidings, one.jobId);
    const [ada, bob, adaAgain, bobAgain] = sent.splice(0);
    expect([adaAgain, bobAgain]).toEqual([ada, bob]);
    expect(ada).not.toBe(bob);

    const other = await tidings.start(mail, {});
    await storyOf(tidings, other.jobId);
    expect(sent).not.toContain(ada);
  });

  test("is noted once, in order, whether a commit follows, the attempt fails, or it is asked for again", async () => {
    const mail = defineJob("mail", {
      input: nothing,
      async run(_input, { attempt, effectKey, checkpoint }) {
        effectKey("ada");
        effectKey("ada");
        await checkpoint({}, () => {
          if (attempt === 1) throw new Error("the batch is bad");
        }).catch(() => undefined);
        effectKey("bob");
        if (attempt === 1) throw new RetryAfter(0, "A pause.");
        effectKey("eve");
      },
    });
    const tidings = await open({ store: "memory:", jobs: [mail] });
    const { jobId } = await tidings.start(mail, {});
    await storyOf(tidings, jobId);
    expect(await notedBy(tidings, jobId)).toEqual(
      ["ada", "bob", "eve"].map((item) => ({ item, key: `${jobId}:${item}` })),
    );
  });

  test("costs little, however many and however long the names are; keys stay whole", async () => {
    const long = "x".repeat(1_000_000);
    let given = "";
    const mail = defineJob("mail", {
      input: nothing,
      run(_input, { effectKey }) {
        given = effectKey(long);
        for (let item = 0; item < 20_000; item += 1) effectKey(`${item}`);
      },
    });
    const tidings = await open({ store: "memory:", jobs: [mail] });
    const { jobId } = await tidings.start(mail, {});
    await storyOf(tidings, jobId);
    expect(given).toBe(`${jobId}:${long}`);
    const noted = await notedBy(tidings, jobId);
    expect(noted.length).toBe(10_000);
    expect(JSON.stringify(noted[0]).length).toBeLessThan(1_000);
  });
});
