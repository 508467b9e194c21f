/** Has the SDK judge a listen request's headers and envelope, before the listen is served without the SDK. */
import type { Implementation } from "@modelcontextprotocol/server";
import { SERVER_INFO_META_KEY } from "@modelcontextprotocol/server";
import { isRecord } from "../../model/schema.ts";
import type { RequestId } from "../wire/2026-07-28.ts";

export interface ListenCall {
  readonly id: RequestId;
  /** `params.notifications`, unread. */
  readonly filter: unknown;
}

/** A listen request's id and filter; undefined for every other message. */
export function asListen(body: unknown): ListenCall | undefined {
  if (!isRecord(body) || body.method !== "subscriptions/listen") return undefined;
  const { id, params } = body;
  if (typeof id !== "string" && typeof id !== "number") return undefined;
  return { id, filter: isRecord(params) ? params.notifications : undefined };
}

export type Judgement =
  | { readonly verdict: "accepted"; readonly info: Implementation | undefined }
  | { readonly verdict: "refused"; readonly answer: Response };

/** @param ask - Has the SDK answer a body under the request's own headers; it is given the listen with an empty filter. */
export async function judgeListen(
  body: unknown,
  ask: (body: unknown) => Promise<Response>,
): Promise<Judgement> {
  const answer = await ask(withEmptyFilter(body));
  if (answer.status !== 200 || !answer.headers.get("content-type")?.startsWith("text/event-stream")) {
    return { verdict: "refused", answer };
  }
  return { verdict: "accepted", info: readServerInfo(await answer.text()) };
}

function withEmptyFilter(body: unknown): unknown {
  const { params, ...message } = body as { params?: unknown };
  return { ...message, params: { ...(isRecord(params) ? params : {}), notifications: {} } };
}

/** The server's name, from the final message of the answer to an empty listen. */
function readServerInfo(stream: string): Implementation | undefined {
  for (const line of stream.split("\n").reverse()) {
    if (!line.startsWith("data: ")) continue;
    const message: unknown = JSON.parse(line.slice("data: ".length));
    const result = isRecord(message) && isRecord(message.result) ? message.result : undefined;
    const info = isRecord(result?._meta) ? result._meta[SERVER_INFO_META_KEY] : undefined;
    return info as Implementation | undefined;
  }
  return undefined;
}
