/**
 * Tokens for one job: for browsers, whose `EventSource` cannot send headers, and for widgets, which should not hold more
 * than they show.
 *
 *   "tjt_" + base64url( nonce 12 │ AES-256-GCM( [owner, expiresAt, mayCancel] ) │ tag 16 ),  job id as associated data
 *
 * The keys follow from the store's secret, so every process on the store accepts them, and nothing needs to be
 * remembered. The nonce follows from the content: equal tokens are equal texts, and no two contents share a nonce.
 */
import { createCipheriv, createDecipheriv, createHmac, hkdfSync } from "node:crypto";
import { systemClock } from "../../engine/system-clock.ts";
import type { Clock } from "../../model/clock.ts";
import { toTimestamp } from "../../model/clock.ts";
import type { Tidings } from "../../runtime/tidings.ts";

/** Where the answers of start tools and of `get_job` carry `{ token, expiresAt }` for callers that have signed in. */
export const JOB_TOKEN_META_KEY = "dev.tidings/jobToken";

export const JOB_TOKEN_PREFIX = "tjt_";

export interface JobToken {
  readonly token: string;
  /** RFC 3339. From then on the token is refused. */
  readonly expiresAt: string;
}

/** What a token stands for. */
export interface JobGrant {
  readonly owner: string;
  /** The job may be canceled too, not only read. */
  readonly mayCancel: boolean;
  /** Milliseconds since 1970. */
  readonly expiresAtMs: number;
}

export interface JobTokens {
  /**
   * Makes a token for one job of one owner. It says nothing about whether that owner has such a job: with a token for
   * another's job nothing is found.
   *
   * @param options - `lifetimeMs`: default one hour. `mayCancel`: default false.
   */
  mint(
    owner: string,
    jobId: string,
    options?: { readonly lifetimeMs?: number; readonly mayCancel?: boolean },
  ): JobToken;
  /** What the token is good for, now and for this job; undefined for every other text. */
  open(token: string, jobId: string): JobGrant | undefined;
}

const HOUR_MS = 3_600_000;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const LONGEST_TOKEN = 8_192;

/** @param clock - What expiry is measured by. Default: the machine's clock. */
export function createJobTokens(tidings: Tidings, clock: Pick<Clock, "now"> = systemClock): JobTokens {
  const { encryption, authentication } = keysOf(tidings);
  return {
    mint(owner, jobId, { lifetimeMs = HOUR_MS, mayCancel = false } = {}) {
      const expiresAtMs = Math.floor(clock.now() + lifetimeMs);
      const content = JSON.stringify([owner, expiresAtMs, mayCancel]);
      const nonce = createHmac("sha256", authentication)
        .update(JSON.stringify([content, jobId]))
        .digest()
        .subarray(0, NONCE_BYTES);
      const cipher = createCipheriv("aes-256-gcm", encryption, nonce).setAAD(Buffer.from(jobId));
      const sealed = Buffer.concat([nonce, cipher.update(content, "utf8"), cipher.final()]);
      const token = Buffer.concat([sealed, cipher.getAuthTag()]).toString("base64url");
      return { token: JOB_TOKEN_PREFIX + token, expiresAt: toTimestamp(expiresAtMs) };
    },

    open(token, jobId) {
      if (!token.startsWith(JOB_TOKEN_PREFIX) || token.length > LONGEST_TOKEN) return undefined;
      const text = token.slice(JOB_TOKEN_PREFIX.length);
      const sealed = Buffer.from(text, "base64url");
      // The last character may hold unused bits, and other characters are passed over: two texts must not mean one token.
      if (sealed.toString("base64url") !== text || sealed.length <= NONCE_BYTES + TAG_BYTES) return undefined;
      const content = decrypt(encryption, sealed, jobId);
      if (content === undefined) return undefined;
      const [owner, expiresAtMs, mayCancel] = JSON.parse(content) as [string, number, boolean];
      return clock.now() < expiresAtMs ? { owner, mayCancel, expiresAtMs } : undefined;
    },
  };
}

function decrypt(key: Uint8Array, sealed: Buffer, jobId: string): string | undefined {
  const nonce = sealed.subarray(0, NONCE_BYTES);
  const decipher = createDecipheriv("aes-256-gcm", key, nonce, { authTagLength: TAG_BYTES })
    .setAAD(Buffer.from(jobId))
    .setAuthTag(sealed.subarray(-TAG_BYTES));
  const content = decipher.update(sealed.subarray(NONCE_BYTES, -TAG_BYTES));
  try {
    return Buffer.concat([content, decipher.final()]).toString("utf8");
  } catch {
    return undefined;
  }
}

interface Keys {
  readonly encryption: Uint8Array;
  readonly authentication: Uint8Array;
}

const KEYS = new WeakMap<Tidings, Keys>();

/** The empty owner has no requests, so what is sealed for it is known to nobody outside the store. */
function keysOf(tidings: Tidings): Keys {
  let keys = KEYS.get(tidings);
  if (keys === undefined) {
    const secret = tidings.sealPage("", "job-token", 0);
    const bytes = new Uint8Array(hkdfSync("sha256", secret, "", "dev.tidings/job-token", 64));
    keys = { encryption: bytes.subarray(0, 32), authentication: bytes.subarray(32) };
    KEYS.set(tidings, keys);
  }
  return keys;
}
