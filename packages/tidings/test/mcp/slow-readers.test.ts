/** What readers that take little or nothing are told, what they cost, and what the others notice. */
import { createServer, type ServerResponse } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { createParser } from "eventsource-parser";
import { describe, expect, it, onTestFinished } from "vitest";
import { createManualClock } from "../../src/engine/testing/manual-clock.ts";
import { type Projection, pushTo } from "../../src/mcp/server/push.ts";
import { formatFrame, openSse, type SseStream } from "../../src/mcp/server/sse.ts";
import { advancing } from "../runtime/story.ts";
import { listen } from "./http-mcp.ts";
import { eventOf, type Frame, openEvents, readEvents } from "./http-reader.ts";
import { createWorld, type World } from "./http-world.ts";

const STALL_MS = 60_000;

async function open(): Promise<{ world: World; clock: ReturnType<typeof createManualClock> }> {
  const clock = createManualClock();
  const world = await createWorld({ clock, stallMs: STALL_MS });
  onTestFinished(() => world.close());
  return { world, clock };
}

/** A reader that decides itself when it takes something, and how much. It speaks HTTP/1.0, so nothing is in chunks. */
async function openSlow(port: number) {
  const frames: Frame[] = [];
  const parser = createParser({
    onEvent({ id, event, data }) {
      if (event === "system.log") frames.push({ id, event, data });
    },
  });
  const socket = connect(port, "127.0.0.1");
  onTestFinished(() => void socket.destroy());
  socket.on("error", () => {});
  socket.write("GET /events HTTP/1.0\r\nHost: localhost\r\n\r\n");
  const keep = (chunk: Buffer | null) => chunk !== null && parser.feed(chunk.toString("latin1"));
  const oneOf = (names: readonly string[]) =>
    new Promise<void>((resolve) => {
      const done = () => {
        for (const name of names) socket.off(name, done);
        resolve();
      };
      for (const name of names) socket.on(name, done);
    });
  await oneOf(["readable"]);
  return {
    frames,
    take: (bytes: number) => keep(socket.read(Math.min(bytes, socket.readableLength))),
    /** Reads on until so many events have come, or to the end. */
    async takeUntil(events: number): Promise<void> {
      while (frames.length < events && !socket.readableEnded && !socket.closed) {
        const chunk: Buffer | null = socket.read();
        keep(chunk);
        if (chunk === null) await oneOf(["readable", "end", "close"]);
      }
    },
  };
}

const idsOf = (frames: readonly Frame[]) => frames.map(({ id }) => id);

async function publish(world: World, count: number, characters = 2_000): Promise<string[]> {
  const cursors: string[] = [];
  for (let done = 0; done < count; done += 1) {
    const event = {
      type: "system.log",
      level: "info",
      message: "x".repeat(characters),
      source: "t",
    } as const;
    cursors.push((await world.tidings.publish(event, {})).cursor);
    // As a store on a disk would: the sockets have their turn.
    if (done % 10 === 0) await turn();
  }
  return cursors;
}

/** The server's side of the next request. */
function nextResponse(world: World): Promise<ServerResponse> {
  return new Promise((resolve) => world.server.once("request", (_, res) => resolve(res)));
}

