/** What must hold while another Redis becomes the primary: nothing happens twice, and workers are still woken. */
import { setTimeout as pause } from "node:timers/promises";
import { expect } from "@jest/globals";
import { openRedis } from "../../adapters/redis/record-store.ts";
import { createSystemClock } from "../../core/clock.ts";
import { closing } from "../closing.ts";
import { openBullStage, until } from "../notifier/bullmq/stage.ts";
import { rounds } from "../rounds.ts";
import { exchange, send, sendPatiently, signedIn, tokensOf, withToken } from "./person.ts";
import type { Stage } from "./stage.ts";

/** People who exchange a code, and people who end a token. */
const PEOPLE = rounds(4, 12);

export async function statusOf(response: Promise<Response>): Promise<number> {
  const { status, body } = await response;
  await body?.cancel();
  return status;
}

/**
 * Exchanges codes, each twice at once, and revokes tokens, from before the fault until each is answered.
 * @param fault resolves when it is over.
 */
export async function throughFault(stage: Stage, fault: () => Promise<void>): Promise<void> {
  const { oauth2: base, clients } = stage;
  const { news } = clients;
  const codes: string[] = [];
  const tokens: string[] = [];
  for (let person = 0; person < PEOPLE; person += 1) {
    codes.push((await signedIn(stage)).code);
    const { code } = await signedIn(stage);
    tokens.push((await tokensOf(await send(exchange(base, news, code)))).access_token);
  }
  const exchanged = (code: string): Promise<number> => statusOf(sendPatiently(exchange(base, news, code)));
  const striking = fault();
  const answered = await Promise.all([
    ...codes.map(async (code, at) => {
      await pause(50 * at);
      return Promise.all([exchanged(code), exchanged(code)]);
    }),
    ...tokens.map(async (token, at) => {
      await pause(50 * at);
      return [await statusOf(sendPatiently(withToken("POST", `${base}/oauth2/revoke`, news, token)))];
    }),
  ]);
  await striking;
  // After a 503, a code may be used and a token may have ended, and 400 says so.
  expect(answered.flat().filter((status) => status !== 200 && status !== 400)).toEqual([]);
  for (const [at, code] of codes.entries()) {
    const again = [await exchanged(code), await exchanged(code)];
    const good = [...answered[at]!, ...again].filter((status) => status === 200);
    expect([good.length <= 1, again[1]]).toEqual([true, 400]);
  }
  for (const [at, token] of tokens.entries()) {
    if (answered[codes.length + at]![0] !== 200) continue;
    const used = withToken("GET", `${base}/resources/userinfo`, news, token);
    expect(await statusOf(sendPatiently(used))).toBe(400);
  }
}

/**
 * A wrong password, certificate or name in an address is said at the start, by what refused it.
 * @param whom is asked with the login of the address first.
 */
export async function expectRefusals(url: string, whom: string): Promise<void> {
  const refusals: readonly (readonly [wrong: string, reason: string])[] = [
    [url.replace(/:[^:@/]+@/u, ":wrong-SECRET@"), `(${whom} can't be asked (WRONGPASS))`],
    // Without an authority of its own, that of Node.js counts.
    [url.replace(/ca_file=[^&]+&/u, ""), "(DEPTH_ZERO_SELF_SIGNED_CERT)"],
    // The server wants a certificate of its clients.
    [url.replace(/&cert_file=[^&]+&key_file=[^&]+/u, ""), "ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED"],
    [url.replaceAll("127.0.0.1", "127.0.0.2"), "can't be used"],
    [
      url.replace(/key_file=[^&]+/u, "key_file=/nowhere/SECRET.pem"),
      "the file of key_file, /nowhere/SECRET.pem, can't be read (ENOENT)",
    ],
  ];
  for (const [wrong, reason] of refusals) {
    expect(wrong).not.toBe(url);
    const opened = openRedis({ url: wrong, clock: createSystemClock(), startTimeoutMs: 300 });
    const refused = await opened.then(() => "nothing", String);
    expect(refused).toContain(reason);
    expect(refused).not.toMatch(/wrong-SECRET|only-a/u);
  }
}

/** A process without a worker wakes the worker of another one, through the queue at the address, before and after a fault. */
export async function queueThroughFault(url: string, fault: () => Promise<void>): Promise<void> {
  const bull = closing(await openBullStage());
  await bull.receiver("1");
  const [app, worker] = [await bull.worker(url), await bull.worker(url)];
  worker.scheduler.start();
  const arrives = async (id: string): Promise<void> => {
    await bull.add(`${id}@1/a`);
    await until(async () => {
      app.scheduler.wake();
      await pause(50);
      return (await bull.waiting()) === 0;
    });
  };
  await arrives("before");
  await fault();
  await arrives("after");
  expect(bull.posted.map(({ id }) => id)).toEqual(["before", "after"]);
}
