import { generateKeyPairSync, randomBytes } from "node:crypto";
import { describe, expect, it } from "@jest/globals";
import { endpointPaths, endpointsOf } from "../../config/deployments.ts";
import type { DeploymentKind } from "../../config/configuration.ts";
import { readConfiguration } from "../../config/read.ts";
import { NAMED, PRODUCTION, problemsIn, problemsWith } from "./refusals.ts";

const secrets = [randomBytes(32).toString("base64")];
const call = (): Promise<never> => Promise.reject(new Error("called"));
/** A stub of a store of the host. */
const STORE = Object.fromEntries(
  "get list scan count commit next sweep ping close".split(" ").map((name) => [name, call]),
);
const MONGO = { storage: "mongodb://db.example/accounts", keys: { secrets } };

function oauth2(url: string): readonly string[] {
  return problemsIn({ ...PRODUCTION, deployments: { oauth2: { url } } });
}

function both(oauth2Url: string, openidUrl: string): readonly string[] {
  const deployments = { oauth2: { url: oauth2Url }, openid: { url: openidUrl } };
  return problemsIn({ ...PRODUCTION, deployments, interactions: { ...NAMED, passkeys: { enabled: false } } });
}

function paths(kind: DeploymentKind): string[] {
  return endpointPaths[kind].map(({ methods, path }) => `${methods.join("|")} ${path}`);
}

function authorize(kind: DeploymentKind, post: boolean): unknown {
  return endpointsOf({ kind, post }).find(({ name }) => name === "authorize")?.methods;
}

function withPost(kind: DeploymentKind, url: string): readonly string[] {
  return problemsIn({ ...PRODUCTION, deployments: { [kind]: { url, post: true } } });
}

function signing(...keys: readonly object[]): readonly string[] {
  return problemsWith({ keys: { signing: keys } });
}

function rsa(modulusLength: number): object {
  return generateKeyPairSync("rsa", { modulusLength }).privateKey.export({ format: "jwk" });
}

describe("a base URL", () => {
  it.each([
    "https://login.example",
    "https://login.example/openid",
    "https://login.example:8443/a/b.c_d~e-f",
    "http://localhost:3000",
    "http://app.localhost",
    "http://127.255.0.1:8080",
    "http://[::1]:3000/x",
    "https://[2001:db8::1]",
  ])("may be %s", (url) => {
    expect(oauth2(url)).toEqual([]);
  });

  it.each([
    ["https://login.example/", "must not end with a slash"],
    ["https://login.example/openid/", "must not end with a slash"],
    ["https://login.example/?", "must not have a query"],
    ["https://login.example?a=b", "must not have a query"],
    ["https://login.example#", "must not have a fragment"],
    ["https://login.example/#a?b", "must not have a fragment"],
    ["https://user@login.example", "must not hold a user or password"],
    ["https://@login.example", "must not hold a user or password"],
    ["https://:pw@login.example", "must not hold a user or password"],
    ["http://login.example", "must be https"],
    ["http://10.0.0.1", "must be https"],
    ["http://0.0.0.0:3000", "must be https"],
    ["http://localhost.example", "must be https"],
    ["http://127.0.0.1.example", "must be https"],
    ["http://[::ffff:7f00:1]", "must be https"],
    ["https://Login.example", "must be written in its plain form"],
    ["HTTPS://login.example", "must be written in its plain form"],
    ["https://login.example:443", "must be written in its plain form"],
    ["https://login.example/a/../b", "must be written in its plain form"],
    ["https://login.example\\a", "must be written in its plain form"],
    ["https://login.example\t", "must be written in its plain form"],
    [" https://login.example", "must be written in its plain form"],
    ["https://login.example.", "must be written in its plain form"],
    ["http://2130706433", "must be written in its plain form"],
    ["https:login.example", "must be written in its plain form"],
    ["https://login.example//a", "may have only letters"],
    ["https://login.example/%6fpenid", "may have only letters"],
    ["https://login.example/a b", "may have only letters"],
    ["https://login.example/:uid", "may have only letters"],
    ["ftp://login.example", "must be an absolute http or https URL"],
    ["login.example", "must be an absolute http or https URL"],
    ["", "must be an absolute http or https URL"],
    [`https://login.example/${"a".repeat(5000)}`, "must be an absolute http or https URL"],
  ])("is refused as %j because it %s [D-DEPLOY-2]", (url, problem) => {
    expect(oauth2(url)).toContainEqual(expect.stringContaining(`config.deployments.oauth2.url: ${problem}`));
  });

  it("is split into the parts that a browser sends", () => {
    const { deployments, production } = readConfiguration({
      ...PRODUCTION,
      deployments: { openid: { url: "https://login.example:8443/a/b", post: true } },
    });
    expect(deployments).toEqual({
      openid: {
        kind: "openid",
        url: "https://login.example:8443/a/b",
        path: "/a/b",
        host: "login.example:8443",
        secure: true,
        post: true,
      },
    });
    expect(production).toBe(true);
  });
});

