/** Reads of a request that do not depend on each other run at the same time. */
import { beforeAll, describe, expect, it } from "@jest/globals";
import {
  authorizeUrl,
  codeOf,
  exchange,
  get,
  passwordGrant,
  refresh,
  send,
  signedIn,
  tokensOf,
  type Wire,
} from "./person.ts";
import { openStage, type Stage } from "./stage.ts";
import { closing } from "../closing.ts";

let stage: Stage;

beforeAll(async () => {
  stage = closing(await openStage());
});

/** Sends it, and lets both calls continue once both have begun. */
async function together(wire: Wire, one: string, other: string): Promise<Response> {
  const holds = [stage.storage.hold(one), stage.storage.hold(other)];
  const answer = send(wire);
  await Promise.all(holds.map(({ reached }) => reached));
  for (const hold of holds) hold.release();
  return answer;
}

describe("the client is read at the same time as", () => {
  it("the code that is exchanged", async () => {
    const { code } = await signedIn(stage);
    const wire = exchange(stage.oauth2, stage.clients.news, code);
    await tokensOf(await together(wire, "directory.findClient", "artifacts.find"));
  });

  it("the refresh token", async () => {
    const { username } = await stage.person();
    const first = await tokensOf(await send(passwordGrant(stage.oauth2, stage.clients.news, username)));
    const wire = refresh(stage.oauth2, stage.clients.news, first.refresh_token);
    await tokensOf(await together(wire, "directory.findClient", "artifacts.find"));
  });

  it("the session of the browser", async () => {
    const { person } = await signedIn(stage);
    const wire = person.wire(get(authorizeUrl(stage.oauth2, stage.clients.news)));
    const answer = await together(wire, "directory.findClient", "artifacts.find");
    expect(codeOf(answer)).toMatch(/^\S+$/);
  });
});

describe("a client that has tried too many secrets", () => {
  it("gets nothing for a valid code with the right secret, and may use both later", async () => {
    const limited = closing(await openStage({ rateLimits: { clientSecret: { points: 2, seconds: 900 } } }));
    const news = { ...limited.clients.news, client_secret: "a secret that somebody chose by hand" };
    await limited.service.clients.update(news.client_id, { client_secret: news.client_secret });
    const { code } = await signedIn(limited);
    const wrong = { ...news, client_secret: "not the secret of anybody here" };
    for (let tries = 0; tries < 2; tries += 1)
      expect((await send(exchange(limited.oauth2, wrong, code))).status).toBe(400);
    const { audit: recorded = [], ...before } = await limited.dump();
    const answer = await send(exchange(limited.oauth2, news, code));
    expect([answer.status, await answer.json()]).toEqual([
      400,
      expect.objectContaining({ error: "invalid_client" }),
    ]);
    expect(Number(answer.headers.get("retry-after"))).toBeGreaterThan(0);
    const refusal = expect.stringContaining('"reason":"limited"');
    expect(await limited.dump()).toEqual({ ...before, audit: [...recorded, refusal] });
  });
});
