/** A way to sign in of a test: a row in each of the two tables, and every view has it without another change. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "@jest/globals";
import type { AccountInternals } from "../../accounts/account.ts";
import { type Factors, kindsOf, type Method, type Way, WAYS } from "../../accounts/ways/ways.ts";
import { createSystemClock, seconds } from "../../core/clock.ts";
import { SIGN_IN_WAYS } from "../../interactions/steps/sign-in-ways.ts";
import { proceed } from "../../interactions/steps/sign-in.ts";
import type { SignInWay } from "../../interactions/steps/step.ts";
import { acrOf, strongestAcr } from "../../provider/authentication.ts";
import { KINDS } from "../../records/all-kinds.ts";
import type { AccountRecord, AccountWays } from "../../records/directory/directory.ts";
import { ACCOUNT } from "../../records/directory/directory-kinds.ts";
import { factorChecks } from "../../records/factors/factor-check.ts";
import { collectKinds, defineKind } from "../../records/kinds.ts";
import { Records } from "../../records/records.ts";
import { Browser } from "../../testing/browser/browser.ts";
import { TestClock } from "../../testing/test-clock.ts";
import { here } from "../cli/here.ts";
import { withStores } from "../cli/stage.ts";
import { atLogin } from "../interactions/json-visitor.ts";
import { type SelfService, startSelfService } from "../interactions/self-service.ts";
import type { StorageConfig } from "../servers/storage.ts";
import { formOf, METHODS, textOf } from "./methods-party.ts";
import { clientAt } from "./clients.ts";
import { NEWS, storageIn } from "./running-service.ts";

interface Badge {
  readonly id: string;
  readonly sub: string;
}

const BADGE = defineKind<Badge>({
  name: "badge",
  holds: "a badge",
  key: "its number",
  keyOf: ({ id }) => id,
  parent: { kind: ACCOUNT, key: ({ sub }) => sub },
  store: "storage",
  exported: true,
  afterRestore: "kept",
  personal: undefined,
});

const badgesIn = (ways: AccountWays): readonly string[] =>
  (ways as { readonly badge?: readonly string[] }).badge ?? [];

/** What an account has. */
const way: Way = {
  kind: "badge",
  signsIn: true,
  isFactor: false,
  replaceable: false,
  outranksMail: false,
  amr: ["badge"],
  acr: "password",
  max: 2,
  isOn: () => true,
  ids: ({ ways }) => badgesIn(ways),
  stored: { kind: BADGE, plural: "badges", key: (_sub, id) => id },
  without: (ways, ids) => Object.assign({}, ways, { badge: badgesIn(ways).filter((id) => !ids.has(id)) }),
  shown: (stored) => ({ badges: stored }) as Partial<Factors>,
  methods: (factors) =>
    ((factors as { readonly badges?: readonly Badge[] }).badges ?? []).map(({ id }): Method => ({
      kind: "badge",
      id,
      name: `Badge ${id}`,
      added_at: 1,
      last_used_at: null,
    })),
  texts: {
    name: "direction",
    count: "direction",
    heading: "direction",
    text: "direction",
    remove: "direction",
  },
};

let sub = "";

/** What the first page does with it. A real one would read who it is. */
const step: SignInWay = {
  kind: "badge",
  fields: [],
  action: "badge",
  needs: "direction",
  button: () => "Sign in with a badge",
  isOpen: () => true,
  async submit(entry, services) {
    const account = await services.accounts.record(sub);
    if (account === undefined) return { kind: "gone" };
    const shown = { at: seconds(services.configuration.clock), amr: way.amr };
    return proceed(entry, services, account, shown);
  },
};

let folder: string;
let storage: StorageConfig;
let running: SelfService;
const clock = new TestClock();
let people = 0;

const kinds = { ...KINDS };

// Files that run after this one in the same process share these tables.
afterAll(() => {
  Object.assign(KINDS, kinds);
  delete (WAYS as Record<string, Way>)["badge"];
  (SIGN_IN_WAYS as SignInWay[]).pop();
});

beforeAll(async () => {
  Object.assign(KINDS, collectKinds([...KINDS.all, BADGE]));
  (WAYS as Record<string, Way>)["badge"] = way;
  (SIGN_IN_WAYS as SignInWay[]).push(step);
  folder = mkdtempSync(join(tmpdir(), "sign-in-ways-"));
  storage = await storageIn(folder);
  running = await startSelfService(undefined, { config: { ...storage, clock } });
  const deployments = { oauth2: { url: running.oauth2 }, openid: { url: running.openid } };
  writeFileSync(join(folder, "config.json"), JSON.stringify({ deployments, ...storage }), { mode: 0o600 });
});
afterAll(async () => {
  await running.close();
  rmSync(folder, { recursive: true });
});
beforeEach(async () => {
  people += 1;
  const email = `person${people}@example.com`;
  ({ sub } = await running.service.accounts.create({ email, email_verified: true }));
  await change((account, badge) => ({ ...account, ways: Object.assign({}, account.ways, { badge }) }));
});

