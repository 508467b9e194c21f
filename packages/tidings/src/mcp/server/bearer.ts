/**
 * Bearer tokens that an authorization server signed.
 *
 *   token ──▶ whose issuer? ──▶ signature by that issuer's keys ──▶ audience, times, kind ──▶ AuthInfo { extra: { iss, sub } }
 *
 * Keys are read when the first token comes, kept for ten minutes, and read again (every 30 seconds at most) when a token
 * names one that is not among them: so an issuer can change its keys at any time. The library that does the cryptography
 * is loaded with the first token.
 */
import { readFile } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { fileURLToPath, pathToFileURL } from "node:url";
import type { AuthInfo } from "@modelcontextprotocol/server";
import type { JSONWebKeySet, JWTPayload, JWTVerifyGetKey, JWTVerifyResult } from "jose";
import { systemClock } from "../../engine/system-clock.ts";
import type { Clock } from "../../model/clock.ts";
import { TidingsError } from "../../model/error.ts";

/**
 * Says who sent a token; undefined for a token that it does not accept, which the client is told as 401. What it throws
 * is a fault and answers 500, except for a TidingsError, whose code says its status.
 */
export type TokenVerifier = (
  token: string,
  request: IncomingMessage,
) => AuthInfo | undefined | Promise<AuthInfo | undefined>;

/** Whose tokens are accepted, and for whom they must have been issued. */
export interface BearerIssuer {
  /** The token's `iss`, compared exactly. */
  readonly issuer: string;
  /** What the token's `aud` must name; several: one of them. Usually the public address of your MCP endpoint. */
  readonly audience: string | readonly string[];
  /**
   * The issuer's public keys: their address (`https:`, or `http:` on loopback), the path of a file, or the key set itself.
   */
  readonly jwks: URL | string | { readonly keys: readonly object[] };
  /** Which signatures are accepted. Default: RSA, elliptic curves and Edwards curves, as JOSE names them. Never `none`, never a shared secret. */
  readonly algorithms?: readonly string[];
  /**
   * Which kinds of token are accepted, by the `typ` of their header; `JWT` includes tokens without one. Default `at+jwt`
   * and `JWT`, because many issuers do not write RFC 9068's `at+jwt`; of the latter those are refused that say by their
   * claims that they are ID, refresh or logout tokens. An ID token without any such claim looks like an access token: set
   * `["at+jwt"]` where the issuer writes it, or an audience that is no client's id.
   */
  readonly types?: readonly string[];
  /** By how many seconds the clocks of issuer and server may differ. Default 10. */
  readonly clockToleranceSeconds?: number;
  /** What the token's times are compared with. Default: the machine's clock. */
  readonly clock?: Pick<Clock, "now">;
}

type Jose = typeof import("jose");

const ALGORITHMS: readonly string[] = [
  "RS256",
  "RS384",
  "RS512",
  "PS256",
  "PS384",
  "PS512",
  "ES256",
  "ES384",
  "ES512",
  "EdDSA",
  "Ed25519",
];

const TYPES: readonly string[] = ["at+jwt", "JWT"];

/** Failures that speak of the token; all others speak of the issuer's keys, which is an outage. */
const TOKEN_FAULTS = /^ERR_(?:JWT_|JWS_|JWKS_NO_MATCHING|JWKS_MULTIPLE|JOSE_ALG|JOSE_NOT_SUPPORTED)/;

let library: Promise<Jose> | undefined;
function loadJose(): Promise<Jose> {
  library ??= import("jose");
  return library;
}

/**
 * Verifies JWT access tokens: signature, issuer, audience, times and kind. `exp` and `sub` must be there.
 *
 * The answer has `clientId` (`client_id`, `azp` or the subject), `scopes` (`scope` or `scp`), `expiresAt`, and
 * `extra { iss, sub }`, by which `defaultOwner` names an owner. Opaque tokens need a verifier of your own.
 *
 * @param issuers - One or several; a token is checked against the keys of the issuer that it names, and no other's.
 * @throws TidingsError BAD_DEFINITION when an issuer is described wrongly. The verifier throws UNAUTHENTICATED for a token
 *   that is not accepted, and AUTH_UNAVAILABLE while the issuer's keys cannot be read.
 */
