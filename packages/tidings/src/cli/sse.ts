/** Everything that happens to an owner, from a server's `GET /events`. */
import { createSseParser } from "../client/source/sse-parser.ts";
import { TidingsError } from "../model/error.ts";
import { readEvent } from "../model/projection/read.ts";
import type { Told } from "./target.ts";

/** Ends when the server ends the stream, or at the signal. @throws TidingsError UNREACHABLE */
export async function* readSse(
  url: URL,
  headers: Readonly<Record<string, string>>,
  after: string | undefined,
  signal: AbortSignal,
): AsyncIterable<Told> {
  if (after !== undefined) url.searchParams.set("after", after);
  const response = await fetch(url, { headers: { Accept: "text/event-stream", ...headers }, signal }).catch(
    (error: unknown) => {
      if (signal.aborted) return undefined;
      throw new TidingsError("UNREACHABLE", `${url} does not answer: ${String(error)}.`, { cause: error });
    },
  );
  if (response === undefined) return;
  if (!response.ok || response.body === null) {
    throw new TidingsError("UNREACHABLE", `${url} answered with status ${response.status}.`, {
      hint: "The whole log of an owner is served at /events beside /mcp; name a job to follow it over MCP.",
    });
  }
  const parser = createSseParser();
  try {
    for await (const bytes of response.body) {
      for (const { event, data, id } of parser.feed(bytes)) {
        const cursor = id === "" ? undefined : id;
        if (event === "snapshot") {
          if (cursor !== undefined) yield { kind: "gap", cursor };
          continue;
        }
        const read = readEvent({ type: event, ...JSON.parse(data) });
        if (read.kind === "event") yield { kind: "event", event: read.event, cursor };
      }
    }
  } catch (error) {
    if (!signal.aborted)
      throw new TidingsError("UNREACHABLE", `The stream of ${url} broke.`, { cause: error });
  }
}
