/** Which of our addresses a request means. */

/** Where the handler answers; each begins with a slash and ends without one. */
export interface RouteOptions {
  /** Default `/mcp`. */
  readonly mcpPath: string;
  /** What job addresses begin with. Default `/jobs`. */
  readonly jobsPath: string;
  /** The owner's whole log. Default `/events`. */
  readonly eventsPath: string;
}

export type Route =
  | { readonly kind: "mcp"; readonly target: string }
  | { readonly kind: "job"; readonly jobId: string; readonly query: URLSearchParams }
  | { readonly kind: "job-events"; readonly jobId: string; readonly query: URLSearchParams }
  | { readonly kind: "job-cancel"; readonly jobId: string; readonly query: URLSearchParams }
  | { readonly kind: "events"; readonly query: URLSearchParams }
  /** What clients without a token are told: the only address that asks for none. */
  | { readonly kind: "metadata" };

/** Undefined for paths that are not ours. Never throws, whatever the address holds. */
export function routeOf(
  url: string | undefined,
  options: RouteOptions & { readonly metadataPath?: string | undefined },
): Route | undefined {
  const target = toTarget(url);
  if (target === undefined) return undefined;
  const mark = target.indexOf("?");
  const path = mark < 0 ? target : target.slice(0, mark);
  const query = new URLSearchParams(mark < 0 ? "" : target.slice(mark));
  if (path === options.mcpPath) return { kind: "mcp", target };
  if (path === options.eventsPath) return { kind: "events", query };
  if (path === options.metadataPath) return { kind: "metadata" };
  if (!path.startsWith(`${options.jobsPath}/`)) return undefined;
  const [id, verb, ...rest] = path.slice(options.jobsPath.length + 1).split("/");
  if (id === undefined || id === "" || rest.length > 0) return undefined;
  // What cannot be decoded is nobody's job: the empty id is never found.
  const jobId = decode(id) ?? "";
  if (verb === undefined) return { kind: "job", jobId, query };
  if (verb === "events") return { kind: "job-events", jobId, query };
  return verb === "cancel" ? { kind: "job-cancel", jobId, query } : undefined;
}

export function methodsOf(route: Route): readonly string[] {
  if (route.kind === "mcp") return ["GET", "POST", "DELETE"];
  return route.kind === "job-cancel" ? ["POST"] : ["GET", "HEAD"];
}

/** Path and query; an absolute address, as proxies send it, loses its origin. */
function toTarget(url: string | undefined): string | undefined {
  if (url === undefined) return undefined;
  const [target] = url.split("#", 1);
  if (target?.startsWith("/")) return target;
  try {
    const { pathname, search } = new URL(url);
    return pathname + search;
  } catch {
    return undefined;
  }
}

function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
