/**
 * Four processes on one storage and one Redis, each request to the next one: no process needs what another remembers,
 * and nothing that was acknowledged is lost when they are killed. A machine that is too slow for all of this answers
 * 503, and the clients repeat the request after Retry-After.
 */
import { connect } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { beforeAll, describe, expect, it } from "@jest/globals";
import { NOTIFICATION_TYPES } from "../../receiver/notification.ts";
import type { Change, Outcome } from "../faults/campaign/change.ts";
import { type Book, brokenPromises, CLIENTS, type GivenCode } from "../faults/load.ts";
import {
  authorizeUrl,
  basic,
  codeOf,
  exchange,
  get,
  Person,
  post,
  refresh,
  send,
  sendPatiently,
  type Tokens,
  tokensOf,
  withToken,
} from "../faults/person.ts";
import { CALLBACK, PASSWORD } from "../faults/stage.ts";
import { makeProof, newProofKey } from "../flows/proof-maker.ts";
import { rounds } from "../rounds.ts";
import { type App, Cluster, TEST_TIMEOUT_MS } from "./cluster.ts";
import { closing } from "../closing.ts";
import { storedDeliveries } from "../notifier/stored-deliveries.ts";

const PEOPLE = Array.from({ length: 20 }, (_, number) => `person${number}`);
const [KEEPING, ROTATING] = CLIENTS as [(typeof CLIENTS)[0], (typeof CLIENTS)[0]];
/** How many sign-ins there are at once. */
const AT_ONCE = rounds(60, 200);

let cluster: Cluster;
let base: string;

beforeAll(async () => {
  cluster = closing(await Cluster.open(PEOPLE));
  base = cluster.url;
}, TEST_TIMEOUT_MS);

/** Runs a whole sign-in. @returns What the client saw. */
async function flow(number: number): Promise<unknown[]> {
  const client = CLIENTS[number % CLIENTS.length]!;
  const person = new Person(PEOPLE[number % PEOPLE.length]!, sendPatiently);
  const url = authorizeUrl(base, client);
  const tokens = await tokensOf(await sendPatiently(exchange(base, client, await person.signIn(url))));
  const again = await tokensOf(await sendPatiently(refresh(base, client, tokens.refresh_token)));
  const seen = await sendPatiently(
    withToken("GET", `${base}/resources/userinfo`, client, again.access_token),
  );
  const { email } = (await seen.json()) as { email: unknown };
  // The session is known everywhere.
  const second = codeOf(await person.go(get(url)));
  return [seen.status, email, (await sendPatiently(exchange(base, client, second))).status];
}

const newCode = (number: number, client = KEEPING): Promise<string> =>
  new Person(PEOPLE[number]!, sendPatiently).signIn(authorizeUrl(base, client));
const use = (code: string, client = KEEPING): Promise<Response> =>
  sendPatiently(exchange(base, client, code));

/** Uses a code again when every process knows that it was answered: within 0.1 s, and later on a busy machine. */
async function useAgain(code: string): Promise<Response> {
  await pause(1_500);
  return use(code);
}

/** Whether both tokens of an answer work. */
async function areAlive({ access_token, refresh_token }: Tokens): Promise<boolean[]> {
  const answers = [
    await sendPatiently(withToken("GET", `${base}/resources/userinfo`, KEEPING, access_token)),
    await sendPatiently(refresh(base, KEEPING, refresh_token)),
  ];
  return answers.map(({ status }) => status === 200);
}

