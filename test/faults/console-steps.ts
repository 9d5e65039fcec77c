/** The steps of an operator at the delivery console. */
import { expect } from "@jest/globals";
import { readForms } from "../../testing/browser/forms.ts";
import { authorizeUrl, get, Person, post, type Wire } from "./person.ts";
import { OPERATOR, PASSWORD, type Stage } from "./stage.ts";
import type { Ready, Step } from "./step.ts";

const CONSOLE = "/account/deliveries";
const RECEIVER = "service:shop";

/** An operator's browser, and a delivery that is parked. */
async function atWork(stage: Stage): Promise<{ operator: Person; id: string }> {
  const { accounts, directory, notifications } = stage.service;
  const account = { email: "operator@example.com", username: "operator", password: PASSWORD };
  if ((await accounts.find(OPERATOR)) === undefined) await accounts.import({ ...account, sub: OPERATOR });
  const operator = new Person(account.username);
  await operator.signIn(authorizeUrl(stage.oauth2, stage.clients.news));
  const receiver = {
    url: "https://shop.example",
    client_id: "shop",
    client_secret: "its secret",
    types: ["PROFILE_CHANGED"],
  } as const;
  await directory.services.put("shop", { name: "Shop", receiver });
  const { sub } = await stage.person();
  await accounts.assign(sub, "shop");
  await accounts.update(sub, { name: "Another" });
  await stage.storage.storage.deliveries.parkWaiting(RECEIVER, "attempts_used_up", 9);
  const [delivery] = await notifications.list({ sub });
  return { operator, id: delivery?.id ?? "" };
}

const shown: Ready["good"] = (response) => expect(response.status).toBe(200);
const done: Ready["good"] = (response) => {
  expect(response.status).toBe(303);
  expect(response.headers.get("location")).toContain("result=");
};

function look(name: string, pathOf: (id: string) => string): Step {
  return {
    name,
    page: true,
    async prepare(stage) {
      const { operator, id } = await atWork(stage);
      return { wire: operator.wire(get(stage.oauth2 + pathOf(id))), good: shown };
    },
  };
}

/** The request that submits the form of an action. */
async function formOf(operator: Person, url: string, action: string): Promise<Wire> {
  const page = await operator.go(get(url, { accept: "text/html" }));
  const forms = readForms(await page.text(), new URL(url));
  const form = forms.find(({ fields }) => new Map(fields).get("action") === action);
  if (form === undefined) throw new Error(`no form: ${page.status}`);
  return operator.wire(post(form.action.href, Object.fromEntries(form.fields)));
}

/** @param ownCommits what stands although the request fails: the audit says what was asked for. */
function act(
  action: string,
  pathOf: (id: string) => string,
  before: (stage: Stage) => Promise<unknown> = () => Promise.resolve(),
  ownCommits: readonly string[] = ["audit"],
): Step {
  return {
    name: `the console, ${action}`,
    page: true,
    ownCommits,
    async prepare(stage) {
      const { operator, id } = await atWork(stage);
      await before(stage);
      return { wire: await formOf(operator, stage.oauth2 + pathOf(id), action), good: done };
    },
  };
}

const list = (): string => `${CONSOLE}?state=parked`;
const receivers = (): string => `${CONSOLE}/receivers`;
const delivery = (id: string): string => `${CONSOLE}/${id}`;

export const consoleSteps: readonly Step[] = [
  look("the account page", () => "/account"),
  look("the console, all deliveries", list),
  look("the console, one delivery", delivery),
  look("the console, receivers", receivers),
  act("redrive", delivery),
  act("discard", delivery),
  act("redriveAll", list, undefined, ["audit", "delivery", "lane"]),
  act("pause", receivers, ({ service }) => service.notifications.resume(RECEIVER)),
  act("resume", receivers, ({ service }) => service.notifications.pause(RECEIVER), ["audit", "receiver"]),
];
