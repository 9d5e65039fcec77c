import { describe, expect, it } from "@jest/globals";
import * as fc from "fast-check";
import { NOTIFICATION_TYPES, type NotificationType } from "../../receiver/notification.ts";
import {
  causedBy,
  readersOf,
  explainDeliveries,
  type PlannedAccount,
  type PlannedDirectory,
  type PlannedEntry,
} from "../../accounts/plan.ts";
import { createPersonFields } from "../../accounts/profile-fields.ts";
import { defaults } from "../../config/schema.ts";

/** The notifications of one action, one per receiver. */
const planDeliveries = (...[action, before, after, directory]: Parameters<typeof explainDeliveries>) =>
  explainDeliveries(action, before, after, directory).flatMap(({ delivery }) => delivery ?? []);

const ALL = [...NOTIFICATION_TYPES];

const FIELDS = createPersonFields(defaults);

const ada: PlannedAccount = {
  sub: "6f1c1b9e-0d3c-4a55-9a1e-0f5a0c7d8e90",
  user_id: 7,
  email: "ada@example.com",
  username: "ada",
  name: "Ada",
  surname: "Lovelace",
  date_of_birth: "1990-12-10",
  gender: "female",
  portal: null,
  services: { "1": 11, "2": null, "3": 33 },
};

function entry(types: readonly string[] | null, group: string | null = null): PlannedEntry {
  return { group, receiver: types && { types } };
}

function directoryOf(parts: {
  services?: Record<string, PlannedEntry>;
  groups?: Record<string, PlannedEntry>;
  portals?: Record<string, PlannedEntry>;
}): PlannedDirectory {
  const { services = {}, groups = {}, portals = {} } = parts;
  return {
    services: new Map(Object.entries(services)),
    groups: new Map(Object.entries(groups)),
    portals: new Map(Object.entries(portals)),
  };
}

/** Receiver → `data.services` of its notification. */
function notified(
  type: NotificationType,
  before: PlannedAccount,
  after: PlannedAccount | undefined,
  directory: PlannedDirectory,
): Record<string, unknown> {
  const deliveries = planDeliveries({ type, at: 1000 }, before, after, directory);
  expect(deliveries.every((delivery) => delivery.type === type)).toBe(true);
  expect(new Set(deliveries.map(({ receiver }) => receiver)).size).toBe(deliveries.length);
  return Object.fromEntries(deliveries.map(({ receiver, body }) => [receiver, body.data.services]));
}

