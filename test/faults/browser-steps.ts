/** The steps that a person's browser takes. */
import { expect } from "@jest/globals";
import {
  authorizeUrl,
  basic,
  codeOf,
  exchange,
  get,
  Person,
  post,
  send,
  signedIn,
  tokensOf,
} from "./person.ts";
import { ACCOUNT_TABLES, type Ready, type Step } from "./step.ts";
import { CALLBACK, PASSWORD, type Stage } from "./stage.ts";

const status =
  (expected: number): Ready["good"] =>
  (response) => {
    expect(response.status).toBe(expected);
  };

const leadsTo =
  (part: string): Ready["good"] =>
  (response) => {
    expect([response.status, response.headers.get("location")]).toEqual([
      expect.any(Number),
      expect.stringContaining(part),
    ]);
  };

/** The answer has a code, and the code gives tokens. */
const givesTokens =
  ({ oauth2, clients }: Stage, client: keyof Stage["clients"] = "news"): Ready["good"] =>
  async (response) => {
    expect(response.status).toBe(302);
    const tokens = await tokensOf(await send(exchange(oauth2, clients[client], codeOf(response))));
    expect(tokens.token_type).toBe("bearer");
  };

async function newcomer(stage: Stage): Promise<Person> {
  return new Person((await stage.person()).username);
}

/** A third-party client's consent form, opened by somebody who has just signed in. */
async function consentAddress(stage: Stage): Promise<{ person: Person; location: string }> {
  const person = await newcomer(stage);
  const url = authorizeUrl(stage.openid, stage.clients.stranger, { scope: "openid" });
  const answer = await person.go(get(await person.resumeAddress(url)));
  return { person, location: answer.headers.get("location") ?? "" };
}

async function pushed(stage: Stage): Promise<string> {
  const { client_id } = stage.clients.news;
  const fields = { client_id, response_type: "code", redirect_uri: CALLBACK, scope: "openid" };
  const answer = await send(post(`${stage.openid}/oauth2/par`, fields, basic(stage.clients.news)));
  const { request_uri } = (await answer.json()) as { request_uri: string };
  return `${stage.openid}/oauth2/authorize?${new URLSearchParams({ client_id, request_uri }).toString()}`;
}

/** Opens the page that asks whether to sign out. @returns the request that confirms it. */
async function logoutConfirmation(stage: Stage): Promise<{ person: Person; ready: Ready["wire"] }> {
  const { person } = await signedIn(stage);
  const form = await person.form(`${stage.openid}/oauth2/logout`, { logout: "yes" });
  return { person, ready: person.wire(form) };
}

const signInSteps: readonly Step[] = [
  {
    name: "authorize without a session",
    page: true,
    async prepare(stage) {
      return { wire: get(authorizeUrl(stage.oauth2, stage.clients.news)), good: leadsTo("/interaction/") };
    },
  },
  {
    name: "authorize with a session",
    page: true,
    async prepare(stage) {
      const { person } = await signedIn(stage);
      const wire = person.wire(get(authorizeUrl(stage.oauth2, stage.clients.news)));
      return { wire, good: givesTokens(stage) };
    },
  },
  {
    name: "authorize with a session, the first time at a client's service",
    page: true,
    ownCommits: ACCOUNT_TABLES,
    async prepare(stage) {
      const { person } = await signedIn(stage);
      const wire = person.wire(get(authorizeUrl(stage.oauth2, stage.clients.sliding)));
      return { wire, good: givesTokens(stage, "sliding") };
    },
  },
  {
    name: "authorize with a pushed request",
    page: true,
    async prepare(stage) {
      const { person } = await signedIn(stage, { base: stage.openid, scope: "openid" });
      return { wire: person.wire(get(await pushed(stage))), good: givesTokens(stage) };
    },
  },
  {
    name: "the login form",
    page: true,
    async prepare(stage) {
      const person = await newcomer(stage);
      const location = await person.begin(authorizeUrl(stage.oauth2, stage.clients.news));
      return { wire: person.wire(get(location)), good: status(200) };
    },
  },
  {
    name: "the login form, submitted",
    page: true,
    async prepare(stage) {
      const person = await newcomer(stage);
      const wire = person.wire(await person.login(authorizeUrl(stage.oauth2, stage.clients.news)));
      return { wire, good: leadsTo("/oauth2/authorize/") };
    },
  },
  {
    name: "the login form, submitted with a wrong password",
    page: true,
    async prepare(stage) {
      const person = await newcomer(stage);
      const location = await person.begin(authorizeUrl(stage.oauth2, stage.clients.news));
      const fields = { username: person.username, password: `not ${PASSWORD}` };
      return { wire: person.wire(await person.form(location, fields)), good: status(400) };
    },
  },
  {
    name: "the way back from the form",
    page: true,
    ownCommits: ACCOUNT_TABLES,
    async prepare(stage) {
      const person = await newcomer(stage);
      const address = await person.resumeAddress(authorizeUrl(stage.oauth2, stage.clients.news));
      return { wire: person.wire(get(address)), good: givesTokens(stage) };
    },
  },
  {
    name: "the way back from the form while somebody else is signed in",
    page: true,
    async prepare(stage) {
      const { person } = await signedIn(stage);
      const other = await stage.person();
      const url = authorizeUrl(stage.openid, stage.clients.news, { prompt: "login", scope: "openid" });
      const fields = { username: other.username, password: PASSWORD };
      const answer = await person.go(await person.form(await person.begin(url), fields));
      const wire = person.wire(get(answer.headers.get("location") ?? ""));
      return { wire, good: status(200) };
    },
  },
];

