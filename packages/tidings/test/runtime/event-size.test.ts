/** Every reader is sent every event: none is larger than `limits.eventBytes`, whoever writes it. */
import { defineEvent, defineJob } from "tidings";
import { expect, test } from "vitest";
import { z } from "zod";
import { open } from "./story.ts";

const LIMIT = 64 * 1_024;
const large = "x".repeat(900_000);
const tooLarge = {
  code: "PAYLOAD_TOO_LARGE",
  message: expect.stringContaining(`at most ${LIMIT} are allowed`),
  data: { limit: LIMIT, bytes: expect.any(Number) },
};

const wordy = defineJob("wordy", {
  input: z.object({}),
  summary: () => large,
  run: () => ({ summary: "done" }),
});

test("security 21: a summary of 900 KB is in no event: its start is refused", async () => {
  const tidings = await open({ store: "memory:", jobs: [wordy] });
  await expect(tidings.start(wordy, {})).rejects.toMatchObject(tooLarge);
  expect((await tidings.list("local")).jobs).toEqual([]);
  expect((await tidings.read({ owner: "local" })).events).toEqual([]);
});

test("security 21: an event of 5 MB is not published", async () => {
  const tidings = await open({ store: "memory:", jobs: [] });
  const paid = defineEvent("order.paid", { payload: z.object({ note: z.string() }) });
  await expect(tidings.publish(paid({ note: large.repeat(6) }), { source: "shop" })).rejects.toMatchObject(
    tooLarge,
  );
  expect((await tidings.read({ owner: "local" })).events).toEqual([]);
});

test("security 21: a reason of 900 KB cancels nothing", async () => {
  const quiet = defineJob("quiet", { input: z.object({}), run: () => undefined });
  const tidings = await open({ store: "memory:", jobs: [quiet], concurrency: 0 });
  const { jobId } = await tidings.start(quiet, {});
  const by = { canceledBy: "user", reason: large };
  await expect(tidings.cancel("local", jobId, by)).rejects.toMatchObject(tooLarge);
  expect((await tidings.get("local", jobId)).status).toBe("pending");
});