export function createBearerVerifier(...issuers: readonly BearerIssuer[]): TokenVerifier {
  const byName = new Map(issuers.map((issuer) => [issuer.issuer, checked(issuer)]));
  if (byName.size !== issuers.length || byName.size === 0) {
    throw badDefinition("createBearerVerifier needs at least one issuer, and each of them once.");
  }
  return async (token) => {
    const jose = await loadJose();
    const check = byName.get(issuerOf(jose, token) ?? "");
    if (check === undefined) throw notAccepted("its issuer is not one that this server trusts");
    try {
      return toAuthInfo(token, await check(jose, token));
    } catch (error) {
      throw toRefusal(error);
    }
  };
}

type Check = (jose: Jose, token: string) => Promise<JWTPayload>;

function checked(options: BearerIssuer): Check {
  const { issuer, audience, jwks, algorithms = ALGORITHMS, clockToleranceSeconds = 10 } = options;
  const { clock = systemClock } = options;
  const audiences = typeof audience === "string" ? [audience] : [...audience];
  if (issuer === "" || audiences.length === 0 || audiences.includes("")) {
    throw badDefinition("A bearer issuer needs `issuer` and `audience`, and neither may be empty.");
  }
  const unsafe = algorithms.find((name) => !/^(?:RS|PS|ES)\d{3}$|^Ed/.test(name));
  if (unsafe !== undefined || algorithms.length === 0) {
    throw badDefinition(
      `The algorithms of ${issuer} are not public-key signatures: ${JSON.stringify(algorithms)}.`,
    );
  }
  const { types = TYPES } = options;
  const kinds = new Set(types.map(kindOf));
  if (kinds.size === 0 || kinds.has("")) {
    throw badDefinition(
      `The types of ${issuer} are ${JSON.stringify(types)}, but must be names such as at+jwt.`,
    );
  }
  const source = sourceOf(jwks);
  let keys: JWTVerifyGetKey | undefined;
  return async (jose, token) => {
    keys ??= openKeys(jose, source);
    const rules = {
      issuer,
      audience: audiences,
      algorithms: [...algorithms],
      clockTolerance: clockToleranceSeconds,
      currentDate: new Date(clock.now()),
      requiredClaims: ["exp", "sub"],
    };
    try {
      return ofKind(kinds, await jose.jwtVerify(token, keys, rules));
    } catch (error) {
      if (!(error instanceof jose.errors.JWKSMultipleMatchingKeys)) throw error;
      // While keys are changed, a token without a key's name may be signed by any of them.
      for await (const key of error) {
        try {
          return ofKind(kinds, await jose.jwtVerify(token, key, rules));
        } catch (attempt) {
          if (!(attempt instanceof jose.errors.JWSSignatureVerificationFailed)) throw attempt;
        }
      }
      throw error;
    }
  };
}

