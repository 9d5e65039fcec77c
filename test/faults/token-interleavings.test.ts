import { beforeAll, describe, expect, it } from "@jest/globals";
import { interleaved } from "./interleaved.ts";
import {
  basic,
  exchange,
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
import { type ClientName, type Credentials, openStage, PASSWORD, type Stage } from "./stage.ts";
import type { HoldOptions } from "./watched-storage.ts";
import { closing } from "../closing.ts";

let stage: Stage;

beforeAll(async () => {
  stage = closing(await openStage());
});

async function one(
  wire: Wire,
  name: string,
  meanwhile: () => Promise<unknown>,
  options?: HoldOptions,
): Promise<Response> {
  const [response] = await interleaved(stage, [wire], name, meanwhile, options);
  return response!;
}

const statuses = (responses: readonly Response[]): number[] =>
  responses.map(({ status }) => status).toSorted((a, b) => a - b);

function userinfo(
  { access_token }: Pick<Tokens, "access_token">,
  name: ClientName = "news",
): Promise<Response> {
  return send(withToken("GET", `${stage.oauth2}/resources/userinfo`, stage.clients[name], access_token));
}

async function expectWorks(tokens: Tokens, name: ClientName = "news"): Promise<void> {
  expect((await userinfo(tokens, name)).status).toBe(200);
  await tokensOf(await send(refresh(stage.oauth2, stage.clients[name], tokens.refresh_token)));
}

async function expectDead(tokens: Tokens, name: ClientName = "news"): Promise<void> {
  const client = stage.clients[name];
  expect((await userinfo(tokens, name)).status).toBe(400);
  const refreshed = await send(refresh(stage.oauth2, client, tokens.refresh_token));
  expect(refreshed.status).toBe(400);
  const introspected = await send(
    post(`${stage.openid}/oauth2/introspect`, { token: tokens.access_token }, basic(client)),
  );
  // A disabled client is refused; for other clients the token is not active.
  expect([200, 400]).toContain(introspected.status);
  if (introspected.status === 200) expect(await introspected.json()).toEqual({ active: false });
}

async function expectRefused(response: Response, error = "invalid_grant"): Promise<void> {
  expect([response.status, await response.json()]).toEqual([400, expect.objectContaining({ error })]);
}

/** Refused, or given tokens that don't work. */
async function expectNothingGained(response: Response, name: ClientName = "news"): Promise<void> {
  if (response.status === 200) await expectDead(await tokensOf(response), name);
  else await expectRefused(response);
}

async function granted(name: ClientName = "news"): Promise<{ sub: string; tokens: Tokens }> {
  const { sub, username } = await stage.person();
  const wire = passwordGrant(stage.openid, stage.clients[name], username, { scope: "openid" });
  return { sub, tokens: await tokensOf(await send(wire)) };
}

const revocation = (token: string, name: ClientName = "news"): Wire =>
  post(`${stage.oauth2}/oauth2/revoke`, { token }, basic(stage.clients[name]));

/** Makes the removal of artifacts fail, so that only the account can make them invalid. */
function withoutRemoval(): void {
  stage.storage.fail = ({ name }) => {
    if (name === "artifacts.remove") throw new Error("not now");
  };
}

describe("while a code is exchanged, between its reading and the commit", () => {
  const changes: readonly (readonly [string, (sub: string) => Promise<unknown>])[] = [
    [
      "the password changes [D-ACCOUNT-7]",
      (sub) => stage.service.accounts.setPassword(sub, `new ${PASSWORD}`),
    ],
    ["the account is deleted [D-ACCOUNT-6]", (sub) => stage.service.accounts.delete(sub)],
    ["the user is unassigned [D-ACCOUNT-5]", (sub) => stage.service.accounts.unassign(sub, "1")],
    ["tokens are revoked [D-ACCOUNT-8]", (sub) => stage.service.accounts.revokeTokens(sub)],
    [
      "the tokens of the client are revoked [D-ACCOUNT-8]",
      (sub) => stage.service.accounts.revokeTokens(sub, stage.clients.news.client_id),
    ],
  ];

  it.each(changes)("%s: the code gives nothing", async (_name, change) => {
    const { sub, code } = await signedIn(stage);
    const wire = exchange(stage.oauth2, stage.clients.news, code);
    await expectRefused(await one(wire, "artifacts.commit", () => change(sub)));
    await expectRefused(await send(wire));
  });

  it.each(changes)(
    "%s, and the stored artifacts can't be removed: the tokens are invalid anyway [D-ACCOUNT-9]",
    async (_name, change) => {
      const { sub, code } = await signedIn(stage);
      const wire = exchange(stage.oauth2, stage.clients.news, code);
      withoutRemoval();
      try {
        await expectDead(await tokensOf(await one(wire, "artifacts.commit", () => change(sub))));
      } finally {
        stage.storage.fail = () => undefined;
      }
    },
  );

  it.each<[string, (news: Credentials) => Promise<unknown>]>([
    ["disabled", ({ client_id }) => stage.service.clients.disable(client_id)],
    [
      "moved to another service",
      ({ client_id }) => stage.service.clients.update(client_id, { service: "2" }),
    ],
  ])("the client is %s: its tokens are refused, also when that is undone", async (_what, change) => {
    const { code } = await signedIn(stage);
    const { news } = stage.clients;
    const wire = exchange(stage.oauth2, news, code);
    withoutRemoval();
    const answer = await one(wire, "artifacts.commit", () => change(news)).finally(() => {
      stage.storage.fail = () => undefined;
    });
    const tokens = await tokensOf(answer);
    await expectDead(tokens);
    await stage.service.clients.enable(news.client_id);
    await stage.service.clients.update(news.client_id, { service: "1" });
    await expectDead(tokens);
  });

  it("the client is removed: none of its tokens works", async () => {
    const redirect_uris = ["http://127.0.0.1:9/callback"];
    const client = await stage.service.clients.register({ name: "Short", service: "1", redirect_uris });
    const short = { ...stage, clients: { ...stage.clients, news: client } };
    const { code } = await signedIn(short);
    const wire = exchange(stage.oauth2, client, code);
    const answer = await one(wire, "artifacts.commit", () => stage.service.clients.remove(client.client_id));
    await expectRefused(answer);
  });
});

describe("one code", () => {
  it("gives tokens to exactly one of 50 exchanges that wait before the commit together [D-TOKEN-13]", async () => {
    const { code } = await signedIn(stage);
    const wire = exchange(stage.oauth2, stage.clients.news, code);
    const answers = await interleaved(
      stage,
      Array.from({ length: 50 }, () => wire),
      "artifacts.commit",
    );
    expect(statuses(answers)).toEqual([200, ...Array.from({ length: 49 }, () => 400)]);
    const winner = answers.find(({ status }) => status === 200)!;
    const tokens = await tokensOf(winner);
    await expectWorks(tokens);
    for (const answer of answers.filter((other) => other !== winner)) await expectRefused(answer);
    await untilReplay();
    await expectRefused(await send(wire));
    await expectDead(tokens);
  });

  it("gives tokens to exactly one of 20 exchanges at once, and revokes nothing [D-TOKEN-13]", async () => {
    const { code } = await signedIn(stage);
    const wire = exchange(stage.oauth2, stage.clients.news, code);
    const answers = await Promise.all(Array.from({ length: 20 }, () => send(wire)));
    expect(statuses(answers)).toEqual([200, ...Array.from({ length: 19 }, () => 400)]);
    await expectWorks(await tokensOf(answers.find(({ status }) => status === 200)!));
  });

  it("that is read before the response of the first exchange, and checked after it, revokes nothing [D-TOKEN-13]", async () => {
    const { code } = await signedIn(stage);
    const wire = exchange(stage.oauth2, stage.clients.news, code);
    let first: Response | undefined;
    const late = await one(
      wire,
      "artifacts.find",
      async () => {
        first = await send(wire);
      },
      { at: "after" },
    );
    await expectRefused(late);
    await expectWorks(await tokensOf(first!));
  });
});

describe("while a token is refreshed, between its reading and the commit", () => {
  it.each(["news", "sliding", "rotating"] as const)(
    "the family is revoked: none of its tokens works, client %s [D-TOKEN-19]",
    async (name) => {
      const { tokens } = await granted(name);
      const wire = refresh(stage.oauth2, stage.clients[name], tokens.refresh_token);
      const answer = await one(wire, "artifacts.commit", () => send(revocation(tokens.refresh_token, name)));
      await expectRefused(answer);
      await expectDead(tokens, name);
    },
  );

  it("the code of its family is replayed: none of its tokens works [D-TOKEN-13]", async () => {
    const { code } = await signedIn(stage);
    const wire = exchange(stage.oauth2, stage.clients.news, code);
    const tokens = await tokensOf(await send(wire));
    await untilReplay();
    const refreshing = refresh(stage.oauth2, stage.clients.news, tokens.refresh_token);
    await expectRefused(await one(refreshing, "artifacts.commit", () => send(wire)));
    await expectDead(tokens);
  });

  it("the account is deleted: no tokens are issued [D-ACCOUNT-6]", async () => {
    const { sub, tokens } = await granted();
    const wire = refresh(stage.oauth2, stage.clients.news, tokens.refresh_token);
    await expectNothingGained(await one(wire, "artifacts.commit", () => stage.service.accounts.delete(sub)));
    await expectDead(tokens);
  });

  it("the same rotating token is refreshed: all requests get the same response, and it works [D-TOKEN-12]", async () => {
    const { tokens } = await granted("rotating");
    const wire = refresh(stage.openid, stage.clients.rotating, tokens.refresh_token);
    const answers = await interleaved(stage, [wire, wire, wire, wire], "artifacts.commit");
    const [first, ...others] = await Promise.all(answers.map(tokensOf));
    for (const other of others) expect({ ...other, expires_in: 0 }).toEqual({ ...first, expires_in: 0 });
    await expectWorks(first!, "rotating");
  });

  it("the same token without rotation is refreshed: each request gets an access token that works [D-TOKEN-12]", async () => {
    const { tokens } = await granted();
    const wire = refresh(stage.openid, stage.clients.news, tokens.refresh_token);
    const answers = await interleaved(stage, [wire, wire, wire], "artifacts.commit");
    const refreshed = await Promise.all(answers.map(tokensOf));
    expect(new Set(refreshed.map(({ access_token }) => access_token)).size).toBe(3);
    for (const each of refreshed) await expectWorks(each);
  });
});

describe("while the password grant runs", () => {
  it.each(["records.commit", "rateLimits.refund"])(
    "the account is deleted before %s: no tokens are issued [D-ACCOUNT-6]",
    async (name) => {
      const { sub, username } = await stage.person();
      const wire = passwordGrant(stage.oauth2, stage.clients.news, username);
      const hold = stage.storage.hold(name);
      const answer = send(wire);
      await hold.reached;
      // The deletion's own calls with the same name pass.
      await stage.service.accounts.delete(sub);
      hold.release();
      await expectNothingGained(await answer);
      await expect(stage.service.accounts.find(sub)).resolves.toBeUndefined();
    },
  );

  it.each(["records.commit", "rateLimits.refund"])(
    "the password changes between its verification and %s: no tokens are issued [D-ACCOUNT-7]",
    async (name) => {
      const { sub, username } = await stage.person();
      const wire = passwordGrant(stage.oauth2, stage.clients.news, username);
      const change = (): Promise<unknown> => stage.service.accounts.setPassword(sub, `new ${PASSWORD}`);
      await expectNothingGained(await one(wire, name, change));
    },
  );
});

describe("simultaneous revocations", () => {
  it("of one refresh token by RFC 7009 are all 200 [D-TOKEN-19]", async () => {
    const { tokens } = await granted();
    const wire = revocation(tokens.refresh_token);
    expect(statuses(await interleaved(stage, [wire, wire, wire], "artifacts.commit"))).toEqual([
      200, 200, 200,
    ]);
    await expectDead(tokens);
  });

  it("of one access token by RFC 7009 are all 200, and its family stays valid [D-TOKEN-19]", async () => {
    const { tokens } = await granted();
    const wire = revocation(tokens.access_token);
    expect(statuses(await interleaved(stage, [wire, wire, wire], "artifacts.commit"))).toEqual([
      200, 200, 200,
    ]);
    expect((await userinfo(tokens)).status).toBe(400);
    await tokensOf(await send(refresh(stage.oauth2, stage.clients.news, tokens.refresh_token)));
  });

  it("of one access token by the documented call are 200 once and 400 otherwise [D-TOKEN-18]", async () => {
    const { tokens } = await granted();
    const wire = withToken("GET", `${stage.oauth2}/oauth2/revoke`, stage.clients.news, tokens.access_token);
    expect(statuses(await interleaved(stage, [wire, wire, wire], "artifacts.commit"))).toEqual([
      200, 400, 400,
    ]);
  });
});
