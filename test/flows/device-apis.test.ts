/** Devices that call an API for a person: RFC 8707 with the device grant, on both deployments. */
import { afterEach, beforeAll, describe, expect, it } from "@jest/globals";
import { compare, connect, decide, FRAME, TELEVISION, useDevices } from "./devices.ts";
import { clientAt } from "./clients.ts";
import type { TestClient, TestAnswer } from "../../testing/test-client.ts";
import { ADA } from "./running-service.ts";
import {
  ARTICLES,
  CLOSED,
  GRANTED,
  OPEN,
  READER,
  registerReader,
  resetApis,
  SCOPE,
  VIDEOS,
} from "./sample-apis.ts";
import { expectRefusal } from "./token-answers.ts";

const KINDS = ["oauth2", "openid"] as const;
type Kind = (typeof KINDS)[number];

const reset = (): Promise<void> => resetApis(running, [TELEVISION, FRAME]);

const { running } = useDevices([TELEVISION, FRAME]);

beforeAll(async () => {
  await registerReader(running);
  await reset();
});
afterEach(reset);

const television = (kind: Kind = "openid"): TestClient => clientAt(running, kind, TELEVISION);

async function introspect(token: unknown, kind: Kind = "openid"): Promise<TestAnswer["body"]> {
  const { status, body } = await clientAt(running, kind, READER).post("/oauth2/introspect", {
    token: String(token),
  });
  expect(status).toBe(200);
  return body;
}

