/** MCP by hand: requests as they stand on the wire, for what stock clients never send. */
import type { Reader } from "./http-reader.ts";
import { readEvents } from "./http-reader.ts";

export const MODERN = "2026-07-28";

export const ENVELOPE = {
  "io.modelcontextprotocol/protocolVersion": MODERN,
  "io.modelcontextprotocol/clientCapabilities": {},
  "io.modelcontextprotocol/clientInfo": { name: "by-hand", version: "1.0.0" },
};

export function post(
  url: string,
  body: unknown,
  headers: Record<string, string> = {},
  signal: AbortSignal | null = null,
): Promise<Response> {
  return fetch(`${url}/mcp`, {
    method: "POST",
    signal,
    headers: {
      "Content-Type": "application/json",
      Accept: "application/json, text/event-stream",
      ...headers,
    },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });
}

export interface RequestOptions {
  readonly headers?: Record<string, string>;
  readonly id?: string | number;
  readonly signal?: AbortSignal | null;
}

/** A request of 2026-07-28. */
export function modern(
  url: string,
  method: string,
  params: Record<string, unknown>,
  { headers = {}, id = 1, signal = null }: RequestOptions = {},
): Promise<Response> {
  const name: Record<string, string> = typeof params.name === "string" ? { "Mcp-Name": params.name } : {};
  return post(
    url,
    { jsonrpc: "2.0", id, method, params: { _meta: ENVELOPE, ...params } },
    { "MCP-Protocol-Version": MODERN, "Mcp-Method": method, ...name, ...headers },
    signal,
  );
}

export interface Listening {
  readonly reader: Reader;
  /** The next message; undefined once the stream has ended. */
  next(): Promise<Message | undefined>;
  until(isLast: (message: Message) => boolean): Promise<Message[]>;
}

export interface Message {
  readonly id?: string | number;
  readonly method?: string;
  readonly params?: Record<string, unknown> & { _meta?: Record<string, unknown> };
  readonly result?: Record<string, unknown>;
  readonly error?: { code: number; message: string; data?: Record<string, unknown> };
}

/** Listens with a filter; the first message is the acknowledgement. */
export async function listen(
  url: string,
  notifications: unknown,
  options: RequestOptions = {},
): Promise<Listening> {
  return readMessages(await modern(url, "subscriptions/listen", { notifications }, options));
}

export function readMessages(response: Response): Listening {
  const reader = readEvents(response);
  const next = async (): Promise<Message | undefined> => {
    let frame = await reader.next();
    // A priming event says where the stream stands, and nothing else.
    while (frame?.data === "") frame = await reader.next();
    return frame === undefined ? undefined : (JSON.parse(frame.data) as Message);
  };
  return {
    reader,
    next,
    async until(isLast) {
      const taken: Message[] = [];
      for (;;) {
        const message = await next();
        if (message === undefined) return taken;
        taken.push(message);
        if (isLast(message)) return taken;
      }
    },
  };
}

/** Begins a 2025 session by hand; returns its id. */
export async function initialize(url: string, headers: Record<string, string> = {}): Promise<string> {
  const response = await post(
    url,
    {
      jsonrpc: "2.0",
      id: 0,
      method: "initialize",
      params: {
        protocolVersion: "2025-11-25",
        capabilities: {},
        clientInfo: { name: "by-hand", version: "1.0.0" },
      },
    },
    headers,
  );
  const id = response.headers.get("mcp-session-id");
  await response.text();
  if (id === null) throw new Error(`No session: HTTP ${response.status}`);
  const initialized = await post(
    url,
    { jsonrpc: "2.0", method: "notifications/initialized" },
    { ...headers, "Mcp-Session-Id": id },
  );
  await initialized.text();
  return id;
}

/** Calls a tool in a 2025 session; returns its structured content. */
export async function callTool(
  url: string,
  session: string,
  name: string,
  args: Record<string, unknown>,
  headers: Record<string, string> = {},
): Promise<Record<string, unknown>> {
  const response = await post(
    url,
    { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name, arguments: args } },
    { ...headers, "Mcp-Session-Id": session },
  );
  const answer = await readMessages(response).until((message) => message.id === 1);
  return answer.at(-1)?.result?.structuredContent as Record<string, unknown>;
}

/** Opens the GET stream of a 2025 session. */
export async function openStream(
  url: string,
  session: string,
  headers: Record<string, string> = {},
): Promise<Listening> {
  return readMessages(
    await fetch(`${url}/mcp`, {
      headers: { Accept: "text/event-stream", "Mcp-Session-Id": session, ...headers },
    }),
  );
}
