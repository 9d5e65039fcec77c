/** The rules of APIs, and what clients may ask of them. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import type { ApiSettings } from "../../accounts/operations/apis.ts";
import { StillReferenced } from "../../core/errors.ts";
import { applySeed } from "../../lib/seed.ts";
import { codeOf, openDomain, type Domain, withCommit } from "./open-domain.ts";

const ARTICLES = "https://api.example.com/articles";
const SETTINGS: ApiSettings = {
  name: "Articles",
  service: "1",
  scopes: { "articles:read": "Read articles", "articles:write": "Write and delete articles" },
};
const SECRET = "0123456789abcdef";

let domain: Domain;
beforeEach(async () => {
  domain = await openDomain();
  await domain.directory.services.put("1", { name: "News" });
});

const machine = (client_id: string, apis = {}): Promise<unknown> =>
  domain.clients.register({ client_id, kind: "machine", name: "Job", service: "1", apis });
const references = (removal: Promise<boolean>): Promise<unknown> =>
  removal.catch((error: unknown) => error instanceof StillReferenced && error.references);
const epochOf = async (client_id: string): Promise<string | undefined> =>
  (await domain.storage.directory.findClient(client_id))?.tokens_epoch;

describe("an API", () => {
  it("is put, found, listed and removed, with defaults, and audited [D-API-1]", async () => {
    const { apis } = domain.directory;
    const shown = {
      ...SETTINGS,
      identifier: ARTICLES,
      tokens: "opaque",
      lifetime: 36_000,
      introspection: [],
      assign: false,
      second_factor: "optional",
      unregistered: [],
    };
    expect(await apis.put(ARTICLES, SETTINGS)).toEqual(shown);
    expect(await apis.put(ARTICLES, SETTINGS)).toEqual(shown);
    const { directory } = domain.reopen({ sendsLogoutTokens: false });
    const jwt = await directory.apis
      .put("http://127.0.0.1:4000/api", { ...SETTINGS, tokens: "jwt" })
      .catch(String);
    expect(jwt).toContain("api.tokens: jwt needs the openid deployment");
    expect([await apis.find(ARTICLES), await apis.find(`${ARTICLES}/`), await apis.find("\0")]).toEqual([
      shown,
      undefined,
      undefined,
    ]);
    await apis.put("https://a.example", { ...SETTINGS, lifetime: 60, assign: true });
    expect((await apis.list()).items.map(({ identifier }) => identifier)).toEqual([
      "https://a.example",
      ARTICLES,
    ]);
    expect([await apis.remove("https://a.example"), await apis.remove("https://a.example")]).toEqual([
      true,
      false,
    ]);
    const { items: written } = await domain.storage.audit.list({ limit: 20 });
    expect(
      written.map(({ action, subject }) => [action, subject]).filter(([action]) => action?.startsWith("api")),
    ).toEqual([
      ["api.removed", "https://a.example"],
      ["api.created", "https://a.example"],
      ["api.created", ARTICLES],
    ]);
  });

  it("has an identifier that every parser reads alike, and that is not below a deployment [D-API-1]", async () => {
    const { apis } = domain.reopen().directory;
    for (const identifier of [
      "",
      "api",
      "urn:api",
      "http://api.example.com",
      "https://user@api.example.com",
      "https://api.example.com/#x",
      "https://api.example.com/ x",
      "https://0x7f000001/",
      "https://API.example.com\\x",
      "ftp://api.example.com",
      `https://api.example.com/${"x".repeat(233)}`,
      "__proto__",
      null,
    ])
      expect(await codeOf(apis.put(identifier as string, SETTINGS))).toMatch(/^TypeError identifier: /);
    await apis.put(`https://api.example.com/${"x".repeat(232)}`, SETTINGS);
  });

  it("has settings that are checked; the error names the option [D-API-1]", async () => {
    const wrong: Record<string, readonly unknown[]> = {
      name: ["", "a\nb", undefined],
      service: ["", "a b", undefined],
      scopes: [
        {},
        [],
        undefined,
        { Upper: "x" },
        { "1a": "x" },
        { "a b": "x" },
        { [`a${"b".repeat(64)}`]: "x" },
        { articles: "" },
        { constructor: "x" },
        ...["openid", "profile", "email", "address", "phone", "offline_access", "roles", "account"].map(
          (scope) => ({ [scope]: "x" }),
        ),
        Object.fromEntries(Array.from({ length: 101 }, (_, index) => [`s${index}`, "x"])),
      ],
      tokens: ["JWT", null],
      lifetime: [0, 59, 36_001, 60.5, "60"],
      introspection: ["news", [""], ["a", "a"], [1]],
      assign: ["yes"],
      second_factor: ["yes", true, null],
      unregistered: ["articles:read", [1], ["articles:read", "articles:read"], ["other"], ["constructor"]],
      secret: ["x"],
    };
    for (const [option, values] of Object.entries(wrong))
      for (const value of values) {
        const message = await codeOf(domain.directory.apis.put(ARTICLES, { ...SETTINGS, [option]: value }));
        expect([option, value, message]).toEqual([option, value, expect.stringMatching(/^TypeError api/)]);
        expect(message).toContain(option);
      }
    const jwt = { ...SETTINGS, tokens: "jwt", lifetime: 901 } as const;
    expect(await codeOf(domain.directory.apis.put(ARTICLES, jwt))).toContain(
      "api.lifetime: must be at most 900",
    );
    expect(await domain.directory.apis.list()).toEqual({ items: [], next: null });
  });

  it("changes the given settings, and keeps the others and its kind of tokens", async () => {
    const { apis } = domain.directory;
    const put = await apis.put(ARTICLES, { ...SETTINGS, introspection: [], assign: true });
    await expect(apis.update(ARTICLES, { lifetime: 600 })).resolves.toEqual({ ...put, lifetime: 600 });
    await expect(apis.update(ARTICLES)).resolves.toEqual({ ...put, lifetime: 600 });
    expect(await codeOf(apis.update(ARTICLES, { lifetime: 0 }))).toMatch(/^TypeError api\.lifetime: /);
    expect(await codeOf(apis.update(ARTICLES, { tokens: "jwt" } as object))).toMatch(
      /^TypeError api: unknown key/,
    );
    expect(await codeOf(apis.update(ARTICLES, { service: "nowhere" }))).toBe("unknown_reference");
    expect(await codeOf(apis.update("https://nothing.example", { lifetime: 600 }))).toBe("not_found");
    expect(await codeOf(apis.update("https://nothing.example", {}))).toBe("not_found");
    expect(await apis.find(ARTICLES)).toEqual({ ...put, lifetime: 600 });
  });

  it("belongs to a service and names clients that exist and prove who they are [D-API-1]", async () => {
    const { apis } = domain.directory;
    const unknown = { ...SETTINGS, service: "nowhere" };
    expect(await codeOf(apis.put(ARTICLES, unknown))).toBe("unknown_reference");
    expect(await codeOf(apis.put(ARTICLES, { ...SETTINGS, introspection: ["job"] }))).toBe(
      "unknown_reference",
    );
    const redirect_uris = ["https://app.example/"];
    await domain.clients.register({
      client_id: "page",
      kind: "public",
      name: "P",
      service: "1",
      redirect_uris,
    });
    expect(await codeOf(apis.put(ARTICLES, { ...SETTINGS, introspection: ["page"] }))).toBe("not_applicable");
    await machine("job");
    await apis.put(ARTICLES, { ...SETTINGS, introspection: ["job"] });
    expect(await references(domain.directory.services.remove("1"))).toEqual([
      "client:job",
      "client:page",
      `api:${ARTICLES}`,
    ]);
  });

  it("keeps its kind of tokens, and starts anew when it is moved, or removed and put again [D-API-1]", async () => {
    const { apis } = domain.directory;
    const epoch = async (): Promise<string | undefined> =>
      (await domain.storage.directory.findApi(ARTICLES))?.tokens_epoch;
    await apis.put(ARTICLES, SETTINGS);
    const first = await epoch();
    await apis.put(ARTICLES, { ...SETTINGS, name: "Renamed" });
    expect(await epoch()).toBe(first);
    await domain.directory.services.put("2", { name: "Shop" });
    await apis.put(ARTICLES, { ...SETTINGS, service: "2" });
    const second = await epoch();
    await apis.remove(ARTICLES);
    await apis.put(ARTICLES, SETTINGS);
    expect(new Set([first, second, await epoch()]).size).toBe(3);
  });

  it("is not removed while a client may ask for it, even if both happen at once [D-API-1, D-API-2]", async () => {
    const { apis } = domain.directory;
    for (let round = 0; round < 20; round += 1) {
      await apis.put(ARTICLES, SETTINGS);
      const [added, removed] = await Promise.allSettled([
        machine(`job${round}`, { [ARTICLES]: ["articles:read"] }),
        apis.remove(ARTICLES),
      ]);
      expect(added.status === "fulfilled").toBe(removed.status === "rejected");
      if (added.status === "fulfilled") {
        expect(await references(apis.remove(ARTICLES))).toEqual([`client:job${round}`]);
        await domain.clients.remove(`job${round}`);
      }
    }
  });
});

describe("the APIs of a client", () => {
  beforeEach(() => domain.directory.apis.put(ARTICLES, SETTINGS));

  it("are registered, changed and removed [D-API-2]", async () => {
    const { clients } = domain;
    await machine("job", { [ARTICLES]: ["articles:read"] });
    expect((await clients.find("job"))?.apis).toEqual({ [ARTICLES]: ["articles:read"] });
    const both = { [ARTICLES]: ["articles:write", "articles:read"] };
    expect((await clients.update("job", { apis: both })).apis).toEqual(both);
    expect((await clients.update("job", { name: "Renamed" })).apis).toEqual(both);
    expect((await clients.update("job", { apis: {} })).apis).toEqual({});
    expect(await domain.directory.apis.remove(ARTICLES)).toBe(true);
  });

  it("must exist, and so must their scopes [D-API-2]", async () => {
    for (const apis of [
      { "https://other.example": ["articles:read"] },
      { [`${ARTICLES}/`]: ["articles:read"] },
      { [ARTICLES]: ["articles:delete"] },
      { [ARTICLES]: ["articles:read", "valueof"] },
    ])
      expect(await codeOf(machine("job", apis))).toBe("unknown_reference");
    for (const apis of [
      { [ARTICLES]: [] },
      { [ARTICLES]: ["openid"] },
      { [ARTICLES]: ["articles:read", "articles:read"] },
      { [ARTICLES]: "articles:read" },
      { api: ["articles:read"] },
      [],
      null,
    ])
      expect(await codeOf(machine("job", apis as object))).toMatch(/^TypeError client\.apis/);
    // A scope that the API has lost since does not stop other changes.
    await machine("job", { [ARTICLES]: ["articles:read"] });
    await domain.directory.apis.put(ARTICLES, { ...SETTINGS, scopes: { "articles:write": "Write" } });
    expect((await domain.clients.update("job", { name: "Renamed" })).name).toBe("Renamed");
  });

  it("are not introspected by a client that was removed, or by another one with its id [D-API-4]", async () => {
    const { directory, clients } = domain;
    await machine("api");
    await directory.apis.put(ARTICLES, { ...SETTINGS, introspection: ["api"] });
    await clients.remove("api");
    expect((await directory.apis.find(ARTICLES))?.introspection).toEqual([]);

    await machine("api");
    await directory.apis.put(ARTICLES, { ...SETTINGS, introspection: ["api"] });
    // The process that removes the client dies after that.
    const dying = domain.reopen({
      storage: (storage) => withCommit(storage, () => Promise.reject(new Error("dead")), { name: "api" }),
    });
    await dying.clients.remove("api");
    expect((await directory.apis.find(ARTICLES))?.introspection).toEqual(["api"]);
    await machine("api");
    expect((await directory.apis.find(ARTICLES))?.introspection).toEqual([]);
  });
});

describe("the epoch of a machine client's tokens", () => {
  it("ends with the secret, the client, and by revokeTokens; not by other changes [D-MACHINE-2]", async () => {
    const { clients } = domain;
    await machine("job");
    const seen = new Set([await epochOf("job")]);
    const expectNew = async (isNew: boolean): Promise<void> => {
      const epoch = await epochOf("job");
      expect(seen.has(epoch)).toBe(!isNew);
      seen.add(epoch);
    };
    await clients.update("job", { name: "Renamed" });
    await clients.rotateSecret("job", { keepOldFor: 60 });
    await expectNew(false);
    await clients.rotateSecret("job");
    await expectNew(true);
    await clients.update("job", { client_secret: SECRET });
    await expectNew(true);
    await clients.update("job", { client_secret: SECRET });
    await expectNew(false);
    await clients.revokeTokens("job");
    await expectNew(true);
    await clients.disable("job");
    await expectNew(true);
    await clients.enable("job");
    await expectNew(true);
    await clients.remove("job");
    await machine("job");
    await expectNew(true);
  });

  it("is revoked for machine clients only [D-MACHINE-2]", async () => {
    await domain.clients.register({
      client_id: "web",
      name: "W",
      service: "1",
      redirect_uris: ["https://w.example/"],
    });
    const before = await epochOf("web");
    expect(await codeOf(domain.clients.revokeTokens("web"))).toBe("not_applicable");
    expect(await codeOf(domain.clients.revokeTokens("none"))).toBe("not_found");
    expect(await codeOf(domain.clients.revokeTokens("constructor"))).toBe("not_found");
    await domain.clients.rotateSecret("web");
    expect(await epochOf("web")).toBe(before);
  });
});

describe("a seed with APIs", () => {
  it("is applied again without a change, though clients and APIs name each other [D-API-1]", async () => {
    const seed = {
      services: { "1": { name: "News" } },
      apis: { [ARTICLES]: { ...SETTINGS, introspection: ["api"] } },
      clients: [
        { client_id: "api", kind: "machine", client_secret: SECRET, service: "1" },
        {
          client_id: "job",
          kind: "machine",
          client_secret: SECRET,
          service: "1",
          apis: { [ARTICLES]: ["articles:read"] },
        },
      ],
    } as const;
    await applySeed(domain, seed);
    expect((await domain.directory.apis.find(ARTICLES))?.introspection).toEqual(["api"]);
    const written = async (): Promise<number> =>
      (await domain.storage.audit.list({ limit: 100 })).items.length;
    const before = await written();
    await applySeed(domain, seed);
    expect(await written()).toBe(before);
    await applySeed(domain, { ...seed, clients: [seed.clients[0], { ...seed.clients[1], apis: {} }] });
    expect((await domain.clients.find("job"))?.apis).toEqual({});
    await expect(
      applySeed(domain, { apis: { [ARTICLES]: { ...SETTINGS, service: "x" } } }),
    ).rejects.toMatchObject({
      problems: [expect.stringContaining("config.seed.apis")],
    });
    await expect(applySeed(domain, { apis: { nonsense: SETTINGS } })).rejects.toMatchObject({
      problems: [expect.stringContaining("config.seed.apis")],
    });
  });
});