describe("two deployments", () => {
  it.each([
    ["one host, two paths", "https://login.example", "https://login.example/openid"],
    ["one host, openid at the root", "https://login.example/api", "https://login.example"],
    ["two hosts", "https://a.example", "https://b.example"],
    ["two ports", "http://127.0.0.1:3000", "http://127.0.0.1:3001"],
    ["paths that only begin alike", "https://login.example/account-service", "https://login.example"],
  ])("may be on %s [D-DEPLOY-1]", (_where, one, other) => {
    expect(both(one, other)).toEqual([]);
  });

  it.each([
    ["https://login.example", "https://login.example"],
    ["https://login.example/a", "https://LOGIN.example/a/"],
    ["http://localhost", "https://localhost"],
  ])("can't have the same address: %s and %s [D-DEPLOY-2]", (one, other) => {
    expect(both(one, other)).toContain(
      "config.deployments.openid.url: must differ from config.deployments.oauth2.url",
    );
  });

  it.each([
    [
      "https://login.example/oauth2",
      "https://login.example",
      "/oauth2/resources/userinfo (its userinfo, and userinfo of oauth2)",
    ],
    [
      "https://login.example",
      "https://login.example/oauth2/authorize",
      "/oauth2/authorize/account (its account, and resume of oauth2)",
    ],
    [
      "https://login.example",
      "https://login.example/account",
      "/account/oauth2/authorize (its authorize, and account of oauth2)",
    ],
    [
      "https://login.example/interaction/x",
      "https://login.example",
      "/interaction/:uid (its interaction, and authorize of oauth2)",
    ],
    [
      "https://login.example/.well-known/oauth-authorization-server",
      "https://login.example/account",
      "/.well-known/oauth-authorization-server/account (its discovery, and account of oauth2)",
    ],
    [
      "https://login.example/.well-known/openid-configuration",
      "https://login.example/oauth2/token",
      "/.well-known/openid-configuration/oauth2/token (its discovery, and token of oauth2)",
    ],
  ])("can't share an endpoint address: %s and %s [D-DEPLOY-2]", (one, other, clash) => {
    const lines = both(one, other);
    expect(lines).toHaveLength(1);
    expect(lines[0]).toContain("config.deployments.openid.url: puts two endpoints at one address: ");
    expect(lines[0]).toContain(clash);
  });

  it("have the documented paths and methods", () => {
    const same = [
      "GET /oauth2/authorize",
      "GET /oauth2/authorize/:uid",
      "POST /oauth2/token",
      "POST /oauth2/device",
      "GET|HEAD|POST /device",
      "GET|POST /oauth2/revoke",
      "POST /oauth2/logout/confirm",
      "GET|HEAD|POST /interaction/:uid",
      "GET|HEAD|POST /interaction/:uid/:step",
      "GET|POST /providers/:uid/:step",
      "GET|HEAD|POST /account",
      "GET|HEAD|POST /confirm",
      "GET /resources/userinfo",
      "GET /external/profile",
      "GET|HEAD /clients/:uid/:step",
      "GET|HEAD /pages.js",
    ];
    expect(paths("oauth2").toSorted()).toEqual([...same, "POST /oauth2/introspect"].toSorted());
    expect(paths("openid").toSorted()).toEqual(
      [
        ...same,
        "GET /oauth2/resources/userinfo",
        "GET /oauth2/external/profile",
        "GET|HEAD|OPTIONS /.well-known/openid-configuration",
        "GET|HEAD|OPTIONS /oauth2/jwks",
        "POST /oauth2/par",
        "POST /oauth2/introspect",
        "GET|POST /oauth2/userinfo",
        "GET /oauth2/logout",
        "GET|HEAD /oauth2/logout/success",
      ].toSorted(),
    );
  });

  it("accept POST to the authorization endpoint only on openid, if configured, on https [D-DEPLOY-7]", () => {
    expect([authorize("oauth2", false), authorize("openid", false), authorize("openid", true)]).toEqual([
      ["GET"],
      ["GET"],
      ["GET", "POST"],
    ]);
    expect(withPost("openid", "https://login.example")).toEqual([]);
    expect(withPost("openid", "http://localhost")).toEqual([
      "config.deployments.openid.post: requires https, because its cookies do",
    ]);
    expect(withPost("oauth2", "https://login.example")).toEqual([
      'config.deployments.oauth2.post: unknown key; did you mean "config.deployments.openid.post"?',
    ]);
  });

  it("are both optional, but not together", () => {
    const line = "config.deployments: needs at least one of `oauth2` and `openid`";
    expect(problemsIn({ deployments: {} })).toEqual([line]);
    expect(problemsIn({ deployments: { oauth2: undefined } })).toEqual([line]);
  });
});

