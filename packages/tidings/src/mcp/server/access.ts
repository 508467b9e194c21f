/**
 * Who may make a request, and whose it is.
 *
 *   request ──┬── names one job, and brings a token for a job ──▶ that job's owner
 *             ├── `req.auth` of your own middleware ──┐
 *             ├── Authorization: Bearer ──▶ verifier ─┼──▶ scopes ──▶ owner
 *             └── neither, and no verifier ───────────┘  (one local owner)
 *
 * Everybody else is answered 401 or 403 with a challenge that says where tokens come from.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AuthInfo } from "@modelcontextprotocol/server";
import {
  bearerAuthChallengeResponse,
  getOAuthProtectedResourceMetadataUrl,
  OAuthError,
  OAuthErrorCode,
} from "@modelcontextprotocol/server";
import type { Clock } from "../../model/clock.ts";
import { TidingsError } from "../../model/error.ts";
import type { TokenVerifier } from "./bearer.ts";
import type { Route } from "./http-route.ts";
import type { JobTokens } from "./job-token.ts";
import { JOB_TOKEN_PREFIX } from "./job-token.ts";
import type { OwnerOf } from "./owner.ts";

/** Tells clients that have no token where they can get one (RFC 9728). */
export interface ProtectedResource {
  /** The public address of the MCP endpoint, as clients know it; the audience of their tokens. */
  readonly url: string;
  /** The issuers of its tokens. */
  readonly authorizationServers: readonly string[];
  /** The scopes that exist. Default: the required ones. */
  readonly scopes?: readonly string[];
  /** The server's name for people. Default: none. */
  readonly name?: string;
  /** A page for programmers. Default: none. */
  readonly documentationUrl?: string;
}

/** Who may use the server. Without `auth`, everybody who reaches it is one owner: meant for loopback. */
export interface AccessOptions {
  /** Verifies `Authorization: Bearer` on every path; a request without a valid token is answered with 401. Default: none. */
  readonly auth?: TokenVerifier;
  /** Scopes that a token must have, or it is answered with 403. Default: none. */
  readonly requiredScopes?: readonly string[];
  /** Served under `/.well-known/oauth-protected-resource…`, and named in every 401 and 403. Default: none. */
  readonly resource?: ProtectedResource;
}

export interface Identity {
  readonly owner: string;
  /** Undefined for local requests and for a token of a job. */
  readonly authInfo: AuthInfo | undefined;
  /** Milliseconds since 1970; undefined when nothing expires. */
  readonly expiresAtMs: number | undefined;
}

export interface Access {
  /** Where the metadata is served; undefined when there is none. */
  readonly metadataPath: string | undefined;
  readonly metadata: object;
  /**
   * Whose request it is. A refusal has put its challenge on the response already.
   *
   * @param route - Undefined for addresses of the application's own.
   * @throws TidingsError UNAUTHENTICATED, INSUFFICIENT_SCOPE, AUTH_UNAVAILABLE
   */
  identify(
    req: IncomingMessage & { readonly auth?: AuthInfo },
    res: ServerResponse,
    route?: Route,
  ): Promise<Identity>;
  /** Ends what is answered to a request some time after its token has expired. */
  endAfter(identity: Identity, res: ServerResponse): void;
}

/** Clocks may differ, and a token that was accepted shortly before its end must not be cut at once. */
const GRACE_MS = 60_000;
const BEARER = /^Bearer +([\w~+/.-]+=*) *$/i;

