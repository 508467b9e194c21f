/** A key pair in a folder, and tokens that it signs: what stands in for an authorization server during development. */
import type { KeyObject } from "node:crypto";
import { createHash, createPrivateKey, createPublicKey, generateKeyPairSync, sign } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

export const DEV_ISSUER = "giftgenius-dev";
export const DEV_AUDIENCE = "giftgenius";

export interface DevKeys {
  readonly privateKey: KeyObject;
  readonly kid: string;
  /** The public half, for `TIDINGS_AUTH_JWKS`. */
  readonly jwksPath: string;
}

/** Makes the key pair when the folder has none; the private half is readable for its owner only. */
export async function openDevKeys(folder: string): Promise<DevKeys> {
  const path = join(folder, "private.pem");
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const pem = privateKey.export({ type: "pkcs8", format: "pem" });
  // Of two commands at once, the first one's key is everybody's.
  await writeFile(path, pem, { mode: 0o600, flag: "wx" }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "EEXIST") throw error;
  });
  const key = createPrivateKey(await readFile(path));
  const jwk = createPublicKey(key).export({ format: "jwk" });
  const kid = createHash("sha256").update(JSON.stringify(jwk)).digest("base64url").slice(0, 16);
  const jwksPath = join(folder, "jwks.json");
  await writeFile(jwksPath, `${JSON.stringify({ keys: [{ ...jwk, kid, alg: "ES256", use: "sig" }] })}\n`);
  return { privateKey: key, kid, jwksPath };
}

/** An access token for a person, as an authorization server would issue it. */
export function signDevToken(
  { privateKey, kid }: DevKeys,
  sub: string,
  lifetimeSeconds: number,
  nowMs: number = Date.now(),
): string {
  const iat = Math.floor(nowMs / 1000);
  const header = { alg: "ES256", typ: "at+jwt", kid };
  const claims = { iss: DEV_ISSUER, aud: DEV_AUDIENCE, sub, iat, exp: Math.floor(iat + lifetimeSeconds) };
  const unsigned = [header, claims]
    .map((part) => Buffer.from(JSON.stringify(part)).toString("base64url"))
    .join(".");
  const signature = sign("sha256", Buffer.from(unsigned), { key: privateKey, dsaEncoding: "ieee-p1363" });
  return `${unsigned}.${signature.toString("base64url")}`;
}
