/** What somebody does with a token of administration that was stolen: over the real listener, with real tokens and real limits. */
import { once } from "node:events";
import { request as send } from "node:http";
import { text as textOf } from "node:stream/consumers";
import { setTimeout as pause } from "node:timers/promises";
import { beforeAll, describe, expect, it } from "@jest/globals";
import { ADDRESSES } from "../../administration/rest/addresses.ts";
import { segmentOf } from "../../administration/tables.ts";
import type { ServiceEvents } from "../../core/events.ts";
import { TestClock } from "../../testing/test-clock.ts";
import { startAdministered } from "../administration/listener-stage.ts";
import { SECRET } from "../administration/console/console-visitor.ts";
import { beforeTests } from "../closing.ts";
import { OPERATOR } from "../flows/running-service.ts";

const HOUR = 3_600;
const clock = new TestClock();

const stage = beforeTests(async () => {
  const running = await startAdministered({
    config: { clock, operators: { [OPERATOR.sub]: "viewer" }, mail: { send: async () => undefined } },
  });
  const { accounts, clients, directory } = running.service;
  await directory.services.put("news", { name: "News", roles: ["editor"] });
  await directory.services.put("shop", { name: "Shop", roles: ["buyer"] });
  await accounts.import({ ...OPERATOR, email_verified: true, services: { news: 1, shop: 2 } });
  await accounts.addApp(OPERATOR.sub, { secret: SECRET });
  const ada = await accounts.import({
    email: "ada@news.example",
    username: "ada-of-news",
    name: "Ada",
    services: { news: 1 },
    roles: { news: ["editor"] },
  });
  const bob = await accounts.import({ email: "bob@shop.example", services: { shop: 1 } });
  for (const service of ["news", "shop"]) {
    const redirect_uris = [`https://${service}.example/callback`];
    await clients.register({ client_id: `${service}-web`, name: service, service, redirect_uris });
    await directory.apis.put(`https://${service}.example`, {
      name: service,
      service,
      scopes: { read: "Read" },
    });
  }
  const invitation = await accounts.invite({ email: "invited@example.com" });
  return { ...running, ada: ada.sub, bob: bob.sub, invitation: invitation.id };
});

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: {
    readonly code?: string;
    readonly items?: readonly unknown[];
    readonly next?: string | null;
  };
  readonly text: string;
}

type Ask = (method: string, path: string, body?: object | string) => Promise<Answer>;

