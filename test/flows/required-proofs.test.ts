/** Who proves its key (RFC 9449): nobody while DPoP is off, and clients that must. */
import { beforeAll, describe, expect, it } from "@jest/globals";
import { basic, newProof, send, type TestAnswer, TestClient } from "../../testing/test-client.ts";
import { APP, clientAt, issue } from "./clients.ts";
import { makeProof, newProofKey, type ProofKey } from "./proof-maker.ts";
import {
  ADA,
  CALLBACK,
  NEWS,
  type RunningService,
  startService,
  storageIn,
  useService,
} from "./running-service.ts";
import { newFolder } from "../closing.ts";

let mine: ProofKey;
beforeAll(async () => {
  mine = await newProofKey();
});

/** What a client of this id is answered at each endpoint. */
async function answersTo(
  client_id: string,
  urls: Pick<RunningService, "oauth2" | "openid">,
): Promise<unknown> {
  const client = new TestClient({ client_id, redirect_uris: [CALLBACK], urls, deployment: "openid" });
  const parameters = { redirect_uri: CALLBACK, response_type: "code", resource: "https://x.example" };
  const all = [
    await send(client.authorizeUrl(parameters), { redirect: "manual" }),
    await client.post("/oauth2/par", parameters),
    await client.refresh("x"),
    await client.post("/oauth2/introspect", { token: "x" }),
    await client.post("/oauth2/revoke", { token: "x" }),
    await client.post("/oauth2/device", {}),
  ];
  return all.map(({ status, body }) => [status, body]);
}

describe("without DPoP and metadataDocuments", () => {
  const off = useService();

  it("nothing answers differently [D-DPOP-10]", async () => {
    const client = clientAt(off, "openid", NEWS);
    const { body: document } = await send(`${off.openid}/.well-known/openid-configuration`);
    expect(document).not.toHaveProperty("dpop_signing_alg_values_supported");
    // The parameter and the header mean nothing.
    const { request, code_verifier } = newProof();
    const code = await client.code(ADA, { ...request, dpop_jkt: mine.thumbprint, scope: "openid" });
    for (const dpop of ["x.y.z", await makeProof(mine, { htm: "POST", htu: "https://x.example" })]) {
      const headers = { authorization: basic(NEWS), dpop };
      const wrong = await client.token(
        { grant_type: "authorization_code", code, redirect_uri: CALLBACK },
        headers,
      );
      expect([wrong.status, wrong.body["error"]]).toEqual([400, "invalid_grant"]);
      const pushed = { client_id: "news", redirect_uri: CALLBACK, response_type: "code", dpop_jkt: "x" };
      expect((await client.post("/oauth2/par", pushed, headers)).status).toBe(201);
    }
    const exchanged = await client.exchange(code, { code_verifier });
    expect(exchanged.body["token_type"]).toBe("bearer");
    const token = String(exchanged.body["access_token"]);
    for (const path of ["/resources/userinfo", "/external/profile", "/oauth2/userinfo", "/oauth2/revoke"]) {
      const address = `${off.openid}${path}?client_id=news`;
      const asDpop = await send(address, { headers: { authorization: `DPoP ${token}`, dpop: "x.y.z" } });
      expect([path, asDpop.status, asDpop.body["error"]]).toEqual([path, 400, "invalid_request"]);
      const bearer = await send(address, { headers: { authorization: `Bearer ${token}`, dpop: "x.y.z" } });
      expect([path, bearer.status, bearer.headers.has("dpop-nonce")]).toEqual([path, 200, false]);
    }
  });

  it("the address of a document is an unknown client [D-DOC-107]", async () => {
    const answered = await answersTo("https://127.0.0.1/agent.json", off);
    expect(answered).toEqual(await answersTo("unknown", off));
    expect(JSON.stringify(answered)).toContain("invalid_client");
  });
});

const isListed = async ({ openid }: RunningService): Promise<boolean> => {
  const { body } = await send(`${openid}/.well-known/openid-configuration`);
  return body["dpop_signing_alg_values_supported"] !== undefined;
};

/** What a client without a nonce, and one without a proof, gets; and then tokens. */
async function proves(at: RunningService): Promise<void> {
  const app = clientAt(at, "openid", APP);
  const { code, proof } = await issue(app);
  const exchange = (headers: Record<string, string>): Promise<TestAnswer> =>
    app.token({ grant_type: "authorization_code", code, ...proof }, headers);
  expect((await exchange({})).body["error"]).toBe("invalid_grant");
  const claims = { htm: "POST", htu: `${at.openid}/oauth2/token` };
  const asked = await exchange({ dpop: await makeProof(mine, claims) });
  expect([asked.status, asked.body["error"]]).toEqual([400, "use_dpop_nonce"]);
  const nonce = asked.headers.get("dpop-nonce");
  const dpop = await makeProof(mine, { ...claims, nonce });
  expect((await exchange({ dpop })).body["token_type"]).toBe("DPoP");
}

