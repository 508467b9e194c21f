/** What operators read when they gave no `onError`: one JSON line on stderr. */
import { TidingsError } from "../model/error.ts";

export function printError(error: unknown, during: string): void {
  const code = error instanceof TidingsError ? error.code : "INTERNAL";
  const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
  process.stderr.write(`${JSON.stringify({ level: "error", during, code, message })}\n`);
}
