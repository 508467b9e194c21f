import { afterEach, describe, expect, it } from "vitest";
import { createManualClock } from "../../src/engine/testing/manual-clock.ts";
import { callTool, initialize } from "./http-mcp.ts";
import type { Frame } from "./http-reader.ts";
import { eventOf, isEnding } from "./http-reader.ts";
import type { TalkWorld } from "./talk-world.ts";
import { createTalkWorld, gateOf, get, take, talk, textOf } from "./talk-world.ts";

const last = (frames: readonly Frame[]) => frames.at(-1)?.id ?? "";

describe("what a 2025 session keeps for replays", () => {
  let world: TalkWorld;
  afterEach(async () => {
    expect(world.errors).toEqual([]);
    await world.close();
  });

  const resume = async (session: string, id: string): Promise<[number, string[]]> => {
    const reader = await get(world, session, id);
    return [reader.status, reader.status === 200 ? (await reader.rest()).map(textOf) : []];
  };

  it("is bounded in size: a call that goes on says that something is missing, and is answered", async () => {
    world = await createTalkWorld({ maxReplayBytes: 10_000 });
    const session = await initialize(world.url);
    const gate = gateOf("long");
    const stream = await talk(world, session, { name: "long", before: 2, after: 20, size: 1_000 });
    const position = last(await take(stream, 2));
    stream.close();
    gate.open();
    // Resumed when the handler is through: only the newest are kept.
    await expect
      .poll(async () => (await resume(session, position))[1].at(-1), { timeout: 5_000 })
      .toBe("answer");
    const [, said] = await resume(session, position);
    expect(said[0]).toBe("notifications/dev.tidings/gap");
    expect(said.length).toBeLessThan(10);
    expect(said.slice(1)).toEqual(
      [..."x".repeat(said.length - 2)].map((_, at) => `after ${23 - said.length + at}`).concat("answer"),
    );
  });

  it("is bounded in age: what is too old is refused as gone, not as unknown", async () => {
    const clock = createManualClock();
    world = await createTalkWorld({ clock, sessionReplayMs: 60_000, sessionIdleMs: 600_000 });
    const session = await initialize(world.url);
    const said = await (await talk(world, session, { name: "old", before: 1 })).rest();
    expect(await resume(session, said[0]?.id ?? "")).toEqual([200, ["before 1", "answer"]]);
    clock.advance(70_000);
    expect(await resume(session, said[0]?.id ?? "")).toEqual([410, []]);
  });

  it("events of jobs that are no longer kept are told as a gap with the jobs' snapshots", async () => {
    const clock = createManualClock();
    world = await createTalkWorld({ clock, sessionReplayMs: 60_000, sessionIdleMs: 600_000 });
    const session = await initialize(world.url);
    const own = await get(world, session);
    const position = last(await take(own, 1));
    const { jobId } = await callTool(world.url, session, "start_quick", { steps: 2 });
    await own.until(({ data }) => isEnding(eventOf(JSON.parse(data)).event.type));
    own.close();
    clock.advance(70_000);
    const resumed = await get(world, session, position);
    const [, gap] = await take(resumed, 2);
    expect(JSON.parse(gap?.data ?? "")).toMatchObject({
      method: "notifications/dev.tidings/gap",
      params: { snapshots: [{ jobId, status: "completed" }] },
    });
    expect(gap?.id ?? "").toBe("");
    await world.servers[0]?.server.notification({ method: "notifications/own" });
    expect((await take(resumed, 1)).map(textOf)).toEqual(["notifications/own"]);
    resumed.close();
  });

  it("FC-17 (d): 300 callers at once are all answered, however little is kept", async () => {
    world = await createTalkWorld({ maxReplayBytes: 4_000 });
    const session = await initialize(world.url);
    const gate = gateOf("many");
    const streams = await Promise.all(
      Array.from({ length: 300 }, (_, id) =>
        talk(world, session, { name: "many", before: 1, after: 1, size: 1_000 }, { id }),
      ),
    );
    gate.open();
    for (const stream of streams) {
      expect((await stream.rest()).map(textOf)).toEqual(["primed", "before 1", "after 1", "answer"]);
    }
  });
});
