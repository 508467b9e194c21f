/** Reads event streams with a standard parser, and keeps the bytes for a check of its own. */
import { createParser } from "eventsource-parser";
import { readMessage } from "../../src/model/projection/read.ts";

export interface Frame {
  readonly id: string | undefined;
  readonly event: string | undefined;
  readonly data: string;
}

export interface Reader {
  readonly status: number;
  readonly headers: Headers;
  /** Comments so far. */
  readonly comments: readonly string[];
  /** The next frame; undefined once the stream has ended. */
  next(): Promise<Frame | undefined>;
  /** Frames up to the first that `isLast` names, or to the end of the stream. */
  until(isLast: (frame: Frame) => boolean): Promise<Frame[]>;
  /** All frames to the end of the stream. */
  rest(): Promise<Frame[]>;
  /** Reads until so many comments have come; false when the stream ended before. */
  untilComments(count: number): Promise<boolean>;
  /** Everything that was read, as text. */
  readonly raw: string;
  close(): void;
}

export async function openEvents(url: string, init: RequestInit = {}): Promise<Reader> {
  return readEvents(await fetch(url, init));
}

export function readEvents(response: Response): Reader {
  const frames: Frame[] = [];
  const comments: string[] = [];
  let raw = "";
  const parser = createParser({
    onEvent: ({ id, event, data }) => frames.push({ id, event, data }),
    onComment: (comment) => comments.push(comment),
  });
  const decoder = new TextDecoder();
  const reader = response.body?.getReader();
  const read = async (): Promise<boolean> => {
    const { done, value } = (await reader?.read()) ?? { done: true, value: undefined };
    if (done || value === undefined) return false;
    const text = decoder.decode(value, { stream: true });
    raw += text;
    parser.feed(text);
    return true;
  };
  const next = async (): Promise<Frame | undefined> => {
    while (frames.length === 0) if (!(await read())) return undefined;
    return frames.shift();
  };
  const until = async (isLast: (frame: Frame) => boolean): Promise<Frame[]> => {
    const taken: Frame[] = [];
    for (;;) {
      const frame = await next();
      if (frame === undefined) return taken;
      taken.push(frame);
      if (isLast(frame)) return taken;
    }
  };
  return {
    status: response.status,
    headers: response.headers,
    comments,
    next,
    until,
    rest: () => until(() => false),
    async untilComments(count) {
      while (comments.length < count) if (!(await read())) return false;
      return true;
    },
    get raw() {
      return raw;
    },
    close: () => void reader?.cancel().catch(() => {}),
  };
}

/** What a standard parser makes of a text. */
export function parseFrames(text: string): Frame[] {
  const frames: Frame[] = [];
  createParser({ onEvent: ({ id, event, data }) => frames.push({ id, event, data }) }).feed(text);
  return frames;
}

/** The event that an MCP message carries, with its cursor. */
export function eventOf(message: unknown) {
  const outcome = readMessage(message);
  if (outcome.kind !== "event") throw new Error(`No event: ${JSON.stringify(message)}`);
  return outcome;
}

export function isEnding(type: unknown): boolean {
  return type === "job.completed" || type === "job.failed" || type === "job.canceled";
}
