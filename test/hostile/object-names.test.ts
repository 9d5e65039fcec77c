/** Names that every object has, such as `constructor`: in requests, calls and files they are names that nobody has. */
import { afterEach, beforeAll, describe, expect, it, jest } from "@jest/globals";
import type { Account } from "../../accounts/operations/accounts.ts";
import { readConfiguration } from "../../config/read.ts";
import { applySeed } from "../../lib/index.ts";
import type { Seed } from "../../lib/seed.ts";
import type { SignInService } from "../../lib/service.ts";
import { basic, send } from "../../testing/test-client.ts";
import { clientAt, signIn } from "../flows/clients.ts";
import { BOB, NEWS, PARTNER, UNLIMITED, useService } from "../flows/running-service.ts";
import { rounds } from "../rounds.ts";
import { fillConsole, WITH_CONSOLE } from "./account-samples.ts";
import { type NamedChange, replaced } from "./changes.ts";
import { type Sample, samples, sendSample } from "./requests.ts";

const NAMES: readonly string[] = Object.getOwnPropertyNames(Object.prototype);
/** For what takes a request for each. */
const SOME = rounds(0, 1) === 1 ? NAMES : ["__proto__", "constructor", "toString"];
/** A name that is neither registered nor a property. */
const UNKNOWN = "nobody-has-this";

const running = useService({ config: { ...WITH_CONSOLE, rateLimits: UNLIMITED } });

/** The shared properties of all objects, including those of functions such as `constructor`. */
const shared = (): unknown => [
  Reflect.ownKeys(Object.prototype),
  NAMES.map((name) => {
    const { value } = Object.getOwnPropertyDescriptor(Object.prototype, name) ?? {};
    return [name, Reflect.ownKeys(Object(value))];
  }),
];
const before = shared();
afterEach(() => {
  expect(shared()).toEqual(before);
});

/** An object literal with one key, as it comes out of a file. */
const keyed = <T>(name: string, value: T): Record<string, T> =>
  JSON.parse(`{${JSON.stringify(name)}:${JSON.stringify(value)}}`) as Record<string, T>;

const claimsOf = (name: string): string =>
  `{"userinfo":{"${name}":null,"email":null},"id_token":{"${name}":{"essential":true}},"${name}":{"email":null}}`;

const header = (headers: Readonly<Record<string, string>>): NamedChange => [
  JSON.stringify(headers),
  { headers },
];

/** The requests of a sample with a name in the place of each parameter and credential, or beside them. */
function changesOf(sample: Sample, name: string): NamedChange[] {
  const { query, form } = sample;
  const text = new URLSearchParams(form ?? query).toString();
  const added = (pair: string): NamedChange => [
    pair,
    { [form === undefined ? "query" : "body"]: `${text}&${pair}` },
  ];
  // The account pages share one handler. A form of a sign-in may be sent a limited number of times.
  if (sample.endpoint === "account" || sample.endpoint === "interaction")
    return replaced(sample, name).filter(([what]) => !what.startsWith("password="));
  return [
    ...replaced(sample, name),
    added(`${name}=x`),
    ...(sample.endpoint === "authorize" || sample.endpoint === "par"
      ? [
          added(`claims=${encodeURIComponent(claimsOf(name))}&prompt=none`),
          ...[
            "acr_values",
            "ui_locales",
            "claims_locales",
            "login_hint",
            "display",
            "code_challenge_method",
          ].map((parameter) => added(`${parameter}=${name}`)),
        ]
      : []),
    header({ authorization: basic({ client_id: name, client_secret: NEWS.client_secret }) }),
    header({ authorization: `Bearer ${name}` }),
    header({ "accept-language": name, cookie: `locale=${name}; ${name}=${name}` }),
  ];
}

/** What is new in the `Location` of each response. */
const NEW = /(interaction\/|(?:code|state|nonce|code_challenge|result)=)[\w.-]+/g;

