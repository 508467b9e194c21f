/** Malformed messages from a seed: mostly almost right, so that they get past the first check. */
import type { Random } from "tidings";

/** What a generator may use of the server that it attacks: real ids and cursors, to be damaged. */
export interface Known {
  readonly jobId: string;
  readonly cursor: string;
  readonly sessionId?: string;
}

export interface Generator {
  /** The bytes of one connection: one request, several, or none. */
  http(): Buffer;
  /** One line of stdio, without its end; now and then several. */
  stdio(): Buffer;
}

const MODERN = "2026-07-28";
const LEGACY = "2025-11-25";
const META = {
  "io.modelcontextprotocol/protocolVersion": MODERN,
  "io.modelcontextprotocol/clientCapabilities": {},
  "io.modelcontextprotocol/clientInfo": { name: "fuzz", version: "1.0.0" },
};

const TOOLS = [
  "start_bulk_gift_analysis",
  "get_gift_recommendations",
  "refresh_product_feed",
  "get_job",
  "get_job_events",
  "list_my_jobs",
  "cancel_job",
  "retry_job",
  "no_such_tool",
  "__proto__",
  "constructor",
  "toString",
];

const METHODS = [
  "tools/call",
  "tools/call",
  "tools/call",
  "tools/list",
  "resources/read",
  "resources/list",
  "resources/subscribe",
  "resources/unsubscribe",
  "subscriptions/listen",
  "initialize",
  "server/discover",
  "ping",
  "logging/setLevel",
  "completion/complete",
  "prompts/get",
  "notifications/cancelled",
  "notifications/initialized",
  "notifications/progress",
  "notifications/job/completed",
  "__proto__",
  "",
  "tools/call\0",
];

const FIELDS = [
  "jobId",
  "after",
  "cursor",
  "limit",
  "waitSeconds",
  "uploadId",
  "csv",
  "defaultBudget",
  "idempotencyKey",
  "correlationId",
  "reason",
  "status",
  "name",
  "arguments",
  "uri",
  "notifications",
  "dev.tidings/jobs",
  "jobIds",
  "resourceSubscriptions",
  "_meta",
  "progressToken",
  "requestId",
  "__proto__",
  "constructor",
  "prototype",
  "toJSON",
  "then",
  "length",
];

const TEXTS = [
  "",
  " ",
  "\0",
  "\ud800",
  "\u202e\u2028\u2029",
  "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 é é",
  "__proto__",
  "constructor",
  "null",
  "-1",
  "1e999",
  "NaN",
  "../../../etc/passwd",
  "%00%zz%",
  "'; DROP TABLE tidings_jobs; --",
  "<img src=x onerror=alert(1)>",
  "a\r\nb: c\r\n\r\n",
  "job://",
  "job://%",
  "resource:gifts:",
  "ui://giftgenius/page",
];

const NUMBERS = [0, -0, -1, 1, 0.5, 64, 2 ** 31, 2 ** 53, -(2 ** 53), 1e21, 1e308, 5e-324];

