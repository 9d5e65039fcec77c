/** The steps that a client takes: token endpoint, userinfo, profile, revocation, and the standard ones. */
import { expect } from "@jest/globals";
import {
  basic,
  exchange,
  get,
  passwordGrant,
  post,
  refresh,
  send,
  signedIn,
  tokensOf,
  type Tokens,
  type Wire,
  withToken,
} from "./person.ts";
import { untilReplay } from "../flows/token-answers.ts";
import { ACCOUNT_TABLES, type Ready, type Step } from "./step.ts";
import { CALLBACK, type ClientName, type Stage } from "./stage.ts";

/** Tokens of a new account at the client, without a browser. */
async function tokensAt(stage: Stage, name: ClientName = "news", scope = "openid"): Promise<Tokens> {
  const { username } = await stage.person();
  return tokensOf(await send(passwordGrant(stage.openid, stage.clients[name], username, { scope })));
}

/** The access token works at userinfo, and the refresh token gives another one. */
async function work(stage: Stage, name: ClientName, { access_token, refresh_token }: Tokens): Promise<void> {
  const client = stage.clients[name];
  const answer = await send(withToken("GET", `${stage.oauth2}/resources/userinfo`, client, access_token));
  expect(answer.status).toBe(200);
  await tokensOf(await send(refresh(stage.oauth2, client, refresh_token)));
}

const tokensThatWork =
  (stage: Stage, name: ClientName = "news"): Ready["good"] =>
  async (response) =>
    work(stage, name, await tokensOf(response));

const json =
  (status: number, body: unknown): Ready["good"] =>
  async (response) => {
    expect([response.status, await response.json()]).toEqual([status, body]);
  };

const tokenSteps: readonly Step[] = [
  {
    name: "the exchange of a code",
    async prepare(stage) {
      const { code } = await signedIn(stage);
      return { wire: exchange(stage.oauth2, stage.clients.news, code), good: tokensThatWork(stage) };
    },
  },
  {
    name: "the exchange of a code for an ID token",
    async prepare(stage) {
      const { code } = await signedIn(stage, { base: stage.openid, scope: "openid" });
      return {
        wire: exchange(stage.openid, stage.clients.news, code),
        async good(response) {
          const tokens = await tokensOf(response);
          expect(tokens.id_token).toEqual(expect.any(String));
          await work(stage, "news", tokens);
        },
      };
    },
  },
  {
    name: "the replay of a code",
    async prepare(stage) {
      const { news } = stage.clients;
      const { code } = await signedIn(stage);
      const wire = exchange(stage.oauth2, news, code);
      const { access_token } = await tokensOf(await send(wire));
      await untilReplay();
      return {
        wire,
        async good(response) {
          await json(400, expect.objectContaining({ error: "invalid_grant" }))(response);
          const used = await send(withToken("GET", `${stage.oauth2}/resources/userinfo`, news, access_token));
          expect(used.status).toBe(400);
        },
      };
    },
  },
  ...(["news", "sliding", "rotating"] as const).map((name): Step => ({
    name: `a refresh, client ${name}`,
    async prepare(stage) {
      const { refresh_token } = await tokensAt(stage, name);
      return {
        wire: refresh(stage.openid, stage.clients[name], refresh_token),
        good: tokensThatWork(stage, name),
      };
    },
  })),
  {
    name: "a refresh that is repeated inside the window",
    async prepare(stage) {
      const { refresh_token } = await tokensAt(stage, "rotating");
      const wire = refresh(stage.openid, stage.clients.rotating, refresh_token);
      const first = await tokensOf(await send(wire));
      return {
        wire,
        async good(response) {
          const again = await tokensOf(response);
          expect({ ...again, expires_in: first.expires_in }).toEqual(first);
        },
      };
    },
  },
  {
    name: "the password grant, the first time at a client's service",
    ownCommits: ACCOUNT_TABLES,
    async prepare(stage) {
      const { username } = await stage.person();
      return { wire: passwordGrant(stage.oauth2, stage.clients.news, username), good: tokensThatWork(stage) };
    },
  },
];

const DEPLOYMENTS = [
  { kind: "oauth2", prefix: "" },
  { kind: "openid", prefix: "/oauth2" },
] as const;

const bearerSteps: readonly Step[] = DEPLOYMENTS.flatMap(({ kind, prefix }) => {
  const using = async (stage: Stage, path: string, method: "GET" | "POST" = "GET"): Promise<Wire> => {
    const { access_token } = await tokensAt(stage);
    return withToken(method, `${stage[kind]}${path}`, stage.clients.news, access_token);
  };
  const revoke = (method: "GET" | "POST"): Step => ({
    name: `${method} revoke on ${kind}`,
    async prepare(stage) {
      const wire = await using(stage, "/oauth2/revoke", method);
      return {
        wire,
        async good(response) {
          await json(200, {})(response);
          expect((await send(wire)).status).toBe(400);
        },
      };
    },
  });
  return [
    {
      name: `userinfo on ${kind}`,
      async prepare(stage: Stage) {
        const wire = await using(stage, `${prefix}/resources/userinfo`);
        return { wire, good: json(200, { sub: expect.any(String), email: expect.any(String) }) };
      },
    },
    {
      name: `profile on ${kind}`,
      async prepare(stage: Stage) {
        const wire = await using(stage, `${prefix}/external/profile`);
        return { wire, good: json(200, expect.objectContaining({ name: "Ada", surname: null })) };
      },
    },
    revoke("GET"),
    revoke("POST"),
  ];
});

const standardSteps: readonly Step[] = [
  ...(["access_token", "refresh_token"] as const).map((kind): Step => ({
    name: `RFC 7009 revocation of a ${kind}`,
    async prepare(stage) {
      const { news } = stage.clients;
      const tokens = await tokensAt(stage);
      return {
        wire: post(`${stage.oauth2}/oauth2/revoke`, { token: tokens[kind] }, basic(news)),
        async good(response) {
          await json(200, {})(response);
          const used = await send(refresh(stage.oauth2, news, tokens.refresh_token));
          expect(used.status).toBe(kind === "access_token" ? 200 : 400);
        },
      };
    },
  })),
  {
    name: "introspection",
    async prepare(stage) {
      const { access_token } = await tokensAt(stage);
      return {
        wire: post(`${stage.openid}/oauth2/introspect`, { token: access_token }, basic(stage.clients.news)),
        good: json(200, expect.objectContaining({ active: true })),
      };
    },
  },
  {
    name: "a pushed authorization request",
    async prepare(stage) {
      const { client_id } = stage.clients.news;
      const fields = { client_id, response_type: "code", redirect_uri: CALLBACK };
      return {
        wire: post(`${stage.openid}/oauth2/par`, fields, basic(stage.clients.news)),
        good: json(201, expect.objectContaining({ request_uri: expect.any(String) })),
      };
    },
  },
  {
    name: "the standard userinfo endpoint",
    async prepare(stage) {
      const { access_token } = await tokensAt(stage);
      return {
        wire: get(`${stage.openid}/oauth2/userinfo`, { authorization: `Bearer ${access_token}` }),
        good: json(200, { sub: expect.any(String), email: expect.any(String) }),
      };
    },
  },
  ...["/.well-known/openid-configuration", "/oauth2/jwks"].map((path): Step => ({
    name: path,
    storeless: true,
    async prepare(stage) {
      return {
        wire: get(`${stage.openid}${path}`),
        good: (response) => expect(response.status).toBe(200),
      };
    },
  })),
];

export const clientSteps: readonly Step[] = [...tokenSteps, ...bearerSteps, ...standardSteps];