/** A response without variable parts, and with `NAME` instead of the name. */
async function outlineOf(answer: Promise<Response>, name: string): Promise<unknown> {
  const response = await answer;
  const text = await response.text();
  const plain = (value: string): string => value.replaceAll(name, "NAME");
  const isJson = /json/.test(response.headers.get("content-type") ?? "");
  const body = isJson ? (JSON.parse(text) as Readonly<Record<string, unknown>>) : undefined;
  const shown = body === undefined ? /<title>[^<]*/.exec(text)?.[0] : [body["error"], Object.keys(body)];
  const location = (response.headers.get("location") ?? "").replaceAll(NEW, "$1NEW");
  return [response.status, plain(location), plain(JSON.stringify(shown) ?? "")];
}

// Thousands of requests.
jest.setTimeout(240_000);

describe("in a request, such a name", () => {
  let all: Sample[];
  beforeAll(async () => {
    all = await samples(running, await fillConsole(running));
  });

  it("gets the response of an unknown name, at every endpoint, anywhere in it [D-IDENTIFIER-1]", async () => {
    for (const sample of all) {
      const changes = [UNKNOWN, ...SOME].map((name) => [name, changesOf(sample, name)] as const);
      for (const index of changes[0]![1].keys()) {
        const [unknown, ...known] = changes.map(([name, list]) => [name, list[index]!] as const);
        const outline = ([name, [, change]]: NonNullable<typeof unknown>) =>
          outlineOf(sendSample(sample, change), name);
        // What the first of them changes, such as by a revocation, is as the others find it.
        await outline(unknown!);
        const expected = await outline(unknown!);
        const answers = await Promise.all(known.map(outline));
        const title = `${sample.title}, ${unknown![1][0]}`;
        expect([title, ...answers]).toEqual([title, ...known.map(() => expected)]);
      }
    }
    for (const kind of ["oauth2", "openid"] as const)
      for (const name of NAMES)
        expect([name, (await send(`${running[kind]}/interaction/${name}`)).status]).toEqual([
          name,
          (await send(`${running[kind]}/interaction/${UNKNOWN}`)).status,
        ]);
  });

  it("is never shown on the consent page, nor is its value [D-IDENTIFIER-1]", async () => {
    const partner = clientAt(running, "openid", PARTNER);
    const items = async (name: string): Promise<unknown> => {
      const browser = partner.browser();
      const request = { scope: `openid email ${name}`, claims: claimsOf(name), ui_locales: name };
      await browser.get(partner.authorizeUrl(request));
      await signIn(browser, BOB);
      return [
        browser.status,
        ...browser.html.replaceAll(name, UNKNOWN).matchAll(/<li[^>]*>([\s\S]*?)<\/li>/g),
      ].map((each) => (typeof each === "number" ? each : each[1]?.trim()));
    };
    const expected = await items(UNKNOWN);
    for (const name of NAMES) expect([name, await items(name)]).toEqual([name, expected]);
  });
});

it("the clients of a session are separate for each session, with any client_id, also when it is read back [D-IDENTIFIER-1]", async () => {
  const { Session } = running.service.provider;
  /** The library's types leave the payload out. */
  const newSession = () =>
    Reflect.construct(Session, [
      { accountId: running.ada.sub, loginTs: Math.floor(Date.now() / 1000) },
    ]) as InstanceType<typeof Session>;
  const [one, other] = [newSession(), newSession()];
  for (const name of NAMES) {
    one.ensureClientContainer(name);
    other.ensureClientContainer(name);
    one.grantIdFor(name, `grant of ${name}`);
    expect([name, other.grantIdFor(name)]).toEqual([name, undefined]);
    expect(one.sidFor(name)).not.toBe(other.sidFor(name));
  }
  await one.save(60);
  const kept = await Session.find(one.jti);
  // The grant of the last authorization is for the request that gave it, and is not kept.
  expect(Object.keys(kept?.authorizations ?? {}).toSorted()).toEqual([...NAMES].toSorted());
  for (const name of NAMES) {
    expect(kept?.sidFor(name)).toBe(one.sidFor(name));
    expect(kept?.grantIdFor(name)).toBeUndefined();
    kept?.grantIdFor(name, "another grant");
    expect(other.grantIdFor(name)).toBeUndefined();
  }
  expect(newSession().sidFor("constructor")).toBeUndefined();
});

