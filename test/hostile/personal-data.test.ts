/** What people and clients have sent is nowhere in plain text while sign-ins, registrations and resets are under way. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import type { Redis } from "ioredis";
import { DeviceParty, TELEVISION } from "../flows/device-party.ts";
import { basic, relyingParty, send, signIn } from "../flows/relying-party.ts";
import {
  ADA,
  BOB,
  NEWS,
  type RunningService,
  startService,
  UNLIMITED,
  VAULT,
} from "../flows/running-service.ts";
import { JsonVisitor } from "../interactions/json-visitor.ts";
import { Browser } from "../../testing/browser/browser.ts";
import { type OwnRedis, openOwnRedis } from "../servers/redis.ts";
import { Secrets } from "./secrets-in-text.ts";

const folder = mkdtempSync(join(tmpdir(), "sign-in-personal-"));
/** What nobody has confirmed, or nobody needs: it is in no store. */
const entered = new Secrets();
/** What the accounts have: it is not where artifacts are. */
const known = new Secrets();
let redis: OwnRedis;
let running: RunningService;

/** Everything in a Redis as text. */
async function contentsOf(client: Redis): Promise<string> {
  const texts: unknown[] = [];
  for (const key of await client.keys("*")) {
    const type = await client.type(key);
    const read =
      type === "hash"
        ? client.hgetall(key)
        : type === "set"
          ? client.smembers(key)
          : type === "zset"
            ? client.zrange(key, "0", "-1")
            : client.get(key);
    texts.push(key, await read);
  }
  return JSON.stringify(texts).replaceAll("\\", "");
}

/** The step of somebody at this client. */
async function at(
  url: string,
): Promise<{ visitor: JsonVisitor; step: Awaited<ReturnType<JsonVisitor["open"]>>["body"] }> {
  const visitor = new JsonVisitor();
  return { visitor, step: (await visitor.open(url)).body };
}

beforeAll(async () => {
  redis = await openOwnRedis();
  running = await startService({
    config: {
      storage: `sqlite:${join(folder, "sign-in.db")}`,
      artifacts: redis.url,
      rateLimits: UNLIMITED,
      // Mail stays where it waits.
      notifications: { worker: false },
      mail: async () => undefined,
      interactions: {
        registration: {
          fields: { username: "required", name: "required", surname: "required", date_of_birth: "required" },
        },
      },
    },
  });
  const news = relyingParty(running, "openid", NEWS);
  await running.service.clients.register(TELEVISION);
  await running.service.clients.register({ ...VAULT, kind: "web" });
  for (const [name, { email, password }] of Object.entries({ ada: ADA, bob: BOB })) {
    known.add(`address of ${name}`, email);
    entered.add(`password of ${name}`, password);
  }
  known.add("surname of ada", ADA.surname ?? "");

  // Signed in, with a hint and an ID token as a hint elsewhere.
  const { id_token } = await news.tokens({ scope: "openid email" });
  const hint = entered.add("login_hint", "hinted.person@example.org");
  await news.browser().get(
    news.authorizeUrl({
      scope: "openid",
      prompt: "login",
      login_hint: hint,
      id_token_hint: entered.add("id_token_hint", id_token),
    }),
  );
  await send(`${running.openid}/oauth2/par`, {
    method: "POST",
    headers: { authorization: basic(NEWS) },
    body: new URLSearchParams({
      client_id: NEWS.client_id,
      response_type: "code",
      redirect_uri: news.redirectUri,
      scope: "openid",
      login_hint: entered.add("pushed login_hint", "pushed.person@example.org"),
    }),
  });
  await new DeviceParty(running, "openid").codes({
    login_hint: entered.add("login_hint of a device", "device.person@example.org"),
  });

  // A wrong name, a reset that waits for its code, and a registration that does.
  const wrong = await at(news.authorizeUrl());
  await wrong.visitor.act(wrong.step, "submit", {
    username: entered.add("a name without an account", "nobody.here@example.org"),
    password: entered.add("a wrong password", "a wrong password of nobody"),
  });
  const reset = await at(news.authorizeUrl());
  const asked = await reset.visitor.act(reset.step, "forgot-password");
  const waiting = await reset.visitor.act(asked.body, "submit", { username: BOB.email });
  expect(waiting.body.step).toBe("new-password");
  const fresh = await at(news.authorizeUrl());
  const form = await fresh.visitor.act(fresh.step, "register");
  const registered = await fresh.visitor.act(form.body, "submit", {
    email: entered.add("registered address", "newcomer.person@example.org"),
    password: entered.add("registered password", "a lighthouse of a newcomer"),
    username: entered.add("registered username", "newcomer-username"),
    name: entered.add("registered name", "Newcomername"),
    surname: entered.add("registered surname", "Newcomersurname"),
    date_of_birth: entered.add("date of birth", "1971-03-17"),
  });
  expect(registered.body.step).toBe("confirm-email");

  // A first factor that waits for the code to the address, and a change of address that waits for its own.
  const vault = await at(relyingParty(running, "openid", VAULT).authorizeUrl({ scope: "openid" }));
  const { username, password } = BOB;
  const guarded = await vault.visitor.act(vault.step, "submit", { username, password });
  expect(guarded.body.step).toBe("enrol-confirm");
  const browser = await new Browser().get(`${running.openid}/account/email`);
  await signIn(browser, ADA);
  await browser.click("Change email address");
  await browser.submit(browser.form("email"), {
    email: entered.add("a new address", "another.ada@example.org"),
  });
}, 60_000);
afterAll(async () => {
  await running.close();
  await redis.close();
  rmSync(folder, { recursive: true });
});

describe("halfway through every flow", () => {
  it("Redis holds no name, address or entered text, of people with an account or without", async () => {
    const text = await contentsOf(redis.client);
    for (const kind of ["interaction", "session", "pushed-authorization-request", "device-code"])
      expect(text).toContain(`:r:${kind} `);
    expect(text).toContain(running.ada.sub);
    expect(entered.in(text)).toEqual([]);
    expect(known.in(text)).toEqual([]);
    expect(text).not.toMatch(/[\w.+-]+@[\w-]+\.\w+/u);
  });

  it("the storage holds the names of accounts only where the account is", () => {
    const files = readdirSync(folder).filter((name) => /^sign-in\.db(?!\.keys)/u.test(name));
    const text = files.map((name) => readFileSync(join(folder, name), "latin1")).join("\n");
    expect(known.in(text)).toEqual(["address of ada", "address of bob", "surname of ada"]);
    expect(entered.in(text)).toEqual([]);
  });
});
