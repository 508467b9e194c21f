import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Connection, ConnectionInput } from "../../src/client/connection.ts";
import { advance, CONNECTING, CONNECTION_TRANSITIONS } from "../../src/client/connection.ts";

function after(...inputs: ConnectionInput["type"][]): Connection {
  return inputs.reduce((connection, type) => advance(connection, { type }, 0.5), CONNECTING);
}

describe("a follower's connection", () => {
  it.each([
    [["pushed"], "live"],
    [["polled"], "polling"],
    [["lost"], "reconnecting"],
    [["pushed", "lost", "due"], "connecting"],
    [["pushed", "lost", "due", "pushed"], "live"],
    [["pushed", "finished"], "ended"],
    [["lost", "refused"], "failed"],
    [["finished", "refused", "lost", "pushed"], "ended"],
    [["refused", "finished", "due"], "failed"],
    [["lost", "pushed"], "reconnecting"],
  ] as const)("after %j is %s", (inputs, state) => {
    expect(after(...inputs).state).toBe(state);
  });

  it("backs off with full jitter up to a cap, and anew once something was received", () => {
    let connection = CONNECTING;
    const bounds: (number | undefined)[] = [];
    for (let n = 0; n < 9; n += 1) {
      connection = advance(connection, { type: "lost" }, 1);
      bounds.push(connection.delayMs);
      connection = advance(connection, { type: "due" }, 1);
    }
    expect(bounds).toEqual([500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000]);
    expect(advance(connection, { type: "lost" }, 0).delayMs).toBe(0);
    connection = advance(advance(connection, { type: "pushed" }, 0), { type: "lost" }, 1);
    expect(connection.delayMs).toBe(30_000);
    connection = advance(advance(connection, { type: "due" }, 0), { type: "pushed" }, 0);
    connection = advance(connection, { type: "received" }, 0);
    expect(advance(connection, { type: "lost" }, 1).delayMs).toBe(500);
  });

  it("is as patient as the server asks, within five minutes", () => {
    expect(advance(CONNECTING, { type: "lost", atLeastMs: 4000 }, 0).delayMs).toBe(4000);
    expect(advance(CONNECTING, { type: "lost", atLeastMs: 1e12 }, 0).delayMs).toBe(300_000);
  });

  it("never leaves its end and gives the same object when nothing changed", () => {
    const inputs = Object.keys(CONNECTION_TRANSITIONS.ended) as ConnectionInput["type"][];
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...inputs)), fc.constantFrom(...inputs), (story, last) => {
        const before = after(...story);
        const next = advance(before, { type: last }, 0.5);
        if (before.state === "ended" || before.state === "failed") expect(next).toBe(before);
        expect(next.delayMs === undefined).toBe(next.state !== "reconnecting");
      }),
    );
  });
});
