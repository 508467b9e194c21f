/** The environment, read once, refused with a sentence. */
import { dirname, join, resolve } from "node:path";
import { TidingsError } from "tidings";

export interface Config {
  readonly host: string;
  readonly port: number;
  /** `sqlite:PATH` or `memory:`. */
  readonly store: string;
  readonly leaseMs: number;
  /** How long ended jobs are kept. */
  readonly retentionMs: number;
  /** How much the store may hold before the oldest ended jobs go. */
  readonly retentionBytes: number;
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
    retentionBytes: wholeNumber(env, "TIDINGS_RETENTION_BYTES", 2 ** 30, 2 ** 20, 2 ** 50),
    uploadsFolder: file === undefined ? undefined : join(dirname(resolve(file)), "uploads"),
    catalogueFolder: env.GIFTGENIUS_CATALOGUE || undefined,
    matchLog: env.GIFTGENIUS_MATCH_LOG || undefined,
    allowedHosts: listOf(env.TIDINGS_ALLOWED_HOSTS),
    allowedOrigins: listOf(env.TIDINGS_ALLOWED_ORIGINS),
  };
}

function listOf(text: string | undefined): readonly string[] | undefined {
  const entries = (text ?? "").split(",").map((entry) => entry.trim().toLowerCase());
  const list = entries.filter((entry) => entry !== "");
  return list.length === 0 ? undefined : list;
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