describe.each(KINDS)("a device that asks for APIs on %s", (kind) => {
  it("gets tokens for one API, which open nothing else [D-API-3, D-API-6, D-API-7]", async () => {
    const party = television(kind);
    const codes = await party.deviceCodes({ scope: SCOPE, resource: ARTICLES });
    await connect(codes);
    const { status, body } = await party.poll(codes);
    expect([status, body]).toEqual([
      200,
      {
        access_token: expect.stringMatching(/^[\w-]{43}$/),
        token_type: "bearer",
        expires_in: 1200,
        refresh_token: expect.any(String),
        scope: SCOPE,
      },
    ]);
    expect(await introspect(body["access_token"], kind)).toMatchObject({
      active: true,
      sub: running.ada.sub,
      aud: ARTICLES,
      client_id: "television",
      scope: SCOPE,
      amr: ["pwd"],
    });
    expectRefusal(await party.userinfo(body["access_token"]), "invalid_token", 401);
    const refreshed = await party.refresh(body["refresh_token"]);
    expect(refreshed).toMatchObject({ status: 200, body: { scope: SCOPE, expires_in: 1200 } });
    expect((await introspect(refreshed.body["access_token"], kind))["aud"]).toBe(ARTICLES);
    expectRefusal(await party.userinfo(refreshed.body["access_token"]), "invalid_token", 401);
  });

  it("names one of several when it polls; nothing else uses its code up [D-API-7, D-DEVICE-3]", async () => {
    const party = television(kind);
    const codes = await party.deviceCodes({ scope: SCOPE, resource: [ARTICLES, VIDEOS, ARTICLES] });
    expectRefusal(await party.poll(codes, { resource: ARTICLES }), "authorization_pending");
    await connect(codes);
    for (const resource of [
      undefined,
      "",
      OPEN,
      "https://none.example/",
      "x",
      "__proto__",
      [ARTICLES, VIDEOS],
    ])
      expectRefusal(await party.poll(codes, { resource }), "invalid_target");
    const { status, body } = await party.poll(codes, { resource: ARTICLES });
    expect(status).toBe(200);
    expect((await introspect(body["access_token"], kind))["aud"]).toBe(ARTICLES);
    expectRefusal(await party.refresh(body["refresh_token"]), "invalid_target");
    const video = await party.refresh(body["refresh_token"], { resource: VIDEOS });
    expect(video).toMatchObject({ status: 200, body: { scope: SCOPE, expires_in: 300 } });
    expectRefusal(await party.userinfo(video.body["access_token"]), "invalid_token", 401);
    expectRefusal(await party.poll(codes, { resource: VIDEOS }), "invalid_grant");
  });

  it("is refused for APIs and scopes that its client may not have [D-API-2, D-API-7]", async () => {
    const party = television(kind);
    const wrong = [
      "https://none.example/",
      "https://articles.example",
      `${ARTICLES}#x`,
      "articles",
      "constructor",
      "__proto__",
      "javascript:x",
      "https://user:secret@articles.example/",
      "x".repeat(3_000),
      "https://articles.example/\u0000",
    ];
    for (const resource of wrong) {
      const error = resource.includes("\0") ? "invalid_request" : "invalid_target";
      expectRefusal(await party.post("/oauth2/device", { scope: SCOPE, resource }), error);
      expectRefusal(
        await party.post("/oauth2/device", { scope: SCOPE, resource: [ARTICLES, resource] }),
        error,
      );
    }
    const eleven = Array.from({ length: 11 }, () => ARTICLES);
    expectRefusal(await party.post("/oauth2/device", { scope: SCOPE, resource: eleven }), "invalid_target");
    expect((await party.post("/oauth2/device", { scope: SCOPE, resource: eleven.slice(1) })).status).toBe(
      200,
    );
    expectRefusal(await party.post("/oauth2/device", { scope: SCOPE, resource: ["", ""] }), "invalid_target");
    for (const scope of [undefined, "", "articles:publish", "profile email", "account", "__proto__", '"'])
      expectRefusal(await party.post("/oauth2/device", { scope, resource: ARTICLES }), "invalid_scope");
    expectRefusal(
      await party.post("/oauth2/device", { scope: [SCOPE, SCOPE], resource: ARTICLES }),
      "invalid_request",
    );
    expectRefusal(
      await party.post("/oauth2/device", { resource: ARTICLES, client_id: ["television", "frame"] }),
      "invalid_request",
    );
    await running.service.clients.update("television", { apis: {} });
    expectRefusal(await party.post("/oauth2/device", { scope: SCOPE, resource: ARTICLES }), "invalid_target");
  });

  it("gets no more than it may have: other scopes are left out [D-API-2]", async () => {
    const party = television(kind);
    const scope = `articles:publish articles:write account openid x ${"y".repeat(4_000)}`;
    const codes = await party.deviceCodes({ scope, resource: ARTICLES });
    await connect(codes);
    const { body } = await party.poll(codes);
    expect(body["scope"]).toBe("articles:write");
    expect(typeof body["id_token"]).toBe(kind === "openid" ? "string" : "undefined");
  });
});

