import { beforeAll, describe, expect, it } from "@jest/globals";
import { interleaved } from "./interleaved.ts";
import {
  authorizeUrl,
  basic,
  codeOf,
  exchange,
  get,
  passwordGrant,
  Person,
  post,
  send,
  signedIn,
  tokensOf,
} from "./person.ts";
import { CALLBACK, openStage, PASSWORD, type Stage } from "./stage.ts";
import { closing } from "../closing.ts";

let stage: Stage;

beforeAll(async () => {
  stage = closing(await openStage());
});

const newsUrl = (): string => authorizeUrl(stage.oauth2, stage.clients.news);

const located = (response: Response): string => response.headers.get("location") ?? "";

async function newcomer(): Promise<{ person: Person; sub: string }> {
  const { sub, username } = await stage.person();
  return { sub, person: new Person(username) };
}

const exchanged = (response: Response): Promise<Response> =>
  send(exchange(stage.oauth2, stage.clients.news, codeOf(response)));

/** The response says to start again: no redirect, no cookie. */
function expectStartAgain(response: Response): void {
  expect([response.status, response.headers.get("location"), response.headers.getSetCookie()]).toEqual([
    400,
    null,
    [],
  ]);
}

/** One answer has a code that works, all others say "start again". */
async function expectOneCode(answers: readonly Response[]): Promise<void> {
  const winners = answers.filter(({ status }) => status === 302);
  expect(winners.length).toBe(1);
  await tokensOf(await exchanged(winners[0]!));
  for (const answer of answers) if (answer !== winners[0]) expectStartAgain(answer);
}

/** What the form has shown is stored with the refund of its points. */
const FORM_COMMIT = "rateLimits.refund";

describe("the login form", () => {
  it("sent twice at once signs in once: there is one code", async () => {
    const { person } = await newcomer();
    const wire = person.wire(await person.login(newsUrl()));
    const answers = await interleaved(stage, [wire, wire], FORM_COMMIT);
    const on = answers.filter(({ status }) => status === 303);
    expect(on.length).toBeGreaterThan(0);
    for (const answer of answers) if (!on.includes(answer)) expectStartAgain(answer);
    for (const answer of on) person.jarTakes(wire.url, answer);
    await expectOneCode(await Promise.all(on.map((answer) => send(person.wire(get(located(answer)))))));
  });

  it("sent again after the sign-in shows that it must be started again, with any password", async () => {
    const { person } = await newcomer();
    const wire = person.wire(await person.login(newsUrl()));
    const answer = await person.go(wire);
    await tokensOf(await exchanged(await person.go(get(located(answer)))));
    expectStartAgain(await send(wire));
  });

  it("sent twice, of which the second waits before its commit until the first is over, shows that it must be started again", async () => {
    const { person } = await newcomer();
    const wire = person.wire(await person.login(newsUrl()));
    let first: Response | undefined;
    const [second] = await interleaved(stage, [wire], FORM_COMMIT, async () => {
      const answer = await person.go(wire);
      first = await person.go(get(located(answer)));
    });
    expectStartAgain(second!);
    await tokensOf(await exchanged(first!));
  });

  it("with a password that changes meanwhile creates no session: the form is shown again [D-ACCOUNT-7]", async () => {
    const { person, sub } = await newcomer();
    const wire = person.wire(await person.login(newsUrl()));
    const [answer] = await interleaved(stage, [wire], FORM_COMMIT, () =>
      stage.service.accounts.setPassword(sub, `new ${PASSWORD}`),
    );
    person.jarTakes(wire.url, answer!);
    const resumed = await person.go(get(located(answer!)));
    expect(located(resumed)).toContain("/interaction/");
  });

  it("of an account that is deleted meanwhile gives no code [D-ACCOUNT-6]", async () => {
    const { person, sub } = await newcomer();
    const wire = person.wire(await person.login(newsUrl()));
    const [answer] = await interleaved(stage, [wire], FORM_COMMIT, () => stage.service.accounts.delete(sub));
    person.jarTakes(wire.url, answer!);
    const resumed = await person.go(get(located(answer!)));
    expect(located(resumed)).not.toContain("code=");
  });
});

