/** One message as it passed, with the marks that the judge needs. */
export interface Arrival {
  /** The message; a text when it was no JSON. */
  readonly message: unknown;
  /** The message as it stood on the wire. */
  readonly text: string;
  /** Where it was met, for people: `line 7`, `message 12 on the session's stream`. */
  readonly place: string;
  /** How often the reader had lost its connection and come back before; 0 at first. */
  readonly leg: number;
  /** Which stream brought it; a stream keeps its name when it is opened again. */
  readonly stream: string;
  /** The same bytes under the same SSE id as before: the transport's repeat, which it recognises itself. */
  readonly isResent?: boolean;
  /** Milliseconds on any clock that only grows; absent in recordings, whose order is the order of arrival. */
  readonly atMs?: number;
}

/** Recognises what a stream sends again under its SSE ids. */
export interface Resending {
  /** Whether the text came under this id of this stream before. Streams without ids send nothing again. */
  isResent(stream: string, id: string, text: string): boolean;
}

export function createResending(): Resending {
  const texts = new Map<string, string>();
  return {
    isResent(stream, id, text) {
      if (id === "") return false;
      const key = `${stream}\n${id}`;
      if (texts.get(key) === text) return true;
      texts.set(key, text);
      return false;
    },
  };
}

/** More than this is not held in memory; the rest is left out, and the verdict says so. */
export const MAX_MESSAGES = 200_000;
