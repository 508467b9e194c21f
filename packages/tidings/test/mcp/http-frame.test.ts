import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { formatFrame } from "../../src/mcp/server/sse.ts";
import { parseFrames } from "./http-reader.ts";

const HOSTILE = [
  "\n",
  "\r",
  "\r\n",
  "\0",
  "\u2028",
  " leading",
  "",
  "0",
  "a\ndata: forged",
  ": comment",
  "\n\n",
];

describe("a frame on the wire (FC-27)", () => {
  it.each(HOSTILE)("carries %j as data and comes out equal", (text) => {
    const wire = formatFrame({ id: "0", event: "system.log", data: { message: text, [text]: text } });
    expect(wire).not.toMatch(/[\r\0]/);
    expect(wire.split("\n").filter((line) => line.startsWith("data:"))).toHaveLength(1);
    const frames = parseFrames(wire);
    expect(frames).toHaveLength(1);
    expect(frames[0]?.id).toBe("0");
    expect(JSON.parse(frames[0]?.data ?? "")).toEqual({ message: text, [text]: text });
  });

  it.each(["", " ", "a b", "a\nb", "a\rb", "a\0b", "é", "\u2028"])("refuses the id %j", (id) => {
    expect(() => formatFrame({ id, event: "x.y", data: 1 })).toThrow(/cannot be the id/);
  });

  it.each(["", " ", "a b", "a\nid: 1", "a\rb", "a\0b", "é", "a:b"])("refuses the event name %j", (event) => {
    expect(() => formatFrame({ id: "1", event, data: 1 })).toThrow(/cannot be the event name/);
  });

  it("any JSON is one frame, with no field that was not set", () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.stringMatching(/^[!-~]{1,40}$/), (data, id) => {
        const wire = formatFrame({ id, event: "job.progress", data });
        expect(wire).toMatch(/^id: [!-~]+\nevent: job\.progress\ndata: [^\r\n\0]*\n\n$/);
        const [frame, ...others] = parseFrames(wire);
        expect(others).toEqual([]);
        expect(frame?.id).toBe(id);
        expect(frame?.data).toBe(JSON.stringify(data));
      }),
    );
  });

  it("a frame without data moves the position and is no event", () => {
    const wire = formatFrame({ id: "abc" });
    expect(wire).toBe("id: abc\n\n");
    expect(parseFrames(wire)).toEqual([]);
  });
});
