/** What a program may give to createTidings: engines of any make, and numbers within their range. */
import { createTidings, defineJob, TidingsError, type TidingsOptions } from "tidings";
import { createManualClock } from "tidings/testing";
import { expect, test } from "vitest";
import { z } from "zod";
import type { Engine } from "../../src/engine/engine.ts";
import { createMemoryEngine } from "../../src/engine/memory/index.ts";
import { systemRandom } from "../../src/engine/system-clock.ts";
import { advancing, open, signalOf, storyOf, typesOf } from "./story.ts";

const quick = defineJob("quick", { input: z.object({}), run: () => ({ summary: "done" }) });

test.each<[Partial<TidingsOptions>, string]>([
  [{ concurrency: -1 }, "concurrency is -1, but must be a whole number from 0 on."],
  [{ concurrency: Number.NaN }, "concurrency is NaN, but must be a whole number from 0 on."],
  [{ concurrency: 1.5 }, "concurrency is 1.5, but must be a whole number from 0 on."],
  [{ leaseMs: 0 }, "leaseMs is 0, but must be a finite number from 1 on."],
  [{ leaseMs: Number.POSITIVE_INFINITY }, "leaseMs is Infinity, but must be a finite number from 1 on."],
  [{ retentionMs: -1 }, "retentionMs is -1, but must be a number from 0 on."],
  [{ retentionBytes: 0 }, "retentionBytes is 0, but must be a number from 1 on."],
  [{ compactAfterMs: Number.NaN }, "compactAfterMs is NaN, but must be a number from 0 on."],
])("%j is refused in a sentence that names it", async (options, message) => {
  const opening = createTidings({ store: "memory:", jobs: [quick], ...options });
  await expect(opening).rejects.toMatchObject({ code: "BAD_DEFINITION", message });
});

test("what has no end may be said so", async () => {
  const never = Number.POSITIVE_INFINITY;
  const tidings = await open({
    store: "memory:",
    jobs: [quick],
    retentionMs: never,
    compactAfterMs: never,
    retentionBytes: never,
  });
  const { jobId } = await tidings.start(quick, {});
  expect(typesOf(await storyOf(tidings, jobId)).at(-1)).toBe("job.completed");
});

test("an engine may be an object of a class", async () => {
  class OwnEngine implements Engine {
    readonly name = "own";
    readonly #inner = createMemoryEngine({ clock: createManualClock(), random: systemRandom });
    readonly secret = this.#inner.secret;
    start(...args: Parameters<Engine["start"]>) {
      return this.#inner.start(...args);
    }
    claim(...args: Parameters<Engine["claim"]>) {
      return this.#inner.claim(...args);
    }
    renew(...args: Parameters<Engine["renew"]>) {
      return this.#inner.renew(...args);
    }
    apply(...args: Parameters<Engine["apply"]>) {
      return this.#inner.apply(...args);
    }
    get(...args: Parameters<Engine["get"]>) {
      return this.#inner.get(...args);
    }
    document(...args: Parameters<Engine["document"]>) {
      return this.#inner.document(...args);
    }
    list(...args: Parameters<Engine["list"]>) {
      return this.#inner.list(...args);
    }
    read(...args: Parameters<Engine["read"]>) {
      return this.#inner.read(...args);
    }
    items(...args: Parameters<Engine["items"]>) {
      return this.#inner.items(...args);
    }
    publish(...args: Parameters<Engine["publish"]>) {
      return this.#inner.publish(...args);
    }
    transaction: Engine["transaction"] = (owner, work) => this.#inner.transaction(owner, work);
    watch(...args: Parameters<Engine["watch"]>) {
      return this.#inner.watch(...args);
    }
    holders() {
      return this.#inner.holders();
    }
    prune(...args: Parameters<Engine["prune"]>) {
      return this.#inner.prune(...args);
    }
    close() {
      return this.#inner.close();
    }
  }
  const tidings = await open({ store: new OwnEngine(), jobs: [quick] });
  const { jobId } = await tidings.start(quick, {});
  expect(typesOf(await storyOf(tidings, jobId)).at(-1)).toBe("job.completed");
});

test("a store that cannot be written is said to be degraded, without a word about where it is, and recovers", async () => {
  const clock = createManualClock();
  const memory = createMemoryEngine({ clock, random: systemRandom });
  let isBroken = false;
  const broken = new TidingsError(
    "STORE_FAILED",
    'The store "/secret/jobs.db" failed: input or output error.',
  );
  const store: Engine = {
    ...memory,
    start: async (request) => {
      if (isBroken) throw broken;
      return memory.start(request);
    },
    transaction: async (owner, work) => {
      if (isBroken) throw broken;
      return memory.transaction(owner, work);
    },
  };
  const told: unknown[] = [];
  const tidings = await open({ store, jobs: [quick], clock, onError: (error) => void told.push(error) });
  const restored = signalOf();
  const stop = new AbortController();
  const heard: unknown[] = [];
  const listening = (async () => {
    for await (const item of tidings.tail({ owner: "local", after: { from: "now" }, signal: stop.signal })) {
      if (item.kind !== "event") continue;
      heard.push(item.event);
      if (item.event.type === "system.restored") restored.resolve();
    }
  })();
  await tidings.head("local");
  isBroken = true;
  await expect(tidings.start(quick, {})).rejects.toMatchObject({ code: "STORE_FAILED" });
  expect(tidings.health()).toMatchObject({
    status: "degraded",
    reason: expect.stringMatching(/cannot be written/),
  });
  isBroken = false;
  await advancing(clock, restored.promise);
  expect(tidings.health()).toEqual({ status: "ok" });
  stop.abort();
  await listening;
  expect(heard).toMatchObject([{ type: "system.degraded" }, { type: "system.restored" }]);
  expect(JSON.stringify([heard, tidings.health()])).not.toContain("secret");
  expect(told).toEqual([broken]);
});
