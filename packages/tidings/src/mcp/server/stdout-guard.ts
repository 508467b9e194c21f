/** Keeps the process's stdout for JSON-RPC alone: whatever else the process prints there comes out on stderr. */
import { Writable } from "node:stream";

let guarded: Writable | undefined;

/**
 * Takes stdout over and returns the only stream that still reaches it. `console.log`, `process.stdout.write` and what
 * worker threads print go to stderr from now on, for the life of the process: a line printed while it shuts down would
 * break the protocol as well. `serveTidingsStdio` does this by itself; call it earlier, first thing in the program, when
 * something prints while it starts. Calling it again returns the same stream. Child processes that inherit file
 * descriptor 1, and code that writes to that descriptor past `process.stdout`, are out of reach: give them 2.
 */
export function takeStdout(): Writable {
  if (guarded !== undefined) return guarded;
  const { stdout, stderr } = process;
  const write = stdout.write.bind(stdout);
  guarded = new Writable({
    decodeStrings: false,
    write: (chunk, encoding, done) => {
      write(chunk, encoding, done);
    },
  });
  // The reader may go away; the stream above tells the transport, and nobody else needs to fall over it.
  stdout.on("error", () => {});
  stdout.write = stderr.write.bind(stderr);
  return guarded;
}
