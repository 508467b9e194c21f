import { describe, expect, it } from "vitest";
import { systemRandom } from "../../src/engine/system-clock.ts";
import { createManualClock } from "../../src/engine/testing/manual-clock.ts";
import type { SessionReplay } from "../../src/mcp/server/session-replay.ts";
import { createSessionReplays } from "../../src/mcp/server/session-replay.ts";

describe("what is kept of a 2025 session, so that its streams can be resumed", () => {
  const message = (text: string) => ({
    jsonrpc: "2.0" as const,
    method: "notifications/x",
    params: { text },
  });

  const MINUTE = 60_000;
  const lost = async () => message("something is missing");

  function open(replayBytes = 10_000_000) {
    const clock = createManualClock();
    const replays = createSessionReplays({ clock, random: systemRandom, replayMs: MINUTE, replayBytes });
    return { clock, replays, session: replays.open(lost) };
  }
  /** What a session keeps of its GET stream, in bytes of JSON. */
  const sizeOf = (one: SessionReplay, start: string) =>
    JSON.stringify(one.resume(start)?.messages.map(({ message }) => message) ?? []).length - "[]".length;
  const answer = { jsonrpc: "2.0" as const, id: 1, result: {} };
  const textsOf = (messages: readonly { message: unknown }[] | undefined) =>
    messages?.map(({ message }) => (message as { params?: { text: string } }).params?.text);

  it("FC-17: is bounded by bytes, however much is said; whoever resumes before it is told so", () => {
    const { session } = open();
    const first = session.keep(message("first"));
    for (let count = 0; count < 200_000; count += 1) session.keep(message(`${count}`));
    expect(sizeOf(session, first.id)).toBeLessThanOrEqual(262_144);
    expect(session.resume(first.id)?.isTruncated).toBe(true);
    const { id } = session.keep(message("the last but one"));
    expect(session.resume(id)).toMatchObject({ messages: [], isTruncated: false });
    session.keep(message("x".repeat(1_000_000)));
    expect(session.resume(id)).toMatchObject({ messages: [{}], isTruncated: false });
    session.keep(message("the next"));
    expect(textsOf(session.resume(id)?.messages)).toEqual(["the next"]);
    expect(session.resume(id)?.isTruncated).toBe(true);
  });

  it("FC-17: is bounded for all sessions together: each has its part, and nobody's flood takes another's", () => {
    const { replays, session } = open(1_000_000);
    const { id } = session.keep(message("quiet"));
    session.keep(message("quiet too"));
    const others = Array.from({ length: 50 }, () => replays.open(lost));
    const starts = others.map((other) => other.position());
    const sizes = () => others.map((other, at) => sizeOf(other, starts[at] ?? ""));
    for (let round = 0; round < 200; round += 1) for (const other of others) other.keep(message(`${round}`));
    expect(sizes().reduce((sum, size) => sum + size)).toBeLessThanOrEqual(1_000_000);
    expect(Math.min(...sizes())).toBeGreaterThan(0);
    expect(textsOf(session.resume(id)?.messages)).toEqual(["quiet too"]);
    for (const one of [session, ...others]) one.close();
    expect(new Set(sizes())).toEqual(new Set([0]));
  });

  it("FC-17: is bounded in age, also when nothing more is said", async () => {
    const { clock, session } = open();
    const start = session.position();
    session.keep(message("old"));
    const call = await session.eventStore.storeEvent("call", answer);
    clock.advance(MINUTE + MINUTE / 10);
    // The GET stream goes on, and says what is missing; a call that has ended is gone.
    expect(session.resume(start)).toEqual({
      stream: "GET",
      messages: [],
      isTruncated: true,
      isCancelled: false,
    });
    expect(session.resume(call)).toEqual({
      stream: undefined,
      messages: [],
      isTruncated: true,
      isCancelled: false,
    });
  });

  it("of a call that goes on: says that something is missing, before what is kept", async () => {
    const { clock, session } = open();
    const { storeEvent, replayEventsAfter } = session.eventStore;
    const primed = await storeEvent("call", {} as never);
    await storeEvent("call", message("old"));
    clock.advance(2 * MINUTE);
    await storeEvent("call", message("new"));
    const sent: unknown[] = [];
    const send = async (id: string, said: unknown) =>
      void sent.push([id === "", textsOf([{ message: said }])]);
    expect(await replayEventsAfter(primed, { send })).toBe("call");
    expect(sent).toEqual([
      [true, ["something is missing"]],
      [false, ["new"]],
    ]);
  });

  it("is told of one stream only, whatever the others said in between", async () => {
    const { replays, session } = open();
    const ids: string[] = [];
    for (const stream of ["a", "b", "GET", "a", "b", "GET", "a"]) {
      ids.push(await session.eventStore.storeEvent(stream, message(stream)));
    }
    expect(new Set(ids).size).toBe(7);
    expect(session.resume(String(ids[0]))?.messages.map(({ id }) => id)).toEqual([ids[3], ids[6]]);
    expect(replays.open(lost).resume(String(ids[0]))).toBeUndefined();
  });
});
