/** App processes that are killed while people sign in and accounts change: what was acknowledged holds. */
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { setTimeout as pause } from "node:timers/promises";
import { type Book, brokenPromises, CLIENTS, type GivenCode } from "../faults/load.ts";
import { authorizeUrl, exchange, Person, refresh, send, sendPatiently, tokensOf } from "../faults/person.ts";
import { Cluster, describeCluster, PATIENCE } from "./cluster.ts";

/** How many sign-ins have to succeed. */
const SIGN_INS = 500;
/** How many people sign in at the same time. */
const PEOPLE = Array.from({ length: 12 }, (_, number) => `person${number}`);
/** After how many sign-ins the next process is killed. */
const EVERY = 40;

describeCluster("processes that are killed while 500 people sign in", () => {
  let cluster: Cluster;
  const book: Book = { codes: [], families: [] };
  /** What went wrong in the eyes of the clients, and was begun again. */
  const failures: string[] = [];
  let signIns = 0;

  beforeAll(async () => {
    cluster = await Cluster.open(PEOPLE);
  }, PATIENCE);
  afterAll(() => cluster.close());

  /** One sign-in; throws when the process that was asked, or the answer, is gone. */
  async function signIn(index: number, username: string): Promise<void> {
    const client = CLIENTS[index]!;
    const code = await new Person(username).signIn(authorizeUrl(cluster.url, client));
    const given: GivenCode = { client: index, code, use: "unused" };
    book.codes.push(given);
    signIns += 1;
    if (signIns % 4 === 0) return;
    given.use = "unknown";
    const tokens = await tokensOf(await send(exchange(cluster.url, client, code)));
    given.use = "exchanged";
    const family = {
      client: index,
      accessTokens: [tokens.access_token],
      refreshToken: tokens.refresh_token,
    };
    book.families.push(family);
    // Whoever gets no answer asks again, inside the window: it is another process that answers as the first would have.
    const again = await tokensOf(await sendPatiently(refresh(cluster.url, client, family.refreshToken)));
    family.accessTokens.push(again.access_token);
    family.refreshToken = again.refresh_token;
  }

  /** Signs one person in again and again, and changes the account; resolves with the values that it may have. */
  async function work(number: number): Promise<ReadonlySet<string | null>> {
    const username = PEOPLE[number]!;
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

  /** Kills one process after the other, each when it has just been asked something. */
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
      const [names] = await Promise.all([Promise.all(PEOPLE.map((_, number) => work(number))), kill()]);
      await cluster.untilReady();
      const kills = cluster.apps.map(({ member }) => member.kills);
      expect(Math.min(...kills)).toBeGreaterThan(0);
      // The kills were in the way of something, or they show nothing.
      expect(failures.length).toBeGreaterThan(0);
      expect(cluster.apps.map(({ member }) => member.crashes)).toEqual([0, 0, 0, 0]);
      for (const [number, possible] of names.entries()) {
        const account = await cluster.service.accounts.findByLogin(PEOPLE[number]!);
        expect(possible).toContain(account?.name);
      }
      expect(book.codes.length).toBeGreaterThanOrEqual(SIGN_INS);
      await expect(brokenPromises(cluster.url, book, sendPatiently)).resolves.toEqual([]);
    },
    PATIENCE,
  );
});