/** Whoever has stolen a new token of this role. */
async function thief(role: "viewer" | "support" | "administrator", service?: string): Promise<Ask> {
  const { token } = await stage.service.tokens.create({ role, expires: 86_400, ...(service && { service }) });
  return async (method, path, body) => {
    const answer = await fetch(stage.admin + path, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        ...(body !== undefined && { "content-type": "application/json" }),
      },
      ...(body !== undefined && { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
    const text = await answer.text();
    return {
      status: answer.status,
      headers: answer.headers,
      text,
      body: text === "" ? {} : JSON.parse(text),
    };
  };
}

/** Everything that a thief would like to have changed. */
async function state(): Promise<unknown> {
  const { accounts, clients, directory, tokens, invitations } = stage.service;
  const all = await stage.storage.records.store.scan("client", undefined, 100);
  return {
    operator: await accounts.find(OPERATOR.sub),
    factors: await accounts.factors(OPERATOR.sub),
    // With the digests of their secrets.
    clients: all.records.map(({ key, version }) => [key, version]),
    listed: (await clients.list()).items,
    services: (await directory.services.list()).items,
    tokens: (await tokens.list()).items.map(({ id, role, service }) => [id, role, service]),
    invitations: (await invitations.list()).items.map(({ id, email, services, roles }) => [
      id,
      email,
      services,
      roles,
    ]),
  };
}

/** What an input could be that does harm. */
const LOOT = {
  email: "thief@example.com",
  email_verified: true,
  password: "a long password of the thief",
  role: "administrator",
  roles: ["editor"],
  service: "news",
  services: ["news"],
  provider: "google",
  subject: "thief",
  name: "Thief",
  redirect_uris: ["https://thief.example/callback"],
  client_secret: "a secret that the thief knows, of 32 and more",
  first_party: true,
  confirm: OPERATOR.sub,
} as const;

/** Every subset that matters: each member alone, and all of them. */
const INPUTS: readonly object[] = [
  {},
  LOOT,
  ...Object.entries(LOOT).map(([name, value]) => ({ [name]: value })),
];

describe("a stolen token of support", () => {
  const writings = [
    OPERATOR.sub,
    OPERATOR.sub.replace("3", "%33"),
    `b64:${Buffer.from(OPERATOR.sub).toString("base64url")}`,
  ];
  const others = [
    OPERATOR.sub.toUpperCase(),
    `%20${OPERATOR.sub}`,
    `${OPERATOR.sub}%20`,
    `${OPERATOR.sub}%0a`,
  ];
  const ways = ADDRESSES.filter(({ row, method }) => row.target[0] === "sub" && method !== "GET");

  it("changes nothing of an operator's account, however it writes its name [D-ADM-300]", async () => {
    const ask = await thief("support");
    const before = await state();
    expect(ways.length).toBeGreaterThan(10);
    for (const { method, path, row } of ways)
      for (const [names, statuses] of [
        [writings, [403]],
        [others, [403, 404]],
      ] as const)
        for (const name of names) {
          const place = path.replace("{sub}", name).replace(/\{\w+\}/u, "app");
          const { status, body } = await ask(method, place, method === "DELETE" ? undefined : {});
          expect([
            place,
            statuses.includes(status as never),
            row.role === "support" || body.code === "role_required",
          ]).toEqual([place, true, true]);
        }
    expect(await state()).toEqual(
      Object.assign(before as object, {
        tokens: (await stage.service.tokens.list()).items.map(({ id, role, service }) => [id, role, service]),
      }),
    );
  });

  it("gets no right, secret, address or invitation more, at any address with any input [D-ADM-300]", async () => {
    const ask = await thief("support");
    const before = await state();
    const names: Readonly<Record<string, string>> = {
      sub: OPERATOR.sub,
      client_id: "news-web",
      key: "news",
      identifier: segmentOf("https://news.example"),
      id: stage.invitation,
      kid: "x",
      receiver: "service%3Anews",
      factor: "app",
      provider: "google",
      record: "x",
    };
    for (const { method, path, row } of ADDRESSES.filter((each) => each.method !== "GET")) {
      // Support withdraws an invitation, and sends it again: that is its own test.
      if (row.role === "support" && path.includes("/invitations/")) continue;
      const place = path.replaceAll(/\{(\w+)\}/gu, (_all, name: string) => names[name] ?? "x");
      for (const body of INPUTS) {
        const { status, text } = await ask(method, place, method === "DELETE" ? undefined : body);
        expect([method, place, body, status >= 500]).toEqual([method, place, body, false]);
        if (row.role === "administrator") expect([method, place, status]).toEqual([method, place, 403]);
        expect(text).not.toMatch(/"(?:client_secret|secret|token|password_hash)":/u);
        if (method === "DELETE") break;
      }
    }
    for (const path of [
      "/v1/tokens",
      "/v1/operators",
      `/v1/operators/${OPERATOR.sub}/confirm`,
      "/v1/tokens/x/end",
    ])
      for (const method of ["GET", "POST", "PUT", "PATCH", "DELETE"])
        expect([
          path,
          (await ask(method, path, ["GET", "DELETE"].includes(method) ? undefined : LOOT)).status,
        ]).toEqual([path, 404]);
    expect(await state()).toEqual(before);
  });

  it("sends an invitation to nobody else, and no more than three times [D-ADM-300]", async () => {
    const ask = await thief("support");
    const place = `/v1/invitations/${stage.invitation}`;
    expect((await ask("POST", `${place}/send`, { email: LOOT.email })).status).toBe(422);
    const statuses: number[] = [];
    for (let time = 0; time < 5; time += 1) statuses.push((await ask("POST", `${place}/send`, {})).status);
    expect(statuses).toEqual([200, 200, 200, 409, 409]);
    expect((await ask("GET", place)).body).toMatchObject({
      email: "invited@example.com",
      roles: {},
      services: [],
    });
  });
});

describe("an hour of a stolen token", () => {
  const limited: ServiceEvents["administration.limited"][] = [];
  const crowd = Array.from(
    { length: 620 },
    (_, index) => `crowd-${String(index).padStart(4, "0")}@crowd.example`,
  );
  const people: string[] = [];
  beforeAll(async () => {
    const { accounts, events } = stage.service;
    events.on("administration.limited", (event) => limited.push(event));
    for (const email of crowd) people.push((await accounts.import({ email })).sub);
  });

  it("has 600 accounts, in whatever way they are read, and then says of none whether it is there [D-ADM-301]", async () => {
    const ask = await thief("viewer");
    let read = 0;
    let after: string | null | undefined;
    for (let page = 0; page < 2; page += 1) {
      const { body } = await ask("POST", "/v1/accounts/search", {
        search: "crowd",
        limit: 200,
        ...(typeof after === "string" && { after }),
      });
      read += body.items?.length ?? 0;
      after = body.next;
    }
    expect(read).toBe(400);
    // Each way to look at a person counts, and each person once.
    const looks = [
      (sub: string) => ask("GET", `/v1/accounts/${sub}`),
      (sub: string) => ask("GET", `/v1/accounts/${sub}/factors`),
      (sub: string) => ask("GET", `/v1/deliveries/explain?account=${sub}&type=DELETE_ACCOUNT`),
      (sub: string) => ask("POST", "/v1/accounts/search", { search: sub }),
    ];
    let refused: Answer | undefined;
    for (const [index, sub] of people.slice(400).entries()) {
      const answer = await (looks[index % looks.length] ?? looks[0]!)(sub);
      if (answer.status === 200) read += 1;
      else refused ??= answer;
    }
    expect(read).toBe(600);
    expect([refused?.status, refused?.body.code, refused?.headers.get("retry-after")]).toEqual([
      429,
      "limit_reached",
      String(HOUR),
    ]);
    // No answer differs between an address that has an account and one that has none.
    for (const search of [
      crowd[0],
      "nobody@crowd.example",
      "crowd",
      "nobody",
      people[610],
      crypto.randomUUID(),
    ])
      expect([search, (await ask("POST", "/v1/accounts/search", { search })).status]).toEqual([search, 429]);
    expect(limited.at(-1)).toMatchObject({ kind: "token", limit: "administration.accounts" });
    expect(await stage.service.metrics()).toMatch(/limit="administration\.accounts"\} [1-9]/u);
  }, 60_000);

  it("has the factors of ten people [D-ADM-301]", async () => {
    const ask = await thief("support");
    const victims = people.slice(0, 12);
    for (const sub of victims) await stage.service.accounts.addApp(sub, { secret: SECRET });
    const statuses: number[] = [];
    for (const sub of victims) statuses.push((await ask("DELETE", `/v1/accounts/${sub}/factors`)).status);
    expect(statuses).toEqual([...Array.from({ length: 10 }, () => 204), 429, 429]);
    // Nor in another way.
    expect((await ask("DELETE", `/v1/accounts/${victims[11]}/factors/app`)).status).toBe(429);
    expect(await stage.service.accounts.factors(victims[11]!)).toMatchObject({ app: expect.any(Object) });
    expect(limited.at(-1)).toMatchObject({ kind: "token", limit: "administration.people" });
  });

  it("has 60 changes, however many are asked for at once [D-ADM-301]", async () => {
    const ask = await thief("support");
    const answers = await Promise.all(
      people.slice(0, 80).map((sub) => ask("POST", `/v1/accounts/${sub}/disable`, {})),
    );
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(60);
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(20);
    const disabled = await Promise.all(people.slice(0, 80).map((sub) => stage.service.accounts.find(sub)));
    expect(disabled.filter((account) => account?.disabled)).toHaveLength(60);
    expect(limited.at(-1)).toMatchObject({ kind: "token", limit: "administration.changes" });
  });
});

describe("a token that is limited to a service", () => {
  it("tells nothing apart at any address: what is another service's is like what does not exist [D-ADM-302]", async () => {
    const ask = await thief("administrator", "news");
    const { items: deliveries } = await stage.service.notifications.list({ limit: 1 });
    const { items: records } = await stage.service.audit.list({ client: "shop-web", limit: 1 });
    const theirs: Readonly<Record<string, readonly [string, string]>> = {
      sub: [stage.bob, crypto.randomUUID()],
      client_id: ["shop-web", "none-web"],
      key: ["shop", "none"],
      identifier: [segmentOf("https://shop.example"), segmentOf("https://none.example")],
      receiver: ["service%3Ashop", "service%3Anone"],
      id: [deliveries[0]?.id ?? stage.invitation, "none"],
      record: [records[0]?.id ?? "x", "none"],
      kid: ["x", "none"],
    };
    let compared = 0;
    for (const { method, path } of ADDRESSES) {
      const [, name] = /\{(\w+)\}/u.exec(path) ?? [];
      const [own, none] = theirs[name ?? ""] ?? [];
      if (own === undefined || none === undefined) continue;
      for (const body of method === "GET" || method === "DELETE" ? [undefined] : INPUTS) {
        const of = (each: string) =>
          ask(method, path.replace(`{${name}}`, each).replaceAll(/\{\w+\}/gu, "x"), body);
        const [one, other] = [await of(own), await of(none)];
        const said = ({ status, body: { code }, headers }: Answer) => [
          status,
          code,
          [...headers.keys()].toSorted(),
          headers.get("content-length"),
        ];
        expect([method, path, body, said(one)]).toEqual([method, path, body, said(other)]);
        expect([403, 404]).toContain(one.status);
        compared += 1;
      }
    }
    expect(compared).toBeGreaterThan(200);
  }, 60_000);

  it("does not see when another service changes something of a person [D-ADM-302]", async () => {
    const ask = await thief("viewer", "news");
    const { accounts } = stage.service;
    const seen = async () => {
      const { headers, text } = await ask("GET", `/v1/accounts/${stage.ada}`);
      return [headers.get("etag"), text];
    };
    const before = await seen();
    clock.advance(60);
    await accounts.assign(stage.ada, "shop");
    clock.advance(60);
    await accounts.setRoles(stage.ada, "shop", ["buyer"]);
    await accounts.unassign(stage.ada, "shop");
    expect(await seen()).toEqual(before);
  });

  it("puts nothing into a client that leads people away or that is a program [D-ADM-302]", async () => {
    const ask = await thief("administrator", "news");
    const before = await stage.service.clients.find("news-web");
    const svg = Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>');
    for (const logo of [
      "https://thief.example/logo.png",
      "//thief.example/logo.png",
      "data:image/svg+xml,<svg/>",
      svg.toString("base64"),
      Buffer.from("GIF89a").toString("base64"),
      Buffer.alloc(100_001).toString("base64"),
      { url: "https://thief.example" },
      1,
    ])
      expect([logo, (await ask("PATCH", "/v1/clients/news-web", { logo })).status]).toEqual([logo, 422]);
    for (const policy_uri of [
      "https://news.example.:443@thief.example/",
      "https://news.example%2ethief.example/",
      "https://NEWS.example.thief.example/",
      "blob:https://news.example/x",
      "filesystem:https://news.example/x",
      "https:\\\\thief.example",
      "https://[::1]/",
    ])
      expect([policy_uri, (await ask("PATCH", "/v1/clients/news-web", { policy_uri })).status]).toEqual([
        policy_uri,
        422,
      ]);
    expect(await stage.service.clients.find("news-web")).toEqual(before);
  });
});

describe("a token that is ended", () => {
  it("does nothing more, also in a request that it has begun [D-ADM-303]", async () => {
    const { service, admin } = stage;
    const { id, token } = await service.tokens.create({ role: "support", expires: HOUR });
    const { hostname, port } = new URL(admin);
    const body = JSON.stringify({});
    const request = send({
      host: hostname,
      port,
      method: "POST",
      path: `/v1/accounts/${stage.ada}/disable`,
      headers: {
        authorization: `Bearer ${token}`,
        "content-type": "application/json",
        "content-length": Buffer.byteLength(body),
      },
    });
    request.flushHeaders();
    request.write(body.slice(0, 1));
    const wasSeen = async () =>
      (await service.tokens.list()).items.some((each) => each.id === id && each.last_used_at !== null);
    while (!(await wasSeen())) await pause(20);
    await service.tokens.end(id);
    request.end(body.slice(1));
    const [response] = await once(request, "response");
    expect([response.statusCode, JSON.parse(await textOf(response))]).toEqual([
      401,
      expect.objectContaining({ code: "invalid_token" }),
    ]);
    expect(await service.accounts.find(stage.ada)).toMatchObject({ disabled: false });
  });
});
