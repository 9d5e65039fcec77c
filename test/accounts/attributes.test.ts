/** Attributes of one's own: who reads them, how many there may be, and what becomes of them. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, it } from "@jest/globals";
import { pino } from "pino";
import { createMessages } from "../../accounts/people/messages.ts";
import { createPersonFields, holding, valueOf } from "../../accounts/profile-fields.ts";
import { createApplication } from "../../cli/server/application.ts";
import { createSignInServiceOver } from "../../lib/service.ts";
import { createClaims } from "../../provider/claims.ts";
import { openStorage } from "../../records/storage.ts";
import type { Browser } from "../../testing/browser/browser.ts";
import { changeAccount } from "../records/rules/stage.ts";
import { readTokens } from "../../testing/test-client.ts";
import { clientAt, signIn } from "../flows/clients.ts";
import { NEWS, PARTNER, SHOP } from "../flows/running-service.ts";
import { readConfiguration } from "../../config/read.ts";
import { ADDED, WITHOUT } from "./added-fields.ts";
import { ACCOUNTS, PASSWORD, PROFILE, useFieldsService } from "./fields-service.ts";

const wide = (length: number): string => "\u{1f600}".repeat(length);

const at = useFieldsService();

describe("a field that a service adds", () => {
  it("is read by a client that asks, after the person has seen it by its label [D-ATTR-2, D-ATTR-6]", async () => {
    const party = clientAt(at.running, "openid", PARTNER);
    const account = await at.service.accounts.create({
      email: at.newEmail(),
      password: PASSWORD,
      attributes: { department: "Research", customer_number: "17" },
    });
    const browser = await party.browser().get(party.authorizeUrl({ scope: "openid org" }));
    await signIn(browser, { username: account.email, password: PASSWORD });
    expect(browser.html).toContain("Department");
    expect(browser.html).not.toContain("Customer number");
    await browser.submit(browser.form("decision"), { decision: "allow" });
    const code = browser.location?.searchParams.get("code") ?? "";
    const { access_token } = readTokens(await party.exchange(code));
    const userinfo = await fetch(`${at.running.openid}/oauth2/userinfo`, {
      headers: { authorization: `Bearer ${access_token}` },
    });
    expect(await userinfo.json()).toEqual({ sub: account.sub, email: account.email, dept: "Research" });
    const discovery = await fetch(`${at.running.openid}/.well-known/openid-configuration`);
    expect(await discovery.json()).toMatchObject({
      scopes_supported: expect.arrayContaining(["org"]),
      claims_supported: expect.arrayContaining(["dept", "floor"]),
    });
  });

  it.each([
    ["NEWS", NEWS, { cost_center: "4711", badge: "blue" }, "openid org staff"],
    // Another service than the readers.
    ["SHOP", SHOP, {}, "openid org"],
    // A third party.
    ["PARTNER", PARTNER, { cost_center: "4711" }, "openid org"],
  ])(
    "is read by %s only if it is one of the readers, by scope and by claim [D-ATTR-3, D-ATTR-5]",
    async (_name, client, read, granted) => {
      const party = clientAt(at.running, "openid", client);
      const account = await at.service.accounts.create({
        email: at.newEmail(),
        password: PASSWORD,
        attributes: { department: "Research", cost_center: "4711", badge: "blue" },
      });
      const wanted = { badge: null, cost_center: { essential: true } };
      const claims = JSON.stringify({ userinfo: wanted, id_token: wanted });
      const browser = await party.browser().get(party.authorizeUrl({ scope: "openid org staff", claims }));
      await signIn(browser, { username: account.email, password: PASSWORD });
      expect(browser.html).not.toContain("Badge");
      if (client.first_party === false) {
        expect(browser.html).toContain("Cost center");
        await browser.submit(browser.form("decision"), { decision: "allow" });
      }
      const tokens = readTokens(await party.exchange(browser.location?.searchParams.get("code") ?? ""));
      expect(tokens.scope ?? granted).toBe(granted);
      const idToken: unknown = JSON.parse(
        Buffer.from(tokens.id_token?.split(".")[1] ?? "", "base64url").toString(),
      );
      const userinfo = await fetch(`${at.running.openid}/oauth2/userinfo`, {
        headers: { authorization: `Bearer ${tokens.access_token}` },
      });
      const { sub, email } = account;
      expect(await userinfo.json()).toEqual({ sub, email, dept: "Research", ...read });
      const ofAttributes = Object.entries(idToken as object).filter(([name]) => Object.hasOwn(wanted, name));
      expect(Object.fromEntries(ofAttributes)).toEqual(read);
    },
  );

  it("is left out for a third party, when it joins a scope after the consent [D-ATTR-4]", async () => {
    const party = clientAt(at.running, "openid", PARTNER);
    const { sub, email } = await at.service.accounts.create({
      email: at.newEmail(),
      password: PASSWORD,
      attributes: { department: "Research", cost_center: "4711" },
    });
    const authorize = async (prompt: string | undefined, browser: Browser): Promise<Browser> =>
      browser.get(party.authorizeUrl({ scope: "openid org", ...(prompt && { prompt }) }));
    const read = async (browser: Browser): Promise<unknown> => {
      const code = browser.location?.searchParams.get("code") ?? "";
      const { access_token } = readTokens(await party.exchange(code));
      const headers = { authorization: `Bearer ${access_token}` };
      return (await fetch(`${at.running.openid}/oauth2/userinfo`, { headers })).json();
    };
    const browser = await authorize(undefined, party.browser());
    await signIn(browser, { username: email, password: PASSWORD });
    await browser.submit(browser.form("decision"), { decision: "allow" });
    const all = { sub, email, dept: "Research", cost_center: "4711" };
    expect(await read(browser)).toEqual(all);
    // As if the cost center had not been there when the person allowed the scope.
    const [consent] = Object.values((await at.recordOf(sub)).consents);
    const asked = ["cost_center", "department", "desk", "floor", "on_call", "second_phone"];
    expect(consent?.attributes?.toSorted()).toEqual(asked);
    await changeAccount(at.running.storage, sub, (before) => ({
      ...before!,
      consents: { [PARTNER.client_id]: { ...consent!, attributes: ["department"] } },
    }));
    const { cost_center: _later, ...seen } = all;
    expect(await read(await authorize("none", browser))).toEqual(seen);
    // The next page that asks shows it.
    await authorize("consent", browser);
    expect(browser.html).toContain("Cost center");
    await browser.submit(browser.form("decision"), { decision: "allow" });
    expect(await read(browser)).toEqual(all);
  });

  it("is under Connected services: what a client of the organization may ask for, and what another was allowed", async () => {
    const { sub, visitor } = await at.signedIn();
    for (const key of [SHOP.service, PARTNER.service]) await at.service.accounts.assign(sub, key ?? "");
    const { body } = await visitor.open(`${at.running.openid}/account/services`);
    const { services } = body as unknown as { services: { id: string; reads: string }[] };
    const reads = Object.fromEntries(services.map(({ id, ...each }) => [id, each.reads]));
    expect(reads).toEqual({
      [SHOP.service ?? ""]: expect.stringMatching(/Department.*Floor|Floor.*Department/u),
      [PARTNER.service ?? ""]: expect.not.stringContaining("Department"),
    });
    expect(reads[SHOP.service ?? ""]).not.toContain("Cost center");
    expect(JSON.stringify(services)).not.toMatch(/Customer number|Badge/u);
  });

  it("has a text that a team can replace, on the page for a wrong address, too", async () => {
    const config = {
      deployments: { openid: { url: "http://127.0.0.1:3000" } },
      storage: "sqlite::memory:",
      logger: pino({ level: "silent" }),
      accounts: ACCOUNTS,
      interactions: { copy: { en: { "attribute.department": "Team" } } },
    };
    // What sends mail reads the configuration alone.
    expect(createMessages(readConfiguration(config))).toEqual(expect.any(Function));
    const other = await createSignInServiceOver(config, openStorage);
    const answer = createApplication(other, config.logger).callback();
    const server = createServer((request, response) => void answer(request, response));
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const page = await fetch(`http://127.0.0.1:${port}/nothing`, { headers: { accept: "text/html" } });
    expect([page.status, await page.text()]).toEqual([404, expect.stringContaining("</html>")]);
    server.closeAllConnections();
    await new Promise((resolve) => void server.close(resolve));
    await other.close();
  });

  it("keeps both of two changes of different fields, and what the service no longer has [D-ATTR-15, D-ATTR-9]", async () => {
    const { sub } = await at.service.accounts.create({ email: at.newEmail() });
    await Promise.all([
      at.service.accounts.update(sub, { attributes: { department: "Sales" } }),
      at.service.accounts.update(sub, { attributes: { floor: "second" } }),
      at.service.accounts.update(sub, { name: "Ada" }),
    ]);
    expect(await at.recordOf(sub)).toMatchObject({
      name: "Ada",
      attributes: { department: "Sales", floor: "second" },
    });
    const record = await at.recordOf(sub);
    const { department = true } = ADDED;
    const fewer = createPersonFields({ ...WITHOUT, accounts: { attributes: { department } } });
    expect(fewer.shown(record).attributes).toEqual({ department: "Sales" });
    expect(fewer.stored(record, { attributes: { department: null } }).attributes).toEqual({
      floor: "second",
    });
  });

  it("is read by nobody, and kept, when its value no longer fits [D-ATTR-9]", async () => {
    const { accounts } = at.service;
    const attributes = { floor: "second", desk: 400, department: "Research" };
    const { sub } = await accounts.create({ email: at.newEmail(), attributes });
    const record = await at.recordOf(sub);
    const settings = {
      floor: { type: "choice", label: "Floor", options: { first: "First" }, scope: "org" },
      desk: { type: "integer", label: "Desk", max: 300, scope: "org" },
      department: { type: "boolean", label: "Department", scope: "org" },
    } as const;
    const changed = createPersonFields({ ...WITHOUT, accounts: { attributes: settings } });
    expect(changed.shown(record).attributes).toEqual({ floor: null, desk: null, department: null });
    expect(createClaims(changed).about(record)).not.toMatchObject({ floor: expect.anything() });
    expect(changed.stored(record, { name: "Ada" }).attributes).toEqual(attributes);
    // The form of the page does not have it, and leaves it alone.
    const form = holding(changed.rows.map((row) => [row, valueOf(row, record)]));
    expect(form.attributes).toEqual({ floor: null, desk: null, department: null });
  });

  it("has at most 8 KiB together with the others, whoever sets them [D-ATTR-16]", async () => {
    const { sub, visitor } = await at.signedIn();
    const address = { street_address: wide(256), locality: wide(256), region: wide(256) };
    await at.service.accounts.update(sub, { attributes: { department: wide(1000), address } });
    const change = at.service.accounts.update(sub, { attributes: { nickname: wide(256), floor: "first" } });
    await expect(change).rejects.toThrow("account.attributes: must have at most 8 KiB in all");
    const { body } = await visitor.open(at.running.openid + PROFILE);
    const answer = await visitor.act(body, "submit", {
      nickname: wide(256),
      website: `https://a.example/${"x".repeat(900)}`,
    });
    expect([answer.status, answer.body.problems]).toMatchObject([400, [{ code: "too-much", fields: [] }]]);
    expect((await at.recordOf(sub)).attributes).toEqual({ department: wide(1000), address });
  });

  it("says that a phone number is confirmed only until it changes [D-ATTR-17]", async () => {
    const { accounts } = at.service;
    const [phone_number, other] = ["+48226950000", "+442079460958"];
    const attributes = { phone_number, phone_number_verified: true };
    const { sub, visitor } = await at.signedIn();
    const verified = async (): Promise<unknown> =>
      (await at.recordOf(sub)).attributes?.["phone_number_verified"];
    await accounts.update(sub, { attributes });
    await accounts.update(sub, { attributes: { phone_number } });
    expect(await verified()).toBe(true);
    const { body } = await visitor.open(at.running.openid + PROFILE);
    await visitor.act(body, "submit", { phone_number: other });
    expect(await verified()).toBe(false);
    await accounts.update(sub, { attributes });
    expect(await verified()).toBe(true);
    await accounts.update(sub, { attributes: { phone_number: null } });
    expect(await verified()).toBeUndefined();
  });

  it.each(["__proto__", "constructor", "unknown", "name"])(
    "has no name %s that is not its own",
    async (name) => {
      const attributes = Object.fromEntries([[name, "x"]]);
      for (const call of [
        at.service.accounts.create({ email: at.newEmail(), attributes }),
        at.service.accounts.import({ email: at.newEmail(), attributes }),
        at.service.accounts.update(at.running.ada.sub, { attributes }),
      ])
        await expect(call).rejects.toThrow(/^account\.attributes\.\S+: is not a field of this service$/u);
      const { code, err } = await at.cli("update", at.running.ada.sub, "--attribute", `${name}=x`);
      expect([code, err]).toEqual([2, expect.stringContaining("is not a field of this service")]);
    },
  );

  it("is in no account of a service that adds none", async () => {
    const none = createPersonFields(WITHOUT);
    expect(none.shown(await at.recordOf(at.running.ada.sub))).not.toHaveProperty("attributes");
  });
});