describe("who is notified of what", () => {
  it("merges services of one group into one notification that lists all of them [EVENT-6]", () => {
    const directory = directoryOf({
      services: { "1": entry(null, "g"), "2": entry(null, "g"), "3": entry(ALL) },
      groups: { g: entry(ALL) },
    });
    expect(notified("DELETE_ACCOUNT", ada, undefined, directory)).toEqual({
      "group:g": { "1": 11, "2": null },
      "service:3": { "3": 33 },
    });
  });

  it("notifies a service in a group with a receiver through the group alone, also when the group does not take the type [D-NOTIFY-4]", () => {
    const directory = directoryOf({
      services: { "1": entry(ALL, "g"), "2": entry(ALL, "g"), "3": entry(ALL, "g") },
      groups: { g: entry(["PROFILE_CHANGED"]) },
    });
    expect(notified("DELETE_ACCOUNT", ada, undefined, directory)).toEqual({});
    expect(notified("PROFILE_CHANGED", ada, { ...ada, name: "A" }, directory)).toEqual({
      "group:g": { "1": 11, "2": null, "3": 33 },
    });
  });

  it("notifies each service of a group without a receiver by itself [D-NOTIFY-4]", () => {
    const directory = directoryOf({
      services: { "1": entry(ALL, "g"), "2": entry(ALL, "g"), "3": entry(null) },
      groups: { g: entry(null) },
    });
    expect(notified("DELETE_ACCOUNT", ada, undefined, directory)).toEqual({
      "service:1": { "1": 11 },
      "service:2": { "2": null },
    });
  });

  it("notifies the portal of the account once, with all services concerned, or with none [EVENT-7, D-NOTIFY-20]", () => {
    const directory = directoryOf({
      services: { "1": entry(ALL) },
      portals: { p: entry(ALL), q: entry(ALL) },
    });
    const inPortal = { ...ada, portal: "p" };
    expect(notified("DELETE_ACCOUNT", inPortal, undefined, directory)).toEqual({
      "service:1": { "1": 11 },
      "portal:p": { "1": 11, "2": null, "3": 33 },
    });
    const alone = { ...inPortal, services: {} };
    expect(notified("PROFILE_CHANGED", alone, { ...alone, name: "A" }, directory)).toEqual({
      "portal:p": {},
    });
    expect(notified("DELETE_ACCOUNT", { ...ada, services: {} }, undefined, directory)).toEqual({});
  });

  it("lists only the unassigned services, with the numbers that they had [D-NOTIFY-20]", () => {
    const directory = directoryOf({
      services: { "1": entry(null, "g"), "2": entry(null, "g"), "3": entry(ALL) },
      groups: { g: entry(ALL) },
      portals: { p: entry(ALL) },
    });
    const before = { ...ada, portal: "p" };
    const after = { ...before, services: { "2": null } };
    expect(notified("UNASSINGED_FROM_SERVICE", before, after, directory)).toEqual({
      "group:g": { "1": 11 },
      "service:3": { "3": 33 },
      "portal:p": { "1": 11, "3": 33 },
    });
  });

  it("notifies no receiver that is not configured for the type, and says why [EVENT-5]", () => {
    const directory = directoryOf({
      services: { "1": entry(["PROFILE_CHANGED"]), "2": entry([]), "3": entry(null) },
      portals: { p: entry(["UNASSINGED_FROM_SERVICE"]) },
    });
    const before = { ...ada, portal: "p" };
    const action = { type: "PROFILE_CHANGED", at: 5 } as const;
    const decisions = explainDeliveries(action, before, { ...before, name: "A" }, directory);
    expect(decisions.map(({ receiver, reason, services }) => ({ receiver, reason, services }))).toEqual([
      { receiver: "service:1", reason: "notified", services: ["1"] },
      { receiver: "service:2", reason: "type_not_taken", services: ["2"] },
      { receiver: "service:3", reason: "no_receiver", services: ["3"] },
      { receiver: "portal:p", reason: "type_not_taken", services: ["1", "2", "3"] },
    ]);
    expect(decisions.filter(({ delivery }) => delivery !== undefined)).toHaveLength(1);
  });

  it("writes exactly the documented members, in the documented order [D-NOTIFY-9]", () => {
    const directory = directoryOf({ services: { "1": entry(ALL) } });
    const account = { ...ada, services: { "1": 1102020202 } };
    const [delivery] = planDeliveries(
      { type: "DELETE_ACCOUNT", at: 1434567890 },
      account,
      undefined,
      directory,
    );
    expect(JSON.stringify(delivery?.body)).toBe(
      '{"notification_type":"DELETE_ACCOUNT","data":{"user_id":7,"user_uuid":"6f1c1b9e-0d3c-4a55-9a1e-0f5a0c7d8e90",' +
        '"user_email":"ada@example.com","timestamp":1434567890,"services":{"1":1102020202}}}',
    );
  });

  it("has the email address after the action, or the last one for a deletion [D-NOTIFY-8]", () => {
    const directory = directoryOf({ services: { "1": entry(ALL) } });
    const emails = [{ ...ada, email: "new@example.com" }, undefined].map((after) => {
      const type = after === undefined ? "DELETE_ACCOUNT" : "PROFILE_CHANGED";
      return planDeliveries({ type, at: 1 }, ada, after, directory)[0]?.body.data.user_email;
    });
    expect(emails).toEqual(["new@example.com", "ada@example.com"]);
  });

  it("works with keys that every object inherits", () => {
    const services = JSON.parse('{"__proto__":1,"constructor":null,"toString":3}') as Record<
      string,
      number | null
    >;
    const known = new Map(Object.keys(services).map((key) => [key, entry(ALL)]));
    const directory = {
      services: known,
      groups: new Map<string, PlannedEntry>(),
      portals: new Map<string, PlannedEntry>(),
    };
    const deliveries = planDeliveries(
      { type: "DELETE_ACCOUNT", at: 1 },
      { ...ada, services },
      undefined,
      directory,
    );
    expect(deliveries.map(({ receiver, body }) => [receiver, JSON.stringify(body.data.services)])).toEqual([
      ["service:__proto__", '{"__proto__":1}'],
      ["service:constructor", '{"constructor":null}'],
      ["service:toString", '{"toString":3}'],
    ]);
    expect(causedBy({ ...ada, services }, { ...ada, services: {} }, FIELDS)).toEqual([
      "UNASSINGED_FROM_SERVICE",
    ]);
  });
});