describe("four processes behind one address", () => {
  it(
    "end what came of a code that is used again at another process",
    async () => {
      const code = await newCode(2);
      const tokens = await tokensOf(await use(code));
      expect((await useAgain(code)).status).toBe(400);
      expect(await areAlive(tokens)).toEqual([false, false]);
    },
    TEST_TIMEOUT_MS,
  );

  it(
    `take turns in ${AT_ONCE} sign-ins at once, and every one of them succeeds`,
    async () => {
      const before = cluster.apps.map(({ requests }) => requests);
      const signIns = Array.from({ length: AT_ONCE }, (_, number) => flow(number));
      for (const [number, seen] of (await Promise.all(signIns)).entries()) {
        expect(seen).toEqual([200, `${PEOPLE[number % PEOPLE.length]}@example.com`, 200]);
      }
      const served = cluster.apps.map(({ requests }, index) => requests - before[index]!);
      expect(Math.max(...served) - Math.min(...served)).toBeLessThanOrEqual(1);
    },
    TEST_TIMEOUT_MS,
  );

  it(
    "give the tokens of a code to one of 50 exchanges at once, until it is used again",
    async () => {
      const code = await newCode(0);
      const answers = await Promise.all(Array.from({ length: 50 }, () => use(code)));
      const statuses = answers.map(({ status }) => status);
      expect(statuses.filter((status) => status === 200)).toHaveLength(1);
      expect(statuses.filter((status) => status === 400)).toHaveLength(49);
      const tokens = await tokensOf(answers[statuses.indexOf(200)]!);
      expect((await useAgain(code)).status).toBe(400);
      expect(await areAlive(tokens)).toEqual([false, false]);
    },
    TEST_TIMEOUT_MS,
  );

  it(
    "use a proof once, at the token endpoint and with a pushed request [D-DPOP-7]",
    async () => {
      const key = await newProofKey();
      const { refresh_token } = await tokensOf(await use(await newCode(3)));
      const pushed = { response_type: "code", client_id: KEEPING.client_id, redirect_uri: CALLBACK };
      const asks = [
        { wire: refresh(base, KEEPING, refresh_token), success: 200 },
        { wire: post(`${base}/openid/oauth2/par`, pushed, basic(KEEPING)), success: 201 },
      ];
      for (const { wire, success } of asks) {
        const dpop = await makeProof(key, { htm: "POST", htu: wire.url });
        const headers = { ...wire.headers, dpop };
        const answers = await Promise.all(
          Array.from({ length: 12 }, () => sendPatiently({ ...wire, headers })),
        );
        const statuses = answers.map(({ status }) => status).toSorted((left, right) => left - right);
        expect(statuses).toEqual([success, ...Array<number>(11).fill(400)]);
      }
    },
    TEST_TIMEOUT_MS,
  );

  it(
    "give one answer to two refreshes of a rotating token, at once and one after the other",
    async () => {
      const { refresh_token } = await tokensOf(await use(await newCode(1, ROTATING), ROTATING));
      const before = cluster.apps.map(({ requests }) => requests);
      const ask = async () => tokensOf(await sendPatiently(refresh(base, ROTATING, refresh_token)));
      const answers = [...(await Promise.all([ask(), ask()])), await ask(), await ask()];
      // Each was asked of another process.
      for (const [index, { requests }] of cluster.apps.entries())
        expect(requests).toBeGreaterThan(before[index]!);
      const [first] = answers;
      for (const answer of answers) expect({ ...answer, expires_in: first!.expires_in }).toEqual(first);
      const next = await sendPatiently(refresh(base, ROTATING, first!.refresh_token));
      expect(next.status).toBe(200);
    },
    TEST_TIMEOUT_MS,
  );
});

const RECEIVER = {
  // Nothing is delivered here: nobody listens.
  url: "https://receiver.example/",
  client_id: "c",
  client_secret: "s",
  types: NOTIFICATION_TYPES,
};

const kinds = (outcomes: readonly Outcome[]): string[] => outcomes.map(({ kind }) => kind).toSorted();

/** Requests one change from each of the first processes at the same time. */
const meet = (changes: readonly Change[]): Promise<Outcome[]> =>
  Promise.all(changes.map((change, index) => cluster.apps[index]!.order(change)));