describe("a client with dpop: required", () => {
  let strict: RunningService;
  const own = useService();

  beforeAll(async () => {
    await own.service.clients.register(APP);
    strict = await startService({ config: { profile: "strict" } });
    await strict.service.clients.register(APP);
  });

  it("gets tokens only with a proof that has a nonce, and discovery says so [D-DPOP-11]", async () => {
    expect(await isListed(own)).toBe(false);
    await own.service.clients.update("app", { dpop: "required" });
    expect(await own.service.clients.find("app")).toMatchObject({ dpop: "required" });
    expect(await isListed(own)).toBe(true);
    await proves(own);
    // Others are as before.
    const { token_type } = await clientAt(own, "openid", NEWS).signIn(ADA);
    expect(token_type).toBe("bearer");
    await own.service.clients.update("app", { dpop: "optional" });
    expect(await isListed(own)).toBe(false);
  });

  it("is every public client with profile: strict [D-DPOP-11]", async () => {
    expect(await isListed(strict)).toBe(true);
    await proves(strict);
  });
});

describe("a proof at two processes at once", () => {
  it("is used once at the token endpoint and with a pushed request [D-DPOP-7]", async () => {
    const shared = { ...(await storageIn(newFolder())), features: { dpop: true } };
    const one = await startService({ config: shared });
    const { oauth2, openid } = one;
    const both = [
      one,
      await startService({
        config: shared,
        deployments: () => ({ oauth2: { url: oauth2 }, openid: { url: openid } }),
      }),
    ];
    const { refresh_token } = await clientAt(one, "openid", NEWS).signIn(ADA);
    const ask = async (path: string, form: Record<string, string>): Promise<number[]> => {
      const dpop = await makeProof(mine, { htm: "POST", htu: `${openid}${path}` });
      const answers = await Promise.all(
        Array.from({ length: 20 }, (_each, index) =>
          send(`${both[index % 2]?.origin}${new URL(openid).pathname}${path}`, {
            method: "POST",
            headers: { authorization: basic(NEWS), dpop },
            body: new URLSearchParams(form),
          }),
        ),
      );
      return answers.map(({ status }) => status).toSorted((left, right) => left - right);
    };
    const refused = Array<number>(19).fill(400);
    const refresh = { grant_type: "refresh_token", refresh_token };
    expect(await ask("/oauth2/token", refresh)).toEqual([200, ...refused]);
    const pushed = { client_id: "news", redirect_uri: CALLBACK, response_type: "code" };
    expect(await ask("/oauth2/par", pushed)).toEqual([201, ...refused]);
  });

  it("may have a nonce of the other [D-DPOP-5]", async () => {
    const shared = { ...(await storageIn(newFolder())), features: { dpop: true } };
    const one = await startService({ config: shared });
    const other = await startService({ config: shared });
    const { refresh_token } = await clientAt(one, "openid", NEWS).signIn(ADA);
    const refresh = async (at: RunningService, claims: object): Promise<TestAnswer> => {
      const dpop = await makeProof(mine, {
        htm: "POST",
        htu: `${at.openid}/oauth2/token`,
        iat: 1,
        ...claims,
      });
      return clientAt(at, "openid", NEWS).token(
        { grant_type: "refresh_token", refresh_token },
        { authorization: basic(NEWS), dpop },
      );
    };
    const nonce = (await refresh(one, {})).headers.get("dpop-nonce");
    expect((await refresh(other, { nonce })).status).toBe(200);
  });

  it("has a nonce for three minutes [D-DPOP-5]", async () => {
    let offset = 0;
    const clock = { virtual: true, now: () => Date.now() + offset };
    const at = await startService({ config: { clock, features: { dpop: true } } });
    const { refresh_token } = await clientAt(at, "openid", NEWS).signIn(ADA);
    const refresh = async (claims: object): Promise<TestAnswer> => {
      const dpop = await makeProof(mine, {
        htm: "POST",
        htu: `${at.openid}/oauth2/token`,
        iat: 1,
        ...claims,
      });
      return clientAt(at, "openid", NEWS).token(
        { grant_type: "refresh_token", refresh_token },
        { authorization: basic(NEWS), dpop },
      );
    };
    const nonce = (await refresh({})).headers.get("dpop-nonce");
    offset = 175_000;
    expect((await refresh({ nonce })).status).toBe(200);
    offset = 185_000;
    expect((await refresh({ nonce })).body["error"]).toBe("use_dpop_nonce");
    offset = -20_000;
    expect((await refresh({ nonce })).body["error"]).toBe("use_dpop_nonce");
  });
});