describe("rules between keys", () => {
  it.each<[string, object]>([
    [
      "config.interactions.theme.name: is required in production: the name that people know",
      { ...PRODUCTION, interactions: { theme: { accent: "#7a1f5c" } } },
    ],
    ["config.interactions.theme.name: is required in production", { ...PRODUCTION, interactions: {} }],
    // One deployment that is not on loopback is production.
    [
      "config.interactions.theme.name: is required in production",
      {
        deployments: {
          oauth2: { url: "http://localhost:3000" },
          openid: { url: "https://login.example" },
        },
        interactions: { passkeys: { enabled: false } },
        proxy: 1,
      },
    ],
    // An empty name is no name, and is one problem.
    [
      "config.interactions.theme.name: must be a text of 1 to 80",
      { ...PRODUCTION, interactions: { theme: { name: " " } } },
    ],
    ["config.storage: must not be in memory in production", { ...PRODUCTION, storage: "sqlite::memory:" }],
    [
      "config.keys.secrets: is required because config.storage is not SQLite: a list with one key, made with `openssl rand -base64 32`",
      { ...PRODUCTION, ...MONGO, keys: {} },
    ],
    [
      "config.keys.secrets: is required because config.storage is not SQLite: a list with one key, made with `openssl rand -base64 32`",
      { ...PRODUCTION, storage: STORE },
    ],
    [
      "config.artifacts: must be `redis://…`",
      { ...PRODUCTION, storage: STORE, keys: { secrets }, artifacts: "sqlite:./other.db" },
    ],
    [
      "config.artifacts: must be `redis://…`",
      { ...PRODUCTION, ...MONGO, artifacts: "mongodb://db.example/other" },
    ],
    ["config.artifacts: must be `redis://…`", { ...PRODUCTION, artifacts: "sqlite:./other.db" }],
    ["config.artifacts: has a path that is not", { ...PRODUCTION, artifacts: "redis://cache.example/one" }],
    ["config.artifacts: has a path that is not", { ...PRODUCTION, artifacts: "redis://cache.example/1/2" }],
    ["config.artifacts: has a user or password", { ...PRODUCTION, artifacts: "redis://:50%@cache.example" }],
    ["config.artifacts: knows no other", { ...PRODUCTION, artifacts: "redis://cache.example?keyPrefix=a" }],
    ["config.artifacts: knows no other", { ...PRODUCTION, artifacts: "redis://cache.example#a" }],
    ["config.queue: knows no other", { ...PRODUCTION, queue: "redis://cache.example?keyPrefix=a" }],
    ["config.queue: has a path that is not", { ...PRODUCTION, queue: "redis://cache.example/one" }],
    ["config.artifacts: needs a `prefix` of", { ...PRODUCTION, artifacts: "redis://cache.example?prefix=" }],
    [
      "config.artifacts: needs a `prefix` of",
      { ...PRODUCTION, artifacts: "redis://cache.example?prefix=a&prefix=b" },
    ],
    [
      "config.interactions.registration: needs config.mail",
      { ...PRODUCTION, interactions: { ...NAMED, registration: true } },
    ],
    [
      "config.interactions.registration: needs config.mail",
      { ...PRODUCTION, interactions: { ...NAMED, registration: {} } },
    ],
    [
      "config.refreshTokens.maxAge: must be at least config.lifetimes.refreshToken",
      { ...PRODUCTION, refreshTokens: { sliding: true, maxAge: 60 } },
    ],
    ["config.passwords.memory: must be at least 47104 KiB", { ...PRODUCTION, passwords: { passes: 1 } }],
    ["config.passwords.memory: must be at least 19456 KiB", { ...PRODUCTION, passwords: { memory: 19_455 } }],
    [
      "config.interactions.copy.de: is never shown",
      { ...PRODUCTION, interactions: { ...NAMED, copy: { de: { "login.title": "Anmelden" } } } },
    ],
    ["config.cookies.domain: must be the host", { ...PRODUCTION, cookies: { domain: "other.example" } }],
    ["config.cookies.domain: must be the host", { ...PRODUCTION, cookies: { domain: "n.example" } }],
    ["config.stripPrefix: must begin the path", { ...PRODUCTION, stripPrefix: "/login" }],
    [
      "config.stripPrefix: must begin the path",
      {
        ...PRODUCTION,
        deployments: { openid: { url: "https://login.example/loginx" } },
        stripPrefix: "/login",
      },
    ],
  ])("%s", (line, input) => {
    expect(problemsIn(input)).toEqual([expect.stringContaining(line)]);
  });

  it("accept consistent values", () => {
    const fits = [
      { deployments: { oauth2: { url: "http://localhost:3000" } }, storage: "sqlite::memory:" },
      { ...PRODUCTION, mail: "smtp://mail.example", interactions: { ...NAMED, registration: true } },
      { deployments: { oauth2: { url: "http://[::1]" } }, interactions: { registration: {} } },
      { ...PRODUCTION, mailer: { send: () => Promise.resolve() } },
      { ...PRODUCTION, ...MONGO, artifacts: MONGO.storage },
      { ...PRODUCTION, storage: STORE, keys: { secrets } },
      { ...PRODUCTION, storage: STORE, keys: { secrets }, artifacts: "redis://cache.example" },
      { ...PRODUCTION, ...MONGO, artifacts: "redis://cache.example", queue: "rediss://cache.example/2" },
      { ...PRODUCTION, artifacts: "rediss://user:p%40ss@[::1]:6380/15?prefix=news:" },
      { ...PRODUCTION, passwords: { passes: 5, memory: 7168 } },
      { ...PRODUCTION, cookies: { domain: "login.example", prefix: "acme-" } },
      {
        ...PRODUCTION,
        deployments: { openid: { url: "https://login.example/login/openid" } },
        stripPrefix: "/login",
      },
    ];
    for (const input of fits) expect(problemsIn(input)).toEqual([]);
  });

  it("refuse a storage in memory in production, which is any address that is not on loopback [D-RUN-1]", () => {
    const storage = "sqlite::memory:";
    expect(problemsIn({ ...PRODUCTION, storage })).toEqual([
      "config.storage: must not be in memory in production (a deployment is not on loopback)",
    ]);
    expect(problemsIn({ deployments: { oauth2: { url: "http://localhost:3000" } }, storage })).toEqual([]);
  });

  it("refuse to rotate signing keys that the configuration gives [D-KEYS-4]", () => {
    const rotation = { signing: 7_776_000 };
    expect(problemsWith({ keys: { rotation } })).toEqual([]);
    expect(problemsWith({ keys: { signing: [{ ...rsa(2048), kid: "a" }], rotation: {} } })).toEqual([]);
    expect(problemsWith({ keys: { signing: [{ ...rsa(2048), kid: "a" }], rotation } })).toEqual([
      "config.keys.rotation.signing: must not be set together with config.keys.signing: the service rotates only keys that it created",
    ]);
  });

  it("refuse duplicate names of signing keys, and unsafe keys", () => {
    const key = { ...rsa(2048), kid: "a" };
    const line = "config.keys.signing[0]: must be a private JWK";
    expect(signing(key, { ...rsa(2048), kid: "a" })).toEqual([
      "config.keys.signing: must not have two keys with the same `kid`",
    ]);
    expect(signing(key, { ...rsa(2048), kid: "b" })).toEqual([]);
    const publicKey = generateKeyPairSync("ed25519").publicKey.export({ format: "jwk" });
    const curve = generateKeyPairSync("ec", { namedCurve: "secp256k1" }).privateKey.export({ format: "jwk" });
    const shared = { kty: "oct", k: randomBytes(64).toString("base64url") };
    for (const weak of [
      rsa(1024),
      publicKey,
      curve,
      shared,
      { ...key, use: "enc" },
      { ...key, kid: 5 },
      {},
    ]) {
      expect(signing(weak)).toEqual([expect.stringContaining(line)]);
    }
  });
});

