/** A real HTTP server that tells one job's story as the contract says, and misbehaves when a script says so. */
import type { IncomingHttpHeaders, ServerResponse } from "node:http";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { TidingsEvent } from "../../src/model/event.ts";
import { toFlat } from "../../src/model/projection/notification.ts";

/** One request that came in. */
export interface Asked {
  /** 0 for the first. */
  readonly number: number;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  /** How many events of the story the client has already. */
  readonly position: number;
  readonly res: ServerResponse;
}

export interface StoryServer {
  readonly url: string;
  readonly asked: readonly Asked[];
  close(): Promise<void>;
}

/** Cursors look like nothing that can be guessed or compared. */
export const cursorOf = (position: number): string => `~${(position * 7919 + 13).toString(36)}`;

export function frameOf(event: TidingsEvent, position: number): string {
  const data = JSON.stringify(toFlat(event, cursorOf(position)));
  return `id: ${cursorOf(position)}\nevent: ${event.type}\ndata: ${data}\n\n`;
}

/** The frames of the events with these numbers. */
export function framesOf(story: readonly TidingsEvent[], ...seqs: readonly number[]): string {
  return seqs.map((seq) => frameOf(story[seq - 1] as TidingsEvent, seq)).join("");
}

/** What the contract says: the rest of the story, or 204 behind its end. */
function tellRest({ res, position }: Asked, story: readonly TidingsEvent[]): void {
  if (position >= story.length) {
    res.writeHead(204).end();
    return;
  }
  res.writeHead(200, { "content-type": "text/event-stream" });
  res.end(
    story
      .slice(position)
      .map((event, n) => frameOf(event, position + n + 1))
      .join(""),
  );
}

/** Answers with anything. */
export function answer({ res }: Asked, status: number, type: string, body: string, headers = {}): true {
  res.writeHead(status, { "content-type": type, ...headers }).end(body);
  return true;
}

/** Answers with an error as JSON. */
export function refuse(asked: Asked, status: number, code: string): true {
  const error = { code, message: `It is ${code}.`, hint: "Do better.", retryable: false };
  return answer(asked, status, "application/json", JSON.stringify({ error }));
}

/**
 * @param script - Answers a request; `true` = it did, anything else = answer as the contract says.
 */
export async function createStoryServer(
  story: readonly TidingsEvent[],
  script: (asked: Asked) => unknown = () => false,
): Promise<StoryServer> {
  const asked: Asked[] = [];
  const server = createServer((req, res) => {
    const url = new URL(req.url ?? "/", "http://localhost");
    const cursor = req.headers["last-event-id"] ?? url.searchParams.get("after") ?? cursorOf(0);
    const position = [...story.keys(), story.length].find((n) => cursorOf(n) === cursor);
    const request = {
      number: asked.length,
      path: req.url ?? "",
      headers: req.headers,
      position: position ?? -1,
      res,
    };
    asked.push(request);
    if (position === undefined) refuse(request, 400, "BAD_CURSOR");
    else if (script(request) !== true) tellRest(request, story);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked,
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
