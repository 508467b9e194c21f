import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { SseFrame } from "../../src/client/source/sse-parser.ts";
import { createSseParser } from "../../src/client/source/sse-parser.ts";

const bytes = (text: string) => new TextEncoder().encode(text);

function parse(...chunks: (string | Uint8Array)[]): SseFrame[] {
  const parser = createSseParser();
  return chunks.flatMap((chunk) => [...parser.feed(typeof chunk === "string" ? bytes(chunk) : chunk)]);
}

describe("the parser of server-sent events", () => {
  it.each(["\n", "\r", "\r\n"])("ends lines by %j", (end) => {
    const frames = parse(["id: 1", "event: job.started", "data: a", "data:b", "", "data", "", ""].join(end));
    expect(frames).toEqual([
      { event: "job.started", data: "a\nb", id: "1" },
      { event: "message", data: "", id: "1" },
    ]);
  });

  it("skips one leading byte-order mark, and no other", () => {
    expect(parse("\uFEFFdata: a\n\n")).toEqual([{ event: "message", data: "a", id: "" }]);
    expect(parse("\uFEFF\uFEFFdata: a\n\n")).toEqual([]);
    expect(parse("data: \uFEFFa\n\n")[0]?.data).toBe("\uFEFFa");
  });

  it("passes over comments and unknown fields, and takes one space after the colon", () => {
    expect(parse(": hello\nfoo: bar\ndata:  two\n:\n\n")).toEqual([
      { event: "message", data: " two", id: "" },
    ]);
  });

  it("does not dispatch a block without data, but keeps its id and forgets its event", () => {
    expect(parse("id: 7\nevent: x\n\ndata: a\n\n")).toEqual([{ event: "message", data: "a", id: "7" }]);
  });

  it("honours the id 0 and an empty id, and ignores one with NUL", () => {
    expect(parse("id: 0\ndata: a\n\n")[0]?.id).toBe("0");
    expect(parse("id: 1\nid: a\0b\ndata: a\n\n")[0]?.id).toBe("1");
    expect(parse("id: 1\ndata: a\n\nid\ndata: b\n\n").map(({ id }) => id)).toEqual(["1", ""]);
  });

  it("takes a retry of digits only", () => {
    const parser = createSseParser();
    parser.feed(bytes("retry: 1500\n\nretry: 2s\nretry: -1\nretry:\n\n"));
    expect(parser.retryMs).toBe(1500);
  });

  it("drops what the end of the stream cut off", () => {
    expect(parse("data: a\n\ndata: b\n")).toHaveLength(1);
  });

  it("gives the same frames wherever the bytes are cut", () => {
    const stream = bytes(
      '\uFEFFid: 1\r\nevent: job.progress\r\ndata: {"stage":"寻找礼物 🎁"}\r\n\r\n: beat\r\rid: 2\rdata: é\rdata: b\r\r\nid: 3\ndata: end\n\n',
    );
    const whole = parse(stream);
    expect(whole.map(({ id }) => id)).toEqual(["1", "2", "3"]);
    for (let cut = 0; cut <= stream.length; cut += 1) {
      expect(parse(stream.slice(0, cut), stream.slice(cut))).toEqual(whole);
    }
    expect(parse(...[...stream].map((byte) => Uint8Array.of(byte)))).toEqual(whole);
    fc.assert(
      fc.property(fc.array(fc.nat({ max: stream.length })), (cuts) => {
        const places = [0, ...cuts.sort((a, b) => a - b), stream.length];
        expect(parse(...places.slice(1).map((end, n) => stream.slice(places[n], end)))).toEqual(whole);
      }),
    );
  });

  it("refuses a frame that never ends", () => {
    const parser = createSseParser(1000);
    expect(() => {
      for (let n = 0; n < 100; n += 1) parser.feed(bytes("data: 0123456789\n"));
    }).toThrow(RangeError);
  });
});
