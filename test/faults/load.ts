/** Sign-ins, exchanges and refreshes without a pause, and a record of what was acknowledged. */
import type { SignInServiceConfig } from "../../config/input.ts";
import type { Seed } from "../../lib/seed.ts";
import {
  authorizeUrl,
  codeOf,
  exchange,
  get,
  passwordGrant,
  Person,
  refresh,
  send,
  tokensOf,
  type Tokens,
  withToken,
} from "./person.ts";
import { CALLBACK, type Credentials, PASSWORD } from "./stage.ts";

/** The clients of the load: one keeps its refresh tokens, the other rotates them. */
export const CLIENTS: readonly Credentials[] = ["keeping", "rotating"].map((client_id) => ({
  client_id,
  client_secret: `the secret of the client ${client_id}`,
}));

const PEOPLE = ["one", "two", "three", "four"];

/** A limit that the load never reaches. */
const ROOM = { points: 100_000, seconds: 900 };

export const LIMITS: NonNullable<SignInServiceConfig["rateLimits"]> = {
  interactions: ROOM,
  authorizations: ROOM,
  signIn: { accountAndAddress: ROOM, account: ROOM, address: ROOM },
};

/** The clients, and accounts with these usernames. */
export function seedOf(people: readonly string[]): Seed {
  return {
    services: { "1": { name: "Service" } },
    clients: CLIENTS.map((client) => ({
      ...client,
      name: client.client_id,
      redirect_uris: [CALLBACK],
      service: "1",
      password_grant: true,
      // A refresh without a response is repeated, on a busy machine much later.
      refresh_tokens: { rotate: client.client_id === "rotating", reuseWindow: 300 },
    })),
    accounts: people.map((username) => ({
      username,
      email: `${username}@example.com`,
      password: PASSWORD,
    })),
  };
}

/** The configuration file of the example server. */
export function configuration(url: string, port: number): Readonly<Record<string, unknown>> {
  return {
    port,
    deployments: { oauth2: { url }, openid: { url: `${url}/openid` } },
    storage: "sqlite:./sign-in.db",
    rateLimits: LIMITS,
    seed: seedOf(PEOPLE),
  };
}

/** An issued code and its use. */
export interface GivenCode {
  readonly client: number;
  readonly code: string;
  /** `unknown`: it was sent without a response. */
  use: "unused" | "unknown" | "exchanged";
}

/** Tokens that the client has received. */
export interface GivenTokens {
  readonly client: number;
  readonly accessTokens: string[];
  /** The one to use next. */
  refreshToken: string;
}

/** What the clients have received. */
export interface Book {
  readonly codes: GivenCode[];
  readonly families: GivenTokens[];
}

/** One person's share: signs in, leaves some codes unused, exchanges the others, and refreshes. */
async function work(base: string, number: number, book: Book, signal: AbortSignal): Promise<void> {
  const index = number % CLIENTS.length;
  const client = CLIENTS[index]!;
  const person = new Person(PEOPLE[number % PEOPLE.length]!);
  const started = (tokens: Tokens): GivenTokens => {
    const given = { client: index, accessTokens: [tokens.access_token], refreshToken: tokens.refresh_token };
    book.families.push(given);
    return given;
  };
  const refreshed = async (family: GivenTokens): Promise<void> => {
    const tokens = await tokensOf(await send(refresh(base, client, family.refreshToken)));
    family.accessTokens.push(tokens.access_token);
    family.refreshToken = tokens.refresh_token;
  };
  const url = authorizeUrl(base, client);
  let code = await person.signIn(url);
  for (let round = 0; !signal.aborted; round += 1) {
    const given: GivenCode = { client: index, code, use: "unused" };
    book.codes.push(given);
    if (round % 4 !== 0) {
      given.use = "unknown";
      const family = started(await tokensOf(await send(exchange(base, client, code))));
      given.use = "exchanged";
      await refreshed(family);
      await refreshed(family);
    }
    if (round % 8 === 7)
      await refreshed(started(await tokensOf(await send(passwordGrant(base, client, person.username)))));
    code = codeOf(await person.go(get(url)));
  }
}

/**
 * The responses that did not hold.
 * @param ask Sends a request.
 */
export async function brokenPromises(
  base: string,
  { codes, families }: Book,
  ask: typeof send = send,
): Promise<string[]> {
  const broken: string[] = [];
  for (const family of families) {
    const client = CLIENTS[family.client]!;
    for (const token of family.accessTokens) {
      const { status } = await ask(withToken("GET", `${base}/resources/userinfo`, client, token));
      if (status !== 200) broken.push(`access token of ${client.client_id}: ${status}`);
    }
    const refreshed = await ask(refresh(base, client, family.refreshToken));
    if (refreshed.status !== 200) broken.push(`refresh token of ${client.client_id}: ${refreshed.status}`);
  }
  for (const { client, code, use } of codes) {
    const wire = exchange(base, CLIENTS[client]!, code);
    const first = (await ask(wire)).status;
    const second = (await ask(wire)).status;
    // Without a response, it may be used or not, but never twice.
    const allowed = { unused: [200], unknown: [200, 400], exchanged: [400] }[use];
    if (!allowed.includes(first) || second !== 400) broken.push(`code, ${use}: ${first}, then ${second}`);
  }
  return broken;
}

/** Runs until the server is gone or the signal is aborted. */
export async function load(base: string, book: Book, signal: AbortSignal): Promise<void> {
  const workers = Array.from({ length: 8 }, async (_each, number) => {
    try {
      await work(base, number, book, signal);
    } catch (error) {
      // The connection broke with the process. Any other error is a defect of the service.
      if ((error as { name?: string }).name !== "TypeError") throw error;
    }
  });
  await Promise.all(workers);
}
