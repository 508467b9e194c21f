/** An authorization server for tests: real keys, real signatures, a real address for its keys. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { CryptoKey, JWTPayload } from "jose";
import { exportJWK, generateKeyPair, SignJWT } from "jose";

export const ISSUER = "https://login.example";
export const AUDIENCE = "https://gifts.example/mcp";

export interface Key {
  readonly kid: string | undefined;
  readonly alg: string;
  readonly privateKey: CryptoKey;
  /** The public half, as it stands in a key set. */
  readonly jwk: object;
}

export async function createKey(kid: string | undefined, alg = "ES256"): Promise<Key> {
  const { publicKey, privateKey } = await generateKeyPair(alg, { extractable: true });
  const jwk = { ...(await exportJWK(publicKey)), alg, use: "sig", ...(kid === undefined ? {} : { kid }) };
  return { kid, alg, privateKey, jwk };
}

export interface TokenOptions {
  readonly claims?: JWTPayload;
  /** Seconds since 1970. Default: an hour from now. */
  readonly exp?: number | undefined;
  /** The header's `typ`. Default: none. */
  readonly typ?: string;
  /** Claims to leave out. */
  readonly without?: readonly string[];
}

/** A token of a person, by `key`. */
export function sign(key: Key, sub: string, options: TokenOptions = {}): Promise<string> {
  const payload: JWTPayload = {
    iss: ISSUER,
    aud: AUDIENCE,
    sub,
    exp: Math.floor(Date.now() / 1000) + 3600,
    ...options.claims,
  };
  for (const name of options.without ?? []) delete payload[name];
  return new SignJWT(payload)
    .setProtectedHeader({
      alg: key.alg,
      ...(key.kid === undefined ? {} : { kid: key.kid }),
      ...(options.typ === undefined ? {} : { typ: options.typ }),
    })
    .sign(key.privateKey);
}

export interface KeyServer {
  readonly url: URL;
  /** What is served from now on; undefined = status 500. */
  keys: readonly object[] | undefined;
  /** How often the keys were fetched. */
  readonly fetches: number;
  close(): Promise<void>;
}

export async function serveKeys(keys: readonly object[]): Promise<KeyServer> {
  let fetches = 0;
  const server = createServer((_req, res) => {
    fetches++;
    if (served.keys === undefined) res.writeHead(500).end();
    else
      res.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify({ keys: served.keys }));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const served: KeyServer = {
    url: new URL(`http://127.0.0.1:${port}/keys`),
    keys,
    get fetches() {
      return fetches;
    },
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
  return served;
}

/** A token whose payload is put together by hand, signature and all. */
export function forge(header: object, payload: object, signature = ""): string {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  return `${part(header)}.${part(payload)}.${signature}`;
}