describe("what a change causes", () => {
  it("is PROFILE_CHANGED for a change of value of the six fields, and of nothing else [D-NOTIFY-3]", () => {
    const values = {
      username: "x",
      email: "x@y",
      name: null,
      surname: "x",
      date_of_birth: null,
      gender: "x",
    };
    for (const [field, value] of Object.entries(values)) {
      expect([field, causedBy(ada, { ...ada, [field]: value }, FIELDS)]).toEqual([
        field,
        ["PROFILE_CHANGED"],
      ]);
      expect(causedBy(ada, { ...ada, [field]: ada[field as keyof typeof values] }, FIELDS)).toEqual([]);
    }
    expect(causedBy(ada, { ...ada, ...values }, FIELDS)).toEqual(["PROFILE_CHANGED"]);
    for (const other of [{ portal: "p" }, { locale: "pl" }])
      expect(causedBy(ada, { ...ada, ...other }, FIELDS)).toEqual([]);
    expect(causedBy(ada, undefined, FIELDS)).toEqual(["DELETE_ACCOUNT"]);
    expect(causedBy(ada, { ...ada, services: { ...ada.services, "1": 12, "4": 1 } }, FIELDS)).toEqual([]);
  });
});

describe("a change of attributes", () => {
  const TEXT = { type: "text", label: "Label" } as const;
  const fields = createPersonFields({
    ...defaults,
    accounts: {
      attributes: {
        silent: { ...TEXT, scope: "org" },
        open: { ...TEXT, scope: "org", notify: true },
        narrow: { ...TEXT, scope: "org", notify: true, readers: ["1", "9"] },
        closed: { ...TEXT, notify: true },
        address: { notify: true, readers: ["3"] },
      },
    },
  });
  const directory = directoryOf({
    services: { "1": entry(ALL, "g"), "2": entry(ALL, "g"), "3": entry(ALL) },
    groups: { g: entry(ALL) },
    portals: { p: entry(ALL) },
  });
  const everybody = { "group:g": ["1", "2"], "service:3": ["3"], "portal:p": ["1", "2", "3"] };

  it.each<[string, object, object]>([
    ["nobody, without notify", { silent: "x" }, {}],
    ["all, if all may read it", { open: "x" }, everybody],
    ["its readers", { narrow: "x" }, { "group:g": ["1"], "portal:p": ["1"] }],
    ["the portal, if no client reads it", { closed: "x" }, { "portal:p": [] }],
    [
      "the readers of each",
      { narrow: "x", address: { country: "PL" } },
      { "group:g": ["1"], "service:3": ["3"], "portal:p": ["1", "3"] },
    ],
    ["all, if all may read one", { narrow: "x", open: "x" }, everybody],
  ])("notifies %s [D-ATTR-20]", (_who, attributes, expected) => {
    const before = { ...ada, portal: "p", attributes: { address: { country: "DE" } } };
    const after = { ...before, attributes: { ...before.attributes, ...attributes } };
    const types = causedBy(before, after, fields);
    const readers = readersOf(before, after, fields);
    const deliveries = types.flatMap((type) =>
      planDeliveries({ type, at: 1, readers }, before, after, directory),
    );
    expect(
      Object.fromEntries(deliveries.map(({ receiver, body }) => [receiver, Object.keys(body.data.services)])),
    ).toEqual(expected);
  });

  it("notifies all of a change of the documented profile beside it, and of a deletion", () => {
    const after = { ...ada, name: "A", attributes: { narrow: "x" } };
    expect(readersOf(ada, after, fields)).toBeUndefined();
    expect(readersOf(ada, { ...ada, email: "a@example.com" }, fields)).toBeUndefined();
    expect(readersOf(ada, undefined, fields)).toBeUndefined();
  });
});

