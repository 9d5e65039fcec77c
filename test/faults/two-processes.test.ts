/** One code in two services that share a storage: each with its own cache and its own clock. */
import { hash } from "node:crypto";
import { afterEach, beforeAll, describe, expect, it } from "@jest/globals";
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
import { untilReplay } from "../flows/token-answers.ts";
import { CALLBACK, openStage, type Stage } from "./stage.ts";
import { closing } from "../closing.ts";

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
      ground = closing(await start());
      const address = await ground.newAddress();
      // Redis has only the artifacts; the rest is in the SQLite file of the first service.
      const store = name === "Redis" ? { artifacts: address } : { storage: address };
      const config = { ...store, keys: { secrets: SECRETS } };
      here = closing(await openStage(config));
      elsewhere = closing(
        await openStage({
          storage: `sqlite:${here.file}`,
          ...config,
          clock: { virtual: true, now: () => Date.now() + ahead },
        }),
      );
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

        it("is replayed by every request more than a second after the exchange, alone or with others, which revokes the family [D-TOKEN-13]", async () => {
          ahead = milliseconds;
          // Each service is first, and the replay comes alone and with others.
          const cases = [here, elsewhere].flatMap((first) => [1, 3].map((times) => ({ first, times })));
          const used = await Promise.all(
            cases.map(async ({ first, times }) => {
              const { code } = await signedIn(here);
              return { first, times, code, tokens: await tokensOf(await use(code, first)) };
            }),
          );
          await untilReplay();
          for (const { first, times, code, tokens } of used) {
            const second = first === here ? elsewhere : here;
            const replays = await Promise.all(Array.from({ length: times }, () => use(code, second)));
            expect(replays.map(({ status }) => status)).toEqual(replays.map(() => 400));
            expect(await isAlive(tokens)).toEqual([false, false]);
          }
        });
      },
    );

    it.each([2, 10])(
      "gives the tokens to one of %d exchanges at once, which keeps them, for any difference of the clocks [D-TOKEN-13]",
      async (times) => {
        for (let round = 0; round < (times > 2 ? 1 : RACES); round += 1) {
          ahead = AHEAD[round % AHEAD.length]!;
          const { code } = await signedIn(here);
          const answers = await Promise.all(
            Array.from({ length: times }, (_, index) => use(code, index % 2 === 0 ? here : elsewhere)),
          );
          const won = answers.filter(({ status }) => status === 200);
          expect([won.length, answers.filter(({ status }) => status === 400).length]).toEqual([1, times - 1]);
          expect(await isAlive(await tokensOf(won[0]!))).toEqual([true, true]);
        }
      },
    );

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

    it.each(AHEAD)(
      "a code is refused to a request that came in time and waited in its process, which revokes nothing: clock %d ms ahead [D-TOKEN-13]",
      async (milliseconds) => {
        ahead = milliseconds;
        const { code } = await signedIn(here);
        const tokens = await tokensOf(await use(code, here));
        const read = elsewhere.storage.hold("artifacts.find");
        const asked = use(code, elsewhere);
        await read.reached;
        await untilReplay();
        read.release();
        expect((await asked).status).toBe(400);
        expect(await isAlive(tokens)).toEqual([true, true]);
      },
    );
  });
});