describe("the page", () => {
  it("lists each API with the descriptions of the scopes, and no field of the profile [D-API-11, D-DEVICE-2]", async () => {
    for (const [client, name] of [
      [TELEVISION, "News on TV"],
      [FRAME, "Picture frame"],
    ] as const) {
      const party = clientAt(running, "openid", client);
      // Also a second time: consent from before is not used.
      for (let round = 0; round < 2; round += 1) {
        const codes = await party.deviceCodes({ scope: "articles:read", resource: [ARTICLES, VIDEOS] });
        const browser = await compare(codes);
        expect(browser.html).toContain(`In Articles, ${name} may:`);
        expect(browser.html).toContain(`In Videos, ${name} may:`);
        expect(browser.html).toContain("<li>Read your articles</li>");
        expect(browser.html).not.toContain("<li>Write</li>");
        expect(browser.html).not.toMatch(/<li>(?:Email address|Full name|Gender)<\/li>/);
        await decide(browser, "connect");
        expect((await party.poll(codes, { resource: ARTICLES })).body["scope"]).toBe("articles:read");
      }
    }
    const account = await running.service.accounts.find(running.ada.sub);
    expect(JSON.stringify(account)).not.toContain("articles:write");
  });

  it("refuses the device of somebody who does not use the service of an API [D-API-8]", async () => {
    const party = television();
    for (const resource of [[CLOSED], [ARTICLES, CLOSED]]) {
      const codes = await party.deviceCodes({ scope: SCOPE, resource });
      const browser = await compare(codes);
      expect(browser.status).toBe(400);
      expect(browser.html).toContain("it asks for access that your account doesn’t have");
      expectRefusal(await party.poll(codes), "access_denied");
      expect((await compare(codes)).html).toContain("This code was already used.");
    }
    expect((await running.service.accounts.find(running.ada.sub))?.services).not.toHaveProperty("2");
  });

  it("also refuses when the access ends while it is open [D-API-8]", async () => {
    const party = television();
    await running.service.accounts.assign(running.ada.sub, "2");
    const codes = await party.deviceCodes({ scope: SCOPE, resource: CLOSED });
    const browser = await compare(codes);
    await running.service.accounts.unassign(running.ada.sub, ["2"]);
    await decide(browser, "connect");
    expect(browser.html).toContain("it asks for access that your account doesn’t have");
    expectRefusal(await party.poll(codes), "access_denied");
  });

  it("assigns people to the service of an API that assigns, when they continue [D-API-8]", async () => {
    const party = television();
    const { accounts } = running.service;
    const codes = await party.deviceCodes({ scope: SCOPE, resource: OPEN });
    const browser = await compare(codes);
    expect((await accounts.find(running.ada.sub))?.services).not.toHaveProperty("2");
    await decide(browser, "connect");
    expect((await accounts.find(running.ada.sub))?.services).toHaveProperty("2");
    const { body } = await party.poll(codes);
    expect((await introspect(body["access_token"]))["active"]).toBe(true);
    await accounts.unassign(running.ada.sub, ["2"]);
    expect(await introspect(body["access_token"])).toEqual({ active: false });
    expectRefusal(await party.refresh(body["refresh_token"]), "invalid_grant");
  });
});

const only = (apis: Readonly<Record<string, readonly string[]>>): Promise<unknown> =>
  running.service.clients.update("television", { apis });

describe("what the client may ask for changes", () => {
  it("before the person is asked: what is left is shown and granted, or nothing [D-API-7]", async () => {
    const party = television();
    const ask = (): ReturnType<TestClient["deviceCodes"]> =>
      party.deviceCodes({ scope: SCOPE, resource: [ARTICLES, VIDEOS] });
    const [some, none] = [await ask(), await ask()];
    await only({ [ARTICLES]: ["articles:read"] });
    const browser = await compare(some);
    expect(browser.html).toContain("In Articles, News on TV may:");
    expect(browser.html).not.toContain("In Videos");
    expect(browser.html).not.toContain("<li>Write</li>");
    await decide(browser, "connect");
    // What was not shown is not granted, though the client may ask for it again.
    await only(GRANTED);
    expectRefusal(await party.poll(some, { resource: VIDEOS }), "invalid_grant");
    expect((await party.poll(some, { resource: ARTICLES })).body["scope"]).toBe("articles:read");

    await only({});
    const page = await compare(none, ADA);
    expect(page.html).toContain("it asks for access that your account doesn’t have");
    expectRefusal(await party.poll(none, { resource: ARTICLES }), "access_denied");
  });

  it("between the answer and the poll: nothing is used up, and no token opens userinfo [D-API-7]", async () => {
    const party = television();
    const codes = await party.deviceCodes({ scope: SCOPE, resource: ARTICLES });
    await connect(codes);
    await only({});
    expectRefusal(await party.poll(codes), "invalid_target");
    await only({ [ARTICLES]: ["articles:publish"] });
    expectRefusal(await party.poll(codes), "invalid_scope");
    await only({ [ARTICLES]: ["articles:write"] });
    expect(await party.poll(codes)).toMatchObject({ status: 200, body: { scope: "articles:write" } });
  });
});
