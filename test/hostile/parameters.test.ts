/** How long the parameters of a request may be, how deep its JSON, and what of them is stored. */
import { beforeAll, describe, expect, it } from "@jest/globals";
import { generateKeyPair, exportJWK, SignJWT } from "jose";
import { KINDS } from "../../records/all-kinds.ts";
import { atLogin } from "../interactions/json-visitor.ts";
import { APP, clientAt } from "../flows/clients.ts";
import { basic, newProof, send, type TestAnswer } from "../../testing/test-client.ts";
import { NEWS, SHOP, useService } from "../flows/running-service.ts";

const running = useService({
  config: { features: { dpop: true } },
});

beforeAll(async () => {
  await running.service.clients.register(APP);
});

/** Protocol endpoints, with what they need to get as far as their parameters. */
const ENDPOINTS: readonly [name: string, method: "GET" | "POST", path: string, Record<string, string>][] = [
  ["authorization", "GET", "/oauth2/authorize", { client_id: "news" }],
  ["pushed requests", "POST", "/openid/oauth2/par", {}],
  ["token", "POST", "/oauth2/token", { grant_type: "refresh_token", refresh_token: "x" }],
  ["token", "POST", "/openid/oauth2/token", { grant_type: "refresh_token", refresh_token: "x" }],
  ["device", "POST", "/oauth2/device", {}],
  ["introspection", "POST", "/openid/oauth2/introspect", { token: "x" }],
  ["revocation", "POST", "/oauth2/revoke", { token: "x" }],
  ["userinfo", "GET", "/resources/userinfo", { client_id: "news" }],
  ["profile", "GET", "/external/profile", { client_id: "news" }],
  ["standard userinfo", "POST", "/openid/oauth2/userinfo", { access_token: "x" }],
  ["sign-out", "GET", "/openid/oauth2/logout", {}],
];

function ask(method: "GET" | "POST", path: string, fields: [string, string][]): Promise<TestAnswer> {
  const search = new URLSearchParams(fields);
  const headers = { authorization: path.includes("userinfo") ? "Bearer x" : basic(NEWS) };
  return method === "GET"
    ? send(`${running.origin}${path}?${search}`, { headers })
    : send(`${running.origin}${path}`, { method, headers, body: search });
}

const isTooLong = ({ status, body }: TestAnswer): boolean =>
  status === 400 &&
  body["error"] === "invalid_request" &&
  /longer than \d+ bytes/.test(String(body["error_description"]));

