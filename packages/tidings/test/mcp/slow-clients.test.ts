/** Clients that hold on to what they do not use. */
import { once } from "node:events";
import { connect } from "node:net";
import { createManualClock } from "tidings/testing";
import { afterEach, expect, it } from "vitest";
import { systemClock } from "../../src/engine/system-clock.ts";
import { checkPolls } from "../../src/mcp/server/poll-limit.ts";
import { createWorld, quick, type World } from "./http-world.ts";

let world: World | undefined;
afterEach(() => world?.close());

it("security 23: a body that hardly comes is answered with 408, and its connection closed", async () => {
  const clock = createManualClock();
  world = await createWorld({ clock });
  const socket = connect(world.port, "127.0.0.1");
  let answer = "";
  socket.on("data", (chunk) => {
    answer += chunk;
  });
  const head =
    "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{";
  socket.write(head);
  await expect.poll(() => world?.seen.length).toBe(1);
  socket.write(" ");
  clock.advance(14_000);
  expect(answer).toBe("");
  const closed = once(socket, "close");
  clock.advance(1_000);
  await closed;
  expect(answer).toMatch(/^HTTP\/1\.1 408 /);
  expect(answer).toContain('"code":"REQUEST_TIMEOUT"');
  expect(world.errors).toEqual([]);
  const alive = await fetch(`${world.url}/jobs/nope`);
  expect(alive.status).toBe(404);
});

it("an owner that asks without a pause is told the limit and when to ask again; another owner is not", async () => {
  world = await createWorld();
  const { jobId } = await world.tidings.start(quick, { steps: 1 });
  const ask = (headers = {}) => fetch(`${world?.url}/jobs/${jobId}`, { headers });
  checkPolls(world.tidings, systemClock, "local", 9_900);
  let refused: Response | undefined;
  for (let round = 0; round < 40 && refused === undefined; round += 1) {
    const answers = await Promise.all(Array.from({ length: 100 }, () => ask()));
    refused = answers.find(({ status }) => status === 429);
    for (const answer of answers) if (answer !== refused) await answer.text();
  }
  expect(refused?.headers.get("retry-after")).toBe("1");
  expect(await refused?.json()).toMatchObject({
    error: {
      code: "TOO_MANY_REQUESTS",
      message: expect.stringContaining("200 times a second"),
      retryable: true,
      data: { limit: 200, retryAfterMs: 1_000 },
    },
  });
  expect((await ask({ Authorization: "Bearer bob" })).status).toBe(404);
});