describe("two changes that meet in different processes", () => {
  const ROUNDS = 10;
  beforeAll(() => cluster.service.directory.services.put("shop", { name: "Shop", receiver: RECEIVER }));

  it("on one account are both made", async () => {
    const person = await cluster.service.accounts.findByLogin("person3");
    const sub = person?.sub ?? "";
    for (let round = 0; round < ROUNDS; round += 1) {
      const [name, surname] = [`name ${round}`, `surname ${round}`];
      const outcomes = await meet([
        { kind: "update", sub, changes: { name } },
        { kind: "update", sub, changes: { surname } },
      ]);
      expect(kinds(outcomes)).toEqual(["done", "done"]);
      await expect(cluster.service.accounts.find(sub)).resolves.toMatchObject({ name, surname });
    }
  });

  it("on one sign-in name: one has it, whichever came first, and the other is refused", async () => {
    for (let round = 0; round < ROUNDS; round += 1) {
      const email = `wanted${round}@example.com`;
      const outcomes = await meet([
        { kind: "create", email, portal: null },
        { kind: "create", email, portal: null },
      ]);
      expect(kinds(outcomes)).toEqual(["done", "refused"]);
      const [made] = outcomes.flatMap((outcome) => (outcome.kind === "done" ? [outcome.account] : []));
      const holder = await cluster.service.accounts.findByLogin(email);
      expect(holder?.sub).toBe(made?.sub);
    }
  });

  it("on one lane: each has its notification, in one order without a gap", async () => {
    const { accounts, notifications } = cluster.service;
    const { sub } = await accounts.import({ email: "lane@example.com", services: { shop: 7 } });
    for (let round = 0; round < ROUNDS; round += 1) {
      const outcomes = await meet(
        cluster.apps.map((_, index) => ({ kind: "update", sub, changes: { name: `${round} ${index}` } })),
      );
      expect(kinds(outcomes)).toEqual(cluster.apps.map(() => "done"));
    }
    const deliveries = await storedDeliveries(notifications, { account: sub });
    const sequences = deliveries.map(({ sequence }) => sequence).toSorted((one, other) => one - other);
    expect(sequences).toEqual(Array.from({ length: ROUNDS * cluster.apps.length }, (_, index) => index + 1));
  });
});

