/** What each role of an operator opens and does in the console of the account pages. */
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { OPERATOR_ROLES, type OperatorRole } from "../../config/operators.ts";
import type { Browser } from "../../testing/browser/browser.ts";
import { beforeTests, closing } from "../closing.ts";
import { signedIn } from "../flows/clients.ts";
import { type Inbox, openInbox } from "../flows/inbox.ts";
import { startService } from "../flows/running-service.ts";

const SUBS: Readonly<Record<OperatorRole, string>> = {
  viewer: "0a000000-0000-4000-8000-000000000001",
  support: "0a000000-0000-4000-8000-000000000002",
  administrator: "0a000000-0000-4000-8000-000000000003",
  deliveries: "0a000000-0000-4000-8000-000000000004",
};
const PASSWORD = "correct horse battery staple";
const REFUSED = "Your role isn’t enough";

let inbox: Inbox;
let waiting: string;
let parked: string;
const browsers = new Map<OperatorRole, Browser>();

const running = beforeTests(() =>
  startService({
    config: {
      operators: Object.fromEntries(OPERATOR_ROLES.map((role) => [SUBS[role], role])),
      notifications: { allowedReceivers: ["127.0.0.1"], retryDelays: [] },
    },
  }),
);

beforeAll(async () => {
  inbox = closing(await openInbox());
  inbox.react = () => (response) => response.writeHead(500).end();
  const { accounts, directory, notifications } = running.service;
  const receiver = (key: string) => ({
    url: inbox.url(`/${key}`),
    client_id: "r",
    client_secret: "the secret of it",
    types: ["PROFILE_CHANGED" as const],
  });
  for (const key of ["failing", "paused"])
    await directory.services.put(key, { name: key, receiver: receiver(key) });
  await notifications.pause("service:paused", { reason: "maintenance" });
  const made = await accounts.create({ email: "grace@example.com", name: "Grace", surname: "Hopper" });
  await accounts.assign(made.sub, "paused");
  await accounts.assign(made.sub, "failing");
  const over = new Promise((resolve) => running.service.events.once("delivery.parked", resolve));
  await accounts.update(made.sub, { name: "Amazing" });
  await over;
  const { items } = await notifications.list({ account: made.sub, type: "PROFILE_CHANGED" });
  waiting = items.find(({ state }) => state === "waiting")?.id ?? "";
  parked = items.find(({ state }) => state === "parked")?.id ?? "";
  for (const role of OPERATOR_ROLES) {
    const email = `${role}@example.org`;
    await accounts.import({ sub: SUBS[role], email, email_verified: true, password: PASSWORD });
    browsers.set(role, await signedIn(running.openid, { username: email, password: PASSWORD }));
  }
});
afterAll(() => browsers.clear());

const at = (path: string): string => `${running.openid}/account${path}`;

async function openedBy(role: OperatorRole, path: string): Promise<Browser> {
  const browser = browsers.get(role);
  if (browser === undefined) throw new Error(`no ${role}`);
  return browser.get(at(path));
}

/** The actions that a page offers. */
async function offered(role: OperatorRole, path: string): Promise<readonly string[]> {
  const { forms } = { forms: (await openedBy(role, path)).forms() };
  return [...new Set(forms.flatMap(({ fields }) => new Map(fields).get("action") ?? []))].toSorted();
}

/** Sends a form without a valid token, and reads why it is refused. */
async function sent(role: OperatorRole, path: string, fields: Readonly<Record<string, string>>) {
  const browser = browsers.get(role);
  const url = new URL(at(path));
  const response = await fetch(url, {
    method: "POST",
    body: new URLSearchParams(fields),
    redirect: "manual",
    headers: { cookie: browser?.jar.header(url) ?? "", origin: url.origin },
  });
  return { status: response.status, isRole: (await response.text()).includes(REFUSED) };
}

const REDRIVES = ["redrive"];

describe("the console by roles", () => {
  it.each<[OperatorRole, { people: number; waiting: string[]; parked: string[]; receivers: string[] }]>([
    ["viewer", { people: 403, waiting: [], parked: [], receivers: [] }],
    ["support", { people: 200, waiting: ["sendNow"], parked: REDRIVES, receivers: ["redriveAll"] }],
    [
      "administrator",
      {
        people: 200,
        waiting: ["discard", "sendNow"],
        parked: ["discard", ...REDRIVES],
        receivers: ["pause", "redriveAll", "resume", "test"],
      },
    ],
    [
      "deliveries",
      {
        people: 403,
        waiting: ["discard", "sendNow"],
        parked: ["discard", ...REDRIVES],
        receivers: ["pause", "redriveAll", "resume", "test"],
      },
    ],
  ])("%s sees what its role may do [D-ADM-81]", async (role, expected) => {
    const list = await openedBy(role, "/deliveries");
    expect(list.status).toBe(200);
    expect(list.html.includes("/account/people")).toBe(expected.people === 200);
    expect({
      people: (await openedBy(role, "/people")).status,
      waiting: await offered(role, `/deliveries/${waiting}`),
      parked: await offered(role, `/deliveries/${parked}`),
      receivers: await offered(role, "/deliveries/receivers"),
    }).toEqual(expected);
    expect((await openedBy(role, `/people/${SUBS.viewer}`)).status).toBe(expected.people);
  });

  it("refuses the form of an action that the role may not do, before its token is looked at [D-ADM-81]", async () => {
    const forms: readonly [string, Readonly<Record<string, string>>, readonly OperatorRole[]][] = [
      [`/deliveries/${waiting}`, { action: "discard" }, ["viewer", "support"]],
      [`/deliveries/${waiting}`, { action: "sendNow" }, ["viewer"]],
      [`/deliveries/${parked}`, { action: "redrive" }, ["viewer"]],
      ["/deliveries", { action: "redriveAll" }, ["viewer"]],
      ["/deliveries/receivers", { action: "pause", receiver: "service:failing" }, ["viewer", "support"]],
      ["/deliveries/receivers", { action: "resume", receiver: "service:paused" }, ["viewer", "support"]],
      ["/deliveries/receivers", { action: "test", receiver: "service:failing" }, ["viewer", "support"]],
      ["/people", { name: "grace@example.com" }, ["viewer", "deliveries"]],
      [`/people/${SUBS.viewer}`, { action: "remove", factor: "all" }, ["viewer", "deliveries"]],
    ];
    for (const [path, fields, refused] of forms)
      for (const role of OPERATOR_ROLES) {
        const { status, isRole } = await sent(role, path, fields);
        expect([path, fields, role, status, isRole]).toEqual([
          path,
          fields,
          role,
          status,
          refused.includes(role),
        ]);
        if (isRole) expect(status).toBe(403);
      }
    const { items } = await running.service.notifications.list({ state: "waiting" });
    expect(items.map(({ id }) => id)).toContain(waiting);
  });
});