function passkeyProblems(
  passkeys: { readonly enabled?: boolean; readonly rpId?: string },
  [host = "login.example.com", other = host]: readonly string[],
  cookies = {},
): readonly string[] {
  return problemsIn({
    ...PRODUCTION,
    deployments: { oauth2: { url: `https://${host}` }, openid: { url: `https://${other}/openid` } },
    interactions: { ...NAMED, passkeys },
    cookies,
  });
}

const OUTSIDE = "must be the host of each deployment, or a domain above it";
const SUFFIX = "must not be a public suffix";
const NEEDED = "is required with deployments on two hosts";

const NEEDS_PASSKEYS = expect.stringMatching(
  /^config\.interactions\.registration\.passwordless: needs passkeys/,
);

describe("registration without a password", () => {
  it.each<[string, string, string, object, readonly unknown[]]>([
    ["an IP address", "http://127.0.0.1:3000", "http://127.0.0.1:3000/openid", {}, [NEEDS_PASSKEYS]],
    [
      "turned off",
      "http://localhost:3000",
      "http://localhost:3000/openid",
      { passkeys: { enabled: false } },
      [NEEDS_PASSKEYS],
    ],
    ["one host", "http://localhost:3000", "http://localhost:3000/openid", {}, []],
  ])("needs passkeys: %s", (_what, first, second, more, expected) => {
    const deployments = { oauth2: { url: first }, openid: { url: second } };
    const interactions = { registration: { passwordless: true }, ...more };
    expect(problemsIn({ deployments, interactions })).toEqual(expected);
    // A code by mail signs in to an account with nothing but its address.
    expect(problemsIn({ deployments, interactions, signIn: { emailCode: true } })).toEqual([]);
  });
});