const consentSteps: readonly Step[] = [
  {
    name: "the consent form",
    page: true,
    async prepare(stage) {
      const { person, location } = await consentAddress(stage);
      return { wire: person.wire(get(location)), good: status(200) };
    },
  },
  {
    name: "the consent form, allowed",
    page: true,
    ownCommits: ACCOUNT_TABLES,
    async prepare(stage) {
      const { person, location } = await consentAddress(stage);
      const wire = person.wire(await person.form(location, { decision: "allow" }));
      return { wire, good: leadsTo("/oauth2/authorize/") };
    },
  },
  {
    name: "the consent form, refused",
    page: true,
    async prepare(stage) {
      const { person, location } = await consentAddress(stage);
      const wire = person.wire(await person.form(location, { decision: "deny" }));
      return { wire, good: leadsTo("/oauth2/authorize/") };
    },
  },
  {
    name: "the way back from an allowed consent",
    page: true,
    ownCommits: ACCOUNT_TABLES,
    async prepare(stage) {
      const { person, location } = await consentAddress(stage);
      const answer = await person.go(await person.form(location, { decision: "allow" }));
      const wire = person.wire(get(answer.headers.get("location") ?? ""));
      return { wire, good: givesTokens(stage, "stranger") };
    },
  },
  {
    name: "the way back from a refused consent",
    page: true,
    async prepare(stage) {
      const { person, location } = await consentAddress(stage);
      const answer = await person.go(await person.form(location, { decision: "deny" }));
      const wire = person.wire(get(answer.headers.get("location") ?? ""));
      return { wire, good: leadsTo("error=access_denied") };
    },
  },
];

const logoutSteps: readonly Step[] = [
  {
    name: "logout",
    page: true,
    async prepare(stage) {
      const { person } = await signedIn(stage);
      return { wire: person.wire(get(`${stage.openid}/oauth2/logout`)), good: status(200) };
    },
  },
  {
    name: "logout, confirmed",
    page: true,
    async prepare(stage) {
      const { person, ready } = await logoutConfirmation(stage);
      return {
        wire: ready,
        async good(response) {
          expect(response.status).toBe(303);
          person.jarTakes(ready.url, response);
          await person.begin(authorizeUrl(stage.oauth2, stage.clients.news));
        },
      };
    },
  },
  {
    name: "after the logout",
    page: true,
    storeless: true,
    async prepare(stage) {
      const { person, ready } = await logoutConfirmation(stage);
      const answer = await send(ready);
      person.jarTakes(ready.url, answer);
      const address = new URL(answer.headers.get("location") ?? "", ready.url).href;
      return { wire: person.wire(get(address)), good: status(200) };
    },
  },
];

export const browserSteps: readonly Step[] = [...signInSteps, ...consentSteps, ...logoutSteps];
