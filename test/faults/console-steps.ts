/** The steps of an operator at the console. */
import { expect } from "@jest/globals";
import { readForms } from "../../testing/browser/forms.ts";
import { authorizeUrl, get, Person, post, type Wire } from "./person.ts";
import { OPERATOR, PASSWORD, type Stage } from "./stage.ts";
import type { Ready, Step } from "./step.ts";
import { storedDeliveries } from "../notifier/stored-deliveries.ts";

const CONSOLE = "/account/deliveries";
const PEOPLE = "/account/people";
const SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";
const RECEIVER = "service:shop";

/** What an operator looks at. */
interface Work {
  readonly operator: Person;
  /** A delivery that is parked. */
  readonly id: string;
  /** The account that it is about. */
  readonly sub: string;
}

async function atWork(stage: Stage): Promise<Work> {
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
  const [delivery] = await storedDeliveries(notifications, { account: sub });
  return { operator, id: delivery?.id ?? "", sub };
}

const shown: Ready["good"] = (response) => expect(response.status).toBe(200);
const done: Ready["good"] = (response) => {
  expect(response.status).toBe(303);
  expect(response.headers.get("location")).toContain("result=");
};

function look(name: string, pathOf: (work: Work) => string, ownCommits: readonly string[] = []): Step {
  return {
    name,
    page: true,
    ownCommits,
    async prepare(stage) {
      const work = await atWork(stage);
      return { wire: work.operator.wire(get(stage.oauth2 + pathOf(work))), good: shown };
    },
  };
}

/** The request that submits the form with this field, with changes. */
async function formOf(
  operator: Person,
  url: string,
  [field, value]: readonly [string, string],
  changes: Readonly<Record<string, string>> = {},
): Promise<Wire> {
  const page = await operator.go(get(url, { accept: "text/html" }));
  const forms = readForms(await page.text(), new URL(url));
  const form = forms.find(({ fields }) => new Map(fields).get(field) === value);
  if (form === undefined) throw new Error(`no form: ${page.status}`);
  return operator.wire(post(form.action.href, { ...Object.fromEntries(form.fields), ...changes }));
}

/** @param ownCommits what is stored although the request fails: the audit says what was requested. */
function act(
  action: string,
  pathOf: (work: Work) => string,
  before: (stage: Stage, work: Work) => Promise<unknown> = () => Promise.resolve(),
  ownCommits: readonly string[] = ["audit"],
): Step {
  return {
    name: `the console, ${action}`,
    page: true,
    ownCommits,
    async prepare(stage) {
      const work = await atWork(stage);
      await before(stage, work);
      const url = stage.oauth2 + pathOf(work);
      return { wire: await formOf(work.operator, url, ["action", action]), good: done };
    },
  };
}

const list = (): string => `${CONSOLE}?state=parked`;
const receivers = (): string => `${CONSOLE}/receivers`;
const delivery = ({ id }: Work): string => `${CONSOLE}/${id}`;
const person = ({ sub }: Work): string => `${PEOPLE}/${sub}`;

const findPerson: Step = {
  name: "the console, find a person",
  page: true,
  async prepare(stage) {
    const { operator, sub } = await atWork(stage);
    const wire = await formOf(operator, stage.oauth2 + PEOPLE, ["name", ""], { name: sub });
    return {
      wire,
      good(response) {
        expect([response.status, response.headers.get("location")]).toEqual([
          303,
          `${stage.oauth2}${PEOPLE}/${sub}`,
        ]);
      },
    };
  },
};

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
  findPerson,
  look("the console, one person", person, ["audit"]),
  {
    ...act(
      "remove",
      (work) => `${person(work)}?remove=app`,
      ({ service }, { sub }) => service.accounts.addApp(sub, { secret: SECRET }),
      [],
    ),
    // The ended sessions are removed.
    afterCommit: ["artifacts.page", "artifacts.remove"],
  },
];
