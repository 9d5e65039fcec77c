/** Property names of Object, such as `constructor`, in calls of the library. */
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import * as fc from "fast-check";
import { readConfiguration } from "../../config/read.ts";
import type { Account } from "../../accounts/account.ts";
import { applySeed } from "../../lib/index.ts";
import type { Seed } from "../../lib/seed.ts";
import type { SignInService } from "../../lib/service.ts";
import { NEWS, type RunningService, startService } from "../flows/running-service.ts";
import { expectNothingShared, inAnyOrder, keyed, NAMES, RUNS, UNKNOWN } from "./object-names.ts";

let running: RunningService;
beforeAll(async () => {
  running = await startService();
});
afterAll(async () => {
  await running.close();
  expect(running.log.filter((line) => /"level":[56]0/.test(line))).toEqual([]);
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
  "clients.list": async ({ clients }) => (await clients.list()).map(({ client_id }) => client_id),
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
  "notifications.list": ({ notifications }, name) => notifications.list({ receiver: `service:${name}` }),
};

const outcome = (work: Promise<unknown>): Promise<unknown> =>
  work.catch((error: unknown) => `${Reflect.get(Object(error), "code") ?? "TypeError"}: ${String(error)}`);

/** Checks that every lookup treats these names as unknown. */
async function expectUnknown(
  service: SignInService,
  account: Account,
  calls: Calls = LOOKUPS,
): Promise<void> {
  for (const [title, call] of Object.entries(calls)) {
    const expected = await outcome(call(service, UNKNOWN, account));
    for (const name of NAMES) {
      const answer = await outcome(call(service, name, account));
      expect([title, name, answer]).toEqual([title, name, expected]);
    }
  }
}

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
  it("is refused as a name, and unknown elsewhere [D-IDENTIFIER-1]", async () => {
    const { service, ada } = running;
    await fc.assert(
      fc.asyncProperty(inAnyOrder, async (names) => {
        for (const [title, call] of Object.entries(NAMING)) {
          for (const name of names) {
            const answer = String(await outcome(call(service, name, ada)));
            expect([title, name, answer]).toEqual([
              title,
              name,
              expect.stringMatching(/^invalid_argument: InvalidArgument: .*: must /),
            ]);
          }
        }
      }),
      RUNS,
    );
    await expectUnknown(service, ada);
    expectNothingShared();
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
    expectNothingShared();
  });

  it("is refused as a key or language of a configuration [D-IDENTIFIER-1]", () => {
    const deployments = { oauth2: { url: "http://localhost:3000" } };
    for (const name of NAMES) {
      for (const [settings, path] of settingsWith(name)) {
        const read = (): unknown => readConfiguration({ ...settings, deployments });
        expect(read).toThrow(`config.${path}: `);
      }
    }
    expectNothingShared();
  });
});
