/**
 * Server-sent events from bytes, as the WHATWG defines them: lines end by CR, LF or CRLF, a leading byte-order mark
 * is skipped, a block without data is not dispatched but its id counts, an id with NUL is ignored, and what the end
 * of the stream cuts off is dropped.
 */
export interface SseFrame {
  /** `message` when the stream did not name it. */
  readonly event: string;
  readonly data: string;
  /** The last id that the stream gave, with this frame or before; empty when there was none. */
  readonly id: string;
}

export interface SseParser {
  /** The frames that these bytes complete. @throws RangeError when one frame grows beyond `maxChars`. */
  feed(bytes: Uint8Array): readonly SseFrame[];
  /** What the last valid `retry:` said, in milliseconds. */
  readonly retryMs: number | undefined;
}

/** @param maxChars - Default 8 million. */
export function createSseParser(maxChars = 8_000_000): SseParser {
  const decoder = new TextDecoder();
  let line = "";
  let afterCr = false;
  let event = "";
  let data: string[] = [];
  let size = 0;
  let id = "";
  let retryMs: number | undefined;
  let frames: SseFrame[] = [];

  function endBlock(): void {
    if (data.length > 0) frames.push({ event: event === "" ? "message" : event, data: data.join("\n"), id });
    event = "";
    data = [];
    size = 0;
  }

  function take(text: string): void {
    if (text === "") endBlock();
    const colon = text.indexOf(":");
    if (colon === 0) return;
    const name = colon < 0 ? text : text.slice(0, colon);
    const value = colon < 0 ? "" : text.slice(colon + (text[colon + 1] === " " ? 2 : 1));
    if (name === "data") {
      data.push(value);
      size += value.length + 1;
    } else if (name === "event") event = value;
    else if (name === "id" && !value.includes("\0")) id = value;
    else if (name === "retry" && /^[0-9]{1,15}$/.test(value)) retryMs = Number(value);
  }

  return {
    feed(bytes) {
      frames = [];
      const text = decoder.decode(bytes, { stream: true });
      let start = 0;
      for (let at = 0; at < text.length; at += 1) {
        const character = text.charCodeAt(at);
        if (character !== 10 && character !== 13) {
          afterCr = false;
          continue;
        }
        // A CR ends its line at once; the LF that may follow it, perhaps in the next bytes, belongs to it.
        if (character === 13 || !afterCr) {
          take(line + text.slice(start, at));
          line = "";
        }
        afterCr = character === 13;
        start = at + 1;
      }
      line += text.slice(start);
      if (line.length + size > maxChars) {
        throw new RangeError(`A server-sent event has more than ${maxChars} characters.`);
      }
      return frames;
    },
    get retryMs() {
      return retryMs;
    },
  };
}
