/** Which settings each kind of client has, and which addresses it may name. */
import { generateKeyPairSync } from "node:crypto";
import { beforeEach, describe, expect, it } from "@jest/globals";
import { isAllowedAddress, isNativeAddress } from "../../../accounts/clients/client-kinds.ts";
import {
  CLIENT_ROWS,
  hasSetting,
  type SettingName,
  SETTINGS,
  unsetValue,
} from "../../../accounts/clients/client-settings.ts";
import { isUuid } from "../../../config/value-forms.ts";
import { type Domain, openDomain } from "../open-domain.ts";
import type { AnyNewClient, ClientInput } from "../../../accounts/clients/client-schema.ts";

const SECRET = "0123456789abcdef";
const CALLBACK = "https://app.example/callback";
const jwk = (key: "rsa" | "ec" | "ed25519", options: object = {}): Record<string, string> => {
  const { publicKey } = generateKeyPairSync(key as "ec", options as { namedCurve: string });
  return publicKey.export({ format: "jwk" }) as Record<string, string>;
};
const RSA = jwk("rsa", { modulusLength: 2048 });
const EC = jwk("ec", { namedCurve: "P-256" });
const ED = jwk("ed25519");

const named = { name: "App", service: "1" };
const WEB = { ...named, kind: "web", redirect_uris: [CALLBACK] } as const;
const PUBLIC = { ...named, kind: "public", redirect_uris: [CALLBACK] } as const;
const MACHINE = { ...named, kind: "machine" } as const;
const DEVICE = { ...named, kind: "device" } as const;
const { kinds: ROWS } = CLIENT_ROWS;
const KINDS = { web: WEB, public: PUBLIC, machine: MACHINE, device: DEVICE };

let domain: Domain;
beforeEach(async () => {
  domain = await openDomain();
  await domain.directory.services.put("1", { name: "1" });
});

/** The settings as JavaScript may pass them. */
const register = (settings: object): Promise<{ client_id: string; client_secret?: string }> =>
  domain.clients.register(settings as AnyNewClient);