export function createAccess(
  options: AccessOptions & {
    readonly ownerOf: OwnerOf;
    readonly tokens: JobTokens;
    readonly clock: Clock;
    readonly onError: (error: unknown, during: string) => void;
  },
): Access {
  const { auth: verify, requiredScopes = [], resource, ownerOf, tokens, clock, onError } = options;
  const metadataUrl =
    resource === undefined ? undefined : getOAuthProtectedResourceMetadataUrl(urlOf(resource));

  function challenge(error: unknown, res: ServerResponse): void {
    if (!(error instanceof TidingsError)) return;
    const code = CHALLENGES[error.code];
    if (code === undefined) return;
    const answer = bearerAuthChallengeResponse(new OAuthError(code, error.message), {
      requiredScopes: [...requiredScopes],
      ...(metadataUrl === undefined ? {} : { resourceMetadataUrl: metadataUrl }),
    });
    res.setHeader("WWW-Authenticate", answer.headers.get("www-authenticate") ?? "Bearer");
  }

  async function verified(
    req: IncomingMessage & { readonly auth?: AuthInfo },
  ): Promise<AuthInfo | undefined> {
    if (verify === undefined || req.auth !== undefined) return req.auth;
    const token = bearerOf(req);
    if (token === undefined) {
      throw new TidingsError("UNAUTHENTICATED", "This server needs a token, and the request has none.", {
        hint: "Send it as Authorization: Bearer.",
      });
    }
    // A token of a job is good for that job's addresses only, whatever a verifier would make of it.
    const authInfo = token.startsWith(JOB_TOKEN_PREFIX) ? undefined : await verify(token, req);
    if (authInfo === undefined || !((authInfo.expiresAt ?? Infinity) * 1000 + GRACE_MS > clock.now()))
      throw unusable();
    return authInfo;
  }

  /** Undefined when the request brings no token of a job. */
  function granted(req: IncomingMessage, route: Route | undefined): Identity | undefined {
    if (route === undefined || !("jobId" in route)) return undefined;
    const bearer = bearerOf(req);
    const token =
      route.query.get("token") ?? (bearer?.startsWith(JOB_TOKEN_PREFIX) === true ? bearer : undefined);
    if (token === undefined) return undefined;
    const grant = tokens.open(token, route.jobId);
    if (grant === undefined) throw unusable();
    if (route.kind === "job-cancel" && !grant.mayCancel) {
      throw new TidingsError("INSUFFICIENT_SCOPE", "The token is good for reading this job only.", {
        hint: "Cancel it with the tool cancel_job.",
      });
    }
    return { owner: grant.owner, authInfo: undefined, expiresAtMs: grant.expiresAtMs };
  }

  return {
    metadataPath: metadataUrl === undefined ? undefined : new URL(metadataUrl).pathname,
    metadata: resource === undefined ? {} : toMetadata(resource, requiredScopes),
    async identify(req, res, route) {
      try {
        const grant = granted(req, route);
        if (grant !== undefined) return grant;
        const authInfo = await verified(req);
        if (authInfo !== undefined) checkScopes(authInfo, requiredScopes);
        const expiresAtMs = authInfo?.expiresAt === undefined ? undefined : authInfo.expiresAt * 1000;
        return { owner: ownerOf({ authInfo }), authInfo, expiresAtMs };
      } catch (error) {
        if (error instanceof TidingsError && error.code === "AUTH_UNAVAILABLE")
          onError(error.cause ?? error, "verifying a token");
        challenge(error, res);
        throw error;
      }
    },
    endAfter({ expiresAtMs }, res) {
      if (expiresAtMs === undefined || res.destroyed) return;
      const wait = Math.max(0, expiresAtMs - clock.now()) + GRACE_MS;
      // Whoever resumes is asked for a new token; its cursor stays good.
      const stop = clock.after(wait, () => res.destroy());
      res.once("close", stop);
    },
  };
}

const CHALLENGES: Readonly<Record<string, OAuthErrorCode>> = {
  UNAUTHENTICATED: OAuthErrorCode.InvalidToken,
  INSUFFICIENT_SCOPE: OAuthErrorCode.InsufficientScope,
};

function bearerOf({ headers }: IncomingMessage): string | undefined {
  return BEARER.exec(headers.authorization ?? "")?.[1];
}

function checkScopes({ scopes }: AuthInfo, required: readonly string[]): void {
  const missing = required.filter((scope) => !scopes.includes(scope));
  if (missing.length === 0) return;
  throw new TidingsError("INSUFFICIENT_SCOPE", `The token lacks the scope ${missing.join(", ")}.`, {
    hint: "Get a token with that scope.",
  });
}

function urlOf({ url }: ProtectedResource): URL {
  if (URL.canParse(url)) return new URL(url);
  throw new TidingsError(
    "BAD_DEFINITION",
    `The resource's url is ${JSON.stringify(url)}, which is no address.`,
    {
      hint: "Give the public address of the MCP endpoint, such as https://gifts.example/mcp.",
    },
  );
}

function toMetadata(resource: ProtectedResource, requiredScopes: readonly string[]): object {
  const { url, authorizationServers, scopes = requiredScopes, name, documentationUrl } = resource;
  return {
    resource: url,
    authorization_servers: authorizationServers,
    bearer_methods_supported: ["header"],
    ...(scopes.length === 0 ? {} : { scopes_supported: scopes }),
    ...(name === undefined ? {} : { resource_name: name }),
    ...(documentationUrl === undefined ? {} : { resource_documentation: documentationUrl }),
  };
}

function unusable(): TidingsError {
  return new TidingsError("UNAUTHENTICATED", "The token was not accepted here.", {
    hint: "It may have expired, or belong to another server or job: get a new one.",
  });
}
