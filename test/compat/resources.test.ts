/** `https://host/` names the API `https://host`, wherever a client writes it. */
import { beforeAll, describe, expect, it } from "@jest/globals";
import { DeviceParty, TELEVISION } from "../flows/device-party.ts";
import { APP, newProof, PublicParty } from "../flows/public-party.ts";
import { type Answer, basic, readTokens, relyingParty, send } from "../flows/relying-party.ts";
import { NEWS, useService } from "../flows/running-service.ts";
import { API, READER, registerReader } from "../flows/sample-apis.ts";

/** As it is registered, and as many clients write it. */
const PLAIN = "https://plain.example";
const WRITTEN = `${PLAIN}/`;
/** Registered with its slash. */
const SLASHED = "https://slashed.example/";
const SCOPE = "articles:read";

const running = useService();

beforeAll(async () => {
  const { directory, clients } = running.service;
  await registerReader(running);
  await directory.apis.put(PLAIN, API);
  await directory.apis.put(SLASHED, API);
  const apis = { [PLAIN]: [SCOPE], [SLASHED]: [SCOPE] };
  await clients.register({ ...APP, apis });
  await clients.register({ ...TELEVISION, apis });
  await clients.update("news", { apis });
  await clients.update(READER.client_id, { apis });
});

async function audience(answer: Answer): Promise<unknown> {
  const { access_token: token } = readTokens(answer);
  const introspected = await send(`${running.openid}/oauth2/introspect`, {
    method: "POST",
    headers: { authorization: basic(READER) },
    body: new URLSearchParams({ token }),
  });
  return introspected.body["aud"];
}

describe.each(["oauth2", "openid"] as const)("the API https://host, named https://host/ on %s", (kind) => {
  it("is found at authorization, exchange and refresh [D-API-14]", async () => {
    const news = relyingParty(running, kind, NEWS);
    for (const written of [WRITTEN, PLAIN]) {
      const code = await news.code({ resource: written, scope: SCOPE });
      const exchanged = await news.exchange(code, { resource: WRITTEN });
      expect(await audience(exchanged)).toBe(PLAIN);
      const { refresh_token } = exchanged.body;
      expect(await audience(await news.refresh(String(refresh_token), { resource: WRITTEN }))).toBe(PLAIN);
      expect(await audience(await news.refresh(String(refresh_token)))).toBe(PLAIN);
    }
  });

  it("is found by a public client, a device and a machine [D-API-14]", async () => {
    const app = new PublicParty(running, kind, APP);
    const issued = await app.code({ resource: WRITTEN, scope: SCOPE });
    expect(await audience(await app.exchange(issued, { resource: WRITTEN }))).toBe(PLAIN);
    const device = new DeviceParty(running, kind, TELEVISION);
    const codes = await device.codes({ resource: WRITTEN, scope: SCOPE });
    await device.connect(codes);
    expect(await audience(await device.poll(codes, { resource: WRITTEN }))).toBe(PLAIN);
    const machine = await send(`${running[kind]}/oauth2/token`, {
      method: "POST",
      headers: { authorization: basic(READER) },
      body: new URLSearchParams({ grant_type: "client_credentials", resource: WRITTEN }),
    });
    expect(await audience(machine)).toBe(PLAIN);
  });

  it("is nothing that is registered otherwise, or not at all [D-API-14]", async () => {
    const news = relyingParty(running, kind, NEWS);
    expect(await audience(await news.exchange(await news.code({ resource: SLASHED, scope: SCOPE })))).toBe(
      SLASHED,
    );
    for (const resource of [
      "https://slashed.example",
      "https://none.example/",
      `${PLAIN}//`,
      `${PLAIN}/x/`,
      `${PLAIN}/?`,
      "https://PLAIN.example/",
      "http://plain.example/",
    ]) {
      const browser = news.browser();
      await browser.get(news.authorizeUrl({ resource, scope: SCOPE }));
      expect([resource, browser.location?.searchParams.get("error")]).toEqual([resource, "invalid_target"]);
    }
  });
});

it("a pushed request names it too [D-API-14]", async () => {
  const app = new PublicParty(running, "openid", APP);
  const { verifier, code_challenge } = newProof();
  const pushed = await app.post("/oauth2/par", {
    response_type: "code",
    redirect_uri: app.redirectUri,
    code_challenge,
    code_challenge_method: "S256",
    resource: WRITTEN,
    scope: SCOPE,
  });
  expect(pushed.status).toBe(201);
  const { code, redirect_uri } = await app.code({
    request_uri: String(pushed.body["request_uri"]),
    redirect_uri: app.redirectUri,
  });
  expect(await audience(await app.exchange({ code, verifier, redirect_uri }))).toBe(PLAIN);
});