describe("the domain of passkeys", () => {
  it.each<readonly [string | undefined, ...string[]]>([
    ["login.example.com"],
    ["example.com"],
    ["example.com", "login.example.com", "id.example.com"],
    ["example.co.uk", "login.example.co.uk"],
    // A browser lets a page be its own host, whatever that is.
    ["acme.github.io", "acme.github.io"],
    ["github.io", "github.io"],
    ["localhost", "localhost"],
    [undefined, "localhost"],
  ])("may be %s on %s [D-FACTOR-37]", (rpId, ...hosts) => {
    expect(passkeyProblems({ ...(rpId !== undefined && { rpId }) }, hosts)).toEqual([]);
  });

  it.each<readonly [string | undefined, string, ...string[]]>([
    ["other.example.com", OUTSIDE],
    ["n.example.com", OUTSIDE],
    ["login.example.com", OUTSIDE, "login.example.com", "id.example.com"],
    ["a.example", OUTSIDE, "a.example", "b.test"],
    ["com", SUFFIX],
    ["co.uk", SUFFIX, "login.example.co.uk"],
    ["uk", SUFFIX, "login.example.co.uk"],
    ["github.io", SUFFIX, "acme.github.io"],
    ["kawasaki.jp", SUFFIX, "login.acme.kawasaki.jp"],
    ["acme.kawasaki.jp", SUFFIX, "login.acme.kawasaki.jp"],
    ["internal", SUFFIX, "login.internal"],
    ["localhost", SUFFIX, "login.localhost"],
    ["github.io", SUFFIX, "github.io", "acme.github.io"],
    [undefined, NEEDED, "login.example.com", "id.example.com"],
    [undefined, NEEDED, "example.com", "id.example.com"],
    [undefined, NEEDED, "a.example", "b.test"],
  ])("must not be %s: it %s, and passkeys can be turned off [D-FACTOR-37]", (rpId, text, ...hosts) => {
    const passkeys = rpId === undefined ? {} : { rpId };
    const [line, ...more] = passkeyProblems(passkeys, hosts);
    expect([line?.split(`: ${text}`)[0], more]).toEqual(["config.interactions.passkeys.rpId", []]);
    expect(line).toContain("set config.interactions.passkeys.enabled to false");
    expect(passkeyProblems({ ...passkeys, enabled: false }, hosts)).toEqual([]);
  });

  it("is that of cookies, which must not be a public suffix either [D-FACTOR-37]", () => {
    const hosts = ["login.example.co.uk", "id.example.co.uk"];
    expect(passkeyProblems({}, hosts, { domain: "example.co.uk" })).toEqual([]);
    for (const enabled of [true, false])
      expect(passkeyProblems({ enabled }, hosts, { domain: "co.uk" })).toEqual([
        `config.cookies.domain: ${SUFFIX} such as \`co.uk\`, because browsers refuse it`,
      ]);
  });

  it("does not matter on an IP address, where browsers make no passkeys", () => {
    expect(passkeyProblems({}, ["192.0.2.1", "id.example.com"])).toEqual([]);
  });
});
