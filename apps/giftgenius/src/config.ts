/** The environment, read once, refused with a sentence. */
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { TidingsError } from "tidings";
import type { UploadLimits } from "./upload-folder.ts";
import { UPLOAD_LIMITS } from "./uploads.ts";

/** Whose tokens are accepted; see `createBearerVerifier`. */
export interface AuthConfig {
  readonly issuer: string;
  readonly audience: string;
  /** An address or a file. */
  readonly jwks: string;
}

export interface Config {
  readonly host: string;
  readonly port: number;
  /** `sqlite:PATH` or `memory:`. */
  readonly store: string;
  readonly leaseMs: number;
  /** How long ended jobs are kept. */
  readonly retentionMs: number;
  /** How much the store may hold before ended jobs go, of the owners that keep the most. */
  readonly retentionBytes: number;
  /** How much room uploaded files may take. */
  readonly uploadLimits: UploadLimits;
  /** Where uploaded files are kept: beside the store; undefined = a temporary folder that goes with the process. */
  readonly uploadsFolder: string | undefined;
  /** Folder of the gift catalogue; undefined = the one that comes with the application. */
  readonly catalogueFolder: string | undefined;
  /** A file that gets one line per match, for those who want to count the work outside the store. */
  readonly matchLog: string | undefined;
  /** Host names that requests may name beside the loopback ones; on another address than loopback the only ones. */
  readonly allowedHosts: readonly string[] | undefined;
  /** Origins of other sites whose pages may use this server; `null` = frames without an origin. */
  readonly allowedOrigins: readonly string[] | undefined;
  /** Undefined = nobody signs in, and everybody who reaches the server is one owner. */
  readonly auth: AuthConfig | undefined;
  /** Nobody has to sign in although other machines reach the server. */
  readonly allowAnonymous: boolean;
}

/** @throws TidingsError BAD_CONFIG, a sentence that names the variable. */
export function readConfig(env: NodeJS.ProcessEnv): Config {
  const store = env.TIDINGS_STORE || "sqlite:./data/giftgenius.db";
  const file = store.startsWith("sqlite:") ? store.slice("sqlite:".length) : undefined;
  return {
    host: env.HOST || "127.0.0.1",
    port: wholeNumber(env, "PORT", 3000, 0, 65_535),
    store,
    leaseMs: wholeNumber(env, "TIDINGS_LEASE_MS", 10_000, 100, 3_600_000),
    retentionMs: wholeNumber(env, "TIDINGS_RETENTION_HOURS", 168, 1, 876_000) * 3_600_000,
    retentionBytes: bytesOf(env, "TIDINGS_RETENTION_BYTES", 2 ** 30),
    uploadLimits: {
      bytes: bytesOf(env, "GIFTGENIUS_UPLOAD_BYTES", UPLOAD_LIMITS.bytes),
      bytesPerOwner: bytesOf(env, "GIFTGENIUS_UPLOAD_BYTES_PER_OWNER", UPLOAD_LIMITS.bytesPerOwner),
    },
    uploadsFolder: file === undefined ? undefined : join(dirname(resolve(file)), "uploads"),
    catalogueFolder: env.GIFTGENIUS_CATALOGUE || undefined,
    matchLog: env.GIFTGENIUS_MATCH_LOG || undefined,
    allowedHosts: listOf(env.TIDINGS_ALLOWED_HOSTS),
    allowedOrigins: listOf(env.TIDINGS_ALLOWED_ORIGINS),
    auth: authOf(env),
    allowAnonymous: yesOrNo(env, "TIDINGS_ALLOW_ANONYMOUS"),
  };
}

function authOf(env: NodeJS.ProcessEnv): AuthConfig | undefined {
  const {
    TIDINGS_AUTH_ISSUER: issuer = "",
    TIDINGS_AUTH_AUDIENCE: audience = "",
    TIDINGS_AUTH_JWKS: jwks = "",
  } = env;
  if (`${issuer}${audience}${jwks}` === "") return undefined;
  const all = { TIDINGS_AUTH_ISSUER: issuer, TIDINGS_AUTH_AUDIENCE: audience, TIDINGS_AUTH_JWKS: jwks };
  const missing = Object.entries(all).flatMap(([name, value]) => (value === "" ? [name] : []));
  if (missing.length > 0) {
    throw new TidingsError(
      "BAD_CONFIG",
      `${missing.join(" and ")} ${missing.length === 1 ? "is" : "are"} missing: signing in needs all of ${Object.keys(all).join(", ")}, or none.`,
    );
  }
  const fault = faultOfKeys(jwks);
  if (fault !== undefined) throw new TidingsError("BAD_CONFIG", `TIDINGS_AUTH_JWKS is "${jwks}": ${fault}.`);
  return { issuer, audience, jwks };
}

/** What is wrong with where the keys are; an address is asked only when the first token comes. */
function faultOfKeys(jwks: string): string | undefined {
  if (/^https?:\/\//i.test(jwks)) {
    if (!URL.canParse(jwks)) return "this is no complete address";
    const { protocol, hostname } = new URL(jwks);
    const isLocal = ["localhost", "127.0.0.1", "[::1]"].includes(hostname);
    return protocol === "https:" || isLocal ? undefined : "keys need https, or http on loopback";
  }
  if (!existsSync(jwks)) return "neither an address nor a file";
  try {
    if (Array.isArray(JSON.parse(readFileSync(jwks, "utf8")).keys)) return undefined;
  } catch {}
  return "this is not a readable JSON file with `keys`";
}

function yesOrNo(env: NodeJS.ProcessEnv, name: string): boolean {
  const text = env[name] ?? "";
  if (/^(?:1|true|yes)$/i.test(text)) return true;
  if (/^(?:0|false|no)?$/i.test(text)) return false;
  throw new TidingsError("BAD_CONFIG", `${name} is "${text}", but must be 1 or 0.`);
}

function listOf(text: string | undefined): readonly string[] | undefined {
  const entries = (text ?? "").split(",").map((entry) => entry.trim().toLowerCase());
  const list = entries.filter((entry) => entry !== "");
  return list.length === 0 ? undefined : list;
}

function bytesOf(env: NodeJS.ProcessEnv, name: string, fallback: number): number {
  return wholeNumber(env, name, fallback, 2 ** 20, 2 ** 50);
}

function wholeNumber(
  env: NodeJS.ProcessEnv,
  name: string,
  fallback: number,
  min: number,
  max: number,
): number {
  const text = env[name];
  if (text === undefined || text === "") return fallback;
  const value = Number(text);
  if (Number.isInteger(value) && value >= min && value <= max) return value;
  throw new TidingsError(
    "BAD_CONFIG",
    `${name} is "${text}", but must be a whole number from ${min} to ${max}.`,
  );
}
