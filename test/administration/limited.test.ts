/** Tokens that are limited to a service: what they see and do, and that nothing else shows or moves. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import { beforeTests } from "../closing.ts";
import { openAdministration, type Send } from "./stage.ts";

const OPERATOR = "0f8fad5b-d9cb-469f-a165-70867728950e";
const attribute = { type: "text", label: "An attribute" } as const;
const receiver = (name: string) => ({
  url: `http://127.0.0.1:9/${name}`,
  client_id: "sign-in",
  client_secret: "the-password-of-the-receiver",
  types: ["PROFILE_CHANGED", "DELETE_ACCOUNT"] as const,
});
const web = (name: string, uris: readonly string[] = [`https://${name}.example/callback`]) => ({
  client_id: name,
  name,
  service: name.split("-")[0]!,
  redirect_uris: [...uris],
});

const stage = beforeTests(async () => {
  const opened = await openAdministration({
    operators: { [OPERATOR]: "viewer" },
    accounts: {
      attributes: {
        desk: { ...attribute, scope: "org", readers: ["news"] },
        cart: { ...attribute, scope: "org", readers: ["shop"] },
        score: { ...attribute, visible: false, scope: "org", readers: ["news"] },
        memo: attribute,
      },
    },
  });
  const { accounts, clients, directory } = opened;
  await directory.portals.put("main", { name: "Main" });
  await directory.groups.put("media", { name: "Media" });
  await directory.services.put("news", { name: "News", roles: ["editor"], receiver: receiver("news") });
  await directory.services.put("shop", { name: "Shop", roles: ["buyer"], receiver: receiver("shop") });
  for (const name of ["news", "news-2", "shop", "shop-2", "shop-3"]) await clients.register(web(name));
  for (const service of ["news", "shop"])
    await directory.apis.put(`https://${service}.example`, {
      name: service,
      service,
      scopes: { read: "Read" },
    });
  const create = async (name: string, services: Readonly<Record<string, string>>, sub?: string) => {
    const attributes = { desk: "1", cart: "2", score: "3", memo: "4" };
    const account = await accounts.import({
      ...(sub !== undefined && { sub }),
      email: `${name}@example.com`,
      username: name,
      name,
      portal: "main",
      attributes,
      services: Object.fromEntries(Object.keys(services).map((key) => [key, 7])),
      roles: Object.fromEntries(Object.entries(services).map(([key, role]) => [key, [role]])),
    });
    await accounts.update(account.sub, { surname: "S" });
    return account.sub;
  };
  return {
    ...opened,
    ada: await create("ada", { news: "editor", shop: "buyer" }),
    bob: await create("bob", { shop: "buyer" }),
    eve: await create("eve", { news: "editor" }, OPERATOR),
  };
});

const LIMITED = { kind: "token", id: "tok_limited" } as const;
const as = (role: "viewer" | "support" | "administrator"): Send =>
  stage.as({ role, service: "news", actor: LIMITED });
const limited: Send = (...args) => as("administrator")(...args);
const full: Send = (...args) => stage.as({ role: "administrator" })(...args);
const api = (name: string): string => encodeURIComponent(`https://${name}.example`);
const nobody = "0e02b2c3-0000-4000-8000-000000000000";
const shopDelivery = async () => {
  const { items } = await stage.calls.notifications.list({ receiver: "service:shop", limit: 1 });
  return items[0]!.id;
};

describe("a token that is limited to a service", () => {
  it("sees of an account what clients of the service read [D-ADM-50]", async () => {
    const { sub, user_id } = (await stage.accounts.find(stage.ada))!;
    const seen = {
      sub,
      user_id,
      email: "ada@example.com",
      email_verified: false,
      username: "ada",
      name: "ada",
      surname: "S",
      date_of_birth: null,
      gender: null,
      locale: null,
      attributes: { desk: "1" },
      services: { news: 7 },
      roles: { news: ["editor"] },
    };
    for (const role of ["viewer", "support", "administrator"] as const) {
      expect((await as(role)("GET", `/v1/accounts/${sub}`)).body).toEqual(seen);
      for (const search of ["ada@example.com", "ADA@example.com", sub, String(user_id)]) {
        const body = { search };
        expect((await as(role)("POST", "/v1/accounts/search", { body })).body).toEqual({
          items: [seen],
          next: null,
        });
      }
    }
    const set = { body: { service: "news", roles: ["editor"] } };
    expect((await limited("POST", `/v1/accounts/${sub}/set-roles`, set)).body).toEqual(seen);
  });

  it("finds nobody by less than all of an address, a sub or a number, and no stranger by that [D-ADM-51]", async () => {
    const { user_id } = (await stage.accounts.find(stage.bob))!;
    for (const search of [
      "bob@example.com",
      "nobody@example.com",
      stage.bob,
      nobody,
      String(user_id),
      "999999",
    ])
      expect((await limited("POST", "/v1/accounts/search", { body: { search } })).body).toEqual({
        items: [],
        next: null,
      });
    for (const body of [
      {},
      { search: "ada" },
      { search: "ad" },
      { search: "S" },
      { search: "" },
      { search: "example.com" },
      { search: 1 },
      { search: "-1" },
      { search: "0" },
      { search: "1e3" },
      { service: "news" },
      { disabled: true },
      { search: "ada@example.com", disabled: true },
      { search: "ada@example.com", portal: "main" },
      { search: "ada@example.com", service: "shop" },
    ]) {
      const { status, body: problem } = await limited("POST", "/v1/accounts/search", { body });
      expect([body, status, problem.code]).toEqual([body, 422, "search_required"]);
    }
  });

  it("gets the same of what belongs to others as of what does not exist [D-ADM-52]", async () => {
    const delivery = await shopDelivery();
    const { items: records } = await stage.calls.audit.list({ client: "shop", limit: 1 });
    const stale = { headers: { "If-Match": '"x"' } };
    const roles = { body: { service: "news", roles: ["editor"] } };
    for (const [method, path, theirs, none, sent] of [
      ["GET", "/v1/accounts/X", stage.bob, nobody, {}],
      ["GET", "/v1/accounts/X", stage.bob, nobody, stale],
      ["POST", "/v1/accounts/X/set-roles", stage.bob, nobody, roles],
      ["POST", "/v1/accounts/X/set-roles", stage.bob, nobody, { ...roles, ...stale }],
      ["POST", "/v1/accounts/X/set-roles", stage.bob, nobody, { body: { color: "red" } }],
      ["POST", "/v1/accounts/X/revoke-tokens", stage.bob, nobody, { body: { client: "news" } }],
      ["DELETE", "/v1/accounts/X/services?services=news", stage.bob, nobody, {}],
      ["GET", "/v1/clients/X", "shop", "none", {}],
      ["PATCH", "/v1/clients/X", "shop", "none", { body: { tos_uri: "https://evil.example" } }],
      ["PATCH", "/v1/clients/X", "shop", "none", { body: { tos_uri: 1 }, ...stale }],
      ["GET", "/v1/services/X", "shop", "none", {}],
      ["GET", "/v1/apis/X", api("shop"), api("none"), {}],
      ["GET", "/v1/receivers/X", "service%3Ashop", "service%3Anone", {}],
      ["GET", "/v1/receivers/X", "group%3Amedia", "group%3Anone", {}],
      ["GET", "/v1/deliveries/X", delivery, "msg_none", {}],
      ["POST", "/v1/deliveries/X/redrive", delivery, "msg_none", { body: {} }],
      ["POST", "/v1/deliveries/X/send-now", delivery, "msg_none", {}],
      ["GET", "/v1/audit/X", records[0]!.id, "none", {}],
    ] as const) {
      const [one, other] = await Promise.all(
        [theirs, none].map((name) => limited(method, path.replace("X", name), sent)),
      );
      expect([method, path, one!.status, one!.body]).toEqual([method, path, 404, other!.body]);
      expect(Object.keys(one!.headers).toSorted()).toEqual(Object.keys(other!.headers).toSorted());
    }
    for (const [body, status] of [
      [{ service: "shop", roles: ["buyer"] }, 404],
      [{ service: "none", roles: ["buyer"] }, 404],
      [{ service: ["news"], roles: [] }, 404],
      [{ service: "news", roles: ["buyer"] }, 422],
    ] as const)
      expect(await limited("POST", `/v1/accounts/${stage.ada}/set-roles`, { body })).toMatchObject({
        status,
      });
    for (const query of ["services=shop", "services=none", "services=news&services=shop", ""])
      expect(await limited("DELETE", `/v1/accounts/${stage.ada}/services?${query}`)).toMatchObject({
        status: 404,
      });
    expect(await stage.accounts.find(stage.ada)).toMatchObject({
      services: { news: 7, shop: 7 },
      roles: { shop: ["buyer"] },
    });
  });

  it("lists what is the service's, in full pages [D-ADM-53]", async () => {
    const listed: Record<string, readonly unknown[]> = {};
    for (const [noun, name] of [
      ["clients", "client_id"],
      ["services", "key"],
      ["apis", "identifier"],
      ["receivers", "receiver"],
    ] as const) {
      const found: unknown[] = [];
      for (let query = "limit=1"; query !== "";) {
        const { items, next } = (await as("viewer")("GET", `/v1/${noun}?${query}`)).body;
        expect(items).toHaveLength(1);
        found.push(items[0]![name]);
        query = next === null ? "" : `limit=1&after=${encodeURIComponent(next)}`;
      }
      listed[noun] = found;
    }
    expect(listed).toEqual({
      clients: ["news", "news-2"],
      services: ["news"],
      apis: ["https://news.example"],
      receivers: ["service:news"],
    });
    for (const noun of ["clients", "apis", "services", "receivers"])
      expect([noun, (await limited("GET", `/v1/${noun}?color=red`)).status]).toEqual([noun, 422]);
  });

  it("reads the deliveries and the audit of the service, and nowhere from where people sign in [D-ADM-54]", async () => {
    const { items } = (await as("viewer")("GET", "/v1/deliveries")).body;
    expect(items.length).toBeGreaterThan(0);
    expect(new Set(items.map((each) => each["receiver"]))).toEqual(new Set(["service:news"]));
    for (const name of ["service:shop", "group:media", "service:none"])
      expect((await limited("GET", `/v1/deliveries?receiver=${encodeURIComponent(name)}`)).body).toEqual({
        items: [],
        next: null,
      });
    const origin = { address: "192.0.2.0/24", browser: "Firefox" };
    const person = { kind: "account", id: stage.ada } as const;
    for (const client of ["news", "shop"])
      await stage.storage.audit.append({
        ...origin,
        action: "sign_in",
        actor: person,
        subject: stage.ada,
        client: { client_id: client, services: [client] },
      });
    await stage.calls.notifications.pause("service:news");
    await stage.calls.notifications.resume("service:news");
    const all = (await as("viewer")("GET", "/v1/audit?limit=200")).body;
    const about = new Set(
      all.items.map(({ action, client, subject }) => `${String(action)} ${String(client ?? subject)}`),
    );
    expect(about).toEqual(
      new Set([
        "service.created news",
        "client.registered news",
        "client.registered news-2",
        "sign_in news",
        "receiver.pause_requested service:news",
        "receiver.resume_requested service:news",
      ]),
    );
    for (const { address, browser } of all.items) expect([address, browser]).toEqual([null, null]);
    const pages = async (query: string): Promise<number> => {
      let number = 1;
      let { next } = (await as("viewer")("GET", `/v1/audit?limit=1&${query}`)).body;
      for (; next !== null; number += 1)
        ({ next } = (
          await as("viewer")("GET", `/v1/audit?limit=1&${query}&after=${encodeURIComponent(next)}`)
        ).body);
      return number;
    };
    // Neither the number nor the length of pages says how much there is about others.
    expect(await pages("client=shop")).toBe(await pages("client=none"));
    expect(await pages(`account=${stage.bob}`)).toBe(await pages(`account=${nobody}`));
  });

  it("has tags of its own view: what others change does not show [D-ADM-55]", async () => {
    const path = `/v1/accounts/${stage.ada}`;
    const tag = async (send: Send) => String((await send("GET", path)).headers.etag);
    const before = [await tag(limited), await tag(full)];
    expect(before[0]).not.toBe(before[1]);
    await stage.accounts.setRoles(stage.ada, "shop", []);
    await stage.accounts.setRoles(stage.ada, "shop", ["buyer"]);
    stage.clock.advance(2);
    await stage.accounts.endSessions(stage.ada);
    expect([await tag(limited), await tag(full)]).toEqual(before);
    const body = { service: "news", roles: ["editor"] };
    for (const [etag, status] of [
      [before[0], 200],
      [before[1], 412],
      ["*", 200],
    ] as const)
      expect(
        await limited("POST", `${path}/set-roles`, { headers: { "If-Match": String(etag) }, body }),
      ).toMatchObject({ status });
  });

  it.each<object>([
    { name: "Evil" },
    { service: "shop" },
    { redirect_uris: ["https://evil.example/callback"] },
    { post_logout_redirect_uris: ["https://evil.example"] },
    { backchannel_logout_uri: "https://evil.example" },
    { origins: ["https://evil.example"] },
    { client_secret: "a secret that somebody else knows, of 32" },
    { jwks: { keys: [] } },
    { first_party: true },
    { grant_types: ["password"] },
    { password_grant: true },
    { second_factor: "optional" },
    { providers: ["google"] },
    { providers_mfa: true },
    { refresh_tokens: { sliding: true } },
    { error_status: "standard" },
    { client_uri: "https://news.example" },
    { apis: { "https://shop.example": ["read"] } },
    { kind: "public" },
    { constructor: 1 },
  ])("changes no setting of a client but its looks: %j [D-ADM-56]", async (body) => {
    const before = await stage.clients.find("news");
    for (const changes of [body, { tos_uri: "https://news.example/terms", ...body }]) {
      const { status, body: problem } = await limited("PATCH", "/v1/clients/news", { body: changes });
      expect([status, problem.code]).toEqual([403, "role_required"]);
    }
    expect(await stage.clients.find("news")).toEqual(before);
  });

  it("leads nobody away: pages of a client have the origin of a redirect address [D-ADM-57]", async () => {
    for (const address of [
      "https://evil.example/terms",
      "https://news.example.evil.example",
      "https://www.news.example/terms",
      "https://news.example:8443/terms",
      "http://news.example/terms",
      "https://news.example@evil.example/terms",
      "https://evil.example\\@news.example/terms",
      "//news.example/terms",
      "javascript:alert(1)",
      "data:text/html,x",
      "",
      1,
    ])
      for (const member of ["tos_uri", "policy_uri"]) {
        const { status, body } = await limited("PATCH", "/v1/clients/news", { body: { [member]: address } });
        expect([address, status, body.errors]).toEqual([
          address,
          422,
          [{ pointer: `/${member}`, detail: expect.any(String) }],
        ]);
      }
    const own = { tos_uri: "https://news.example/terms", policy_uri: "https://news.example/privacy?a=1" };
    expect((await limited("PATCH", "/v1/clients/news", { body: own })).body).toMatchObject(own);
    expect(await limited("PATCH", "/v1/clients/news", { body: { tos_uri: null, logo: null } })).toMatchObject(
      { status: 200 },
    );
    await stage.clients.register({
      client_id: "news-app",
      kind: "public",
      name: "App",
      service: "news",
      native: true,
      redirect_uris: ["com.news.app:/callback"],
    });
    for (const tos_uri of ["https://news.example", "com.news.app:/terms"])
      expect(await limited("PATCH", "/v1/clients/news-app", { body: { tos_uri } })).toMatchObject({
        status: 422,
      });
    await stage.clients.remove("news-app");
  });

  it("revokes tokens of the service's clients only, and sends the service's deliveries only [D-ADM-58]", async () => {
    const path = `/v1/accounts/${stage.ada}/revoke-tokens`;
    for (const [body, status] of [
      [{}, 422],
      [{ client: "shop" }, 404],
      [{ client: "none" }, 404],
      [{ client: 1 }, 404],
      [{ client: "news" }, 204],
    ] as const)
      expect([body, (await as("support")("POST", path, { body })).status]).toEqual([body, status]);
    const { items } = await stage.calls.audit.list({ account: stage.ada, action: "account.tokens_revoked" });
    expect(items).toMatchObject([{ actor: LIMITED, client: "news" }]);
    for (const [body, status] of [
      [{}, 422],
      [{ receiver: "service:shop" }, 404],
      [{ receiver: "group:media" }, 404],
      [{ account: stage.bob }, 422],
      [{ receiver: "service:news" }, 200],
    ] as const)
      expect([body, (await as("support")("POST", "/v1/deliveries/redrive-all", { body })).status]).toEqual([
        body,
        status,
      ]);
  });

  it("does not touch an operator [D-ADM-59]", async () => {
    const path = `/v1/accounts/${stage.eve}`;
    for (const [method, rest, body] of [
      ["POST", "/set-roles", { service: "news", roles: [] }],
      ["POST", "/revoke-tokens", { client: "news" }],
      ["DELETE", "/services?services=news", undefined],
    ] as const)
      expect(await limited(method, `${path}${rest}`, body && { body })).toMatchObject({
        status: 403,
        body: { code: "operator_protected" },
      });
    expect(await limited("GET", path)).toMatchObject({ status: 200 });
  });

  let sub: string;
  beforeEach(async () => {
    ({ sub } = await stage.accounts.create({ email: `${crypto.randomUUID()}@example.com` }));
    await stage.accounts.assign(sub, "news");
    await stage.accounts.assign(sub, "shop");
  });

  it("takes a person out of its service, and then does not know them [D-ADM-52]", async () => {
    expect(await limited("DELETE", `/v1/accounts/${sub}/services?services=news`)).toMatchObject({
      status: 204,
    });
    expect(await stage.accounts.find(sub)).toMatchObject({ services: { shop: null } });
    expect(await limited("GET", `/v1/accounts/${sub}`)).toMatchObject({ status: 404 });
    expect(await limited("DELETE", `/v1/accounts/${sub}/services?services=news`)).toMatchObject({
      status: 404,
    });
  });
});
