/** Tokens of an authorization server: which are accepted, whose they are, and how the others are answered. */
import { createHmac } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createBearerVerifier, defaultOwner } from "tidings/mcp";
import { afterEach, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import type { BearerIssuer, TokenVerifier } from "../../src/mcp/server/bearer.ts";
import { createWorld } from "./http-world.ts";
import type { Key } from "./issuer.ts";
import { AUDIENCE, createKey, forge, ISSUER, serveKeys, sign } from "./issuer.ts";

const REQUEST = {} as IncomingMessage;
const NOW_S = () => Math.floor(Date.now() / 1000);

let key: Key;
let verify: TokenVerifier;
beforeAll(async () => {
  key = await createKey("k1");
  verify = createBearerVerifier({ issuer: ISSUER, audience: AUDIENCE, jwks: { keys: [key.jwk] } });
});

const accepted = async (token: string) => verify(token, REQUEST);
const refused = (token: string, check: TokenVerifier = verify) =>
  expect(Promise.resolve(check(token, REQUEST))).rejects.toMatchObject({ code: "UNAUTHENTICATED" });

describe("a token that was signed for this server", () => {
  it("says who sent it, with which client, scopes and end", async () => {
    const exp = NOW_S() + 100;
    const token = await sign(key, "ann", {
      claims: { exp, client_id: "cli", scope: "jobs:read jobs:write" },
    });
    expect(await accepted(token)).toEqual({
      token,
      clientId: "cli",
      scopes: ["jobs:read", "jobs:write"],
      expiresAt: exp,
      extra: { iss: ISSUER, sub: "ann" },
    });
  });

  it("may list its scopes as `scp`, its client as `azp`, and this server among several audiences", async () => {
    const claims = { scp: ["a", "b"], azp: "web", aud: ["https://other.example", AUDIENCE] };
    expect(await accepted(await sign(key, "ann", { claims }))).toMatchObject({
      clientId: "web",
      scopes: ["a", "b"],
    });
  });

  it.each(["RS256", "PS256", "ES384", "EdDSA"])("may be signed with %s", async (alg) => {
    const other = await createKey("k2", alg);
    const check = createBearerVerifier({ issuer: ISSUER, audience: AUDIENCE, jwks: { keys: [other.jwk] } });
    expect(await check(await sign(other, "ann"), REQUEST)).toMatchObject({ extra: { sub: "ann" } });
  });
});

describe("security 6: every other token is refused", () => {
  it.each([
    ["for another audience", { claims: { aud: "https://other.example/mcp" } }],
    ["without an audience", { without: ["aud"] }],
    ["of another issuer", { claims: { iss: "https://evil.example" } }],
    ["of an issuer that only looks alike", { claims: { iss: `${ISSUER}/` } }],
    ["without an issuer", { without: ["iss"] }],
    ["without an end", { without: ["exp"] }],
    ["that has ended", { claims: { exp: NOW_S() - 60 } }],
    ["that is not valid yet", { claims: { nbf: NOW_S() + 60 } }],
    ["without a subject", { without: ["sub"] }],
    ["with an empty subject", { claims: { sub: "" } }],
    ["whose end is no number", { claims: { exp: "never" as unknown as number } }],
  ])("one %s", async (_what, options) => {
    await refused(await sign(key, "ann", options));
  });

  const claims = () => ({ iss: ISSUER, aud: AUDIENCE, sub: "ann", exp: NOW_S() + 100 });

  it.each(["none", "None", "NONE", ""])("one that is not signed, alg %j", async (alg) => {
    await refused(forge({ alg, kid: "k1" }, claims()));
    await refused(forge({ alg, kid: "k1" }, claims(), "AAAA"));
  });

  it("one that is signed with the public key as if it were a shared secret", async () => {
    const unsigned = forge({ alg: "HS256", kid: "k1" }, claims()).slice(0, -1);
    for (const secret of [JSON.stringify(key.jwk), JSON.stringify({ keys: [key.jwk] }), ""]) {
      const mac = createHmac("sha256", secret || "x")
        .update(unsigned)
        .digest("base64url");
      await refused(`${unsigned}.${mac}`);
    }
  });

  it("one that brings its own key", async () => {
    const own = await createKey("k1");
    await refused(await sign(own, "ann"));
    await refused(await sign({ ...own, kid: undefined }, "ann"));
    const { SignJWT } = await import("jose");
    const header = { alg: "ES256", jwk: own.jwk as never, jku: "https://evil.example/keys" };
    await refused(await new SignJWT(claims()).setProtectedHeader(header).sign(own.privateKey));
  });

  it("one with a single flipped character, wherever it is", async () => {
    const token = await sign(key, "ann");
    // The very last one holds bits that are not used, as base64 has it.
    for (let at = 0; at < token.length - 1; at++) {
      const flipped = token[at] === "A" ? "B" : "A";
      await refused(token.slice(0, at) + flipped + token.slice(at + 1));
    }
  });

  it.each(["", "x", "a.b.c", "..", "null", "[]", "e30.e30.e30", `${"a".repeat(100_000)}.b.c`, "__proto__"])(
    "what is none (%#)",
    (text) => refused(text),
  );
});

describe("a token's kind", () => {
  it.each([undefined, "JWT", "jwt", "at+jwt", "AT+JWT", "application/at+jwt"])(
    "is taken for access when its typ is %s",
    async (typ) => {
      const token = await sign(key, "ann", typ === undefined ? {} : { typ });
      expect(await accepted(token)).toMatchObject({ extra: { sub: "ann" } });
    },
  );

  it.each(["logout+jwt", "id_token+jwt", "dpop+jwt", "secevent+jwt", "application/jwt2", "", "__proto__"])(
    "security 6: is refused when its typ is %j",
    async (typ) => refused(await sign(key, "ann", { typ })),
  );

  it.each([
    ["an ID token of OpenID Connect", { nonce: "n-0S6" }],
    ["an ID token with the hash of its access token", { at_hash: "MTIz" }],
    ["an ID token with the hash of its code", { c_hash: "MTIz" }],
    ["an ID token of an issuer that says so by typ", { typ: "ID" }],
    ["an ID token of an issuer that says so by token_use", { token_use: "id" }],
    ["a refresh token", { typ: "Refresh" }],
    ["a logout token", { events: { "http://schemas.openid.net/event/backchannel-logout": {} } }],
  ])("security 6: is refused when it is %s, signed for the same audience", async (_what, claims) => {
    await refused(await sign(key, "ann", { claims }));
    await refused(await sign(key, "ann", { claims, typ: "JWT" }));
  });

  it.each([{ typ: "Bearer", nonce: "n-0S6" }, { token_use: "access" }])(
    "is access when its claims say so: %j",
    async (claims) => {
      expect(await accepted(await sign(key, "ann", { claims, typ: "JWT" }))).toMatchObject({});
    },
  );

  it("must be written down where the server asks for it", async () => {
    const options = { issuer: ISSUER, audience: AUDIENCE, jwks: { keys: [key.jwk] } };
    const strict = createBearerVerifier({ ...options, types: ["at+jwt"] });
    expect(await strict(await sign(key, "ann", { typ: "at+jwt" }), REQUEST)).toMatchObject({});
    await refused(await sign(key, "ann", { typ: "JWT" }), strict);
    await refused(await sign(key, "ann"), strict);
    for (const types of [[], [""]])
      expect(() => createBearerVerifier({ ...options, types })).toThrow(/types of .* names such as at\+jwt/);
  });
});

describe("two issuers", () => {
  const OTHER = "https://other-login.example";

  it("have different people of the same name, and neither can speak for the other", async () => {
    const otherKey = await createKey("k1");
    const check = createBearerVerifier(
      { issuer: ISSUER, audience: AUDIENCE, jwks: { keys: [key.jwk] } },
      { issuer: OTHER, audience: AUDIENCE, jwks: { keys: [otherKey.jwk] } },
    );
    const here = await check(await sign(key, "ann"), REQUEST);
    const there = await check(await sign(otherKey, "ann", { claims: { iss: OTHER } }), REQUEST);
    expect(defaultOwner({ authInfo: here })).toBe('["https://login.example","ann"]');
    expect(defaultOwner({ authInfo: there })).toBe('["https://other-login.example","ann"]');
    await refused(await sign(key, "ann", { claims: { iss: OTHER } }), check);
  });
});

describe("an owner's name", () => {
  const owner = (extra: Record<string, unknown> | undefined, clientId = "cli") =>
    defaultOwner({
      authInfo: { token: "", clientId, scopes: [], ...(extra === undefined ? {} : { extra }) },
    });

  it("is different for different people, whatever they are called", () => {
    const names = [
      defaultOwner({}),
      owner(undefined, "local"),
      owner({ sub: "ann" }),
      owner({ sub: "ann", iss: "a" }),
      owner({ sub: 'ann","x', iss: "a" }),
      owner({ sub: "ann", iss: 'a","x' }),
      owner({ sub: '["a","ann"]' }),
      owner({ sub: '[null,"local"]' }),
      owner({ sub: "ann", iss: "" }),
    ];
    expect(new Set(names).size).toBe(names.length);
  });

  it("is never empty", () => {
    expect(() => owner({ sub: "" })).toThrow(/names neither a subject nor a client/);
    expect(() => owner({ sub: 7 })).toThrow(/names neither a subject nor a client/);
  });
});

describe("an issuer's keys", () => {
  afterEach(() => vi.useRealTimers());

  const options = (jwks: BearerIssuer["jwks"]) => ({ issuer: ISSUER, audience: AUDIENCE, jwks });

  it("are fetched once, and again for a key that is new, at most every 30 seconds", async () => {
    const server = await serveKeys([key.jwk]);
    onTestFinished(() => server.close());
    const check = createBearerVerifier(options(server.url));
    expect(server.fetches).toBe(0);
    const [ann, bob] = await Promise.all([sign(key, "ann"), sign(key, "bob")]);
    await Promise.all([check(ann, REQUEST), check(bob, REQUEST)]);
    expect(server.fetches).toBe(1);

    const next = await createKey("k2");
    server.keys = [key.jwk, next.jwk];
    await refused(await sign(next, "ann"), check);
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 31_000 });
    expect(await check(await sign(next, "ann"), REQUEST)).toMatchObject({ extra: { sub: "ann" } });
    for (let attempt = 0; attempt < 20; attempt++)
      await refused(await sign(await createKey(`new-${attempt}`), "x"), check);
    expect(server.fetches).toBe(2);
  });

  it("may be two without names while they change", async () => {
    const [before, after] = [await createKey(undefined), await createKey(undefined)];
    const check = createBearerVerifier(options({ keys: [before.jwk, after.jwk] }));
    for (const signer of [before, after])
      expect(await check(await sign(signer, "ann"), REQUEST)).toMatchObject({ extra: { sub: "ann" } });
    await refused(await sign(await createKey(undefined), "ann"), check);
  });

  it("may stand in a file, which is read again for a key that is new", async () => {
    const folder = await mkdtemp(join(tmpdir(), "tidings-keys-"));
    onTestFinished(() => rm(folder, { recursive: true }));
    const path = join(folder, "keys with spaces.json");
    await writeFile(path, JSON.stringify({ keys: [key.jwk] }));
    const check = createBearerVerifier(options(path));
    await check(await sign(key, "ann"), REQUEST);
    const next = await createKey("k2");
    await writeFile(path, JSON.stringify({ keys: [next.jwk] }));
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 31_000 });
    expect(await check(await sign(next, "ann"), REQUEST)).toMatchObject({ extra: { sub: "ann" } });
    await refused(await sign(key, "ann"), check);
  });

  it("that cannot be read are an outage, not the client's fault, and the operator hears why", async () => {
    const server = await serveKeys([key.jwk]);
    onTestFinished(() => server.close());
    server.keys = undefined;
    const world = await createWorld({ auth: createBearerVerifier(options(server.url)) });
    onTestFinished(() => world.close());
    const headers = { Authorization: `Bearer ${await sign(key, "ann")}` };
    const response = await fetch(`${world.url}/jobs/x`, { headers });
    expect(response.status).toBe(503);
    const text = await response.text();
    expect(JSON.parse(text)).toMatchObject({ error: { code: "AUTH_UNAVAILABLE", retryable: true } });
    expect(text).not.toContain("127.0.0.1");
    expect(world.errors.map(String)).toEqual([expect.stringContaining("200 OK")]);
    expect(JSON.stringify(world.errors)).not.toContain(headers.Authorization.slice(-20));
    server.keys = [key.jwk];
    expect((await fetch(`${world.url}/jobs/x`, { headers })).status).toBe(404);
  });

  it.each([
    [{ jwks: "http://login.example/keys" }, /use https/],
    [{ jwks: "https://" }, /at "https:\/\/", which is neither an address nor a path/],
    [{ jwks: "" }, /at "", which is neither an address nor a path/],
    [{ jwks: {} }, /no `keys`/],
    [{ jwks: { keys: [] }, algorithms: ["HS256"] }, /not public-key signatures/],
    [{ jwks: { keys: [] }, algorithms: ["none"] }, /not public-key signatures/],
    [{ jwks: { keys: [] }, audience: [] }, /neither may be empty/],
    [{ jwks: { keys: [] }, issuer: "" }, /neither may be empty/],
  ])("and the rest are described wrongly at once or never: %o", (wrong, sentence) => {
    const make = () => createBearerVerifier({ ...options({ keys: [] }), ...(wrong as object) });
    expect(make).toThrow(sentence);
  });
});
