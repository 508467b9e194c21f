import { createTidings, defineJob, RetryAfter, type Tidings } from "tidings";
import { afterEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { storyOf } from "./story.ts";

let tidings: Tidings | undefined;
afterEach(() => tidings?.close());

describe("an outside effect", () => {
  test("carries one stable key per job and item, in every attempt", async () => {
    const sent: string[] = [];
    const mail = defineJob("mail", {
      input: z.object({}),
      async run(_input, { attempt, effectKey }) {
        sent.push(effectKey("ada@example.com"), effectKey("bob@example.com"));
        if (attempt === 1) throw new RetryAfter(0, "The mail server asks for a pause.");
      },
    });
    tidings = await createTidings({ store: "memory:", jobs: [mail] });
    const one = await tidings.start(mail, {});
    await storyOf(tidings, one.jobId);
    const [ada, bob, adaAgain, bobAgain] = sent.splice(0);
    expect([adaAgain, bobAgain]).toEqual([ada, bob]);
    expect(ada).not.toBe(bob);

    const other = await tidings.start(mail, {});
    await storyOf(tidings, other.jobId);
    expect(sent).not.toContain(ada);
  });
});
