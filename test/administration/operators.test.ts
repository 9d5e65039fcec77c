/** Operators whose first second factor is new: somebody who knows nothing but their password could have added it. */
import { once } from "node:events";
import { createServer, request } from "node:http";
import { beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import Koa from "koa";
import { type ConsoleOperators, createOperators } from "../../administration/operators.ts";
import { readConfiguration } from "../../config/read.ts";
import { Browser } from "../../testing/browser/browser.ts";
import { TestClock } from "../../testing/test-clock.ts";
import type { SignInServiceConfig } from "../../config/input.ts";
import { atEnd, beforeTests, newFolder } from "../closing.ts";
import { signedIn } from "../flows/clients.ts";
import { listen, OPERATOR, startService, storageIn } from "../flows/running-service.ts";
import { PRODUCTION } from "../config/refusals.ts";
import { enter, openConsole, OPERATORS, SECRET, serveConsole } from "./console/console-visitor.ts";
import { startAdministered } from "./listener-stage.ts";

const DAY = 86_400;
const PERSON = "0a000000-0000-4000-8000-000000000009";
const clock = new TestClock();
const { sub } = OPERATOR;
const running = beforeTests(() => startAdministered({ config: { clock, operators: { [sub]: "support" } } }));
let operators: ConsoleOperators;

beforeAll(async () => {
  const { service, storage } = running;
  const { accounts, configuration } = service;
  await accounts.import({ ...OPERATOR, email_verified: true });
  await accounts.import({ sub: PERSON, email: "person@example.org", password: "the password of a person" });
  operators = createOperators({ accounts, clock, configuration, storage });
});
beforeEach(async () => {
  await running.service.accounts.removeFactors(sub);
  clock.advance(1);
});

const access = (): Promise<string> => operators.mayOpenConsole({ sub });
const addApp = (): Promise<unknown> => running.service.accounts.addApp(sub, { secret: SECRET });

describe("the console", () => {
  it("opens with a first factor after 24 hours [D-ADM-93]", async () => {
    await expect(access()).resolves.toBe("no_factor");
    await addApp();
    await expect(access()).resolves.toBe("factor_too_new");
    clock.advance(DAY - 1);
    await expect(access()).resolves.toBe("factor_too_new");
    clock.advance(1);
    await expect(access()).resolves.toBe("yes");
  });

  it("opens before that once it is confirmed, and not for one that is added later [D-ADM-93]", async () => {
    await addApp();
    await running.service.operators.confirm(sub);
    await expect(access()).resolves.toBe("yes");
    await running.service.accounts.removeFactors(sub);
    await expect(access()).resolves.toBe("no_factor");
    clock.advance(1);
    await addApp();
    await expect(access()).resolves.toBe("factor_too_new");
    const { items } = await running.service.audit.list({ action: "operator.confirmed" });
    expect(items[0]).toMatchObject({ subject: sub, outcome: "success" });
  });

  it.each<[string, SignInServiceConfig, string]>([
    ["at once in the demo", { deployments: { openid: { url: "http://127.0.0.1:1" } } }, "yes"],
    ["after a day in production, whatever that is called", PRODUCTION, "factor_too_new"],
  ])("opens %s", async (_when, config, answer) => {
    await addApp();
    const { accounts } = running.service;
    const configuration = readConfiguration({
      ...config,
      admin: { url: "https://admin.example", environment: "demo" },
      operators: { [sub]: "support" },
    });
    const demo = createOperators({
      accounts,
      clock,
      configuration,
      storage: running.storage,
    });
    await expect(demo.mayOpenConsole({ sub })).resolves.toBe(answer);
  });

  it("lets nobody in with a new factor, and everybody whose factor was confirmed [D-ADM-93]", async () => {
    await addApp();
    const url = await serveConsole(running);
    const browser = await enter(await new Browser().get(url), OPERATOR, clock.now());
    expect([browser.status, browser.url.origin]).toEqual([403, url]);
    await running.service.operators.confirm(sub);
    clock.advance(60);
    const again = await enter(await new Browser().get(`${url}/services`), OPERATOR, clock.now());
    expect([again.status, again.url.origin]).toEqual([200, url]);
  });
});

describe("a confirmation", () => {
  it("is for operators with a factor only", async () => {
    const { service } = running;
    await expect(service.operators.confirm(sub)).rejects.toMatchObject({ code: "not_applicable" });
    await service.accounts.addApp(PERSON, { secret: SECRET });
    await expect(service.operators.confirm(PERSON)).rejects.toMatchObject({ code: "not_applicable" });
    await expect(service.operators.confirm(crypto.randomUUID())).rejects.toMatchObject({ code: "not_found" });
  });

  it("can't be asked for over HTTP [D-ADM-93]", async () => {
    const { token } = await running.service.tokens.create({ role: "administrator", expires: 600 });
    const { status } = await fetch(`${running.admin}/v1/operators/${sub}/confirm`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}` },
    });
    expect(status).toBe(404);
  });
});

describe("the address of the console below a deployment", () => {
  it("leads operators who are signed in to admin.url, and is unknown to everybody else [D-ADM-94]", async () => {
    const paths = ["deliveries", "deliveries/receivers", "deliveries/msg_1", "people", `people/${PERSON}`];
    const operator = await signedIn(running.openid, OPERATOR);
    const person = await signedIn(running.openid, {
      username: "person@example.org",
      password: "the password of a person",
    });
    const answers: unknown[] = [];
    for (const by of [operator, person, new Browser()])
      for (const path of paths)
        for (const method of ["GET", "POST"]) {
          const url = new URL(`${running.openid}/account/${path}`);
          const headers = { cookie: by.jar.header(url), accept: "text/html", origin: url.origin };
          const answer = await fetch(url, { method, redirect: "manual", headers });
          answers.push([by === operator, answer.status, answer.headers.get("location")]);
        }
    const isOperator = [true, 303, `${running.admin}/`];
    const isNobody = [false, 404, null];
    expect(answers).toEqual([
      ...Array.from({ length: 10 }, () => isOperator),
      ...Array.from({ length: 20 }, () => isNobody),
    ]);
  });
});

describe("an operator who loses the role while a page is open", () => {
  it("does nothing more with it, nor with the role that is left [D-ADM-304]", async () => {
    const shared = await storageIn(newFolder());
    const { running: before, clock: same, url, ...visitors } = await openConsole({ config: shared });
    const operator = OPERATORS.administrator.sub;
    const page = await visitors.open("administrator", "/groups?do=create");
    const csrf = new Map(page.form("name").fields).get("csrf") ?? "";
    const body = new URLSearchParams({ csrf, key: "late", name: "Late" }).toString();

    /** Sends the form to a process with other operators, as after a rolling restart. */
    async function sent(roles: SignInServiceConfig["operators"]): Promise<readonly unknown[]> {
      const { service } = await startService({
        deployments: () => ({ oauth2: { url: before.oauth2 }, openid: { url: before.openid } }),
        config: { ...shared, clock: same, operators: roles },
      });
      const server = createServer();
      atEnd(() => void server.close());
      const origin = new URL(await listen(server, 0));
      const application = new Koa().use(service.administration({ url })).callback();
      server.on("request", (req, res) => void application(req, res));
      const posted = request(origin, {
        path: "/groups?do=create",
        method: "POST",
        agent: false,
        headers: {
          host: new URL(url).host,
          origin: url,
          cookie: page.jar.header(page.url),
          "content-type": "application/x-www-form-urlencoded",
        },
      });
      posted.end(body);
      const [answer] = await once(posted, "response");
      const to = answer.headers.location;
      answer.resume();
      return [answer.statusCode, to === undefined ? null : new URL(to, url).origin];
    }

    expect(await sent({ [operator]: "support" })).toEqual([403, null]);
    expect(await sent([operator])).toEqual([403, null]);
    expect(await sent({})).toEqual([303, new URL(before.openid).origin]);
    expect(await before.service.directory.groups.find("late")).toBeUndefined();
    expect(await sent({ [operator]: "administrator" })).toEqual([303, url]);
    expect(await before.service.directory.groups.find("late")).toMatchObject({ name: "Late" });
  });
});
