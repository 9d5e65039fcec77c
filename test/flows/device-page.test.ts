/** The page on which a person connects a device, and what becomes of it. */
import { describe, expect, it } from "@jest/globals";
import { Browser } from "../../testing/browser/browser.ts";
import { compare, connect, decide, enter, FRAME, TELEVISION, useDevices } from "./devices.ts";
import { clientAt, signIn } from "./clients.ts";
import { type TestClient, send, type TestTokens } from "../../testing/test-client.ts";
import { ADA, BOB, NEWS } from "./running-service.ts";

const { clock, running } = useDevices([TELEVISION, FRAME]);

const television = (): TestClient => clientAt(running, "openid", TELEVISION);

describe("the question", () => {
  it("is asked even in a signed-in browser and for a first-party client, and shows what to compare [D-DEVICE-2]", async () => {
    const party = television();
    const codes = await party.deviceCodes({}, { "x-forwarded-for": "203.0.113.77" });
    clock.advance(130);
    const browser = await compare(codes);
    expect(browser.title).toBe("Connect News on TV?");
    const { html } = browser;
    expect(html).toContain(codes.user_code);
    expect(html).toContain("ada@example.com");
    expect(html).toContain("2 minutes ago");
    expect(html).toContain("203.0.113.0/24");
    expect(html).not.toContain("203.0.113.77");
    expect(html).toContain("Only continue if you started this on your own device.");
    expect(html).toMatch(/<li>Name<\/li>|<li>Full name<\/li>/);
  });

  it("warns in bold if the browser is on another network [D-DEVICE-2]", async () => {
    const party = television();
    const codes = await party.deviceCodes({}, { "x-forwarded-for": "203.0.113.77" });
    const warning = /<strong>The device is on a different network than you are\./;
    const at = (address: string): Promise<Browser> =>
      compare(codes, ADA, { headers: { "x-forwarded-for": address } });
    expect((await at("198.51.100.1")).html).toMatch(warning);
    expect((await at("203.0.113.5")).html).not.toMatch(warning);
  });

  it("lists what a third party gets, whatever was allowed before [D-DEVICE-2]", async () => {
    const party = clientAt(running, "openid", FRAME);
    for (let round = 0; round < 2; round += 1) {
      const codes = await party.deviceCodes({ scope: "openid email" });
      const browser = await compare(codes, BOB);
      expect(browser.title).toBe("Connect Picture frame?");
      expect(browser.html).toMatch(/<li>Email address<\/li>/);
      expect(browser.html).not.toMatch(/<li>Gender<\/li>/);
      await decide(browser, "connect");
      expect(await party.poll(codes)).toMatchObject({ status: 200, body: { scope: "openid email" } });
    }
  });

  it("speaks the language of the browser", async () => {
    const party = television();
    const browser = await compare(await party.deviceCodes(), ADA, { headers: { "accept-language": "pl" } });
    expect(browser.title).toBe("Połączyć News on TV?");
  });

  it("can be answered with no: the device gets access_denied, now and later [D-DEVICE-2]", async () => {
    const party = television();
    const codes = await party.deviceCodes();
    const browser = await decide(await compare(codes), "refuse");
    expect(browser.title).toBe("No device was connected");
    for (let polls = 0; polls < 3; polls += 1)
      expect(await party.poll(codes)).toMatchObject({ status: 400, body: { error: "access_denied" } });
    expect((await compare(codes)).html).toContain("This code was already used.");
  });

  it("is answered once: a second browser gets already used, and changes nothing [D-DEVICE-2]", async () => {
    const party = television();
    const codes = await party.deviceCodes();
    const [first, second] = [await compare(codes), await compare(codes, BOB)];
    await decide(first, "connect");
    expect(first.title).toBe("Your device is connected");
    for (const answer of ["connect", "refuse"] as const) {
      const form = second.form("action");
      await second.submit(form, { action: answer });
      expect(second.status).toBe(400);
      expect(second.html).toContain("This code was already used.");
      await second.get("/openid/device");
      await enter(second, codes.user_code);
      expect(second.html).toContain("This code was already used.");
      break;
    }
    const { body } = await party.poll(codes);
    expect(await party.userinfo(body["access_token"])).toMatchObject({
      body: { email: ADA.email },
    });
  });

  it("is answered once by many browsers at once [D-DEVICE-2]", async () => {
    const party = television();
    const codes = await party.deviceCodes();
    const browsers = await Promise.all([ADA, BOB, ADA, BOB].map((person) => compare(codes, person)));
    const answers = ["connect", "connect", "refuse", "connect"] as const;
    await Promise.all(browsers.map((browser, i) => decide(browser, answers[i]!)));
    const titles = browsers.map(({ title }) => title);
    expect(titles.filter((title) => title !== "Connect a device")).toHaveLength(1);
    expect([200, 400]).toContain((await party.poll(codes)).status);
  });

  it("comes too late for a code that has expired while it was open [D-DEVICE-2]", async () => {
    const party = television();
    const codes = await party.deviceCodes();
    const browser = await compare(codes);
    clock.advance(600);
    await decide(browser, "connect");
    expect(browser.status).toBe(400);
    expect(browser.html).toContain("This code has expired.");
    expect(await party.poll(codes)).toMatchObject({ status: 400, body: { error: "expired_token" } });
  });

  it("counts only in a session that still exists [D-DEVICE-2]", async () => {
    const party = television();
    const codes = await party.deviceCodes();
    const browser = await compare(codes);
    await running.service.accounts.endSessions(running.ada.sub);
    await decide(browser, "connect");
    expect(browser.title).toBe("Sign in");
    expect(await party.poll(codes)).toMatchObject({ body: { error: "authorization_pending" } });
  });

  it("is not answered by another site, nor with another person's form [D-DEVICE-2]", async () => {
    const party = television();
    const codes = await party.deviceCodes();
    const [ada, bob] = [await compare(codes), await compare(codes, BOB)];
    const form = ada.form("action");
    const fields = { ...Object.fromEntries(form.fields), action: "connect" };
    const post = (headers: Record<string, string>, changes: object = {}): ReturnType<typeof send> =>
      send(form.action.href, {
        method: "POST",
        headers: { cookie: ada.jar.header(form.action), ...headers },
        body: new URLSearchParams({ ...fields, ...changes }),
      });
    expect((await post({ origin: "https://evil.example" })).status).toBe(403);
    expect((await post({ "sec-fetch-site": "cross-site" })).status).toBe(403);
    expect((await post({}, { csrf: "" })).status).toBe(403);
    expect((await post({}, { csrf: Object.fromEntries(bob.form("action").fields)["csrf"] })).status).toBe(
      403,
    );
    expect(await party.poll(codes)).toMatchObject({ body: { error: "authorization_pending" } });
    expect((await post({})).status).toBe(303);
  });

  it("can't be bypassed: a GET decides nothing, and neither does the authorization endpoint [D-DEVICE-1]", async () => {
    const party = television();
    const codes = await party.deviceCodes();
    const browser = await compare(codes);
    await browser.get(`${party.base}/device?user_code=${codes.user_code}&action=connect`);
    expect(browser.title).toBe("Connect a device");
    for (const path of ["/oauth2/authorize?client_id=television&response_type=code", "/device/abc"])
      expect((await browser.get(`${party.base}${path}`)).status).toBeGreaterThanOrEqual(400);
    expect(await party.poll(codes)).toMatchObject({ body: { error: "authorization_pending" } });
  });
});