const key = fc.constantFrom("a", "b", "c", "d");
const maybe = fc.option(key, { nil: null });
const receiver = fc.option(fc.record({ types: fc.subarray(ALL) }), { nil: null });
const services = fc.dictionary(key, fc.option(fc.integer(), { nil: null }));
const directories = fc.record({
  services: fc.dictionary(key, fc.record({ group: maybe, receiver })),
  groups: fc.dictionary(key, fc.record({ group: fc.constant(null), receiver })),
  portals: fc.dictionary(key, fc.record({ group: fc.constant(null), receiver })),
});

type Parts = Record<"services" | "groups" | "portals", Record<string, PlannedEntry>>;

/** The same rules the other way round: what does each receiver of the directory get? */
function oracle(
  type: NotificationType,
  account: PlannedAccount,
  keys: string[],
  parts: Parts,
): Record<string, string[]> {
  const takes = (each: PlannedEntry | undefined): boolean => each?.receiver?.types.includes(type) ?? false;
  const speaksFor = (service: string): string | undefined => {
    const group = parts.services[service]?.group ?? undefined;
    return group !== undefined && parts.groups[group]?.receiver ? group : undefined;
  };
  const result: Record<string, string[]> = {};
  for (const [group, each] of Object.entries(parts.groups)) {
    const members = keys.filter((service) => speaksFor(service) === group);
    if (takes(each) && members.length > 0) result[`group:${group}`] = members;
  }
  for (const [service, each] of Object.entries(parts.services)) {
    const alone = keys.includes(service) && speaksFor(service) === undefined;
    if (takes(each) && alone) result[`service:${service}`] = [service];
  }
  for (const [portal, each] of Object.entries(parts.portals)) {
    if (takes(each) && account.portal === portal) result[`portal:${portal}`] = keys;
  }
  return result;
}

describe("the plan against an oracle", () => {
  it("notifies exactly the receivers that the rules name, about exactly the services [D-NOTIFY-2]", () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...ALL),
        services,
        services,
        maybe,
        directories,
        (type, had, has, portal, parts) => {
          const before = { ...ada, services: had, portal };
          const after = type === "DELETE_ACCOUNT" ? undefined : { ...before, services: has, name: "changed" };
          const gone = Object.keys(had).filter((service) => !Object.hasOwn(has, service));
          const concerned = {
            DELETE_ACCOUNT: Object.keys(had),
            PROFILE_CHANGED: Object.keys(has),
            UNASSINGED_FROM_SERVICE: gone,
          };
          const found = notified(type, before, after, directoryOf(parts));
          const numbers = type === "PROFILE_CHANGED" ? has : had;
          const expected = Object.entries(oracle(type, before, concerned[type], parts)).map(
            ([name, keys]) => [name, Object.fromEntries(keys.map((service) => [service, numbers[service]]))],
          );
          expect(found).toEqual(Object.fromEntries(expected));
        },
      ),
      { numRuns: 2000 },
    );
  });

  it("never shows a receiver a service that is not its own, and never notifies one twice", () => {
    fc.assert(
      fc.property(fc.constantFrom(...ALL), services, directories, (type, had, parts) => {
        const after = type === "DELETE_ACCOUNT" ? undefined : { ...ada, services: {} };
        for (const [name, list] of Object.entries(
          notified(type, { ...ada, services: had }, after, directoryOf(parts)),
        )) {
          const shown = Object.keys(list as object);
          if (name.startsWith("service:")) expect(shown).toEqual([name.slice("service:".length)]);
          else
            expect(shown.map((service) => `group:${parts.services[service]?.group}`)).toEqual(
              shown.map(() => name),
            );
        }
      }),
      { numRuns: 1000 },
    );
  });
});
