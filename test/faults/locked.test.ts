import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { expect, it } from "@jest/globals";
import {
  authorizeUrl,
  exchange,
  get,
  passwordGrant,
  Person,
  refresh,
  send,
  signedIn,
  tokensOf,
  type Wire,
  withToken,
} from "./person.ts";
import { openStage } from "./stage.ts";
import { closing } from "../closing.ts";

/** Another process that has the write lock; `release` gives it back. */
async function lockedElsewhere(file: string): Promise<{ release(): Promise<void> }> {
  const script = join(import.meta.dirname, "../adapters/sqlite/child.ts");
  const child = spawn(process.execPath, [script, "lock", file], { stdio: ["pipe", "pipe", "inherit"] });
  await once(child.stdout, "data");
  return {
    async release() {
      child.stdin.end();
      await once(child, "exit");
    },
  };
}

it("a lock of another process that outlasts the deadline is 503, and readers don't wait for it [ERR-9, D-TOKEN-5]", async () => {
  const stage = closing(await openStage());
  const { oauth2, clients } = stage;
  const { news } = clients;
  const before = await signedIn(stage);
  const granted = await stage.person();
  const tokens = await tokensOf(await send(passwordGrant(oauth2, news, granted.username)));
  const newcomer = new Person((await stage.person()).username);
  const resume = await newcomer.resumeAddress(authorizeUrl(oauth2, news));
  const writers: Readonly<Record<string, Wire>> = {
    exchange: exchange(oauth2, news, before.code),
    refresh: refresh(oauth2, news, tokens.refresh_token),
    revoke: withToken("POST", `${oauth2}/oauth2/revoke`, news, tokens.access_token),
    "authorize without a session": get(authorizeUrl(oauth2, news)),
    // The assignment is a write of its own, before that of the request.
    "password grant": passwordGrant(oauth2, news, (await stage.person()).username),
    "way back from the form": newcomer.wire(get(resume)),
  };
  const lock = await lockedElsewhere(stage.file);
  const done = new AbortController();
  const answers = Promise.all(
    Object.entries(writers).map(async ([name, wire]) => {
      return { name, response: await send(wire) };
    }),
  ).finally(() => done.abort());
  let readers = 0;
  while (!done.signal.aborted) {
    const wire = withToken("GET", `${oauth2}/resources/userinfo`, news, tokens.access_token);
    expect((await send(wire)).status).toBe(200);
    readers += 1;
  }
  // Each reader had its answer before the next one asked: the event loop was never blocked.
  expect(readers).toBeGreaterThan(50);
  for (const { name, response } of await answers) {
    const shown = [name, response.status, response.headers.get("retry-after")];
    expect(shown).toEqual([name, 503, expect.any(String)]);
    expect([response.headers.get("location"), response.headers.getSetCookie()]).toEqual([null, []]);
  }
  await lock.release();
  const good = { "authorize without a session": 303, "way back from the form": 302 };
  const { revoke, ...again } = writers;
  for (const [name, wire] of Object.entries(again)) {
    const expected = new Map(Object.entries(good)).get(name) ?? 200;
    expect([name, (await send(wire)).status]).toEqual([name, expected]);
  }
  expect((await send(revoke!)).status).toBe(200);
});
