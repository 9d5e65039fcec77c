/** One code in two processes that share a storage: each with what it remembers, and with a clock of its own. */
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "@jest/globals";
import { ANSWERED_WITHIN } from "../../lib/artifacts/artifact.ts";
import { exchange, refresh, send, signedIn, type Tokens, tokensOf, withToken } from "./person.ts";
import { openStage, type Stage } from "./stage.ts";

let here: Stage;
let elsewhere: Stage;
/** Milliseconds by which the other clock is ahead. */
let ahead = 0;

beforeAll(async () => {
  here = await openStage();
  elsewhere = await openStage({
    storage: `sqlite:${here.file}`,
    clock: { now: () => Date.now() + ahead },
  });
});
afterEach(() => {
  ahead = 0;
});
afterAll(async () => {
  await elsewhere.close();
  await here.close();
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

describe.each([0, 1500, 5000, -5000])(
  "a code that a process has consumed, and another one %d ms ahead",
  (milliseconds) => {
    it("and that is not answered yet is refused to several at once, and ends nothing [D-TOKEN-13]", async () => {
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

    it("is refused to one alone that came before the answer and is looked at after it, and ends nothing [D-TOKEN-13]", async () => {
      ahead = milliseconds;
      const { code } = await signedIn(here);
      const read = elsewhere.storage.hold("artifacts.find");
      const asked = use(code, elsewhere);
      await read.reached;
      const tokens = await tokensOf(await use(code, here));
      read.release();
      expect((await asked).status).toBe(400);
      expect(await isAlive(tokens)).toEqual([true, true]);
    });

    it("is a replay from the answer on, which ends the family, whether it comes alone or with others [D-TOKEN-13]", async () => {
      ahead = milliseconds;
      for (const times of [1, 3]) {
        const { code } = await signedIn(here);
        const tokens = await tokensOf(await use(code, here));
        const replays = await Promise.all(Array.from({ length: times }, () => use(code, elsewhere)));
        expect(replays.map(({ status }) => status)).toEqual(replays.map(() => 400));
        expect(await isAlive(tokens)).toEqual([false, false]);
      }
    });
  },
);

describe("the answer of an exchange, when the storage can't note it", () => {
  it("is given all the same, and a replay ends the family after five seconds [D-TOKEN-13, D-TOKEN-5]", async () => {
    const { code } = await signedIn(here);
    here.storage.fail = ({ name }) => {
      if (name === "artifacts.markAnswered") throw new Error("not now");
    };
    const tokens = await tokensOf(await use(code, here));
    here.storage.fail = () => undefined;
    await pause(ANSWERED_WITHIN);
    expect((await use(code, elsewhere)).status).toBe(400);
    expect(await isAlive(tokens)).toEqual([false, false]);
  });

  it("waits for it no longer than its deadline [D-TOKEN-5]", async () => {
    const { code } = await signedIn(here);
    const mark = here.storage.hold("artifacts.markAnswered");
    const tokens = await tokensOf(await use(code, here));
    mark.release();
    expect(await isAlive(tokens)).toEqual([true, true]);
  });
});
