/** The sign-in methods after a reset: with terms, more time, the account pages, and pages of a team's own. */
import type { Waiting } from "../interactions/json-visitor.ts";
import { describe, expect, it } from "@jest/globals";
import type { AccountInternals } from "../../accounts/account.ts";
import { SYSTEM } from "../../records/audit/audit-event.ts";
import { koaBody } from "koa-body";
import { Browser } from "../../testing/browser/browser.ts";
import { TERMS } from "../interactions/self-service.ts";
import { formOf, textOf } from "./methods-party.ts";
import { signIn } from "./clients.ts";
import { NEW, ResetParty } from "./reset-party.ts";

let party: ResetParty;

const pathOf = ({ step }: Waiting): string => step.actions[0]?.href ?? "";

describe("the list of sign-in methods", () => {
  it("comes before new terms of use, and is not due again if those are declined", async () => {
    party = await ResetParty.open({ interactions: { registration: { terms: TERMS } } });
    await party.reset();
    const { visitor, step } = await party.looking();
    const early = await visitor.post(pathOf({ visitor, step }).replace("review-methods", "terms"), {
      csrf: step.csrf,
      terms: TERMS.version,
    });
    expect(early.body.step).toBe("review-methods");
    const { body: terms } = await visitor.act(step, "submit");
    expect(terms.step).toBe("terms");
    const { body: list } = await visitor.get(pathOf({ visitor, step }));
    expect(list.step).toBe("terms");
    await visitor.act(terms, "cancel");
    expect((await party.shown()).step.step).toBe("terms");
  });

  it("is there with more time, and a removal still needs a recent sign-in", async () => {
    party = await ResetParty.open();
    const { clock } = party.running;
    await party.reset();
    const { visitor, step } = await party.looking();
    clock.advance(3_400);
    const { body: late } = await visitor.get();
    const { status, body: more } = await visitor.act(late, "more-time");
    expect([status, more.step, more.methods?.length]).toEqual([200, "review-methods", 2]);
    // What was shown does not count for longer.
    const { body: login } = await visitor.act(more, "remove", { method: step.methods?.[0]?.id ?? "" });
    expect([login.step, login.notice?.code]).toEqual(["login", "begin-anew"]);
  });

  it("has the identities at providers with their names and addresses, and unlinks them [D-PROV-64]", async () => {
    party = await ResetParty.open({ providers: { google: { client_id: "news", client_secret: "secret" } } });
    const { clock, service, ada } = party.running;
    const accounts = service.accounts as typeof service.accounts & AccountInternals;
    const identity = { provider: "google", issuer: "https://accounts.google.com", subject: "1" };
    await accounts.addIdentity(ada.sub, { ...identity, email: "thief@gmail.com" }, undefined, SYSTEM);
    // A reset unlinks what is newer.
    clock.advance(8 * 86_400);
    await party.reset();
    const { visitor, step } = await party.looking();
    const found = step.methods?.find(({ kind }) => kind === "provider");
    expect(found).toMatchObject({
      label: "Google",
      text: expect.stringMatching(/^thief@gmail\.com · Added .* UTC · Never used$/u),
    });
    const { body: rest } = await visitor.act(step, "remove", { method: found?.id ?? "" });
    expect(rest.methods?.map(({ kind }) => kind).toSorted()).toEqual(["app", "passkey"]);
    await expect(accounts.identities(ada.sub)).resolves.toEqual([]);
  });

  it("is a page on the way to the account, too, and leads there", async () => {
    party = await ResetParty.open();
    await party.reset();
    const browser = await new Browser().get(`${party.running.openid}/account/sign-in-methods`);
    await signIn(browser, NEW);
    await browser.submit(browser.forms()[0], { code: party.appCode() });
    expect(browser.title).toBe("Check your sign-in methods");
    expect(textOf(browser)).toMatch(/Phone Passkey · Added .* UTC · Never used/);
    await browser.submit(formOf(browser, "remove"));
    expect(textOf(browser)).toContain("All your other devices are signed out.");
    expect(textOf(browser)).not.toContain("Authenticator app");
    await browser.submit(browser.forms().at(-1));
    expect(browser.url.pathname).toBe("/openid/account/sign-in-methods");
    expect(textOf(browser)).toContain("Phone");
    await expect(party.running.service.accounts.factors(party.running.ada.sub)).resolves.toMatchObject({
      app: null,
    });
  });

  it("is the same for `service.interactions`, in routes of a team's own", async () => {
    party = await ResetParty.open({}, (application) => {
      application.use(koaBody());
      application.use(async (ctx, next) => {
        if (ctx.get("x-own") === "") return next();
        const { interactions } = party.running.service;
        const form = ctx.request.body as Readonly<Record<string, string>> | undefined;
        const { csrf = "", action = "submit", ...values } = form ?? {};
        ctx.body =
          ctx.method === "GET"
            ? await interactions.find(ctx)
            : await interactions.submit(ctx, { csrf, action, values });
        return undefined;
      });
    });
    await party.reset();
    const waiting = await party.looking();
    const { step, visitor } = waiting;
    const url = new URL(pathOf(waiting), party.running.openid);
    const own = async (values?: Readonly<Record<string, string>>) => {
      const headers = { "x-own": "1", cookie: visitor.browser.jar.header(url), origin: url.origin };
      const form = values && { method: "POST", body: new URLSearchParams({ csrf: step.csrf, ...values }) };
      const answer = await fetch(url, { headers, ...form });
      return (await answer.json()) as unknown;
    };
    await expect(own()).resolves.toMatchObject({ step: "review-methods", methods: step.methods });
    const method = step.methods?.[1]?.id ?? "";
    await expect(own({ action: "remove", method: "app2" })).resolves.toMatchObject({ kind: "invalid" });
    await expect(own({ action: "remove", method })).resolves.toMatchObject({
      kind: "next",
      step: { step: "review-methods", methods: [{ kind: "app" }] },
    });
    await expect(own({})).resolves.toMatchObject({ kind: "done" });
  });
});