/** Media types mean the same in capitals, and with `application/`. */
function kindOf(type: string): string {
  return type.toLowerCase().replace(/^application\//, "");
}

/** The claims of a token of an accepted kind. */
function ofKind(
  kinds: ReadonlySet<string>,
  { protectedHeader: { typ = "JWT" }, payload }: JWTVerifyResult,
): JWTPayload {
  const kind = kindOf(String(typ));
  if (!kinds.has(kind)) throw notAccepted("its type is not that of an access token");
  // A token that is no more than a JWT may be one for something else.
  const other = kind === "jwt" ? otherKindOf(payload) : undefined;
  if (other !== undefined) throw notAccepted(`it is ${other}, not an access token`);
  return payload;
}

/** Claims of OpenID Connect that only tokens for something else have; some issuers also say the kind outright. */
function otherKindOf({
  typ,
  token_use,
  nonce,
  at_hash,
  c_hash,
  s_hash,
  events,
}: JWTPayload): string | undefined {
  const named = [typ, token_use].find((name) => typeof name === "string");
  switch (named === undefined ? undefined : kindOf(named as string)) {
    case "id":
      return "an ID token";
    case "refresh":
    case "offline":
      return "a refresh token";
    case "logout":
      return "a logout token";
  }
  if (events !== undefined) return "a logout token or another event";
  if ([at_hash, c_hash, s_hash].some((claim) => claim !== undefined)) return "an ID token";
  // Some issuers repeat the sign-in's nonce in access tokens that say what they are.
  return nonce !== undefined && named === undefined ? "an ID token" : undefined;
}

type KeySource = URL | { readonly keys: readonly object[] };

function sourceOf(jwks: BearerIssuer["jwks"]): KeySource {
  if (typeof jwks === "object" && !(jwks instanceof URL)) {
    if (Array.isArray(jwks.keys)) return jwks;
    throw badDefinition("The key set has no `keys`.");
  }
  const isPath = typeof jwks === "string" && !/^https?:\/\//i.test(jwks);
  if (jwks === "" || !(isPath || URL.canParse(jwks))) {
    throw badDefinition(`The keys are at ${JSON.stringify(jwks)}, which is neither an address nor a path.`);
  }
  const url = isPath ? pathToFileURL(jwks) : new URL(jwks);
  const isLocal = ["localhost", "127.0.0.1", "[::1]"].includes(url.hostname);
  if (url.protocol === "https:" || url.protocol === "file:" || (url.protocol === "http:" && isLocal))
    return url;
  throw badDefinition(
    `Keys from ${url.origin} could be exchanged on their way: use https, or http on loopback.`,
  );
}

function openKeys(jose: Jose, source: KeySource): JWTVerifyGetKey {
  if (!(source instanceof URL)) return jose.createLocalJWKSet(source as JSONWebKeySet);
  if (source.protocol !== "file:") return jose.createRemoteJWKSet(source);
  // A file is cached and read again by the same rules as an address.
  const read = async () => new Response(await readFile(fileURLToPath(source)));
  return jose.createRemoteJWKSet(source, { [jose.customFetch]: read });
}

/** What the token claims, before anything is known of it: it only chooses whose keys are tried. */
function issuerOf(jose: Jose, token: string): string | undefined {
  try {
    const { iss } = jose.decodeJwt(token);
    return typeof iss === "string" ? iss : undefined;
  } catch {
    throw notAccepted("it is not a signed JWT");
  }
}

function toAuthInfo(token: string, payload: JWTPayload): AuthInfo {
  const { iss, sub, exp, client_id, azp, scope, scp } = payload;
  if (typeof sub !== "string" || sub === "") throw notAccepted("it names no subject");
  const client = [client_id, azp].find((name) => typeof name === "string" && name !== "");
  const granted = scope ?? scp;
  const scopes = Array.isArray(granted) ? granted : typeof granted === "string" ? granted.split(" ") : [];
  return {
    token,
    clientId: (client as string | undefined) ?? sub,
    scopes: scopes.filter((name) => typeof name === "string" && name !== ""),
    ...(exp === undefined ? {} : { expiresAt: exp }),
    extra: { iss, sub },
  };
}

function toRefusal(error: unknown): unknown {
  if (error instanceof TidingsError) return error;
  const { code = "", claim } = error as { code?: string; claim?: string };
  if (code === "ERR_JWT_EXPIRED") return notAccepted("it has expired");
  if (code === "ERR_JWT_CLAIM_VALIDATION_FAILED") {
    return notAccepted(`its claim "${claim}" is missing or not what this server expects`);
  }
  if (TOKEN_FAULTS.test(code)) return notAccepted("its form or its signature is not valid");
  return new TidingsError("AUTH_UNAVAILABLE", "The keys that tokens are verified with cannot be read.", {
    hint: "Try again in a moment; the operator finds the cause in the server's log.",
    cause: error,
  });
}

function notAccepted(why: string): TidingsError {
  return new TidingsError("UNAUTHENTICATED", `The token was not accepted: ${why}.`, {
    hint: "Get a new token for this server and send it as Authorization: Bearer.",
  });
}

function badDefinition(sentence: string): TidingsError {
  return new TidingsError("BAD_DEFINITION", sentence, {
    hint: "Correct the options of createBearerVerifier.",
  });
}
