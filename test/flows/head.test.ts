/** HEAD: what GET answers, without a body, without cookies, and without a trace. */
import { describe, expect, it } from "@jest/globals";
import type { Browser } from "../../testing/browser/browser.ts";
import { WatchedStorage } from "../faults/watched-storage.ts";
import { send, type TestAnswer } from "../../testing/test-client.ts";
import { clientAt, signedIn } from "./clients.ts";
import { NEWS, startService, useService } from "./running-service.ts";

let watched: WatchedStorage;

const running = useService({
  config: { secondFactor: { offer: true } },
  storage: (opened) => (watched = new WatchedStorage(opened)).storage,
});

/** Sends a request with the cookies of a browser. */
function ask(
  browser: Browser,
  method: "GET" | "HEAD",
  url: URL,
  headers: Readonly<Record<string, string>> = {},
): Promise<TestAnswer> {
  return send(url.href, { method, headers: { cookie: browser.jar.header(url), ...headers } });
}

/** The status, and the headers without those of the connection and the moment. */
function comparable({ status, headers }: TestAnswer): object {
  const names = new Set(["date", "set-cookie", "connection", "keep-alive", "x-request-id"]);
  const rest = [...headers].filter(([name]) => !names.has(name));
  return { status, headers: Object.fromEntries(rest) };
}

const WRITES = /commit|append|next|sweep|take|add|consume/i;

/** A HEAD, and the calls of the storage that it made. */
async function head(
  browser: Browser,
  url: URL,
  headers?: Readonly<Record<string, string>>,
): Promise<TestAnswer> {
  const calls: string[] = [];
  watched.fail = ({ name }) => void calls.push(name);
  try {
    const answer = await ask(browser, "HEAD", url, headers);
    expect(calls.filter((name) => WRITES.test(name))).toEqual([]);
    return answer;
  } finally {
    watched.fail = () => undefined;
  }
}

const JSON_WANTED = { accept: "application/json" };

describe("HEAD", () => {
  const pages: [string, (person: Browser) => string, Readonly<Record<string, string>>][] = [
    ["the account", () => `${running.oauth2}/account`, {}],
    ["a page of the account", () => `${running.openid}/account/sessions`, {}],
    ["the page for a device", () => `${running.openid}/device?user_code=ABCD-EFGH`, {}],
    ["the page after signing out", () => `${running.openid}/oauth2/logout/success`, {}],
    ["a running sign-in", ({ url }) => url.href, {}],
    ["another step of it", ({ url }) => `${url.href}?lang=de`, {}],
    ["its description", ({ url }) => url.href, JSON_WANTED],
    ["a sign-in that is gone", () => `${running.oauth2}/interaction/gone`, {}],
    ["the description of one that is gone", () => `${running.oauth2}/interaction/gone`, JSON_WANTED],
    ["a link that is gone", () => `${running.oauth2}/confirm`, {}],
    ["a link in mail", () => `${running.oauth2}/confirm?token=${"a".repeat(43)}`, {}],
    ["discovery", () => `${running.openid}/.well-known/openid-configuration`, {}],
    ["the keys", () => `${running.openid}/oauth2/jwks`, {}],
    ["the script", () => `${running.openid}/pages.js`, {}],
  ];

  it.each(pages)(
    "of %s is answered like GET, and stores nothing [D-DEPLOY-15]",
    async (_name, address, headers) => {
      const person = await signedIn(running.oauth2);
      await person.get(clientAt(running, "oauth2", NEWS).authorizeUrl({ prompt: "login" }));
      const url = new URL(address(person));
      const answer = await head(person, url, headers);
      expect([answer.text, answer.headers.getSetCookie()]).toEqual(["", []]);
      expect(comparable(answer)).toEqual(comparable(await ask(person, "GET", url, headers)));
    },
  );

  it("leads to no sign-in: the Location is the page itself [D-DEPLOY-15]", async () => {
    const stranger = clientAt(running, "oauth2", NEWS).browser();
    for (const path of ["/account", "/account/profile?lang=de", "/device?user_code=ABCD-EFGH"]) {
      const url = new URL(running.openid + path);
      expect((await ask(stranger, "GET", url)).headers.get("location")).toContain("/oauth2/authorize?");
      const { status, headers } = await head(stranger, url);
      expect([status, headers.get("location"), headers.getSetCookie()]).toEqual([303, url.href, []]);
    }
  });

  it("keeps the cookies of the host application [D-DEPLOY-15]", async () => {
    const host = await startService({
      host: (application) =>
        application.use((ctx, next) => {
          ctx.cookies.set("theirs", "1");
          return next();
        }),
    });
    const { headers } = await send(`${host.oauth2}/account`, { method: "HEAD" });
    expect(headers.getSetCookie()).toEqual([expect.stringContaining("theirs=1")]);
  });
});