describe("the way back from the form", () => {
  it("taken twice at once gives one code", async () => {
    const { person } = await newcomer();
    const wire = person.wire(get(await person.resumeAddress(newsUrl())));
    await expectOneCode(await interleaved(stage, [wire, wire, wire], "artifacts.commit"));
  });

  it.each([
    ["is deleted", (sub: string) => stage.service.accounts.delete(sub)],
    ["loses its tokens", (sub: string) => stage.service.accounts.revokeTokens(sub)],
  ])(
    "before the first assignment, of an account that %s meanwhile, assigns nobody [D-ACCOUNT-9]",
    async (_name, end) => {
      const { person, sub } = await newcomer();
      const wire = person.wire(get(await person.resumeAddress(newsUrl())));
      const [answer] = await interleaved(stage, [wire], "records.commit", () => end(sub));
      expectStartAgain(answer!);
      expect((await stage.service.accounts.find(sub))?.services ?? {}).toEqual({});
    },
  );

  it("of two first sign-ins at once assigns once [D-ACCOUNT-4]", async () => {
    const { username, sub } = await stage.person();
    const wires = await Promise.all(
      ["phone", "desk"].map(async () => {
        const person = new Person(username);
        return person.wire(get(await person.resumeAddress(newsUrl())));
      }),
    );
    const answers = await interleaved(stage, wires, "records.commit");
    for (const answer of answers) await tokensOf(await exchanged(answer));
    const { audit = [] } = await stage.dump();
    const assigned = audit.filter((row) => row.includes(sub) && row.includes("account.assigned"));
    expect(assigned.length).toBe(1);
  });
});

/** Commits a code without a page, with its point. */
const COMMIT = "rateLimits.consume";

describe("an authorization with a session", () => {
  it("gives no code when the person signs out meanwhile", async () => {
    const { person } = await signedIn(stage);
    const wire = person.wire(get(newsUrl()));
    const form = await person.form(`${stage.openid}/oauth2/logout`, { logout: "yes" });
    const [answer] = await interleaved(stage, [wire], COMMIT, async () => {
      expect((await person.go(form)).status).toBe(303);
    });
    expectStartAgain(answer!);
    await person.begin(newsUrl());
    // The session is not restored: the old cookies find nothing.
    expect(located(await send(wire))).toContain("/interaction/");
  });

  it.each([
    ["the user is unassigned [D-ACCOUNT-5]", (sub: string) => stage.service.accounts.unassign(sub, "1")],
    ["tokens are revoked [D-ACCOUNT-8]", (sub: string) => stage.service.accounts.revokeTokens(sub)],
    ["the account is deleted [D-ACCOUNT-6]", (sub: string) => stage.service.accounts.delete(sub)],
    [
      "the password changes [D-ACCOUNT-7]",
      (sub: string) => stage.service.accounts.setPassword(sub, `new ${PASSWORD}`),
    ],
  ])("while %s: its code gives nothing", async (_name, end) => {
    const { person, sub } = await signedIn(stage);
    const wire = person.wire(get(newsUrl()));
    const [answer] = await interleaved(stage, [wire], COMMIT, () => end(sub));
    if (answer!.status === 302) expect((await exchanged(answer!)).status).toBe(400);
    else expectStartAgain(answer!);
  });

  it("while the sessions end: the next authorization shows the form [D-ACCOUNT-8]", async () => {
    const { person, sub } = await signedIn(stage);
    const wire = person.wire(get(newsUrl()));
    await interleaved(stage, [wire], COMMIT, () => stage.service.accounts.endSessions(sub));
    await person.begin(newsUrl());
  });

  it("of two clients at once: both codes work, and the session keeps both clients", async () => {
    const { person, sub } = await signedIn(stage);
    const names = ["rotating", "sliding"] as const;
    const wires = names.map((name) => person.wire(get(authorizeUrl(stage.oauth2, stage.clients[name]))));
    const answers = await interleaved(stage, wires, COMMIT);
    for (const [index, answer] of answers.entries()) {
      await tokensOf(await send(exchange(stage.oauth2, stage.clients[names[index]!], codeOf(answer))));
    }
    const { session: sessions = [] } = await stage.dump();
    const [session, ...more] = sessions
      .map((row) => JSON.parse(row) as { value: { accountId: string; payload: { authorizations: object } } })
      .filter(({ value }) => value.accountId === sub);
    expect(more).toEqual([]);
    const { authorizations } = session!.value.payload;
    const ids = ["news", ...names].map((name) => stage.clients[name as "news"].client_id);
    expect(Object.keys(authorizations).toSorted()).toEqual(ids.toSorted());
  });

  it("takes a pushed request once, also when it is used twice at once [D-AUTHZ-5]", async () => {
    const { client_id } = stage.clients.news;
    const { person } = await signedIn(stage, { base: stage.openid, scope: "openid" });
    const fields = { client_id, response_type: "code", redirect_uri: CALLBACK };
    const pushed = await send(post(`${stage.openid}/oauth2/par`, fields, basic(stage.clients.news)));
    const { request_uri } = (await pushed.json()) as { request_uri: string };
    const query = new URLSearchParams({ client_id, request_uri }).toString();
    const wire = person.wire(get(`${stage.openid}/oauth2/authorize?${query}`));
    await expectOneCode(await interleaved(stage, [wire, wire], COMMIT));
  });
});

