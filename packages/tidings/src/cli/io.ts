/** What commands need of the process around them. */
export interface Io {
  write(text: string): void;
  writeError(text: string): void;
  /** Whether `write` goes to a terminal: tables and a progress bar there, JSON lines elsewhere. */
  readonly isTerminal: boolean;
  /** Of the terminal, in characters. */
  readonly columns: number;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Aborts when the user interrupts. */
  readonly signal: AbortSignal;
}

/** The real process. A reader that leaves, as `head` does, ends it quietly. */
export function createProcessIo(): Io {
  const interrupted = new AbortController();
  process.once("SIGINT", () => interrupted.abort());
  process.once("SIGTERM", () => interrupted.abort());
  for (const stream of [process.stdout, process.stderr]) {
    stream.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code === "EPIPE") process.exit(0);
      throw error;
    });
  }
  return {
    write: (text) => void process.stdout.write(text),
    writeError: (text) => void process.stderr.write(text),
    isTerminal: process.stdout.isTTY === true,
    // Some terminals say 0: they do not know.
    columns: process.stdout.columns || 80,
    env: process.env,
    signal: interrupted.signal,
  };
}
