/** Notifications in the demo: changes in the client, receivers that print and fail, the console. */
import { setTimeout as pause } from "node:timers/promises";
import { afterEach, describe, expect, it } from "@jest/globals";
import { Browser } from "../../testing/browser/browser.ts";
import { totpCode } from "../../testing/totp-code.ts";
import { freePorts, type Running, start } from "./processes.ts";

interface Demo {
  readonly running: Running;
  readonly client: string;
  readonly receiver: string;
  readonly console: string;
}

const demos: Running[] = [];
afterEach(async () => {
  await Promise.all(demos.splice(0).map((each) => each.stop("SIGKILL")));
});

async function startDemo(...args: readonly string[]): Promise<Demo> {
  const port = await freePorts(4);
  const running = start("cli/main.ts", { args: ["serve", "--demo", "--port", `${port}`, ...args] });
  demos.push(running);
  await running.until(/Ctrl\+C stops it/);
  return {
    running,
    client: `http://localhost:${port + 1}`,
    receiver: `http://127.0.0.1:${port + 2}`,
    console: `http://localhost:${port}/account/deliveries`,
  };
}

async function signIn({ client }: Demo, way = "OAuth 2.0"): Promise<Browser> {
  const browser = await new Browser().get(client);
  await browser.click(`Sign in with ${way}`);
  return browser.submit(browser.form("password"), { username: "ada", password: "lovelace-1843" });
}

async function press(browser: Browser, button: string): Promise<string> {
  await browser.submit(browser.form(button), {});
  return /<p role="status">([^<]*)</.exec(browser.html)?.[1] ?? browser.title;
}

/** The printed notifications: receiver, type and services. */
function printed({ running }: Demo): string[] {
  const lines = running
    .output()
    .matchAll(/^ {2}(\S+:\S+) {2}([A-Z_]+) {2}ada@example\.com.*services (\S+)/gm);
  return Array.from(lines, (line) => line.slice(1).join(" ")).toSorted((one, other) =>
    one < other ? -1 : 1,
  );
}