describe("FC-25: 5,000 events of 2 kB", () => {
  it("come in order to a slow reader, while a fast one has had them all", async () => {
    const { world } = await open();
    const fast = await openEvents(`${world.url}/events`);
    const opened = nextResponse(world);
    const slow = await openSlow(world.port);
    const res = await opened;
    let largest = 0;
    let had = 0;
    const reading = fast.until(() => ++had === 5_000);
    const cursors: string[] = [];
    for (let batch = 0; batch < 100; batch += 1) {
      cursors.push(...(await publish(world, 50)));
      slow.take(1_000);
      largest = Math.max(largest, res.writableLength);
    }
    expect(idsOf(await reading)).toEqual(cursors);
    expect(slow.frames.length).toBeLessThan(100);
    await slow.takeUntil(5_000);
    expect(idsOf(slow.frames)).toEqual(cursors);
    // What waits for one reader: one chunk and one event, beside the buffers of the system.
    expect(largest).toBeLessThan(65_536 + 5_000);
    fast.close();
  });

  it("security 22: close a reader that takes nothing, which goes on from its cursor without a gap or a repeat", async () => {
    const { world, clock } = await open();
    const opened = nextResponse(world);
    const stalled = await openSlow(world.port);
    const res = await opened;
    const cursors = await publish(world, 5_000);
    expect(res.writableLength).toBeLessThan(65_536 + 5_000);
    await advancing(clock, new Promise<void>((resolve) => res.once("close", () => resolve())));
    await stalled.takeUntil(Number.POSITIVE_INFINITY);
    const first = idsOf(stalled.frames);
    expect(first.length).toBeLessThan(5_000);
    const again = await openEvents(`${world.url}/events`, {
      headers: { "Last-Event-ID": first.at(-1) ?? "" },
    });
    const rest = await again.until(({ id }) => id === cursors.at(-1));
    again.close();
    expect([...first, ...idsOf(rest)]).toEqual(cursors);
    expect(world.errors).toEqual([]);
  });

  it("are held back from a listen that takes nothing, and cost another listen nothing", async () => {
    const { world } = await open();
    const opened = nextResponse(world);
    const stalled = await listen(world.url, { "dev.tidings/jobs": {} });
    const res = await opened;
    const other = await listen(world.url, { "dev.tidings/jobs": {} });
    const cursors = await publish(world, 5_000);
    await other.next();
    const told: (string | undefined)[] = [];
    while (told.length < cursors.length) {
      told.push(eventOf(await other.next()).cursor);
    }
    expect(told).toEqual(cursors);
    expect(res.writableLength).toBeLessThan(65_536 + 5_000);
    for (const { reader } of [other, stalled]) reader.close();
  });
});

describe("a stream whose socket is full", () => {
  /** A stream of which nothing is read until the test says so. */
  async function openFull(): Promise<{ stream: SseStream; read(): Promise<Frame[]> }> {
    const clock = createManualClock();
    let ready: (stream: SseStream) => void;
    const opened = new Promise<SseStream>((resolve) => {
      ready = resolve;
    });
    const server = createServer((_, res) => ready(openSse(res, { clock, heartbeatMs: 1e9, stallMs: 1e9 })));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void server.close());
    const response = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    const stream = await opened;
    const filler = formatFrame({ event: "filler", data: "x".repeat(50_000) });
    // The system's buffers take a few megabytes; then they take nothing, however long one waits.
    for (let refused = 0; refused < 50; refused += 1) {
      if (stream.take([filler]) === 1) refused = 0;
      await turn();
    }
    return { stream, read: () => readEvents(response).rest() };
  }

  const projection: Projection = {
    toText: ({ event, cursor }) => formatFrame({ id: cursor, event: event.type, data: event }),
    gapToFrames: async (cursor) => [{ id: cursor, event: "gap", data: {} }],
    isLast: ({ event }) => event.type === "system.log" && event.message === "last",
  };

  it("is told of a gap all the same, before what comes behind it", async () => {
    const { world } = await open();
    const [before = ""] = await publish(world, 3);
    await world.tidings.prune({ keepEvents: 1 });
    const { stream, read } = await openFull();
    const told = pushTo(stream, world.tidings, { owner: "local", after: before }, projection);
    const last = { type: "system.log", level: "info", message: "last", source: "t" } as const;
    await world.tidings.publish(last, {});
    const reading = read();
    await told;
    stream.end();
    const events = (await reading).map(({ event }) => event).filter((event) => event !== "filler");
    expect(events).toEqual(["gap", "system.log", "system.log"]);
  });

  it("is never said to have had what it has not taken", async () => {
    const { world } = await open();
    const { stream, read } = await openFull();
    const after = await world.tidings.head("local");
    let taken = 0;
    let said = 0;
    const counting: SseStream = {
      ...stream,
      take(texts) {
        const count = stream.take(texts);
        taken += count;
        return count;
      },
    };
    const onTold = () => {
      said += 1;
      expect(taken).toBeGreaterThan(0);
    };
    const told = pushTo(counting, world.tidings, { owner: "local", after }, { ...projection, onTold });
    await publish(world, 100);
    expect([taken, said]).toEqual([0, 0]);
    await world.tidings.publish({ type: "system.log", level: "info", message: "last", source: "t" }, {});
    const reading = read();
    await told;
    stream.end();
    expect((await reading).filter(({ event }) => event === "system.log")).toHaveLength(101);
    expect(taken).toBe(101);
    expect(said).toBeGreaterThan(0);
  });
});
