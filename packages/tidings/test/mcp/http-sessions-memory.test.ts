import type { ServerResponse } from "node:http";
import { connect } from "node:net";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, it } from "vitest";
import { createManualClock } from "../../src/engine/testing/manual-clock.ts";
import { initialize } from "./http-mcp.ts";
import { PATIENTLY } from "./support.ts";
import { createTalkWorld, gateOf, get, take, talk, textOf } from "./talk-world.ts";

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;
const heap = (): number => {
  collect();
  collect();
  return process.memoryUsage().heapUsed;
};

it("FC-17 (a): calls of one session do not grow the process once its part is full", async () => {
  const CALLS = 2_000;
  const world = await createTalkWorld({ maxReplayBytes: 100_000 });
  const session = await initialize(world.url);
  const heaps: number[] = [];
  for (let id = 1; id <= CALLS; id++) {
    await (await talk(world, session, { name: "small" }, { id })).rest();
    if (id === CALLS / 2 || id === CALLS) heaps.push(heap());
  }
  const [half = 0, full = 0] = heaps;
  expect(full).toBeLessThanOrEqual(1.1 * half);
  await world.close();
}, 60_000);

it("security 22: a flood that nobody awaits, to a reader that stalls, is bounded; the reader is cut and resumes", async () => {
  const MESSAGES = 60_000;
  const world = await createTalkWorld();
  const session = await initialize(world.url);
  const first = await get(world, session);
  const [primed] = await take(first, 1);
  first.close();
  let served = 0;
  world.server.on("request", (req) => void (req.method === "GET" && served++));
  const stalled = connect(world.port, "127.0.0.1");
  stalled.pause();
  stalled.write(
    `GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nMcp-Session-Id: ${session}\r\n\r\n`,
  );
  await expect.poll(() => served, PATIENTLY).toBe(1);
  const before = heap();
  for (let at = 1; at <= MESSAGES; at++) {
    void world.servers[0]?.server.notification({
      method: "notifications/flood",
      params: { text: String(at), filler: "x".repeat(1_000) },
    });
    if (at % 1_000 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  expect(heap() - before).toBeLessThan(32 * 1_024 * 1_024);
  const resumed = await get(world, session, primed?.id);
  const told = (await resumed.until((frame) => textOf(frame) === String(MESSAGES))).map(textOf);
  expect(told.slice(0, 2)).toEqual(["primed", "notifications/dev.tidings/gap"]);
  // What came behind the gap is whole.
  const numbers = told.slice(2).map(Number);
  expect(numbers).toEqual(numbers.map((_, at) => MESSAGES - numbers.length + 1 + at));
  resumed.close();
  stalled.destroy();
  await world.close();
}, 60_000);

it("security 22: a call whose reader stalls waits for it; the reader is cut and resumes, and the call is answered", async () => {
  const STALL_MS = 60_000;
  const clock = createManualClock();
  const world = await createTalkWorld({ clock, stallMs: STALL_MS });
  const session = await initialize(world.url);
  let answer: ServerResponse | undefined;
  world.server.on("request", (_, res) => {
    answer = res;
  });
  const body = JSON.stringify({
    jsonrpc: "2.0",
    id: 1,
    method: "tools/call",
    params: { name: "talk", arguments: { name: "flood", before: 50_000, size: 2_000 } },
  });
  const before = heap();
  gateOf("flood").open();
  const stalled = connect(world.port, "127.0.0.1");
  stalled.write(
    `POST /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: application/json, text/event-stream\r\nContent-Type: application/json\r\nMcp-Session-Id: ${session}\r\nMCP-Protocol-Version: 2025-11-25\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  );
  const head = await new Promise<string>((resolve) =>
    stalled.once("data", (data) => {
      stalled.pause();
      resolve(String(data));
    }),
  );
  await expect.poll(() => answer?.writableNeedDrain, PATIENTLY).toBe(true);
  for (let turn = 0; turn < 1_000; turn++) await new Promise((resolve) => setImmediate(resolve));
  expect(heap() - before).toBeLessThan(32 * 1_024 * 1_024);
  expect(answer?.destroyed).toBe(false);
  for (let period = 0; period < 2; period++) clock.advance(STALL_MS);
  await expect.poll(() => answer?.destroyed, PATIENTLY).toBe(true);
  const primed = /^id: (.*)$/m.exec(head)?.[1] ?? "";
  const told: string[] = [];
  await expect
    .poll(async () => {
      const resumed = await get(world, session, primed);
      const texts = (await resumed.rest()).map(textOf);
      told.splice(0, told.length, ...texts);
      return texts.at(-1);
    }, PATIENTLY)
    .toBe("answer");
  expect(told[0]).toBe("notifications/dev.tidings/gap");
  expect(world.aborted).toEqual([]);
  stalled.destroy();
  await world.close();
}, 60_000);