type Call = (service: SignInService, name: string, account: Account) => Promise<unknown>;
type Calls = Readonly<Record<string, Call>>;

const ENTRY = { name: "Entry" };
const API = { name: "API", service: "1", scopes: { read: "Read" } };
const RECEIVER = {
  url: "https://receiver.example/n",
  client_id: "r",
  client_secret: "s",
  types: ["DELETE_ACCOUNT"] as const,
};
const email = (name: string): string => `${name.toLowerCase()}@example.org`;

/** Calls that create something with this name. */
const NAMING: Calls = {
  "register, client_id": ({ clients }, name) => clients.register({ ...NEWS, client_id: name }),
  "register, service": ({ clients }, name) => clients.register({ ...NEWS, client_id: "x", service: name }),
  "update, service": ({ clients }, name) => clients.update("news", { service: name }),
  "services.put": ({ directory }, name) => directory.services.put(name, ENTRY),
  "services.put, group": ({ directory }, name) => directory.services.put("9", { ...ENTRY, group: name }),
  "groups.put": ({ directory }, name) => directory.groups.put(name, { ...ENTRY, receiver: RECEIVER }),
  "portals.put": ({ directory }, name) => directory.portals.put(name, ENTRY),
  "apis.put": ({ directory }, name) => directory.apis.put(name, API),
  "apis.put, service": ({ directory }, name) =>
    directory.apis.put("https://api.example", { ...API, service: name }),
  "apis.put, scope": ({ directory }, name) =>
    directory.apis.put("https://api.example", { ...API, scopes: keyed(name, "x") }),
  "apis.put, introspection": ({ directory }, name) =>
    directory.apis.put("https://api.example", { ...API, introspection: [name] }),
  "clients.update, apis": ({ clients }, name) => clients.update("news", { apis: keyed(name, ["x"]) }),
  "import, services": ({ accounts }, name) =>
    accounts.import({ email: email(name), services: keyed(name, 5) }),
  "import, portal": ({ accounts }, name) => accounts.import({ email: email(name), portal: name }),
  "create, portal": ({ accounts }, name) => accounts.create({ email: email(name), portal: name }),
  "accounts.update, portal": ({ accounts }, name, { sub }) => accounts.update(sub, { portal: name }),
  assign: ({ accounts }, name, { sub }) => accounts.assign(sub, name, 5),
  setRoles: ({ accounts }, name, { sub }) => accounts.setRoles(sub, name, []),
  revokeTokens: ({ accounts }, name, { sub }) => accounts.revokeTokens(sub, name),
  ...Object.fromEntries(
    ["service", "group", "portal"].flatMap((kind): [string, Call][] => [
      [`pause ${kind}`, ({ notifications }, name) => notifications.pause(`${kind}:${name}`)],
      [`resume ${kind}`, ({ notifications }, name) => notifications.resume(`${kind}:${name}`)],
      [`test ${kind}`, ({ notifications }, name) => notifications.test(`${kind}:${name}`)],
      [
        `list deliveries to ${kind}`,
        ({ notifications }, name) => notifications.list({ receiver: `${kind}:${name}` }),
      ],
      [
        `redriveAll ${kind}`,
        ({ notifications }, name) => notifications.redriveAll({ receiver: `${kind}:${name}` }),
      ],
    ]),
  ),
};

