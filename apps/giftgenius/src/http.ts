/** GiftGenius over HTTP: the page, uploads and health; everything else is Tidings' own handler. */
import { createReadStream } from "node:fs";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { type ErrorInfo, TidingsError } from "tidings";
import type { AccessOptions, GuardOptions } from "tidings/mcp";
import {
  closeWhenSlow,
  createBearerVerifier,
  createHttpHandler,
  findForbidden,
  sendError,
} from "tidings/mcp";
import type { GiftGenius } from "./app.ts";
import type { AuthConfig, Config } from "./config.ts";
import { renderPage } from "./page/page.ts";
import { VERSION } from "./version.ts";

export interface HttpServer {
  readonly url: string;
  close(): Promise<void>;
}

/** What the application's own addresses answer to. */
const METHODS: Readonly<Record<string, string>> = {
  "/": "GET, HEAD",
  "/healthz": "GET, HEAD",
  "/uploads": "POST, OPTIONS",
  "/examples/employees-2000.csv": "GET, HEAD",
};

const EXAMPLE = new URL("../examples/employees-2000.csv", import.meta.url);

/**
 * The page, the example and the health are for everybody; every other address asks whose request it is.
 *
 * @throws TidingsError PORT_IN_USE or ADDRESS_UNUSABLE; BAD_CONFIG when other machines would be let in without signing in.
 */
export async function serveHttp(
  app: GiftGenius,
  config: Pick<Config, "host" | "port" | "auth" | "allowAnonymous"> & GuardOptions,
): Promise<HttpServer> {
  checkExposure(config);
  const { host, port, auth, allowedHosts, allowedOrigins } = config;
  const guard = { allowedHosts, allowedOrigins };
  let url = "";
  const tidings = createHttpHandler(app.tidings, {
    ...guard,
    ...accessOf(auth),
    server: () => app.createServer(url),
  });
  const server = createServer((request, response) => {
    handle(request, response).catch((error: unknown) => answerError(request, response, error));
  });
  server.requestTimeout = 0;
  server.headersTimeout = 15_000;
  await listen(server, host, port);
  const address = server.address() as AddressInfo;
  const name = address.family === "IPv6" ? `[${address.address}]` : address.address;
  url = `http://${name === "0.0.0.0" || name === "[::]" ? "127.0.0.1" : name}:${address.port}`;

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (await tidings.handle(request, response)) return;
    closeWhenSlow(request, response);
    const forbidden = findForbidden(request, guard);
    if (forbidden !== undefined) {
      return sendJson(response, 403, {
        error: info("FORBIDDEN", forbidden, "Open the page at its own address."),
      });
    }
    allowOrigin(request, response);
    const path = (request.url ?? "/").split("?", 1)[0];
    const route = `${request.method === "HEAD" ? "GET" : request.method} ${path}`;
    switch (route) {
      case "GET /":
        return sendPage(response, auth !== undefined);
      case "GET /healthz":
        return sendHealth(response);
      case "GET /examples/employees-2000.csv":
        response.writeHead(200, { "content-type": "text/csv; charset=utf-8" });
        createReadStream(EXAMPLE)
          .on("error", () => response.destroy())
          .pipe(response);
        return;
      case "OPTIONS /uploads":
        response.writeHead(204, {
          "access-control-allow-methods": "POST",
          "access-control-allow-headers": auth === undefined ? "content-type" : "authorization, content-type",
        });
        return void response.end();
      case "POST /uploads":
        return receiveUpload(request, response);
      default:
        if (path !== undefined && Object.hasOwn(METHODS, path)) {
          response.setHeader("allow", METHODS[path] ?? "");
          const message = `${request.method} is not possible here; ${METHODS[path]} are.`;
          return sendJson(response, 405, {
            error: info("METHOD_NOT_ALLOWED", message, "Use one of these methods."),
          });
        }
        return sendJson(response, 404, {
          error: info("NOT_FOUND", "Nothing is served at this address.", "The page is at /, MCP at /mcp."),
        });
    }
  }

  function sendHealth(response: ServerResponse): void {
    const health = app.tidings.health();
    const answer = { ...health, store: app.tidings.store, version: VERSION };
    sendJson(response, health.status === "ok" ? 200 : 503, answer);
  }

  async function receiveUpload(request: IncomingMessage, response: ServerResponse): Promise<void> {
    // Of those who may not upload nothing more is taken.
    response.setHeader("connection", "close");
    const owner = await tidings.identify(request, response);
    if (owner === undefined) return void request.resume();
    response.removeHeader("connection");
    const { "content-type": type = "", "content-encoding": encoding = "identity" } = request.headers;
    if (type.startsWith("multipart/") || encoding !== "identity") {
      throw new TidingsError(
        "BAD_INPUT",
        "The body of POST /uploads is the file itself, neither a form nor compressed.",
        {
          hint: "Send it raw: curl --data-binary @employees.csv …/uploads",
        },
      );
    }
    // A file that cannot be kept ends the reading, not the connection: that carries the answer.
    const source = request.iterator({ destroyOnReturn: false });
    const declaredBytes = Number(request.headers["content-length"] ?? 0);
    const upload = await app.uploads.receive(owner, source, declaredBytes);
    const uploadId = await app.uploads.grant(owner, upload);
    sendJson(response, 201, { uploadId, ...upload });
  }

  return {
    url,
    async close() {
      const stopped = new Promise<void>((resolve) => server.close(() => resolve()));
      await tidings.close();
      server.closeIdleConnections();
      // What still hangs on after its stream was ended is a client that does not read.
      server.closeAllConnections();
      await stopped;
    },
  };
}