const id = (): string => `no-${people}`;

async function record(): Promise<AccountRecord> {
  const found = await (running.service.accounts as unknown as AccountInternals).record(sub);
  if (found === undefined) throw new Error("no account");
  return found;
}

/** Changes the account, and stores its badge. */
async function change(
  decide: (account: AccountRecord, badges: readonly string[]) => AccountRecord,
): Promise<void> {
  await withStores(storage, async (stores) => {
    const records = new Records(stores.storage, createSystemClock(), KINDS);
    await records.transact(async (tx) => {
      const account = (await tx.get(ACCOUNT.ref(sub))) as AccountRecord;
      tx.put(ACCOUNT.record(decide(account, [id()])));
      tx.overwrite(BADGE.record({ id: id(), sub }));
    });
  });
}

async function atAccount(): Promise<Browser> {
  const browser = await new Browser().get(running.openid + METHODS);
  return browser.submit(formOf(browser, "badge"));
}

describe("a further way to sign in", () => {
  it("is in the description of the first step, signs in, and is in amr and acr", async () => {
    const news = clientAt(running, "openid", NEWS);
    const { visitor, step: login } = await atLogin(news, { scope: "openid" });
    expect(login.actions).toContainEqual(
      expect.objectContaining({ name: "badge", label: "Sign in with a badge", method: "POST" }),
    );
    const { body: done } = await visitor.act(login, "badge");
    const acr = "urn:sign-in-service:acr:password";
    await expect(visitor.claims(news, done.location)).resolves.toMatchObject({ sub, amr: ["badge"], acr });
    expect([acrOf(["badge"]), strongestAcr(await record(), {})]).toEqual([acr, acr]);
  });

  it("is on the page of methods with its button, and in the overview", async () => {
    const browser = await atAccount();
    expect(browser.url.pathname).toBe(`/openid${METHODS}`);
    expect(textOf(browser)).toContain(`Badge ${id()} Added`);
    await browser.get(`${running.openid}/account`);
    expect(textOf(browser)).toContain("Sign-in methods ltr");
  });

  it("is all that a recent sign-in asks for, if the account has nothing else", async () => {
    const browser = await atAccount();
    clock.advance(400);
    await browser.get(`${running.openid}/account/delete`);
    expect([browser.title, browser.hasForm("password")]).toEqual(["Sign in again", false]);
    expect(textOf(browser)).toContain("This change needs ltr.");
    await browser.submit(formOf(browser, "badge"));
    expect(browser.url.pathname).toBe("/openid/account/delete");
  });

  it("is not removed while it is the last way in, and is with another one", async () => {
    const browser = await atAccount();
    const page = /href="([^"]*change\?factor=[\w-]{22})"/.exec(browser.html)?.[1] ?? "";
    await browser.get(page);
    await browser.submit(formOf(browser, "remove"));
    expect([browser.status, browser.title]).toEqual([400, expect.stringContaining(`Badge ${id()}`)]);
    const { accounts } = running.service;
    await expect(accounts.removeFactor(sub, id())).rejects.toMatchObject({ code: "last_sign_in_method" });
    await accounts.setPassword(sub, "a lighthouse in the fog");
    await expect(accounts.removeFactor(sub, id())).resolves.toBe(true);
    expect(kindsOf(await record())).toEqual(["password"]);
  });

  it("is in the review after a reset, and does not end it, because no mail gives it", async () => {
    await change((account) => ({ ...account, ways: { ...account.ways, review: "due" } }));
    const browser = await atAccount();
    expect(browser.title).toBe("Check your sign-in methods");
    expect(textOf(browser)).toContain(`Badge ${id()}`);
    await browser.submit(browser.forms().at(-1));
    expect(browser.url.pathname).toBe(`/openid${METHODS}`);
    expect((await record()).ways.review).toBe("half");
  });

  it("is a row of `factors list`", async () => {
    const { code, out } = await here(["factors", "list", sub, "--config", join(folder, "config.json")]);
    expect([code, out]).toEqual([0, expect.stringMatching(new RegExp(`badge +Badge ${id()}`))]);
  });

  it("is in the check of the storage, from the account and from its record", async () => {
    const problems = () =>
      withStores(storage, async (stores) => {
        const found = [];
        for (const check of factorChecks(stores, Object.values(WAYS), createSystemClock()))
          if ((await check.find(10)).length > 0) found.push(check.problem);
        return found;
      });
    expect(await problems()).toEqual([]);
    await withStores(storage, async (stores) => {
      const records = new Records(stores.storage, createSystemClock(), KINDS);
      await records.transact(async (tx) => {
        tx.remove(BADGE.ref(id()));
        tx.overwrite(BADGE.record({ id: "stray", sub }));
      });
    });
    expect(await problems()).toEqual([
      "badges that their account does not list",
      "accounts with a second factor or an identity that is missing, or belongs to another account",
    ]);
  });
});