export function createGenerator(random: Random, known: Known): Generator {
  const below = (count: number): number => Math.floor(random.fraction() * count);
  const pick = <T>(list: readonly T[]): T => list[below(list.length)] as T;
  const often = (chance: number): boolean => random.fraction() < chance;

  function text(): string {
    switch (below(8)) {
      case 0:
        return known.jobId;
      case 1:
        return known.cursor;
      case 2:
        return flipped(often(0.5) ? known.cursor : known.jobId);
      case 3:
        return pick(["x", "\u0000", "𝕏", "\\"]).repeat(1 + below(often(0.02) ? 60_000 : 600));
      case 4:
        return Array.from({ length: below(20) }, () => String.fromCharCode(below(0x10000))).join("");
      case 5:
        return `job://${often(0.5) ? known.jobId : pick(TEXTS)}${often(0.3) ? "/result" : ""}`;
      default:
        return pick(TEXTS);
    }
  }

  function flipped(value: string): string {
    const at = below(value.length);
    return value.slice(0, at) + String.fromCharCode(33 + below(90)) + value.slice(at + (often(0.8) ? 1 : 0));
  }

  function json(depth = 0): unknown {
    switch (below(depth > 4 ? 5 : 8)) {
      case 0:
        return null;
      case 1:
        return often(0.5);
      case 2:
        return pick(NUMBERS);
      case 3:
      case 4:
        return text();
      case 5:
        return Array.from({ length: below(4) }, () => json(depth + 1));
      default:
        return record(Array.from({ length: below(4) }, () => [pick(FIELDS), json(depth + 1)] as const));
    }
  }

  /** Own properties only, `__proto__` among them. */
  function record(entries: readonly (readonly [string, unknown])[]): object {
    const made = {};
    for (const [name, value] of entries)
      Object.defineProperty(made, name, { value, enumerable: true, configurable: true, writable: true });
    return made;
  }

  function args(): unknown {
    if (often(0.1)) return json();
    return record(
      Array.from({ length: below(5) }, () => {
        const name = pick(FIELDS);
        if (often(0.3)) return [name, json()] as const;
        if (name === "jobId") return [name, often(0.5) ? known.jobId : text()] as const;
        if (name === "waitSeconds") return [name, pick([0, 0.001, -1, 1e9])] as const;
        return [name, often(0.5) ? text() : pick(NUMBERS)] as const;
      }),
    );
  }

  function params(method: string, modern: boolean): unknown {
    if (often(0.08)) return json();
    const own: Record<string, unknown> = modern || often(0.1) ? { _meta: often(0.95) ? META : json() } : {};
    switch (method) {
      case "tools/call":
        return { ...own, name: pick(TOOLS), arguments: args() };
      case "resources/read":
      case "resources/subscribe":
      case "resources/unsubscribe":
        return { ...own, uri: text() };
      case "subscriptions/listen":
        return {
          ...own,
          notifications: often(0.8)
            ? { "dev.tidings/jobs": args(), resourceSubscriptions: often(0.5) ? [text(), text()] : json() }
            : json(),
        };
      case "initialize":
        return {
          protocolVersion: pick([LEGACY, MODERN, "2024-11-05", "", text()]),
          capabilities: often(0.8) ? {} : json(),
          clientInfo: { name: text(), version: "1" },
        };
      case "notifications/cancelled":
        return { ...own, requestId: pick([1, 2, "x", null, text()]) };
      default:
        return { ...own, ...(often(0.3) ? { [pick(FIELDS)]: json() } : {}) };
    }
  }

  function message(modern: boolean): unknown {
    const method = pick(METHODS);
    const parts: Record<string, unknown> = { jsonrpc: often(0.97) ? "2.0" : json() };
    if (!method.startsWith("notifications/") || often(0.1)) parts.id = often(0.8) ? below(1_000) : json();
    if (often(0.97)) parts.method = often(0.97) ? method : json();
    if (often(0.95)) parts.params = params(method, modern);
    if (often(0.02)) parts.result = json();
    if (often(0.02)) parts.error = json();
    return parts;
  }

  function body(modern: boolean): string {
    const dice = random.fraction();
    if (dice < 0.03) return nested(often(0.5) ? 60 + below(10) : 1_000 + below(20_000));
    if (dice < 0.06) return JSON.stringify(Array.from({ length: below(20) }, () => message(modern)));
    if (dice < 0.08) return JSON.stringify(json());
    const written = JSON.stringify(message(modern));
    if (dice < 0.2) return mangled(written);
    // A raw __proto__ and a repeated key are things that no serializer writes.
    if (dice < 0.23) return written.replace("{", '{"__proto__":{"admin":true},"id":7,"id":8,');
    return written;
  }

  function nested(depth: number): string {
    const [open, close] = pick([
      ['{"a":', "}"],
      ["[", "]"],
    ] as const);
    const deep = `${open.repeat(depth)}1${often(0.8) ? close.repeat(depth) : ""}`;
    if (often(0.3)) return deep;
    return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_job","arguments":${deep}}}`;
  }

  function mangled(value: string): string {
    let changed = value;
    for (let times = 1 + below(4); times > 0; times -= 1) {
      const at = below(changed.length + 1);
      const insert = pick(["", "", "\0", '"', "}", "{", "\\", "\ud800", ",", "1e9999", " "]);
      changed = changed.slice(0, at) + insert + changed.slice(at + below(4));
    }
    return often(0.2) ? changed.slice(0, below(changed.length + 1)) : changed;
  }

  function headerValue(): string {
    const value = often(0.5) ? text() : pick(["x", known.cursor, "a, b", "bytes=0-", "é"]);
    // Most of what HTTP forbids goes, so that more than the parser is reached; now and then it stays.
    return often(0.95)
      ? value.replaceAll(/[^\t -~\u0080-\u00ff]/g, "").slice(0, 20_000)
      : value.slice(0, 20_000);
  }

  function target(): string {
    const id = often(0.5) ? known.jobId : encodeURIComponent(text().toWellFormed()).slice(0, 4_000);
    const query = often(0.5)
      ? ""
      : `?${pick(["after", "resourceId", "token", "x", "__proto__"])}=${often(0.5) ? known.cursor : pick(["%", "%00", "%zz", flipped(known.cursor), "1", ""])}`;
    return pick([
      "/mcp",
      "/mcp",
      "/mcp",
      `/jobs/${id}${query}`,
      `/jobs/${id}/events${query}`,
      `/events${query}`,
      "/uploads",
      "/healthz",
      "/",
      `/jobs/${id}/${pick(["x", "events/", "..", "%2e%2e"])}`,
      pick(["*", "//", "/\\", "http://x/jobs/y", "/%", "/jobs/", "", "x", `/${"a".repeat(below(20_000))}`]),
    ]);
  }

  function request(): Buffer {
    const modern = often(0.6);
    const method = often(0.75)
      ? "POST"
      : pick(["GET", "GET", "DELETE", "PUT", "OPTIONS", "HEAD", "PATCH", "BREW", "get", ""]);
    const path = method === "POST" && often(0.8) ? "/mcp" : target();
    const content = path === "/uploads" ? `email,budget\r\n${text()},${text()}` : body(modern);
    const bytes = Buffer.from(content, often(0.95) ? "utf8" : "latin1");
    const headers: string[] = [];
    const add = (name: string, value: string, chance = 0.97) => {
      if (often(chance)) headers.push(`${name}: ${often(0.97) ? value : headerValue()}`);
    };
    add("Host", pick(["127.0.0.1", "127.0.0.1", "127.0.0.1", "localhost"]));
    add("Connection", "close");
    add("Accept", "application/json, text/event-stream", 0.95);
    if (method === "POST") add("Content-Type", path === "/uploads" ? "text/csv" : "application/json");
    if (modern) {
      const rpc = /"method":"([^"\\]*)"/.exec(content)?.[1] ?? "tools/call";
      const name = /"(?:name|uri)":"([^"\\]*)"/.exec(content.replace('"name":"fuzz"', ""))?.[1];
      add("MCP-Protocol-Version", MODERN);
      add("Mcp-Method", rpc.replaceAll(/[^ -~]/g, ""));
      if (name !== undefined) add("Mcp-Name", name.replaceAll(/[^ -~]/g, ""));
    } else {
      add("MCP-Protocol-Version", LEGACY, 0.6);
      if (known.sessionId !== undefined)
        add("Mcp-Session-Id", often(0.9) ? known.sessionId : flipped(known.sessionId), 0.7);
    }
    if (often(0.1)) headers.push(`Last-Event-ID: ${often(0.5) ? known.cursor : headerValue()}`);
    if (often(0.05)) headers.push(`Origin: ${pick(["null", "https://evil.example", headerValue()])}`);
    if (often(0.05)) headers.push(`Authorization: Bearer ${headerValue()}`);
    if (often(0.05))
      headers.push(
        `${pick(["__proto__", "constructor", "X", "Cookie", "Expect", "Upgrade", "Content-Encoding"])}: ${headerValue()}`,
      );
    if (often(0.02))
      headers.push(...Array.from({ length: 200 + below(2_500) }, (_, index) => `X-${index}: ${index}`));
    const hasBody = method !== "GET" && method !== "HEAD" && method !== "OPTIONS";
    const [framing, framed] = hasBody ? frame(bytes) : [[], Buffer.alloc(0)];
    const line = often(0.97)
      ? `${method} ${path} HTTP/1.1`
      : pick([`${method} ${path}`, `${method} ${path} HTTP/9.9`, "\0\0\0", `GET ${path} HTTP/1.1\n`]);
    const head = Buffer.from([line, ...headers, ...framing, "", ""].join("\r\n"), "latin1");
    return Buffer.concat([head, framed]);
  }

  function frame(bytes: Buffer): readonly [readonly string[], Buffer] {
    const dice = random.fraction();
    if (dice < 0.85) return [[`Content-Length: ${bytes.length}`], bytes];
    if (dice < 0.9)
      return [
        [`Content-Length: ${pick([bytes.length + 5, bytes.length - 1, -1, "1e3", "0x10", 2 ** 53, ""])}`],
        bytes,
      ];
    const half = below(bytes.length + 1);
    const chunks = [bytes.subarray(0, half), bytes.subarray(half)]
      .filter(({ length }) => length > 0)
      .map((chunk) =>
        Buffer.concat([
          Buffer.from(
            `${often(0.9) ? chunk.length.toString(16) : pick(["zz", "-1", "ffffffffffffffff", ""])}\r\n`,
          ),
          chunk,
          Buffer.from(often(0.95) ? "\r\n" : ""),
        ]),
      );
    const end = Buffer.from(often(0.9) ? "0\r\n\r\n" : "");
    const both = often(0.1) ? ["Content-Length: 3"] : [];
    return [
      [`Transfer-Encoding: ${often(0.9) ? "chunked" : pick(["gzip", "chunked, chunked", "x"])}`, ...both],
      Buffer.concat([...chunks, end]),
    ];
  }

  function damaged(bytes: Buffer): Buffer {
    const changed = Buffer.from(bytes);
    for (let times = 1 + below(5); times > 0 && changed.length > 0; times -= 1)
      changed[below(changed.length)] = below(256);
    return often(0.3) ? changed.subarray(0, below(changed.length + 1)) : changed;
  }

  return {
    http() {
      const dice = random.fraction();
      if (dice < 0.02) return Buffer.from(Array.from({ length: below(300) }, () => below(256)));
      if (dice < 0.12) return damaged(request());
      if (dice < 0.15) return Buffer.concat([request(), request(), request()]);
      return request();
    },
    stdio() {
      const dice = random.fraction();
      if (dice < 0.02) return Buffer.from(Array.from({ length: below(300) }, () => below(256)));
      if (dice < 0.0205) return Buffer.from(`{"jsonrpc":"2.0","id":1,"method":"${"x".repeat(1_000_000)}"}`);
      const line = Buffer.from(body(often(0.5)), often(0.95) ? "utf8" : "latin1");
      return dice < 0.1 ? damaged(line) : line;
    },
  };
}
