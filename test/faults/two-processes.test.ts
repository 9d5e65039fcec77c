/** One code in two services that share a storage: each with its own cache and its own clock. */
import { hash } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "@jest/globals";
import { artifactKey } from "../../provider/adapter.ts";
import { ANSWERED_AFTER_MS } from "../../records/artifacts/artifact.ts";
import { BACKENDS, type Ground } from "../adapters/backends.ts";
import { rounds } from "../rounds.ts";
import {
  exchange,
  Person,
  post,
  refresh,
  send,
  signedIn,
  type Tokens,
  tokensOf,
  withToken,
} from "./person.ts";
import { CALLBACK, openStage, type Stage } from "./stage.ts";

/** Waits until every process knows that the code was used: 0.1 s, unless the machine is busy. */
async function knownEverywhere({ storage: { storage } }: Stage, code: string): Promise<void> {
  await pause(100);
  while (Number(await storage.artifacts.sinceAnswer("AuthorizationCode", artifactKey(code))) < 0)
    await pause(10);
}

/** Milliseconds by which the clock of the other service is ahead. */
const AHEAD = [0, -3, 1500, 5000, -5000];
/** How often two exchanges race. */
const RACES = rounds(10, 40);
const SECRETS = [Buffer.alloc(32, 7).toString("base64")];

let here: Stage;
let elsewhere: Stage;
/** Milliseconds by which the other clock is ahead. */
let ahead = 0;

afterEach(() => {
  ahead = 0;
});

async function isAlive({ access_token, refresh_token }: Tokens): Promise<boolean[]> {
  const { news } = here.clients;
  const answers = [
    await send(withToken("GET", `${here.oauth2}/resources/userinfo`, news, access_token)),
    await send(refresh(here.oauth2, news, refresh_token)),
  ];
  return answers.map(({ status }) => status === 200);
}

const use = (code: string, { oauth2 }: Stage): Promise<Response> =>
  send(exchange(oauth2, here.clients.news, code));

