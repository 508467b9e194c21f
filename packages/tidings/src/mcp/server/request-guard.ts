/**
 * Keeps foreign web pages away from a server that trusts its own machine (DNS rebinding, cross-site requests).
 * `Host` and `Origin` are each checked on their own.
 */
import type { IncomingMessage } from "node:http";

/** Who may use the server from a browser, beside pages of its own address. */
export interface GuardOptions {
  /** Host names, without ports, that requests may name beside the loopback ones. On another address than loopback: the only ones. Default: none, and there any host. */
  readonly allowedHosts?: readonly string[];
  /** Origins of other sites (`https://app.example`) whose pages may use this server. Default: none. */
  readonly allowedOrigins?: readonly string[];
}

/** Says in a sentence why a request is refused; undefined when it may pass. */
export function findForbidden(req: IncomingMessage, options: GuardOptions): string | undefined {
  const local = isLoopbackAddress(req.socket?.localAddress);
  const host = firstOf(req.headers.host) ?? firstOf(req.headers[":authority"]);
  const name = host === undefined ? undefined : hostnameOf(host);
  const hostAllowed =
    name !== undefined && ((local && isLoopbackName(name)) || options.allowedHosts?.includes(name) === true);
  if (!hostAllowed && (local || options.allowedHosts !== undefined)) {
    return `This server does not answer for the host ${quote(host)}. Use a loopback name such as 127.0.0.1, or add the host to allowedHosts.`;
  }
  const { origin } = req.headers;
  if (origin === undefined || options.allowedOrigins?.includes(origin)) return undefined;
  const page = parseOrigin(origin);
  const originAllowed =
    page !== undefined &&
    (page.host === host?.toLowerCase() ||
      (local && isLoopbackName(page.hostname)) ||
      options.allowedHosts?.includes(page.hostname) === true);
  return originAllowed
    ? undefined
    : `Pages of the origin ${quote(origin)} may not use this server. Add the origin to allowedOrigins if they should.`;
}

function hostnameOf(host: string): string | undefined {
  if (!/^[^\s/?#@\\]+$/.test(host)) return undefined;
  try {
    return new URL(`http://${host}`).hostname;
  } catch {
    return undefined;
  }
}

function parseOrigin(origin: string): URL | undefined {
  try {
    const url = new URL(origin);
    return (url.protocol === "http:" || url.protocol === "https:") && url.origin === origin.toLowerCase()
      ? url
      : undefined;
  } catch {
    return undefined;
  }
}

function isLoopbackName(name: string): boolean {
  return name === "localhost" || name === "[::1]" || /^127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(name);
}

function isLoopbackAddress(address: string | undefined): boolean {
  return address !== undefined && (address === "::1" || /^(?:::ffff:)?127\./i.test(address));
}

function firstOf(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value[0] : value;
}

function quote(value: string | undefined): string {
  return value === undefined ? "(none)" : JSON.stringify(value.slice(0, 200));
}