/** Whoever reaches a server without sign-in reads and stops everybody's jobs: that is meant for this machine only. */
function checkExposure({
  host,
  auth,
  allowAnonymous,
}: Pick<Config, "host" | "auth" | "allowAnonymous">): void {
  if (auth !== undefined || allowAnonymous) return;
  if (/^(?:localhost|127(?:\.\d{1,3}){3}|\[?::1\]?)$/i.test(host)) return;
  throw new TidingsError(
    "BAD_CONFIG",
    `HOST is "${host}", which other machines may reach, and nobody would have to sign in.`,
    {
      hint: "Set TIDINGS_AUTH_ISSUER, TIDINGS_AUTH_AUDIENCE and TIDINGS_AUTH_JWKS, or TIDINGS_ALLOW_ANONYMOUS=1 where something in front lets only the right people in.",
    },
  );
}

function accessOf(auth: AuthConfig | undefined): AccessOptions {
  if (auth === undefined) return {};
  const { issuer, audience } = auth;
  // An audience that is an address is the resource's own name, as MCP wants it: then clients can find their way alone.
  const isAddress = /^https?:\/\//i.test(audience) && URL.canParse(audience);
  return {
    auth: createBearerVerifier(auth),
    ...(isAddress ? { resource: { url: audience, authorizationServers: [issuer], name: "GiftGenius" } } : {}),
  };
}

function listen(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => {
      reject(
        error.code === "EADDRINUSE"
          ? new TidingsError("PORT_IN_USE", `Port ${port} on ${host} is already in use.`, {
              hint: "Stop the other program, or choose another port by PORT.",
            })
          : new TidingsError("ADDRESS_UNUSABLE", `Cannot listen on ${host}:${port}: ${error.message}.`),
      );
    });
    server.listen(port, host, resolve);
  });
}

function sendPage(response: ServerResponse, asksForToken: boolean): void {
  response.writeHead(200, {
    "content-type": "text/html; charset=utf-8",
    "cache-control": "no-cache",
    "content-security-policy":
      "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
  });
  response.end(renderPage({ serverUrl: "", asksForToken }));
}

function sendJson(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, {
    "content-type": "application/json; charset=utf-8",
    "cache-control": "no-store",
  });
  response.end(JSON.stringify(body));
}

/** The guard has let the page pass: it may read the answer too. */
function allowOrigin({ headers: { origin } }: IncomingMessage, response: ServerResponse): void {
  response.setHeader("vary", "Origin");
  if (origin === undefined) return;
  response.setHeader("access-control-allow-origin", origin);
  response.setHeader("access-control-expose-headers", "WWW-Authenticate, Retry-After, Allow");
}

function answerError(request: IncomingMessage, response: ServerResponse, error: unknown): void {
  // Nobody is there any more to be told, and nothing is wrong.
  if (request.destroyed && !request.complete) return void response.destroy();
  // What was not read of a body stands in the way of the next request: the connection cannot be used again.
  if (!request.complete && !response.headersSent) response.setHeader("connection", "close");
  sendError(response, error);
  request.resume();
}

function info(code: string, message: string, hint: string): ErrorInfo {
  return { code, message, hint, retryable: false };
}
