/** What a page of an allowed origin needs to hear from a server of another one. */
import type { IncomingMessage, ServerResponse } from "node:http";

/** What our answers say in headers, which a page of another origin is not shown unless it is named. */
const EXPOSED = "Mcp-Session-Id, WWW-Authenticate, Retry-After, Allow";

/** The guard has let the page pass: it may read the answer too. */
export function allowOrigin(req: IncomingMessage, res: ServerResponse): void {
  const { origin } = req.headers;
  res.appendHeader("Vary", "Origin");
  if (origin === undefined) return;
  res.setHeader("Access-Control-Allow-Origin", origin);
  res.setHeader("Access-Control-Expose-Headers", EXPOSED);
}

export function sendPreflight(req: IncomingMessage, res: ServerResponse, methods: readonly string[]): void {
  const wanted = req.headers["access-control-request-headers"];
  res.writeHead(204, {
    Allow: [...methods, "OPTIONS"].join(", "),
    "Access-Control-Allow-Methods": methods.join(", "),
    ...(typeof wanted === "string" && /^[\w, -]+$/.test(wanted)
      ? { "Access-Control-Allow-Headers": wanted }
      : {}),
    "Access-Control-Max-Age": "600",
  });
  res.end();
}