describe("processes that are killed while people sign in and accounts change", () => {
  /** How many sign-ins must succeed, and after how many the next process is killed. */
  const SIGN_INS = rounds(200, 500);
  const EVERY = 40;
  /** The people who sign in at the same time. */
  const BUSY = PEOPLE.slice(0, 12);
  const book: Book = { codes: [], families: [] };
  /** Failures that the clients saw, and after which they started again. */
  const failures: string[] = [];
  let signIns = 0;

  /** One sign-in. Throws when the process or its answer is lost. */
  async function signIn(index: number, username: string): Promise<void> {
    const client = CLIENTS[index]!;
    const code = await new Person(username).signIn(authorizeUrl(base, client));
    const given: GivenCode = { client: index, code, use: "unused" };
    book.codes.push(given);
    signIns += 1;
    if (signIns % 4 === 0) return;
    given.use = "unknown";
    const tokens = await tokensOf(await send(exchange(base, client, code)));
    given.use = "exchanged";
    const family = {
      client: index,
      accessTokens: [tokens.access_token],
      refreshToken: tokens.refresh_token,
    };
    book.families.push(family);
    // A client without an answer asks again, inside the window: another process answers as the first would have.
    const again = await tokensOf(await sendPatiently(refresh(base, client, family.refreshToken)));
    family.accessTokens.push(again.access_token);
    family.refreshToken = again.refresh_token;
  }

  /** Signs one person in again and again, and changes the account; resolves with the values that it may have. */
  async function work(number: number): Promise<ReadonlySet<string | null>> {
    const username = BUSY[number]!;
    const account = await cluster.service.accounts.findByLogin(username);
    const sub = account?.sub ?? "";
    let possible = new Set<string | null>([account?.name ?? null]);
    for (let round = 0; signIns < SIGN_INS; round += 1) {
      await signIn(number % CLIENTS.length, username).catch((error: unknown) => failures.push(String(error)));
      const name = `${username} ${round}`;
      const app = cluster.apps[(number + round) % cluster.apps.length]!;
      const { kind } = await app.order({ kind: "update", sub, changes: { name } });
      // Without an answer nobody knows whether it was changed.
      possible = kind === "done" ? new Set([name]) : possible.add(name);
    }
    return possible;
  }

  /** Kills one process after the other, each just after it has received a request. */
  async function kill(): Promise<void> {
    for (let kills = 1; ; kills += 1) {
      while (signIns < Math.min(SIGN_INS, kills * EVERY)) await pause(5);
      if (signIns >= SIGN_INS) return;
      const { member } = cluster.apps[kills % cluster.apps.length]!;
      if (member.isReady) member.kill();
    }
  }

  it(
    "lose nothing that was acknowledged: codes, tokens and changes of accounts [D-TOKEN-5]",
    async () => {
      const [names] = await Promise.all([Promise.all(BUSY.map((_, number) => work(number))), kill()]);
      await cluster.untilReady();
      const kills = cluster.apps.map(({ member }) => member.kills);
      expect(Math.min(...kills)).toBeGreaterThan(0);
      // If the kills disturbed nothing, the test proves nothing.
      expect(failures.length).toBeGreaterThan(0);
      expect(cluster.apps.map(({ member }) => member.crashes)).toEqual([0, 0, 0, 0]);
      for (const [number, possible] of names.entries()) {
        const account = await cluster.service.accounts.findByLogin(BUSY[number]!);
        expect(possible).toContain(account?.name);
      }
      expect(book.codes.length).toBeGreaterThanOrEqual(SIGN_INS);
      await expect(brokenPromises(base, book, sendPatiently)).resolves.toEqual([]);
    },
    TEST_TIMEOUT_MS,
  );
});

/** Whether it accepts no new connection. */
function refuses({ port }: App): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("error", () => resolve(true));
    socket.once("connect", () => {
      socket.destroy();
      resolve(false);
    });
  });
}

/** Begins a password grant at this process; `end` sends the rest of it. */
async function begin({ port }: App): Promise<{ end(): Promise<string> }> {
  const fields = { grant_type: "password", username: "person0", password: PASSWORD, ...KEEPING };
  const text = new URLSearchParams(fields).toString();
  const socket = connect(port, "127.0.0.1");
  let answer = "";
  socket.setEncoding("utf8").on("data", (chunk: string) => (answer += chunk));
  const closed = new Promise((resolve) => void socket.once("close", resolve));
  const type = "Content-Type: application/x-www-form-urlencoded";
  const head = `POST /oauth2/token HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${type}\r\nContent-Length: ${text.length}\r\n\r\n`;
  await new Promise<void>((resolve) => void socket.write(head + text.slice(0, -5), () => resolve()));
  return {
    async end() {
      socket.write(text.slice(-5));
      await closed;
      return answer;
    },
  };
}

describe("a process that gets SIGTERM", () => {
  it(
    "finishes the requests that it has begun, accepts no new ones, and ends; the other processes continue",
    async () => {
      const [app] = cluster.apps as [App];
      const before = app.requests;
      const running = await begin(app);
      while (app.requests === before) await pause(5);
      const ended = app.member.stop();
      while (!(await refuses(app))) await pause(20);
      expect(await running.end()).toMatch(/^HTTP\/1\.1 200 [\s\S]*"token_type":"bearer"/);
      await expect(ended).resolves.toBe(0);
      const others = await fetch(`${base}/openid/oauth2/jwks`);
      expect(others.status).toBe(200);
    },
    TEST_TIMEOUT_MS,
  );
});