describe("the demo's notifications", () => {
  it("prints the notifications about a changed name, a left service and a deleted account", async () => {
    const demo = await startDemo();
    const browser = await signIn(demo);
    expect(await press(browser, "rename")).toBe("Your name is now Augusta.");
    expect(browser.title).toBe("Hello, Augusta");
    await demo.running.until(/service:3 {2}PROFILE_CHANGED/);
    await demo.running.until(/group:media {2}PROFILE_CHANGED/);
    expect(await press(browser, "unassign")).toMatch(/^You have left this service/);
    expect(browser.title).toBe("Signed in, without a token");
    await demo.running.until(/UNASSINGED_FROM_SERVICE/);
    await press(browser, "sign_out");
    const again = await signIn(demo, "OpenID Connect");
    expect(await press(again, "delete")).toMatch(/^Your account has been deleted/);
    await demo.running.until(/portal:main {2}DELETE_ACCOUNT/);
    await demo.running.until(/service:3 {2}DELETE_ACCOUNT/);
    await demo.running.until(/group:media {2}DELETE_ACCOUNT/);
    expect(printed(demo)).toEqual([
      'group:media DELETE_ACCOUNT {"1":null,"2":1102020202}',
      'group:media PROFILE_CHANGED {"1":null,"2":1102020202}',
      'group:media UNASSINGED_FROM_SERVICE {"1":null}',
      'portal:main DELETE_ACCOUNT {"1":null,"2":1102020202,"3":null}',
      'service:3 DELETE_ACCOUNT {"3":null}',
      'service:3 PROFILE_CHANGED {"3":null}',
    ]);
    expect((await signIn(demo)).title).toBe("Hello, Ada");
    await expect(demo.running.stop("SIGINT")).resolves.toBe(0);
    expect(demo.running.output()).not.toMatch(/secret|lovelace-1843"|"password|Basic /);
  });

  it("fails as often as the arguments say, and then prints the retried notifications", async () => {
    const demo = await startDemo("--receiver-fail", "2", "--receiver-status", "500");
    const browser = await signIn(demo);
    await press(browser, "rename");
    await demo.running.until(/request 2 of 2 at \/\w+, msg_\S+: answered 500/);
    await demo.running.until(/service:3 {2}PROFILE_CHANGED/);
    await demo.running.until(/group:media {2}PROFILE_CHANGED/);
    const [, id = ""] = /request 1 of 2 at \S+ (msg_\w+)/.exec(demo.running.output()) ?? [];
    expect(demo.running.output()).toContain(`webhook-id ${id}\n`);
  });

  it("fails and succeeds again by buttons, and shows the attempts to its user", async () => {
    const demo = await startDemo();
    const browser = await signIn(demo);
    expect(await press(browser, "break")).toBe("All notifications fail now.");
    await press(browser, "rename");
    await demo.running.until(/request 2 at \/\w+, msg_\S+: answered 503/);
    await browser.click("delivery console");
    expect([browser.url.href, browser.title]).toEqual([demo.console, "Deliveries"]);
    expect(browser.html).toMatch(/PROFILE_CHANGED[^]*Waiting/);
    await browser.get(demo.client);
    expect(await press(browser, "mend")).toBe("Notifications succeed again.");
    await demo.running.until(/service:3 {2}PROFILE_CHANGED/);
  });

  it("has a console, which opens as soon as its user has an authenticator app", async () => {
    const demo = await startDemo();
    const [, address = ""] = /Console +(\S+)/.exec(demo.running.output()) ?? [];
    const ada = { username: "ada", password: "lovelace-1843" };
    const browser = await new Browser().get(demo.console.replace("deliveries", "sign-in-methods/new-app"));
    await browser.submit(browser.form("password"), ada);
    const withAction = (action: string) =>
      browser.forms().find(({ fields }) => fields.some(([, value]) => value === action));
    await browser.submit(withAction("send"));
    const box = demo.console.replace("account/deliveries", "dev/mail");
    // The worker sends it soon after the page has answered.
    let code: string | undefined;
    while (code === undefined) {
      const texts = [1, 2, 3].map(async (number) => (await fetch(`${box}/${number}`)).text());
      code = /^([0-9A-Z]{8})$/m.exec((await Promise.all(texts)).join("\n"))?.[1];
      if (code === undefined) await pause(50);
    }
    await browser.submit(withAction("code"), { code });
    const secret = /<code class="app-key">([^<]*)/.exec(browser.html)?.[1]?.replaceAll(" ", "") ?? "";
    await browser.submit(withAction("app"), { code: totpCode(secret, Date.now()) });
    const visitor = await new Browser().get(`${address}/deliveries`);
    await visitor.submit(visitor.form("password"), ada);
    // The next code: each works once.
    await visitor.submit(visitor.forms()[0], { code: totpCode(secret, Date.now() + 30_000) });
    expect([visitor.url.href, visitor.status]).toEqual([`${address}/deliveries`, 200]);
    expect(visitor.html).toContain("Not delivered");
  });

  it("runs without its receiver: notifications wait until one is started with the file of the demo", async () => {
    const demo = await startDemo("--no-receiver");
    const browser = await signIn(demo);
    expect(demo.running.output()).not.toContain("Receiver");
    expect(browser.forms().some(({ action }) => /mend/.test(String(action)))).toBe(false);
    await press(browser, "rename");
    const receiver = start("examples/receiver/main.ts", {
      args: [
        "--config",
        new URL("../../cli/demo/demo.json", import.meta.url).pathname,
        "--port",
        new URL(demo.receiver).port,
      ],
    });
    demos.push(receiver);
    await receiver.until(/group:media {2}PROFILE_CHANGED/);
    await receiver.until(/service:3 {2}PROFILE_CHANGED/);
    await expect(receiver.stop("SIGINT")).resolves.toBe(0);
  });

  it("refuses buttons of other sites and other users", async () => {
    const demo = await startDemo();
    const rename = (headers: Record<string, string>): Promise<Response> =>
      fetch(`${demo.client}/demo/rename`, { method: "POST", headers, redirect: "manual" });
    expect((await rename({ origin: "http://evil.example" })).status).toBe(403);
    const browser = await signIn(demo);
    const cookie = browser.jar.header(new URL(demo.client));
    expect((await rename({ cookie, origin: "null" })).status).toBe(403);
    expect((await rename({ origin: demo.client })).status).toBe(303);
    await browser.get(demo.client);
    expect(browser.title).toBe("Hello, Ada");
  });
});