describe.each(BACKENDS)("two services on $name", ({ name, start }) => {
  describe("with clocks of their own", () => {
    let ground: Ground;

    beforeAll(async () => {
      ground = await start();
      const address = await ground.newAddress();
      // Redis has only the artifacts; the rest is in the SQLite file of the first service.
      const store = name === "Redis" ? { artifacts: address } : { storage: address };
      const config = { ...store, keys: { secrets: SECRETS } };
      here = await openStage(config);
      elsewhere = await openStage({
        storage: `sqlite:${here.file}`,
        ...config,
        clock: { virtual: true, now: () => Date.now() + ahead },
      });
    });
    afterAll(async () => {
      await elsewhere.close();
      await here.close();
      await ground.close();
    });

    describe.each(AHEAD)(
      "a code that one service has consumed, and another service with a clock %d ms ahead",
      (milliseconds) => {
        it("is refused to several requests before the response of the first, which revokes nothing [D-TOKEN-13]", async () => {
          ahead = milliseconds;
          const { code } = await signedIn(here);
          const commit = here.storage.hold("artifacts.commit", { at: "after" });
          const asked = use(code, here);
          await commit.reached;
          const lost = await Promise.all([1, 2, 3].map(() => use(code, elsewhere)));
          commit.release();
          expect(lost.map(({ status }) => status)).toEqual([400, 400, 400]);
          expect(await isAlive(await tokensOf(await asked))).toEqual([true, true]);
        });

        it("is replayed by every request from 0.1 s after that response on, alone or with others, which revokes the family [D-TOKEN-13]", async () => {
          ahead = milliseconds;
          for (const times of [1, 3]) {
            // Each service is first once.
            for (const [first, second] of [
              [here, elsewhere],
              [elsewhere, here],
            ] as const) {
              const { code } = await signedIn(here);
              const tokens = await tokensOf(await use(code, first));
              await knownEverywhere(first, code);
              const replays = await Promise.all(Array.from({ length: times }, () => use(code, second)));
              expect(replays.map(({ status }) => status)).toEqual(replays.map(() => 400));
              expect(await isAlive(tokens)).toEqual([false, false]);
            }
          }
        });
      },
    );

    it("gives the tokens to one of two exchanges at once, which seldom loses them, for any difference of the clocks [D-TOKEN-13]", async () => {
      let lost = 0;
      for (let round = 0; round < RACES; round += 1) {
        ahead = AHEAD[round % AHEAD.length]!;
        const { code } = await signedIn(here);
        const answers = await Promise.all([here, elsewhere].map((each) => use(code, each)));
        expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 400]);
        const tokens = await tokensOf(answers.find(({ status }) => status === 200)!);
        if ((await isAlive(tokens)).includes(false)) lost += 1;
      }
      // On a busy machine one of the two may come late. If the clocks decided, nearly all would be lost.
      expect(lost).toBeLessThan(RACES / 2);
    });

    it("50 refreshes of a public client at once get one answer, and nobody is signed out [D-KIND-3]", async () => {
      const { client_id } = await here.service.clients.register({
        kind: "public",
        native: true,
        name: "App",
        service: "1",
        redirect_uris: ["http://127.0.0.1/callback"],
        refresh_tokens: { reuseWindow: 300 },
      });
      const code_verifier = "v".repeat(43);
      const code_challenge = hash("sha256", code_verifier, "base64url");
      const parameters = { response_type: "code", client_id, redirect_uri: CALLBACK, code_challenge };
      const query = new URLSearchParams({ ...parameters, code_challenge_method: "S256" });
      const { username } = await here.person();
      const code = await new Person(username).signIn(`${here.oauth2}/oauth2/authorize?${query}`);
      const ask = ({ oauth2 }: Stage, fields: Readonly<Record<string, string>>): Promise<Tokens> =>
        send(post(`${oauth2}/oauth2/token`, { client_id, ...fields })).then(tokensOf);
      const grant = { grant_type: "authorization_code", code, code_verifier, redirect_uri: CALLBACK };
      const { refresh_token } = await ask(here, grant);
      const again = { grant_type: "refresh_token", refresh_token };
      const answers = await Promise.all(
        Array.from({ length: 50 }, (_, index) => ask(index % 2 === 0 ? here : elsewhere, again)),
      );
      const [next = "", ...others] = new Set(answers.map((tokens) => tokens.refresh_token));
      expect([next === refresh_token, others]).toEqual([false, []]);
      await ask(elsewhere, { ...again, refresh_token: next });
    });

    // A server's time is known only to a few milliseconds, and doubt counts as a replay. What follows is exact.
    if (name !== "an SQLite file") return;

    it.each(AHEAD)(
      "a code is refused to a request that came before the response to the first and is checked after it, which revokes nothing: clock %d ms ahead [D-TOKEN-13]",
      async (milliseconds) => {
        ahead = milliseconds;
        const { code } = await signedIn(here);
        const read = elsewhere.storage.hold("artifacts.find");
        const asked = use(code, elsewhere);
        await read.reached;
        const tokens = await tokensOf(await use(code, here));
        read.release();
        expect((await asked).status).toBe(400);
        expect(await isAlive(tokens)).toEqual([true, true]);
      },
    );

    describe("the response to an exchange that the storage can't record", () => {
      it("is sent anyway, and a replay revokes the family after five seconds [D-TOKEN-13, D-TOKEN-5]", async () => {
        const { code } = await signedIn(here);
        here.storage.fail = (call) => {
          if (call.name === "artifacts.markAnswered") throw new Error("not now");
        };
        const tokens = await tokensOf(await use(code, here));
        here.storage.fail = () => undefined;
        await pause(ANSWERED_AFTER_MS);
        expect((await use(code, elsewhere)).status).toBe(400);
        expect(await isAlive(tokens)).toEqual([false, false]);
      });

      it("does not wait for that; a replay at the same process is known at once [D-TOKEN-13, D-TOKEN-5]", async () => {
        const { code } = await signedIn(here);
        const mark = here.storage.hold("artifacts.markAnswered");
        const tokens = await tokensOf(await use(code, here));
        expect((await use(code, elsewhere)).status).toBe(400);
        expect(await isAlive(tokens)).toEqual([true, true]);
        expect((await use(code, here)).status).toBe(400);
        expect(await isAlive(tokens)).toEqual([false, false]);
        mark.release();
      });
    });
  });
});
