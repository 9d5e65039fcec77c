/** Signing in with a code by mail: as a person, as a program, and as somebody who is not the person. */
import { describe, expect, it } from "@jest/globals";
import { koaBody } from "koa-body";
import { atLogin, JsonVisitor } from "../interactions/json-visitor.ts";
import { codeIn, type SelfService, startSelfService } from "../interactions/self-service.ts";
import { clientAt } from "./clients.ts";
import { EmailCodeParty, enter, namesOf } from "./email-code-party.ts";
import { textOf } from "./methods-party.ts";
import { NEWS } from "./running-service.ts";

const PASSWORD_ACR = "urn:sign-in-service:acr:password";
const FIREFOX = "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:140.0) Gecko/20100101 Firefox/140.0";

const party = new EmailCodeParty();

describe("a code by mail", () => {
  it.each(["openid", "oauth2"] as const)(
    "signs in at the deployment %s, on pages without a script [D-MAILCODE-1]",
    async (deployment) => {
      const { email } = await party.person();
      const client = party.clients[deployment];
      const browser = await client.browser().get(client.authorizeUrl({ scope: "openid" }));
      const [, link = ""] = /<a href="([^"]*\/email-code)">Email me a code instead</.exec(browser.html) ?? [];
      await browser.get(new URL(link, browser.url).href);
      expect([browser.title, browser.forms().length]).toEqual(["Sign in with a code", 1]);
      await browser.submit(browser.form("username"), { username: email });
      expect(browser.title).toBe("Enter your code");
      expect(textOf(browser)).toContain(
        "If there is an account with this name, a message with a code is on its way to its email address. The code works for ten minutes, and only in this browser.",
      );
      expect(browser.html).toContain('autocomplete="one-time-code"');
      // Reloading shows the same.
      await browser.get(browser.url.href);
      expect(browser.title).toBe("Enter your code");
      await browser.submit(browser.form("code"), { code: (await party.mailedCode(email)).toLowerCase() });
      await client.tokensOf(browser);
    },
  );

  it("is in the JSON interface, with the name as typed, and says amr and acr [D-MAILCODE-1, D-MAILCODE-8]", async () => {
    const { email, sub } = await party.person();
    const typed = ` ${email.toUpperCase()} `;
    const waiting = await party.asking(typed);
    expect(waiting.step).toMatchObject({
      step: "email-code",
      title: "Enter your code",
      username: typed.trim(),
      fields: [{ name: "code", autocomplete: "one-time-code" }],
    });
    expect(namesOf(waiting.step)).toEqual(["submit", "resend", "change", "login", "register"]);
    const { body: done } = await enter(waiting, await party.mailedCode(email));
    await expect(waiting.visitor.claims(party.news, done.location)).resolves.toMatchObject({
      sub,
      amr: ["email"],
      acr: PASSWORD_ACR,
    });
  });

  it("answers known and unknown names alike: steps, statuses, texts and problems, and mails the known one [D-MAILCODE-5]", async () => {
    const { email } = await party.person();
    const told = async (name: string): Promise<readonly unknown[]> => {
      const waiting = await party.asking(name);
      const answers = [waiting.step];
      for (let number = 0; number < 6; number += 1) answers.push((await enter(waiting, "00000000")).body);
      answers.push((await waiting.visitor.act(waiting.step, "resend")).body);
      party.clock.advance(601);
      answers.push((await enter(waiting, "00000000")).body);
      const own = [email, name, waiting.step.csrf, waiting.step.again ?? ""];
      return answers.map((each) => {
        let text = JSON.stringify({ ...each, again: "", csrf: "" });
        for (const value of own) text = text.replaceAll(value, "…");
        return text.replaceAll(/interaction\/[\w-]+/g, "interaction/…");
      });
    };
    const known = await told(email);
    const before = party.running.sent.length;
    expect(await told("nobody@example.net")).toEqual(known);
    expect(known.join()).toContain("This code is wrong. Check it against the newest message.");
    expect(known.join()).toContain("Too many wrong codes. This code no longer works: ask for a new one.");
    expect(known.join()).toContain("This code has expired. Ask for a new one.");
    expect(known.join()).toContain(
      "If there is an account with this name, a new code is on its way. The old one no longer works.",
    );
    // The next mail is somebody else's, so none is on its way.
    const { email: next } = await party.person();
    await party.asking(next);
    await party.running.mailTo(next);
    expect(party.running.sent.slice(before).map(({ to }) => to)).toEqual([next]);
  });

  it("works only in the browser and the sign-in that asked [D-MAILCODE-3, D-MAILCODE-4]", async () => {
    const { email } = await party.person();
    const owner = await party.asking(email);
    const code = await party.mailedCode(email);
    // A thief who waits for a code of the same name, and reads this one over a shoulder.
    const thief = await party.asking(email);
    const { status, body } = await enter(thief, code);
    expect([status, body.step, body.problems[0]?.code]).toEqual([400, "email-code", "wrong-code"]);
    // And one who has the address of the page.
    const submit = owner.step.actions[0]?.href ?? "";
    const stranger = new JsonVisitor();
    const url = new URL(submit, party.running.openid).href;
    expect((await stranger.get(url)).status).toBe(410);
    expect((await stranger.post(url, { csrf: owner.step.csrf, code })).status).toBe(410);
    expect((await enter(owner, code)).body.done).toBe(true);
  });

  it("can be asked for again, or for another name; the older one then no longer works [D-MAILCODE-4]", async () => {
    const [one, other] = [await party.person(), await party.person()];
    const waiting = await party.asking(one.email);
    const first = await party.mailedCode(one.email);
    const { body: again } = await waiting.visitor.act(waiting.step, "resend");
    expect(again.notice?.code).toBe("code-sent");
    const second = await party.mailedCode(one.email);
    expect((await enter(waiting, first)).body.problems[0]?.code).toBe("wrong-code");
    const { body: changing } = await waiting.visitor.act(again, "change");
    expect([changing.step, changing.username, changing.fields[0]?.value]).toEqual([
      "email-code",
      undefined,
      one.email,
    ]);
    const { body: step } = await waiting.visitor.act(changing, "submit", { username: other.email });
    expect(step.username).toBe(other.email);
    const third = await party.mailedCode(other.email);
    expect((await enter({ ...waiting, step }, second)).body.problems[0]?.code).toBe("wrong-code");
    const { body: done } = await enter({ ...waiting, step }, third);
    expect((await waiting.visitor.claims(party.news, done.location)).sub).toBe(other.sub);
  });

  it("comes in a mail that says who asked, with the code on a line of its own, and without a link that signs in [D-MAILCODE-6]", async () => {
    const { email } = await party.person({ locale: "en" });
    const { visitor, step: login } = await atLogin(party.news, { scope: "openid" });
    const { body: ask } = await visitor.act(login, "email-code");
    const headers = { "user-agent": FIREFOX };
    await visitor.act(ask, "submit", { username: email }, { headers });
    const mail = await party.running.mailTo(email);
    expect(mail.subject).toBe("Your sign-in code");
    const code = codeIn(mail);
    expect(code).toHaveLength(8);
    expect(mail.text).toContain("It works once, for ten minutes, only in that browser.");
    expect(mail.text).toMatch(
      /Asked for on .+ UTC, with Firefox on Windows, from the network (?:127\.0\.0\.0\/24|::\/48)\./,
    );
    expect(mail.text).toContain("will ever ask you for it.");
    expect(`${mail.text}${mail.html}`).not.toMatch(/https?:|confirm/);
    expect(mail.subject).not.toContain(code);
  });

  it("is off by default: no link, no step, no action [D-MAILCODE-1]", async () => {
    const plain = await startSelfService();
    try {
      const client = clientAt(plain, "openid", NEWS);
      const { visitor, step } = await atLogin(client);
      expect(namesOf(step)).not.toContain("email-code");
      const [href = ""] = (step.actions[0]?.href ?? "").split("?");
      expect((await visitor.get(`${href}/email-code`)).body.step).toBe("login");
      const { status } = await visitor.post(`${href}/email-code`, { csrf: step.csrf, username: "ada" });
      expect(status).toBe(200);
      expect(plain.sent).toEqual([]);
    } finally {
      await plain.close();
    }
  });

  it("is the same for `service.interactions`, in routes of a team's own [D-MAILCODE-1]", async () => {
    const own: SelfService = await startSelfService(undefined, {
      config: { signIn: { emailCode: true } },
      host(application) {
        application.use(koaBody());
        application.use(async (ctx, next) => {
          if (ctx.get("x-own") === "") return next();
          const { interactions } = own.service;
          const form = ctx.request.body as Readonly<Record<string, string>> | undefined;
          const { csrf = "", action = "submit", ...values } = form ?? {};
          ctx.body =
            ctx.method === "GET"
              ? await interactions.find(ctx)
              : await interactions.submit(ctx, { csrf, action, values });
          return undefined;
        });
      },
    });
    try {
      const { email } = await own.service.accounts.import({ email: "own@example.org", email_verified: true });
      const client = clientAt(own, "openid", NEWS);
      const { visitor, step: login } = await atLogin(client, { scope: "openid" });
      const [path = ""] = login.actions.flatMap(({ name, href }) => (name === "email-code" ? [href] : []));
      const url = new URL(path, own.openid);
      const act = async (values?: Readonly<Record<string, string>>) => {
        const headers = { "x-own": "1", cookie: visitor.browser.jar.header(url), origin: url.origin };
        const form = values && { method: "POST", body: new URLSearchParams({ csrf: login.csrf, ...values }) };
        return (await (await fetch(url, { headers, ...form })).json()) as unknown;
      };
      await expect(act()).resolves.toMatchObject({ step: "email-code", fields: [{ name: "username" }] });
      const code = { step: "email-code", username: email, fields: [{ name: "code" }] };
      await expect(act({ username: email })).resolves.toMatchObject({ kind: "next", step: code });
      await expect(act({ code: "00000000" })).resolves.toMatchObject({ kind: "invalid" });
      const right = codeIn(await own.mailTo(email));
      await expect(act({ code: right })).resolves.toMatchObject({ kind: "done" });
    } finally {
      await own.close();
    }
  });
});