/** Calls that look for this name. */
const LOOKUPS: Calls = {
  "clients.find": ({ clients }, name) => clients.find(name),
  "clients.update": ({ clients }, name) => clients.update(name, { name: "x" }),
  rotateSecret: ({ clients }, name) => clients.rotateSecret(name),
  disable: ({ clients }, name) => clients.disable(name),
  enable: ({ clients }, name) => clients.enable(name),
  "clients.list": async ({ clients }) =>
    (await clients.list({ limit: 200 })).items.map(({ client_id }) => client_id),
  "services.find": ({ directory }, name) => directory.services.find(name),
  "groups.find": ({ directory }, name) => directory.groups.find(name),
  "apis.find": ({ directory }, name) => directory.apis.find(name),
  "clients.revokeTokens": ({ clients }, name) => clients.revokeTokens(name),
  "portals.find": ({ directory }, name) => directory.portals.find(name),
  "services.list": async ({ directory }) => (await directory.services.list()).items.map(({ key }) => key),
  receivers: ({ notifications }) => notifications.receivers(),
  unassign: ({ accounts }, name, { sub }) => accounts.unassign(sub, name),
  "accounts.find": ({ accounts }, name) => accounts.find(name),
  findByLogin: ({ accounts }, name) => accounts.findByLogin(name),
  "notifications.find": ({ notifications }, name) => notifications.find(name),
};

const outcome = (work: Promise<unknown>): Promise<unknown> =>
  work.catch((error: unknown) => `${Reflect.get(Object(error), "code") ?? "TypeError"}: ${String(error)}`);

/** Seeds that contain the name once. */
const seedsWith = (name: string): readonly (readonly [Seed, path: string])[] => [
  [{ services: keyed(name, ENTRY) }, `services.${name}`],
  [{ groups: keyed(name, ENTRY) }, `groups.${name}`],
  [{ portals: keyed(name, ENTRY) }, `portals.${name}`],
  [{ apis: { "https://api.example": { ...API, service: name } } }, "apis[a name of 19 characters].service"],
  [{ services: { 1: { name: "News", group: name } } }, "services.1.group"],
  [{ clients: [{ ...NEWS, client_id: name }] }, "clients[0].client_id"],
  [{ clients: [{ ...NEWS, service: name }] }, "clients[0].service"],
  [{ accounts: [{ email: email(name), services: keyed(name, null) }] }, `accounts[0].services.${name}`],
  [{ accounts: [{ email: email(name), portal: name }] }, "accounts[0].portal"],
];

/** Parts of a configuration that contain the name once. */
const settingsWith = (name: string): readonly (readonly [object, path: string])[] => [
  [keyed(name, {}), name],
  [{ lifetimes: keyed(name, 5) }, `lifetimes.${name}`],
  [{ interactions: { locales: ["en", name] } }, "interactions.locales[1]"],
  [{ interactions: { copy: keyed(name, {}) } }, `interactions.copy.${name}`],
];

describe("in a call of the library, such a name", () => {
  it.each(Object.entries(NAMING))("is refused as a name: %s [D-IDENTIFIER-1]", async (_title, call) => {
    for (const name of NAMES)
      expect([name, await outcome(call(running.service, name, running.ada))]).toEqual([
        name,
        expect.stringMatching(/^invalid_argument: InvalidArgument: .*: must /),
      ]);
  });

  it.each(Object.entries(LOOKUPS))("is unknown: %s [D-IDENTIFIER-1]", async (_title, call) => {
    const expected = await outcome(call(running.service, UNKNOWN, running.ada));
    for (const name of NAMES)
      expect([name, await outcome(call(running.service, name, running.ada))]).toEqual([name, expected]);
  });

  it("is refused in a seed, with its path [D-IDENTIFIER-1]", async () => {
    const problem = "must not be a name that every object has, such as constructor";
    for (const name of NAMES) {
      for (const [seed, path] of seedsWith(name)) {
        const refused = applySeed(running.service, seed);
        await expect(refused).rejects.toMatchObject({ problems: [`config.seed.${path}: ${problem}`] });
      }
      const unknown = applySeed(running.service, keyed(name, {}));
      await expect(unknown).rejects.toMatchObject({ problems: [expect.stringContaining("unknown key")] });
    }
  });

  it("is refused as a key or language of a configuration [D-IDENTIFIER-1]", () => {
    const deployments = { oauth2: { url: "http://localhost:3000" } };
    for (const name of NAMES)
      for (const [settings, path] of settingsWith(name))
        expect(() => readConfiguration({ ...settings, deployments })).toThrow(`config.${path}: `);
  });
});
