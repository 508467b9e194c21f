/**
 * Bytes of unknown origin → pieces of UTF-8.
 *
 *   mark EF BB BF (once or more)   UTF-8, mark dropped
 *   mark FF FE / FE FF             UTF-16, converted
 *   no mark, NUL near the start    refused: UTF-16 without a mark, or no text
 *   a known binary signature       refused: a workbook, a picture, …
 *   anything else                  UTF-8; whether it truly is shows row by row
 */
import { PermanentError } from "tidings";

/** Text as pieces of UTF-8 bytes without a mark. */
export interface OpenedText {
  /** The first 64 KiB, decoded; to find out the delimiter. */
  readonly sample: string;
  /** Whether the encoding was declared by a mark, so that letters beyond ASCII are certain. */
  readonly isDeclared: boolean;
  /** Pieces of at most 64 KiB; cut anywhere, also inside a letter. Can be read once. */
  readonly pieces: AsyncIterable<Buffer>;
  /** How many bytes of the source lie before this offset in the pieces: exact for UTF-8, to the piece for UTF-16. */
  bytesBefore(offset: number): number;
}

const PIECE = 64 * 1024;

const SIGNATURES: readonly (readonly [string, string])[] = [
  ["504b0304", "an Excel workbook or another zip file"],
  ["d0cf11e0", "an old Excel workbook"],
  ["25504446", "a PDF document"],
  ["89504e47", "a picture"],
  ["ffd8ff", "a picture"],
  ["1f8b08", "a compressed file"],
];

/**
 * Finds out the encoding and opens the text.
 *
 * @throws PermanentError `NOT_A_TEXT_FILE` or `UNKNOWN_ENCODING` when the bytes are certainly something else.
 */
export async function openText(source: AsyncIterator<Uint8Array>): Promise<OpenedText> {
  const head: Buffer[] = [];
  let headBytes = 0;
  while (headBytes < PIECE) {
    const next = await source.next();
    if (next.done) break;
    head.push(asBuffer(next.value));
    headBytes += next.value.byteLength;
  }
  const start = Buffer.concat(head);
  refuseBinary(start);
  const encoding = utf16Of(start);
  return encoding === undefined ? openUtf8(start, source) : openUtf16(start, source, encoding);
}

function openUtf8(start: Buffer, source: AsyncIterator<Uint8Array>): OpenedText {
  let marks = 0;
  while (start[marks] === 0xef && start[marks + 1] === 0xbb && start[marks + 2] === 0xbf) marks += 3;
  const sample = start.toString("utf8", marks, marks + PIECE);
  refuseNul(sample);
  async function* pieces(): AsyncGenerator<Buffer> {
    yield* slices(start.subarray(marks));
    for await (const chunk of rest(source)) yield* slices(chunk);
  }
  return { sample, isDeclared: marks > 0, pieces: pieces(), bytesBefore: (offset) => marks + offset };
}

function openUtf16(
  start: Buffer,
  source: AsyncIterator<Uint8Array>,
  encoding: "utf-16le" | "utf-16be",
): OpenedText {
  const sample = new TextDecoder(encoding).decode(start.subarray(0, PIECE));
  refuseNul(sample);
  let taken = 0;
  async function* pieces(): AsyncGenerator<Buffer> {
    const decoder = new TextDecoder(encoding);
    for await (const chunk of withStart(start, source)) {
      for (const slice of slices(chunk)) {
        taken += slice.length;
        yield Buffer.from(decoder.decode(slice, { stream: true }), "utf8");
      }
    }
    yield Buffer.from(decoder.decode(), "utf8");
  }
  return { sample, isDeclared: true, pieces: pieces(), bytesBefore: () => taken };
}

function utf16Of(start: Buffer): "utf-16le" | "utf-16be" | undefined {
  if (start[0] === 0xff && start[1] === 0xfe) return "utf-16le";
  if (start[0] === 0xfe && start[1] === 0xff) return "utf-16be";
  return undefined;
}

function refuseBinary(start: Buffer): void {
  const beginning = start.toString("hex", 0, 4);
  for (const [signature, what] of SIGNATURES) {
    if (beginning.startsWith(signature)) {
      throw new PermanentError("NOT_A_TEXT_FILE", `The file is ${what}, not comma-separated text.`, {
        hint: "Save the table as CSV (UTF-8) and send that file.",
      });
    }
  }
}

function refuseNul(sample: string): void {
  if (/^[^\r\n]{0,255}\0/.test(sample)) {
    throw new PermanentError(
      "UNKNOWN_ENCODING",
      "The file begins with NUL bytes between its letters, so it is UTF-16 without a mark or no text at all.",
      { hint: "Save the table as CSV (UTF-8) and send that file." },
    );
  }
}

async function* withStart(start: Buffer, source: AsyncIterator<Uint8Array>): AsyncGenerator<Buffer> {
  yield start;
  yield* rest(source);
}

async function* rest(source: AsyncIterator<Uint8Array>): AsyncGenerator<Buffer> {
  for (;;) {
    const next = await source.next();
    if (next.done) return;
    yield asBuffer(next.value);
  }
}

function* slices(chunk: Buffer): Generator<Buffer> {
  for (let at = 0; at < chunk.length; at += PIECE) yield chunk.subarray(at, at + PIECE);
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
