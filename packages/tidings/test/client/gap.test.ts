import { describe, expect, it, onTestFinished } from "vitest";
import type { FollowOptions, Gap, InboxOptions } from "../../src/client/index.ts";
import { createInbox, follow } from "../../src/client/index.ts";
import { createManualClock } from "../../src/engine/testing/manual-clock.ts";
import type { TidingsEvent } from "../../src/model/event.ts";
import { complete, fold, storyOf } from "./stories.ts";
import type { Asked } from "./story-server.ts";
import { createStoryServer, cursorOf, framesOf } from "./story-server.ts";

/** created, started, log lines and completed. */
function longStory(length: number): TidingsEvent[] {
  const lines = Array.from({ length: length - 3 }, (_, n) => ({
    type: "inform" as const,
    events: [{ type: "system.log" as const, source: "worker", level: "info" as const, message: `${n}` }],
  }));
  return storyOf("job_1", [{ type: "start" }, ...lines, complete("job_1")]);
}

const seqs = (events: readonly TidingsEvent[]) => events.map(({ seq }) => seq);

/** The numbers of a story of this length, without some. */
function allBut(length: number, ...missing: number[]): number[] {
  return Array.from({ length }, (_, n) => n + 1).filter((seq) => !missing.includes(seq));
}

describe("an inbox with more events behind a gap than may wait", () => {
  const story = longStory(200);
  const [created, started, missing] = story as [TidingsEvent, TidingsEvent, TidingsEvent];

  function setUp(options: InboxOptions) {
    const clock = createManualClock();
    const inbox = createInbox({ clock, ...options });
    const heard: TidingsEvent[] = [];
    inbox.on((event) => heard.push(event));
    const give = (from: number, to: number) =>
      story.slice(from - 1, to).map((event) => inbox.accept(event, cursorOf(event.seq as number)));
    return { clock, inbox, heard, give };
  }

  it("tells of the gap once, goes on at once, and says which events it applied", () => {
    const gaps: Gap[] = [];
    const { inbox, heard, give } = setUp({ onGap: (gap) => void gaps.push(gap) });
    give(1, 2);
    const receipts = give(4, 100);
    expect(gaps).toEqual([{ jobId: "job_1", after: cursorOf(2), from: 3, to: 3 }]);
    expect(seqs(heard)).toEqual(allBut(100, 3));
    expect(receipts.slice(0, 64).every(({ kind }) => kind === "held")).toBe(true);
    expect(receipts[64]).toEqual({ kind: "applied", events: story.slice(3, 68) });
    expect(receipts[65]).toEqual({ kind: "applied", events: [story[68]] });
    expect(inbox.counters.gaps).toBe(1);
  });

  it("waits while the gap is repaired, and loses nothing then", async () => {
    const gaps: Gap[] = [];
    let repaired: () => void = () => undefined;
    const { inbox, heard, give } = setUp({
      onGap: (gap) => {
        gaps.push(gap);
        return new Promise((resolve) => {
          repaired = resolve;
        });
      },
    });
    give(1, 2);
    expect(give(4, 100).every(({ kind }) => kind === "held")).toBe(true);
    expect(inbox.accept(missing)).toEqual({ kind: "applied", events: story.slice(2, 100) });
    repaired();
    await Promise.resolve();
    expect(heard).toEqual(story.slice(0, 100));
    expect(gaps).toHaveLength(1);
  });

  it("holds back a bounded number also while it is repaired", () => {
    const gaps: Gap[] = [];
    const { heard, give } = setUp({
      onGap: (gap) => {
        gaps.push(gap);
        return new Promise(() => undefined);
      },
    });
    give(1, 2);
    give(4, 200);
    expect(seqs(heard)).toEqual(allBut(200, 3));
    expect(gaps).toHaveLength(1);
  });

  it("says `repeat` of the event that a snapshot covers meanwhile", () => {
    const snapshot = { ...fold(story.slice(0, 68)), counts: {} };
    const { inbox, heard, give } = setUp({ onGap: () => void inbox.restore(snapshot) });
    inbox.accept(created);
    inbox.accept(started);
    const receipts = give(4, 68);
    expect(receipts.at(-1)).toEqual({ kind: "repeat" });
    expect(give(69, 69)).toEqual([{ kind: "applied", events: [story[68]] }]);
    expect(seqs(heard)).toEqual([1, 2, 69]);
  });

  it("tells of every gap, not of the first alone, when the wait is over", () => {
    const gaps: Gap[] = [];
    const { clock, inbox, heard, give } = setUp({ onGap: (gap) => void gaps.push(gap) });
    for (const seq of [1, 4, 7]) give(seq, seq);
    clock.advance(500);
    expect(gaps.map(({ from, to }) => [from, to])).toEqual([
      [2, 3],
      [5, 6],
    ]);
    expect(seqs(heard)).toEqual([1, 4, 7]);
    expect(inbox.counters.gaps).toBe(2);
  });

  it("gives a gap that opens later its whole time", () => {
    const gaps: Gap[] = [];
    const { clock, give } = setUp({ onGap: (gap) => void gaps.push(gap) });
    for (const seq of [1, 3]) give(seq, seq);
    clock.advance(499);
    for (const seq of [5, 2]) give(seq, seq);
    clock.advance(499);
    expect(gaps).toEqual([]);
    clock.advance(1);
    expect(gaps).toHaveLength(1);
  });
});

