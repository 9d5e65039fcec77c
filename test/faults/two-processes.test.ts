/** One code in two processes that share a storage: each with what it remembers, and with a clock of its own. */
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
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

describe("a code that another process has consumed", () => {
  it.each([0, 1500])(
    "and has not answered yet is refused to several at once, and ends nothing, with a clock that is %d ms ahead [D-TOKEN-13]",
    async (milliseconds) => {
      ahead = milliseconds;
      const { code } = await signedIn(here);
      const commit = here.storage.hold("artifacts.commit", { at: "after" });
      const asked = send(exchange(here.oauth2, here.clients.news, code));
      await commit.reached;
      const others = [1, 2, 3].map(() => send(exchange(elsewhere.oauth2, here.clients.news, code)));
      const lost = await Promise.all(others);
      commit.release();
      expect(lost.map(({ status }) => status)).toEqual([400, 400, 400]);
      expect(await isAlive(await tokensOf(await asked))).toEqual([true, true]);
    },
  );

  it("and has answered is a replay from that moment on, which ends the family [D-TOKEN-13]", async () => {
    ahead = 0;
    const { code } = await signedIn(here);
    const tokens = await tokensOf(await send(exchange(here.oauth2, here.clients.news, code)));
    const replayed = await send(exchange(elsewhere.oauth2, here.clients.news, code));
    expect(replayed.status).toBe(400);
    expect(await isAlive(tokens)).toEqual([false, false]);
  });
});