describe("100 wrong passwords in parallel", () => {
  it("take the ten points of the form before the account is looked up; the rest is 429, and so is the right password then [D-TOKEN-21]", async () => {
    const limited = closing(await openStage({ rateLimits: {} }));
    const { username } = await limited.person();
    const person = new Person(username);
    const location = await person.begin(authorizeUrl(limited.oauth2, limited.clients.news));
    const wrong = person.wire(await person.form(location, { username, password: `not ${PASSWORD}` }));
    const hold = limited.storage.hold("directory.findAccountByName", { times: 10 });
    const answers = Promise.all(Array.from({ length: 100 }, () => send(wrong)));
    await hold.reached;
    hold.release();
    const statuses = (await answers).map(({ status }) => status).toSorted((a, b) => a - b);
    const expected = Array.from({ length: 100 }, (_each, index) => (index < 10 ? 400 : 429));
    expect(statuses).toEqual(expected);
    const right = person.wire(await person.form(location, { username, password: PASSWORD }));
    const refused = await send(right);
    expect([refused.status, Number(refused.headers.get("retry-after")) > 0]).toEqual([429, true]);
  });

  it("take the ten points of the password grant; the rest is refused with Retry-After [D-TOKEN-21]", async () => {
    const limited = closing(await openStage({ rateLimits: {} }));
    const { username } = await limited.person();
    const password = `not ${PASSWORD}`;
    const wrong = passwordGrant(limited.oauth2, limited.clients.news, username, { password });
    // The points come first: a name without one left is not looked up.
    const hold = limited.storage.hold("directory.findAccountByName", { times: 10 });
    const answers = Promise.all(Array.from({ length: 100 }, () => send(wrong)));
    await hold.reached;
    hold.release();
    const all = await answers;
    expect(new Set(all.map(({ status }) => status))).toEqual(new Set([400]));
    expect(all.filter(({ headers }) => !headers.has("retry-after")).length).toBe(10);
    const right = await send(passwordGrant(limited.oauth2, limited.clients.news, username));
    expect([right.status, Number(right.headers.get("retry-after")) > 0]).toEqual([400, true]);
  });
});