describe("a kind of client", () => {
  it.each([
    ["web", ["authorization_code", "refresh_token"], "documented", true],
    ["public", ["authorization_code", "refresh_token"], "standard", false],
    ["machine", ["client_credentials"], "standard", true],
    ["device", ["urn:ietf:params:oauth:grant-type:device_code", "refresh_token"], "standard", false],
  ] as const)(
    "%s has its grants, its errors, and a secret if it can keep one [D-KIND-13]",
    async (kind, grants, errors, has) => {
      const registered = await register(KINDS[kind]);
      expect(typeof registered.client_secret).toBe(has ? "string" : "undefined");
      expect(Object.keys(registered)).toEqual(has ? ["client_id", "client_secret"] : ["client_id"]);
      const client = await domain.clients.find(registered.client_id);
      expect(client).toMatchObject({
        kind,
        grant_types: grants,
        error_status: errors,
        jwks: null,
        native: false,
      });
      expect(isUuid(registered.client_id)).toBe(false);
      const [record] = await domain.storage.directory.listClients();
      expect(record?.secrets).toHaveLength(has ? 1 : 0);
      const { items: records } = await domain.storage.audit.list({ limit: 10 });
      expect(records.find(({ action }) => action === "client.registered")?.detail).toEqual({ kind });
    },
  );

  it.each(Object.keys(KINDS) as (keyof typeof KINDS)[])(
    "%s may have a UUID as its client_id [D-KIND-1]",
    async (kind) => {
      for (const client_id of [
        "01234567-89ab-cdef-0123-456789abcdef",
        "01234567-89AB-CDEF-0123-456789ABCDEF",
      ])
        expect(await register({ ...KINDS[kind], client_id })).toMatchObject({ client_id });
    },
  );

  /** A value of each setting that not every kind has. A kind that has the setting registers with it. */
  const VALUES = {
    client_secret: SECRET.repeat(2),
    jwks: { keys: [EC] },
    redirect_uris: [CALLBACK],
    post_logout_redirect_uris: [CALLBACK],
    backchannel_logout_uri: CALLBACK,
    grant_types: ["authorization_code"],
    password_grant: true,
    native: true,
    origins: ["https://app.example"],
    first_party: true,
    second_factor: "required",
    refresh_tokens: { sliding: true },
    client_uri: CALLBACK,
    policy_uri: CALLBACK,
    tos_uri: CALLBACK,
    logo: Buffer.from("\x89PNG\r\n\x1a\n", "latin1"),
    id_token_signed_response_alg: "RS256",
  } as const satisfies Partial<ClientInput>;
  const cells = Object.keys(ROWS).flatMap((kind) =>
    Object.entries(VALUES).map(([setting, value]) => [kind as keyof typeof ROWS, setting, value] as const),
  );
  it.each(cells)("%s has %s, or refuses it, as its row says", async (kind, setting, value) => {
    const registered = register({ ...KINDS[kind], [setting]: value });
    if (hasSetting(CLIENT_ROWS, kind, setting)) await expect(registered).resolves.toHaveProperty("client_id");
    else await expect(registered).rejects.toThrow(`client.${setting}: a ${kind} client can't have it`);
  });

  it.each(Object.keys(ROWS) as (keyof typeof ROWS)[])(
    "%s has the unset value of each setting that it does not name",
    async (kind) => {
      const { client_id } = await register(KINDS[kind]);
      const rows = Object.entries(SETTINGS).filter(([name, row]) => "unset" in row && !(name in KINDS[kind]));
      const unset = rows.map(([name]) => [name, unsetValue(CLIENT_ROWS, kind, name as SettingName)]);
      expect(await domain.clients.find(client_id)).toMatchObject(Object.fromEntries(unset));
    },
  );

  it.each(Object.entries(ROWS))("%s behaves as its row says", async (name, row) => {
    const kind = name as keyof typeof ROWS;
    const { client_id, client_secret } = await register(KINDS[kind]);
    expect(client_secret !== undefined).toBe(row.confidential);
    expect(await domain.clients.find(client_id)).toMatchObject({
      error_status: row.behaves,
      grant_types: row.grants.filter((grant) => grant !== "password"),
      effective_origins: row.addresses === "application" ? ["https://app.example"] : [],
    });
    const rotation = register({ ...KINDS[kind], refresh_tokens: { rotate: false } });
    if (row.rotates === "as configured") await expect(rotation).resolves.toHaveProperty("client_id");
    else await expect(rotation).rejects.toThrow(/refresh_tokens/u);
    const rotated = domain.clients.rotateSecret(client_id);
    if (row.confidential) await expect(rotated).resolves.toHaveProperty("client_secret");
    else await expect(rotated).rejects.toThrow("has no secret");
    const revoked = domain.clients.revokeTokens(client_id);
    if (row.people) await expect(revoked).rejects.toThrow("belong to people");
    else await expect(revoked).resolves.toBeUndefined();
  });

  const someone = { ...named, kind: "someone", redirect_uris: [CALLBACK] };
  it.each<[string, object, RegExp]>([
    ["an unknown kind", someone, /client\.kind: must be one of web, public, machine, device/u],
    [
      "public with a secret",
      { ...PUBLIC, client_secret: SECRET },
      /client\.client_secret: a public client can't/u,
    ],
    ["public with keys", { ...PUBLIC, jwks: { keys: [EC] } }, /client\.jwks: a public client can't/u],
    [
      "public with passwords",
      { ...PUBLIC, password_grant: true },
      /client\.password_grant: a public client can't/u,
    ],
    [
      "public with the password grant",
      { ...PUBLIC, grant_types: ["password"] },
      /client\.grant_types: must not have/u,
    ],
    [
      "public that does not rotate",
      { ...PUBLIC, refresh_tokens: { rotate: false } },
      /rotate: must be true/u,
    ],
    ["public without an address", { ...named, kind: "public" }, /client\.redirect_uris: is required/u],
    ["web without an address", named, /client\.redirect_uris: is required/u],
    ["web that is native", { ...WEB, native: true }, /client\.native: a web client can't/u],
    [
      "web with origins",
      { ...WEB, origins: ["https://app.example"] },
      /client\.origins: a web client can't/u,
    ],
    [
      "web with keys and a secret",
      { ...WEB, client_secret: SECRET, jwks: { keys: [EC] } },
      /client\.jwks: must not/u,
    ],
    [
      "machine with an address",
      { ...MACHINE, redirect_uris: [CALLBACK] },
      /redirect_uris: a machine client can't/u,
    ],
    [
      "machine with grants",
      { ...MACHINE, grant_types: ["refresh_token"] },
      /grant_types: a machine client can't/u,
    ],
    [
      "machine with keys and a secret",
      { ...MACHINE, client_secret: SECRET, jwks: { keys: [EC] } },
      /client\.jwks/u,
    ],
    ["machine that asks people", { ...MACHINE, first_party: true }, /first_party: a machine client can't/u],
    ["device with a secret", { ...DEVICE, client_secret: SECRET }, /client_secret: a device client can't/u],
    [
      "device with an address",
      { ...DEVICE, redirect_uris: [CALLBACK] },
      /redirect_uris: a device client can't/u,
    ],
    [
      "device that does not rotate",
      { ...DEVICE, refresh_tokens: { rotate: false } },
      /rotate: must be true/u,
    ],
  ])("refuses %s, and names the setting", async (_what, settings, problem) => {
    await expect(register(settings)).rejects.toThrow(problem);
    await expect(register(settings)).rejects.toBeInstanceOf(TypeError);
    expect((await domain.clients.list()).items).toEqual([]);
  });

  it("can't be changed later, and decides what an update may change", async () => {
    const { client_id } = await register(PUBLIC);
    const update = (changes: object): Promise<unknown> => domain.clients.update(client_id, changes);
    await expect(update({ kind: "web" })).rejects.toThrow(/unknown key kind/u);
    await expect(update({ client_secret: SECRET })).rejects.toThrow(
      /client\.client_secret: a public client can't/u,
    );
    await expect(update({ password_grant: true })).rejects.toThrow(/client\.password_grant/u);
    await expect(update({ redirect_uris: ["http://app.example/"] })).rejects.toThrow(
      /redirect_uris\[0\]: must be https/u,
    );
    await expect(domain.clients.rotateSecret(client_id)).rejects.toThrow("a public client has no secret");
    await update({ name: "Renamed", native: true, redirect_uris: ["com.example.app:/callback"] });
    expect(await domain.clients.find(client_id)).toMatchObject({ name: "Renamed", native: true });
    // Its address needs it to be native.
    await expect(update({ native: false })).rejects.toThrow(/redirect_uris\[0\]/u);
  });
});

describe("the addresses of a public client", () => {
  it.each<[string, string]>([
    ["https", "https://app.example/callback?a=b"],
    ["https with a port", "https://app.example:8443/"],
    ["while all deployments are on loopback, localhost with a port", "http://localhost:5173/"],
    ["while all deployments are on loopback, a literal", "http://127.0.0.1:5173/callback"],
    ["while all deployments are on loopback, an IPv6 literal", "http://[::1]:5173/callback"],
  ])("may be %s [D-KIND-11]", async (_what, address) => {
    const settings = { redirect_uris: [address], post_logout_redirect_uris: [address] };
    await expect(register({ ...PUBLIC, ...settings })).resolves.toBeDefined();
  });

  const native = { ...PUBLIC, native: true };
  it.each([
    "https://app.example/callback",
    "http://127.0.0.1/callback",
    "http://[::1]/callback",
    "com.example.app:/callback",
    "com.example.app://callback/path?a=b",
    "com.example-app.x+y:/",
  ])("may be %s for a native one", async (address) => {
    domain = domain.reopen({ production: true });
    await expect(register({ ...native, redirect_uris: [address] })).resolves.toBeDefined();
  });

  it.each<[string, object, string]>([
    ["http", PUBLIC, "http://app.example/callback"],
    ["a loopback literal", PUBLIC, "http://127.0.0.1/callback"],
    ["localhost", PUBLIC, "http://localhost:5173/"],
    ["a private-use scheme", PUBLIC, "com.example.app:/callback"],
    ["a user name", PUBLIC, "https://ada@app.example/callback"],
    ["a wildcard", PUBLIC, "https://*.example/callback"],
    ["a fragment", PUBLIC, "https://app.example/#callback"],
    ["https on loopback", native, "https://127.0.0.1/callback"],
    ["https on localhost", native, "https://localhost/callback"],
    ["http of another machine", native, "http://app.example/callback"],
    ["localhost, native", native, "http://localhost/callback"],
    ["localhost with a port, native", native, "http://localhost:5173/callback"],
    ["another loopback address", native, "http://127.0.0.2/callback"],
    ["another spelling of loopback", native, "http://127.1/callback"],
    ["a scheme without a dot", native, "myapp:/callback"],
    ["javascript", native, "javascript:alert(1)"],
    ["javascript with a dot later", native, "javascript:alert(a.b)"],
    ["data", native, "data:text/html,hello.there"],
    ["file", native, "file:///etc/passwd.txt"],
    ["upper case", native, "COM.example.app:/callback"],
    ["a user name in a private-use scheme", native, "com.example.app://ada@callback"],
    ["a fragment in a private-use scheme", native, "com.example.app:/#callback"],
    ["a space", native, "com.example.app:/call back"],
    ["a user name on loopback", native, "http://127.0.0.1@evil.example/callback"],
    ["an empty label", native, "com..app:/callback"],
  ])("are never %s [D-KIND-4, D-KIND-11]", async (_what, client, address) => {
    domain = domain.reopen({ production: true });
    await expect(register({ ...client, redirect_uris: [address] })).rejects.toThrow(
      /client\.redirect_uris\[0\]: must /u,
    );
    const signOut = { post_logout_redirect_uris: [address] };
    await expect(register({ ...client, ...signOut })).rejects.toThrow(
      /client\.post_logout_redirect_uris\[0\]: must /u,
    );
  });

  it("ignore the port of a loopback literal of a native client, and nothing else", () => {
    const registered = [
      "http://127.0.0.1/callback",
      "http://[::1]:7777/callback",
      "https://app.example/callback",
    ];
    const matches = (address: string, isNative = true): boolean =>
      isAllowedAddress(ROWS.public, isNative ? { native: true } : {}, registered, address, false);
    for (const address of [
      "http://127.0.0.1/callback",
      "http://127.0.0.1:1/callback",
      "http://127.0.0.1:65535/callback",
      "http://[::1]/callback",
      "http://[::1]:8080/callback",
      "https://app.example/callback",
    ])
      expect([address, matches(address)]).toEqual([address, true]);
    for (const address of [
      "http://127.0.0.1:65536/callback",
      "http://127.0.0.1:0/callback",
      "http://127.0.0.1:/callback",
      "http://127.0.0.1:080/callback",
      "http://127.0.0.1:8080/Callback",
      "http://127.0.0.1:8080/callback/",
      "http://127.0.0.1:8080/callback?a=b",
      "http://127.0.0.1:8080/callback#",
      "http://127.0.0.1:8080@evil.example/callback",
      "http://127.0.0.1@evil.example/callback",
      "http://127.0.0.1.evil.example/callback",
      "http://localhost:8080/callback",
      "http://127.1:8080/callback",
      "HTTP://127.0.0.1:8080/callback",
      "http://127.0.0.1:8080\\@evil.example/callback",
      "http://127.0.0.1:8080/callback\n",
      "https://app.example:8443/callback",
      "https://127.0.0.1/callback",
    ])
      expect([address, matches(address)]).toEqual([address, false]);
    expect(matches("http://127.0.0.1:1/callback", false)).toBe(false);
  });

  it("are claimable by any application on the device, unless they are https", () => {
    for (const address of [
      "http://127.0.0.1:1/",
      "http://[::1]/",
      "com.example.app:/",
      "http://localhost:1/",
    ])
      expect([address, isNativeAddress(address)]).toEqual([address, true]);
    expect(isNativeAddress("https://app.example/")).toBe(false);
  });
});

describe("the origins of a public client", () => {
  it("are those of its https redirect addresses, unless it names others [D-KIND-12]", async () => {
    const redirect_uris = [
      CALLBACK,
      "https://app.example/other",
      "https://beta.example:8443/",
      "http://localhost:5173/",
    ];
    const { client_id } = await register({ ...PUBLIC, redirect_uris });
    const origins = async (): Promise<unknown> => (await domain.clients.find(client_id))?.effective_origins;
    const byDefault = ["https://app.example", "https://beta.example:8443", "http://localhost:5173"];
    expect(await origins()).toEqual(byDefault);
    await domain.clients.update(client_id, { origins: ["https://cdn.example"] });
    expect(await origins()).toEqual(["https://cdn.example"]);
    await domain.clients.update(client_id, { origins: [] });
    expect(await origins()).toEqual([]);
    await domain.clients.update(client_id, { origins: null });
    expect(await origins()).toEqual(byDefault);
    // What is read can be written back without fixing them.
    await expect(domain.clients.find(client_id)).resolves.toMatchObject({ origins: null });
  });

  it("are none for the other addresses of a native one", async () => {
    const redirect_uris = ["http://127.0.0.1/", "com.example.app:/", CALLBACK];
    const { client_id } = await register({ ...PUBLIC, native: true, redirect_uris });
    expect(await domain.clients.find(client_id)).toMatchObject({
      effective_origins: ["https://app.example"],
    });
  });

  it.each([
    "null",
    "*",
    "https://*.example",
    "https://app.example/",
    "https://app.example/path",
    "https://APP.example",
    "https://app.example:443",
    "http://app.example",
    "http://localhost:5173",
    "https://ada@app.example",
    "com.example.app:",
    "",
  ])("are never %j [D-KIND-12]", async (origin) => {
    domain = domain.reopen({ production: true });
    await expect(register({ ...PUBLIC, origins: [origin] })).rejects.toThrow(/client\.origins\[0\]: must /u);
  });
});

describe("the keys of a client", () => {
  it.each(["web", "machine"] as const)("replace the secret of a %s client [D-KIND-9]", async (kind) => {
    const keys = [{ ...RSA, kid: "1", alg: "PS256" }, { ...EC, use: "sig" }, ED];
    const { client_id, ...rest } = await register({ ...KINDS[kind], jwks: { keys } });
    expect(rest).toEqual({});
    expect((await domain.clients.find(client_id))?.jwks?.keys).toEqual(keys);
    await expect(domain.clients.rotateSecret(client_id)).rejects.toThrow("has keys in place of a secret");
    const [record] = await domain.storage.directory.listClients();
    expect(record?.secrets).toEqual([]);
    // Never both: each replaces the other.
    await domain.clients.update(client_id, { client_secret: SECRET });
    expect(await domain.clients.find(client_id)).toMatchObject({ jwks: null });
    await domain.clients.update(client_id, { jwks: { keys: [EC] } });
    const [after] = await domain.storage.directory.listClients();
    expect(after).toMatchObject({ secrets: [], jwks: { keys: [EC] } });
  });

  it("are kept without members that mean nothing here", async () => {
    const { client_id } = await register({
      ...WEB,
      jwks: { keys: [{ ...EC, x5c: ["x"], note: "ours" }], extra: 1 },
    });
    expect((await domain.clients.find(client_id))?.jwks).toEqual({ keys: [EC] });
  });

  const many = Array.from({ length: 11 }, () => EC);
  it.each<[string, unknown, RegExp]>([
    ["none", { keys: [] }, /client\.jwks\.keys: must be a list of 1 to 10 keys/u],
    ["eleven", { keys: many }, /client\.jwks\.keys: must be a list of 1 to 10 keys/u],
    ["an address", "https://app.example/jwks", /client\.jwks: must be a JSON Web Key Set/u],
    ["a private key", { keys: [{ ...EC, d: "AQAB" }] }, /keys\[0\]: must be a public key/u],
    ["a symmetric key", { keys: [{ kty: "oct", k: "AQAB" }] }, /keys\[0\]: must be a public key/u],
    [
      "a short RSA key",
      { keys: [jwk("rsa", { modulusLength: 1024 })] },
      /keys\[0\]: must have at least 2048 bits/u,
    ],
    [
      "another curve",
      { keys: [jwk("ec", { namedCurve: "P-384" })] },
      /keys\[0\]: must be on the curve P-256/u,
    ],
    ["a point that is on no curve", { keys: [{ ...EC, y: EC["x"] }] }, /keys\[0\]: must be a key/u],
    ["an algorithm of another type", { keys: [{ ...EC, alg: "RS256" }] }, /keys\[0\]: must be for ES256/u],
    ["an HMAC", { keys: [{ ...RSA, alg: "HS256" }] }, /keys\[0\]: must be for RS256 or PS256/u],
    ["an encryption key", { keys: [{ ...RSA, use: "enc" }] }, /keys\[0\]: must be for signatures/u],
    [
      "the same kid twice",
      {
        keys: [
          { ...EC, kid: "1" },
          { ...ED, kid: "1" },
        ],
      },
      /keys: must not have a kid twice/u,
    ],
    ["something else", { keys: ["key"] }, /keys\[0\]: must be an object/u],
    ["the name of a method as a type", { keys: [{ kty: "constructor" }] }, /keys\[0\]: must be of the type/u],
  ])("are never %s [D-KIND-9]", async (_what, jwks, problem) => {
    await expect(register({ ...WEB, jwks })).rejects.toThrow(problem);
  });
});