describe("a connected device", () => {
  it("is under Connected services, where it can be ended [D-DEVICE-2]", async () => {
    const party = television();
    const person = { username: "owner", password: "the password of an owner" };
    await running.service.accounts.create({ email: "owner@example.com", ...person });
    const held: TestTokens[] = [];
    for (let each = 0; each < 2; each += 1) {
      const codes = await party.deviceCodes();
      await connect(codes, person);
      clock.advance(1);
      held.push((await party.poll(codes)).body as unknown as TestTokens);
    }
    const [older, newer] = held;
    const browser = await new Browser().get(`${party.base}/account/services`);
    await signIn(browser, person);
    const forms = browser.forms().filter(({ fields }) => fields.some(([name]) => name === "device"));
    expect(forms).toHaveLength(2);
    await browser.submit(forms[0]);
    expect(browser.html).toContain("The device no longer has access.");
    expect((await party.userinfo(newer?.access_token)).status).toBe(401);
    expect((await party.userinfo(older?.access_token)).status).toBe(200);
    // Somebody else's device is not theirs to end.
    const id = forms[1]?.fields.find(([name]) => name === "device")?.[1] ?? "";
    const ada = await signIn(await new Browser().get(`${party.base}/account/services`), ADA);
    const own = ada.forms().find(({ fields }) => fields.some(([name]) => name === "csrf"));
    await ada.submit(own, { device: id });
    expect((await party.userinfo(older?.access_token)).status).toBe(200);
    await browser.get(`${party.base}/account/services`);
    await browser.submit(browser.form("service"), { service: "1" });
    expect((await party.userinfo(older?.access_token)).status).toBe(401);
  });

  it("is in the audit: who connected what", async () => {
    const party = television();
    const codes = await party.deviceCodes();
    await connect(codes);
    const { items: records } = await running.service.audit.list({ account: running.ada.sub, limit: 20 });
    expect(records.map(({ action, client }) => [action, client])).toContainEqual([
      "account.device_connected",
      "television",
    ]);
    expect(JSON.stringify(records)).not.toContain(codes.user_code);
  });

  it("can't be used to sign in to the account pages or another client", async () => {
    const party = television();
    const codes = await party.deviceCodes();
    await connect(codes);
    const { body } = await party.poll(codes);
    const news = clientAt(running, "openid", NEWS);
    expect((await news.userinfo(String(body["access_token"]))).status).toBe(400);
  });
});
