/** Ids that nobody can guess: every one is a draw of the machine's source of 128 bits. */
import { defineJob } from "tidings";
import { expect, test } from "vitest";
import { z } from "zod";
import { systemRandom } from "../../src/engine/system-clock.ts";
import { open } from "./story.ts";

test("security 3: the machine's source gives 128 bits at a time, and no byte of them stands still", () => {
  const drawn = Array.from({ length: 1_024 }, () => Buffer.from(systemRandom.id(), "base64url"));
  expect(new Set(drawn.map(({ length }) => length))).toEqual(new Set([16]));
  for (let place = 0; place < 16; place += 1) {
    // Of 256 values, 1,024 honest draws leave out about 5.
    expect(new Set(drawn.map((bytes) => bytes[place])).size).toBeGreaterThan(200);
  }
  expect(new Set(drawn.map((bytes) => bytes.toString("hex"))).size).toBe(1_024);
});

test("security 3: a job's id is its type and such a draw, whole", async () => {
  const job = defineJob("send_mail", { input: z.object({}), run: () => ({}) });
  const drawn: string[] = [];
  const random = {
    ...systemRandom,
    id: () => {
      const id = systemRandom.id();
      drawn.push(id);
      return id;
    },
  };
  const tidings = await open({ store: "memory:", jobs: [job], random, concurrency: 0 });
  const ids = await Promise.all(Array.from({ length: 20 }, () => tidings.start(job, {})));
  for (const { jobId } of ids) expect(drawn).toContain(jobId.slice(-22));
  expect(new Set(ids.map(({ jobId }) => jobId)).size).toBe(20);
});
