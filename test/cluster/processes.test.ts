/**
 * Four processes on one MongoDB and one Redis, each request to the next one: no process needs what another remembers.
 * A machine that is too slow for all of it at once answers 503, and the clients ask again, as they are told to.
 */
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { CLIENTS } from "../faults/load.ts";
import {
  authorizeUrl,
  codeOf,
  exchange,
  get,
  Person,
  refresh,
  sendPatiently as send,
  type Tokens,
  tokensOf,
  withToken,
} from "../faults/person.ts";
import { Cluster, describeCluster, PATIENCE } from "./cluster.ts";

const PEOPLE = Array.from({ length: 20 }, (_, number) => `person${number}`);
const [KEEPING, ROTATING] = CLIENTS as [(typeof CLIENTS)[0], (typeof CLIENTS)[0]];

describeCluster("four processes behind one address", () => {
  let cluster: Cluster;
  let base: string;

  beforeAll(async () => {
    cluster = await Cluster.open(PEOPLE);
    base = cluster.url;
  }, PATIENCE);
  afterAll(() => cluster.close());

  /** A whole sign-in; what the client saw of it. */
  async function signIn(number: number): Promise<unknown[]> {
    const client = CLIENTS[number % CLIENTS.length]!;
    const person = new Person(PEOPLE[number % PEOPLE.length]!, send);
    const url = authorizeUrl(base, client);
    const tokens = await tokensOf(await send(exchange(base, client, await person.signIn(url))));
    const again = await tokensOf(await send(refresh(base, client, tokens.refresh_token)));
    const seen = await send(withToken("GET", `${base}/resources/userinfo`, client, again.access_token));
    const { email } = (await seen.json()) as { email: unknown };
    // The session is known everywhere.
    const second = codeOf(await person.go(get(url)));
    return [seen.status, email, (await send(exchange(base, client, second))).status];
  }

  /** Whether both tokens of an answer work. */
  async function areAlive({ access_token, refresh_token }: Tokens): Promise<boolean[]> {
    const answers = [
      await send(withToken("GET", `${base}/resources/userinfo`, KEEPING, access_token)),
      await send(refresh(base, KEEPING, refresh_token)),
    ];
    return answers.map(({ status }) => status === 200);
  }

  it(
    "end what came of a code that is used again at another process",
    async () => {
      const code = await new Person(PEOPLE[2]!, send).signIn(authorizeUrl(base, KEEPING));
      const tokens = await tokensOf(await send(exchange(base, KEEPING, code)));
      const again = await send(exchange(base, KEEPING, code));
      expect(again.status).toBe(400);
      expect(await areAlive(tokens)).toEqual([false, false]);
    },
    PATIENCE,
  );

  it(
    "take turns in 200 sign-ins at once, and every one of them succeeds",
    async () => {
      const signIns = Array.from({ length: 200 }, (_, number) => signIn(number));
      for (const [number, seen] of (await Promise.all(signIns)).entries()) {
        expect(seen).toEqual([200, `${PEOPLE[number % PEOPLE.length]}@example.com`, 200]);
      }
      const served = cluster.apps.map(({ requests }) => requests);
      expect(Math.max(...served) - Math.min(...served)).toBeLessThanOrEqual(1);
    },
    PATIENCE,
  );

  it(
    "give the tokens of a code to one of 50 exchanges at once, until it is used again",
    async () => {
      const code = await new Person(PEOPLE[0]!, send).signIn(authorizeUrl(base, KEEPING));
      const answers = await Promise.all(
        Array.from({ length: 50 }, () => send(exchange(base, KEEPING, code))),
      );
      const statuses = answers.map(({ status }) => status);
      expect(statuses.filter((status) => status === 200)).toHaveLength(1);
      expect(statuses.filter((status) => status === 400)).toHaveLength(49);
      const tokens = await tokensOf(answers[statuses.indexOf(200)]!);
      expect((await send(exchange(base, KEEPING, code))).status).toBe(400);
      expect(await areAlive(tokens)).toEqual([false, false]);
    },
    PATIENCE,
  );

  it(
    "give one answer to two refreshes of a rotating token, at once and one after the other",
    async () => {
      const code = await new Person(PEOPLE[1]!, send).signIn(authorizeUrl(base, ROTATING));
      const { refresh_token } = await tokensOf(await send(exchange(base, ROTATING, code)));
      const before = cluster.apps.map(({ requests }) => requests);
      const ask = async () => tokensOf(await send(refresh(base, ROTATING, refresh_token)));
      const answers = [...(await Promise.all([ask(), ask()])), await ask(), await ask()];
      // Each was asked of another process.
      for (const [index, { requests }] of cluster.apps.entries())
        expect(requests).toBeGreaterThan(before[index]!);
      const [first] = answers;
      for (const answer of answers) expect({ ...answer, expires_in: first!.expires_in }).toEqual(first);
      const next = await send(refresh(base, ROTATING, first!.refresh_token));
      expect(next.status).toBe(200);
    },
    PATIENCE,
  );
});