describe("a parameter", () => {
  it.each(ENDPOINTS)(
    "has at most 4,096 bytes once decoded, known or not: %s, %s %s [D-STRANGER-6]",
    async (_name, method, path, needed) => {
      const sent = (name: string, value: string): Promise<TestAnswer> =>
        ask(method, path, [...Object.entries(needed), [name, value]]);
      for (const name of ["state", "nobody-knows-it"]) {
        expect(isTooLong(await sent(name, "x".repeat(4_096)))).toBe(false);
        expect(isTooLong(await sent(name, "x".repeat(4_097)))).toBe(true);
      }
      // Two bytes each; six in the address.
      expect(isTooLong(await sent("state", "é".repeat(2_048)))).toBe(false);
      expect(isTooLong(await sent("state", "é".repeat(2_049)))).toBe(true);
    },
  );

  it.each([
    ["claims", 8_192],
    ["id_token_hint", 16_384],
    ["client_assertion", 16_384],
    ["login_hint", 4_096],
    ["nonce", 4_096],
    ["ui_locales", 4_096],
    ["acr_values", 4_096],
    ["scope", 4_096],
    ["resource", 4_096],
  ])("%s has at most %i bytes [D-STRANGER-6]", async (name, most) => {
    for (const path of ["/oauth2/token", "/openid/oauth2/par"]) {
      expect(isTooLong(await ask("POST", path, [[name, "x".repeat(most)]]))).toBe(false);
      expect(isTooLong(await ask("POST", path, [[name, "x".repeat(most + 1)]]))).toBe(true);
    }
  });

  it("shares 32 KiB with the others of its request [D-STRANGER-6]", async () => {
    const fields = Array.from({ length: 8 }, (_, index): [string, string] => [
      `f${index}`,
      "x".repeat(4_094),
    ]);
    expect(isTooLong(await ask("POST", "/oauth2/token", fields))).toBe(false);
    expect(isTooLong(await ask("POST", "/oauth2/token", [...fields, ["", "x"]]))).toBe(true);
  });

  it("that is too long never redirects [D-STRANGER-6]", async () => {
    for (const kind of ["oauth2", "openid"] as const)
      for (const name of ["login_hint", "redirect_uri", "acr_values"]) {
        const parameters = { [name]: "x".repeat(4_097), state: "s" };
        const answer = await send(clientAt(running, kind, NEWS).authorizeUrl(parameters));
        expect([answer.status, answer.headers.get("location")]).toEqual([400, null]);
      }
  });

  it("that the service does not know is not kept [D-STRANGER-6]", async () => {
    const marker = "kept-by-nobody";
    const party = clientAt(running, "openid", APP);
    const parameters = { [marker]: marker, login_hint: "remembered" };
    await send(party.authorizeUrl({ ...newProof().request, ...parameters }));
    const { status } = await party.post("/oauth2/par", {
      ...parameters,
      response_type: "code",
      redirect_uri: party.redirect_uri,
      ...newProof().request,
    });
    expect(status).toBe(201);
    let all = "";
    for (const { name } of KINDS.all)
      for (const { value } of (await running.storage.records.store.scan(name, undefined, 1_000)).records) {
        const text = JSON.stringify(value);
        // The parameters of a pushed request are in an unsigned JWT.
        const { payload } = value as { readonly payload?: { readonly request?: string } };
        all += text + Buffer.from(payload?.request?.split(".")[1] ?? "", "base64url").toString();
      }
    // Also what is sealed, in the sign-in and in the pushed request, was written.
    expect(all.match(/"sealed/g)?.length ?? 0).toBeGreaterThan(1);
    expect(all).not.toContain(marker);
  });
});

const encoded = (text: string): string => Buffer.from(text).toString("base64url");
const lists = (levels: number): string => `${"[".repeat(levels)}${"]".repeat(levels)}`;

describe("JSON that is nested deeper than 20 levels is a 400", () => {
  it.each([21, 10_000])("at a step of a sign-in, with %i levels [D-STRANGER-7]", async (levels) => {
    const news = clientAt(running, "oauth2", NEWS);
    const { visitor, step } = await atLogin(news);
    const href = step.actions.find(({ name }) => name === "submit")?.href ?? "";
    for (const name of ["credential", "username", "other"]) {
      const around = (inner: string): string => `{"csrf":${JSON.stringify(step.csrf)},"${name}":${inner}}`;
      const { status, body } = await visitor.post(href, {}, { text: around(lists(levels - 1)) });
      expect([status, body.error]).toEqual([400, "invalid_request"]);
      const fine = await visitor.post(href, {}, { text: around(lists(19)) });
      expect(fine.body.error_description ?? "").not.toContain("nested");
    }
  });

  it.each([21, 10_000])("at the link of a mail, with %i levels [D-STRANGER-7]", async (levels) => {
    const { status, body } = await send(`${running.oauth2}/confirm`, {
      method: "POST",
      headers: { "content-type": "application/json", accept: "application/json", origin: running.origin },
      body: `{"token":${lists(levels - 1)}}`,
    });
    expect([status, body["error"]]).toEqual([400, "invalid_request"]);
  });

  it("in the header or the payload of an assertion [D-STRANGER-7]", async () => {
    const { privateKey, publicKey } = await generateKeyPair("ES256", { extractable: true });
    const jwks = { keys: [(await exportJWK(publicKey)) as Record<string, string>] };
    const { clients } = running.service;
    await clients.register({
      kind: "machine",
      client_id: "robot",
      name: "Robot",
      service: "1",
      jwks,
      error_status: "standard",
    });
    const now = Math.floor(Date.now() / 1000);
    const made = (levels: number, inHeader: boolean): Promise<string> => {
      const extra = { deep: JSON.parse(lists(levels - 1)) as unknown };
      return new SignJWT({ ...(!inHeader && extra), iat: now, exp: now + 60 })
        .setIssuer("robot")
        .setSubject("robot")
        .setAudience(running.openid)
        .setJti(`${levels}${inHeader}`)
        .setProtectedHeader({ alg: "ES256", ...(inHeader && extra) })
        .sign(privateKey);
    };
    const introspect = async (client_assertion: string): Promise<number> => {
      const body = new URLSearchParams({
        token: "unknown",
        client_assertion,
        client_assertion_type: "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
      });
      return (await send(`${running.openid}/oauth2/introspect`, { method: "POST", body })).status;
    };
    for (const inHeader of [true, false]) {
      expect(await introspect(await made(20, inHeader))).toBe(200);
      expect(await introspect(await made(21, inHeader))).toBe(400);
      expect(await introspect(await made(2_000, inHeader))).toBe(400);
    }
  });

  it("in the header or the payload of a proof, at every endpoint that reads one [D-STRANGER-7]", async () => {
    for (const levels of [20, 3_000])
      for (const dpop of [
        `${encoded(`{"jwk":${lists(levels)}}`)}.e30.x`,
        `${encoded('{"alg":"ES256","typ":"dpop+jwt"}')}.${encoded(lists(levels + 1))}.x`,
      ])
        for (const [path, form] of [
          ["/oauth2/token", { grant_type: "refresh_token", refresh_token: "x" }],
          ["/openid/oauth2/par", { response_type: "code" }],
        ] as const) {
          const { status, body } = await send(`${running.origin}${path}`, {
            method: "POST",
            headers: { authorization: basic(SHOP), dpop },
            body: new URLSearchParams(form),
          });
          expect([status, body["error"]]).toEqual([400, "invalid_request"]);
        }
  });
});
