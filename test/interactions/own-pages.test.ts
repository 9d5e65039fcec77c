/** A team's own login page for the service's interactions. */
import { describe, expect, it } from "@jest/globals";
import { koaBody } from "koa-body";
import type { Context } from "koa";
import { Browser } from "../../testing/browser/browser.ts";
import { clientAt, signIn } from "../flows/clients.ts";
import { ADA, BOB, NEWS, PARTNER, startService, useService } from "../flows/running-service.ts";

type Fields = Record<string, string | undefined>;

/** A complete login page instead of the built-in one. */
async function ownPages(ctx: Context, next: () => Promise<unknown>): Promise<unknown> {
  if (!ctx.path.startsWith("/interaction/")) return next();
  const { interactions } = running.service;
  if (ctx.method === "GET") {
    const step = await interactions.find(ctx);
    if (step === undefined) return ctx.throw(410);
    const consent = `<input name="decision" value="${step.shares?.map(({ name }) => name).join(" ")}">`;
    const inputs = step.fields.map(({ name }) => `<input name="${name}">`).join("");
    ctx.body = `<h1>Own page</h1><form method="post"><input name="csrf" value="${step.csrf}">${
      step.step === "login" ? inputs : consent
    }<button>Go</button></form>`;
    return undefined;
  }
  const { csrf = "", username = "", password = "", decision } = ctx.request.body as Fields;
  const outcome =
    decision === undefined
      ? await interactions.submit(ctx, { csrf, values: { username, password } })
      : await interactions.submit(ctx, { csrf, action: decision === "no" ? "deny" : "allow" });
  if (outcome.kind === "done") {
    ctx.redirect(outcome.location);
    ctx.status = 303;
  } else {
    ctx.status = 400;
    ctx.body = outcome.kind;
  }
  return undefined;
}

const running = useService({
  host(application) {
    application.use(koaBody());
    application.use(ownPages);
  },
});
const news = clientAt(running, "oauth2", NEWS);
const partner = clientAt(running, "oauth2", PARTNER);

describe("own pages", () => {
  it("sign a user in [D-UI-1]", async () => {
    const browser = news.browser();
    await browser.get(news.authorizeUrl());
    expect(browser.title).toBe("Own page");
    await signIn(browser);
    const code = browser.location?.searchParams.get("code") ?? "";
    const answer = await news.token({
      grant_type: "authorization_code",
      code,
      redirect_uri: news.redirect_uri,
    });
    expect(answer.status).toBe(200);
  });

  it("get the outcome of a wrong password, and of a forged form", async () => {
    const browser = news.browser();
    await browser.get(news.authorizeUrl());
    const form = browser.form("password");
    await browser.submit(form, { username: ADA.username, password: "wrong" });
    expect([browser.status, browser.html]).toEqual([400, "invalid"]);
    await browser.submit(form, { username: ADA.username, password: ADA.password, csrf: "another" });
    expect([browser.status, browser.html]).toEqual([400, "forged"]);
  });

  it("get no interaction of another browser or with an unknown id", async () => {
    const browser = news.browser();
    await browser.get(news.authorizeUrl());
    const { url } = browser;
    await expect(new Browser().get(url)).resolves.toMatchObject({ status: 410 });
    await expect(browser.get(`${running.oauth2}/interaction/another`)).resolves.toMatchObject({
      status: 410,
    });
  });

  it("ask for consent with the requested fields [D-UI-1]", async () => {
    for (const [decision, result] of [
      ["no", "error=access_denied"],
      ["yes", "code="],
    ] as const) {
      const browser = partner.browser();
      await browser.get(partner.authorizeUrl());
      await signIn(browser, BOB);
      expect(browser.html).toContain('value="sub email name surname date_of_birth gender"');
      await browser.submit(browser.form("decision"), { decision });
      expect(browser.location?.search).toContain(result);
    }
  });
});

it("learn why a sign-in has ended, and where it starts again [D-AGAIN-1, D-UI-1]", async () => {
  const seen: unknown[] = [];
  const own = await startService({
    host(application) {
      application.use(koaBody());
      application.use(async (ctx, next) => {
        if (!ctx.path.startsWith("/interaction/")) return next();
        const { interactions } = own.service;
        const step = ctx.method === "GET" ? await interactions.find(ctx) : undefined;
        if (step !== undefined) {
          ctx.body = `<h1>Own page</h1><form method="post"><input name="again" value="${step.again}"></form>`;
          return undefined;
        }
        const { again, username } = { ...(ctx.request.body as Fields) };
        const ended = await interactions.ended(ctx, { again, username });
        seen.push([ended?.reason, ended?.client?.name]);
        if (ended?.location === undefined) ctx.body = "over";
        else ctx.redirect(ended.location);
        return undefined;
      });
    },
  });
  const party = clientAt(own, "oauth2", NEWS);
  const browser = await party.browser().get(party.authorizeUrl({ state: "s" }));
  const form = browser.form("again");
  const stranger = await new Browser().get(`${own.oauth2}/interaction/gone`);
  expect(stranger.html).toBe("over");
  // In another browser it starts there.
  await stranger.submit(form, { username: "ada" });
  expect(stranger.title).toBe("Own page");
  expect(stranger.visits.some(({ url }) => url.searchParams.get("login_hint") === "ada")).toBe(true);
  expect(seen).toEqual([
    ["no-cookies", undefined],
    ["no-cookies", "News"],
  ]);
});
