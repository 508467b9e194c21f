/**
 * Reads recorded streams: JSON lines (JSON-RPC messages, flat events or CloudEvents), what `--record` wrote, or the
 * raw text of a server-sent event stream.
 *
 *   {"jsonrpc":"2.0",…}                                 a message, in either direction
 *   {"reconnect":true}      or, in raw SSE, ": reconnect"   the reader lost its connection here and came back
 *   {"message":…,"stream":"…","leg":0,"atMs":12}        a message with its marks
 */
import { createSseParser } from "../../client/source/sse-parser.ts";
import { isRecord } from "../../model/schema.ts";
import type { Arrival } from "./arrival.ts";
import { createResending, MAX_MESSAGES } from "./arrival.ts";

export interface Recording {
  readonly arrivals: readonly Arrival[];
  /** Lines that were no message. */
  readonly unread: number;
  /** Whether there are more messages than are looked at. */
  readonly isCut: boolean;
}

const STREAM = "recording";

/** @throws RangeError when one server-sent event is too large to be held. */
export function readRecording(text: string): Recording {
  return isSse(text) ? readSse(text) : readLines(text);
}

/** The line that `readRecording` reads back. */
export function writeLine({ message, stream, leg, isResent, atMs }: Arrival): string {
  return JSON.stringify({
    message,
    stream,
    leg,
    ...(isResent === true ? { isResent } : {}),
    ...(atMs === undefined ? {} : { atMs: Math.round(atMs) }),
  });
}

function isSse(text: string): boolean {
  return /^\uFEFF?\s*(?:(?:data|id|event|retry):|:)/.test(text.slice(0, 1_000));
}

function readLines(text: string): Recording {
  const arrivals: Arrival[] = [];
  let leg = 0;
  let unread = 0;
  let number = 0;
  for (const raw of text.split("\n")) {
    number += 1;
    const line = raw.trim();
    if (line === "") continue;
    const place = `line ${number}`;
    const value = parse(line);
    if (isRecord(value) && value.reconnect === true) {
      leg += 1;
      continue;
    }
    if (typeof value !== "object" || value === null) {
      unread += 1;
      continue;
    }
    if (arrivals.length >= MAX_MESSAGES) return { arrivals, unread, isCut: true };
    if (
      isRecord(value) &&
      isRecord(value.message) &&
      value.jsonrpc === undefined &&
      value.method === undefined
    ) {
      arrivals.push(fromMarked(value, place, leg));
      continue;
    }
    for (const message of Array.isArray(value) ? value : [value]) {
      arrivals.push({ message, text: line, place, leg, stream: STREAM });
    }
  }
  return { arrivals, unread, isCut: false };
}

function fromMarked(line: Record<string, unknown>, place: string, leg: number): Arrival {
  return {
    message: line.message,
    text: JSON.stringify(line.message),
    place,
    leg: Number.isSafeInteger(line.leg) ? (line.leg as number) : leg,
    stream: typeof line.stream === "string" ? line.stream : STREAM,
    ...(line.isResent === true ? { isResent: true } : {}),
    ...(typeof line.atMs === "number" ? { atMs: line.atMs } : {}),
  };
}

function readSse(text: string): Recording {
  const arrivals: Arrival[] = [];
  const resending = createResending();
  let unread = 0;
  let number = 0;
  for (const [leg, part] of text.split(/^:\s*reconnect\s*$/im).entries()) {
    // The last event of a recording may lack the empty line that would end it.
    for (const { event, data, id } of createSseParser().feed(new TextEncoder().encode(`${part}\n\n`))) {
      number += 1;
      const value = parse(data);
      if (!isRecord(value)) {
        unread += 1;
        continue;
      }
      if (arrivals.length >= MAX_MESSAGES) return { arrivals, unread, isCut: true };
      const isBare = value.type === undefined && value.jsonrpc === undefined && event !== "message";
      const message = isBare ? { type: event, ...value } : value;
      const resent = resending.isResent(STREAM, id, data) ? { isResent: true } : {};
      arrivals.push({ message, text: data, place: `event ${number}`, leg, stream: STREAM, ...resent });
    }
  }
  return { arrivals, unread, isCut: false };
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
