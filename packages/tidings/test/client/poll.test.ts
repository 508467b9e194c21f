import { describe, expect, it } from "vitest";
import type { FollowTarget } from "../../src/client/index.ts";
import { createPollSource, follow } from "../../src/client/index.ts";
import { createManualClock } from "../../src/engine/testing/manual-clock.ts";
import type { TidingsEvent } from "../../src/model/event.ts";
import { toFlat } from "../../src/model/projection/notification.ts";
import { fold, wholeStory } from "./stories.ts";
import { cursorOf } from "./story-server.ts";

const story = wholeStory("job_1");

/** Answers as `get_job_events` does, from what has happened by then. */
function createTool(happened: () => readonly TidingsEvent[], limit = 3) {
  const asked: Record<string, unknown>[] = [];
  const callTool = async (name: string, args: Record<string, unknown>): Promise<unknown> => {
    expect(name).toBe("get_job_events");
    asked.push(args);
    const all = happened();
    const from = Math.max(
      0,
      [...all.keys(), all.length].findIndex((n) => cursorOf(n) === args.after),
    );
    const events = all.slice(from, from + limit);
    const told = all.slice(0, from + events.length);
    return {
      structuredContent: {
        events: events.map((event, n) => toFlat(event, cursorOf(from + n + 1))),
        cursor: cursorOf(told.length),
        status: told.length === 0 ? "pending" : fold(told).status,
        truncated: false,
        nextPollMs: told.length < all.length ? 0 : 1000,
        serverTime: new Date(0).toISOString(),
      },
    };
  };
  return { asked, callTool };
}

async function read(target: FollowTarget): Promise<TidingsEvent[]> {
  const events: TidingsEvent[] = [];
  for await (const event of follow(target)) events.push(event);
  return events;
}

describe("following a job by asking", () => {
  it("reads page after page and goes on after each cursor", async () => {
    const { asked, callTool } = createTool(() => story);
    expect(await read({ source: createPollSource(callTool), jobId: "job_1" })).toEqual(story);
    expect(asked).toEqual([
      { jobId: "job_1", waitSeconds: 20, limit: 100 },
      { jobId: "job_1", waitSeconds: 20, limit: 100, after: cursorOf(3) },
      { jobId: "job_1", waitSeconds: 20, limit: 100, after: cursorOf(6) },
    ]);
  });

  it("waits as long as the server says when there is no news", async () => {
    const clock = createManualClock();
    let known = 2;
    const { asked, callTool } = createTool(() => story.slice(0, known));
    const reading = read({
      source: createPollSource(callTool, { clock, waitSeconds: 0 }),
      jobId: "job_1",
      clock,
    });
    while (asked.length < 2) await new Promise(setImmediate);
    await new Promise(setImmediate);
    clock.advance(999);
    await new Promise(setImmediate);
    expect(asked).toHaveLength(2);
    known = story.length;
    clock.advance(1);
    expect(await reading).toEqual(story);
  });

  it("ends behind the ending", async () => {
    const { callTool } = createTool(() => story);
    expect(await read({ source: createPollSource(callTool), jobId: "job_1", after: cursorOf(7) })).toEqual(
      [],
    );
  });

  it("reads the answer from the text when there is nothing else", async () => {
    const { callTool } = createTool(() => story);
    const asText = async (name: string, args: Record<string, unknown>) => {
      const { structuredContent } = (await callTool(name, args)) as { structuredContent: unknown };
      return { content: [{ type: "text", text: JSON.stringify(structuredContent) }] };
    };
    expect(await read({ source: createPollSource(asText), jobId: "job_1" })).toEqual(story);
  });

  it("sets the job to the snapshot when events are no longer kept", async () => {
    const snapshot = { ...fold(story.slice(0, 5)), cursor: cursorOf(5) };
    const { callTool } = createTool(() => story, 10);
    const truncating = async (name: string, args: Record<string, unknown>) => {
      const { structuredContent } = (await callTool(name, args)) as {
        structuredContent: { events: unknown[] };
      };
      const events = structuredContent.events.slice(2);
      return { ...structuredContent, events, truncated: args.after === undefined, snapshot };
    };
    const shown: number[] = [];
    const events = await read({
      source: createPollSource(truncating),
      jobId: "job_1",
      onSnapshot: ({ percentage }) => shown.push(percentage),
    });
    expect(shown).toEqual([70]);
    expect(events).toEqual(story.slice(5));
  });

  it.each(["JOB_NOT_FOUND", "BAD_CURSOR"])("gives up on the tool error %s", async (code) => {
    const error = { code, message: "No.", hint: "Look again.", retryable: false };
    const callTool = async () => ({ isError: true, structuredContent: { error } });
    const reading = read({ source: createPollSource(callTool), jobId: "job_1" });
    await expect(reading).rejects.toMatchObject({ code, message: "No.", hint: "Look again." });
  });

  it("tries again when the call fails or answers with nonsense", async () => {
    const { callTool } = createTool(() => story);
    let calls = 0;
    const flaky = async (name: string, args: Record<string, unknown>) => {
      calls += 1;
      if (calls === 1) throw new Error("socket hang up");
      if (calls === 2) return { content: "?" };
      return callTool(name, args);
    };
    const random = { id: () => "x", fraction: () => 0 };
    expect(await read({ source: createPollSource(flaky), jobId: "job_1", random })).toEqual(story);
  });
});