describe("following a story with more events behind a gap than may wait", () => {
  async function read(
    length: number,
    script: (asked: Asked, frames: (...missing: number[]) => true) => unknown,
    options: Partial<FollowOptions> = {},
  ) {
    const story = longStory(length);
    const server = await createStoryServer(story, (asked) =>
      script(asked, (...missing) => {
        asked.res.writeHead(200, { "content-type": "text/event-stream" });
        const rest = allBut(length, ...missing).filter((seq) => seq > asked.position);
        asked.res.write(framesOf(story, ...rest));
        return true;
      }),
    );
    onTestFinished(() => server.close());
    const gaps: Gap[] = [];
    const events: TidingsEvent[] = [];
    const target = {
      url: server.url,
      jobId: "job_1",
      random: { id: () => "x", fraction: () => 0 },
      // The connection stays open, and nobody waits for so long.
      holdMs: 600_000,
      onGap: (gap: Gap) => void gaps.push(gap),
      ...options,
    };
    for await (const event of follow(target)) events.push(event);
    return { story, events, gaps, asked: server.asked.map(({ position }) => position) };
  }

  it("asks again from before the gap, and loses nothing", async () => {
    const { story, events, gaps, asked } = await read(100, ({ number }, frames) => number === 0 && frames(3));
    expect(events).toEqual(story);
    expect(asked).toEqual([0, 2]);
    expect(gaps).toEqual([]);
  });

  it("says so, and goes on, when the event does not come the second time either", async () => {
    const { events, gaps, asked } = await read(300, (_, frames) => frames(3));
    expect(seqs(events)).toEqual(allBut(300, 3));
    expect(asked).toEqual([0, 2]);
    expect(gaps).toEqual([{ jobId: "job_1", after: cursorOf(2), from: 3, to: 3 }]);
  });

  it("asks once more for what is missing, never twice for one gap, and tells of every gap", async () => {
    const { events, gaps, asked } = await read(50, (_, frames) => frames(3, 10, 11, 40), { holdMs: 5 });
    expect(seqs(events)).toEqual(allBut(50, 3, 10, 11, 40));
    // A gap that is seen only after the first was asked for costs one more question; which do depends on the network.
    expect(asked.slice(0, 2)).toEqual([0, 2]);
    expect([2, 9, 39]).toEqual(expect.arrayContaining(asked.slice(1)));
    expect(new Set(asked).size).toBe(asked.length);
    expect(gaps.map(({ from, to }) => [from, to])).toEqual([
      [3, 3],
      [10, 11],
      [40, 40],
    ]);
  });

  it("does the same with an inbox that is shared, whose own time for gaps is shorter", async () => {
    for (const limits of [{ maxHeld: 5 }, { holdMs: 1 }]) {
      const own: Gap[] = [];
      const inbox = createInbox({ ...limits, onGap: (gap) => void own.push(gap) });
      const { story, events, gaps } = await read(12, ({ number }, frames) => number === 0 && frames(3), {
        inbox,
      });
      expect(events).toEqual(story);
      expect([...gaps, ...own]).toEqual([]);
    }
  });

  it("leaves an open gap to the shared inbox when the reader leaves", async () => {
    const clock = createManualClock();
    const own: Gap[] = [];
    const inbox = createInbox({ clock, maxHeld: 2, onGap: (gap) => void own.push(gap) });
    const story = longStory(10);
    const controller = new AbortController();
    const source = {
      async *open({ signal }: { signal: AbortSignal }) {
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
      },
    };
    const reading = follow({ source, jobId: "job_1", inbox, signal: controller.signal })
      [Symbol.asyncIterator]()
      .next();
    for (const seq of [3, 4, 5]) inbox.accept(story[seq - 1] as TidingsEvent);
    controller.abort();
    await reading;
    expect(own).toEqual([]);
    clock.advance(500);
    expect(own).toEqual([{ jobId: "job_1", from: 1, to: 2 }]);
  });
});
