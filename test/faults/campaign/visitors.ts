/**
 * People who sign in during faults, on a server that is never killed. No code may be exchanged twice, no ended token may work again,
 * and every other token must work.
 */
import { setTimeout as pause } from "node:timers/promises";
import type { SignInServiceConfig } from "../../../config/input.ts";
import { exchange, passwordGrant, send, sendPatiently, signedIn, tokensOf, withToken } from "../person.ts";
import { openStage, type Stage } from "../stage.ts";
import type { Loss } from "./server.ts";

/** Milliseconds between two visits. */
const BETWEEN = 400;
/** How many tokens live. The next one ends the first, which most often was issued before the fault that is going on. */
const ALIVE = 8;

/** A code or token, and when its last acknowledged request began and was answered, in milliseconds since the epoch. */
interface Issued {
  readonly what: "token" | "code";
  readonly value: string;
  readonly begun: number;
  readonly answered: number;
}

export interface VisitCounts {
  /** Tokens that were ended, and codes that were exchanged. */
  readonly ended: number;
  /** Of these, those that worked in the end. */
  readonly endedWorking: number;
  /** Codes for which two exchanges gave tokens. */
  readonly exchangedTwice: number;
  /** Tokens that had not ended. */
  readonly alive: number;
  /** Of these, those that did not work in the end. */
  readonly aliveRefused: number;
}

export class Visitors {
  readonly #stage: Stage;
  /** The `user_id` and `sub` of everybody who has signed in. */
  readonly numbers: [number: number, sub: string][] = [];
  readonly #ended: Issued[] = [];
  readonly #alive: Issued[] = [];
  #exchangedTwice = 0;

  private constructor(stage: Stage) {
    this.#stage = stage;
  }

  static async open(config: Partial<SignInServiceConfig>): Promise<Visitors> {
    return new Visitors(await openStage(config));
  }

  async visit(signal: AbortSignal): Promise<void> {
    for (let turn = 0; !signal.aborted; turn += 1) {
      // While the storage is away, nobody can begin.
      await (turn % 3 === 0 ? this.#byCode() : this.#byPassword()).catch(() => undefined);
      await pause(BETWEEN);
    }
  }

  /** @param losses everything that was issued before the last of them has ended, and nobody knows about what was issued meanwhile. */
  async check(losses: readonly Loss[]): Promise<VisitCounts> {
    const { promoted = 0, renewed = 0 } = losses.at(-1) ?? {};
    const ended = [...this.#ended, ...this.#alive.filter(({ answered }) => answered < promoted)];
    const alive = this.#alive.filter(({ begun }) => begun > renewed);
    return {
      ended: ended.length,
      endedWorking: await this.#working(ended),
      exchangedTwice: this.#exchangedTwice,
      alive: alive.length,
      aliveRefused: alive.length - (await this.#working(alive)),
    };
  }

  close(): Promise<void> {
    return this.#stage.close();
  }

  async #byCode(): Promise<void> {
    const { oauth2, clients } = this.#stage;
    const begun = Date.now();
    const { code } = await signedIn(this.#stage);
    const wire = exchange(oauth2, clients.news, code);
    const answers = await Promise.all([sendPatiently(wire), sendPatiently(wire)]);
    const good = answers.filter(({ status }) => status === 200);
    if (good.length > 1) this.#exchangedTwice += 1;
    if (good.length > 0) this.#ended.push({ what: "code", value: code, begun, answered: Date.now() });
    await Promise.all(answers.map(async ({ body }) => body?.cancel()));
  }

  async #byPassword(): Promise<void> {
    const { oauth2, clients } = this.#stage;
    const { username, user_id, sub } = await this.#stage.person();
    this.numbers.push([user_id, sub]);
    const begun = Date.now();
    const { access_token: value } = await tokensOf(
      await sendPatiently(passwordGrant(oauth2, clients.news, username)),
    );
    this.#alive.push({ what: "token", value, begun, answered: Date.now() });
    if (this.#alive.length <= ALIVE) return;
    const oldest = this.#alive.shift()!;
    const revoked = await send(withToken("POST", `${oauth2}/oauth2/revoke`, clients.news, oldest.value));
    await revoked.body?.cancel();
    if (revoked.status === 200) this.#ended.push({ ...oldest, begun, answered: Date.now() });
  }

  /** How many of them the service accepts. */
  async #working(issued: readonly Issued[]): Promise<number> {
    const { oauth2, clients } = this.#stage;
    let working = 0;
    for (const { what, value } of issued) {
      const wire =
        what === "code"
          ? exchange(oauth2, clients.news, value)
          : withToken("GET", `${oauth2}/resources/userinfo`, clients.news, value);
      const { status, body } = await sendPatiently(wire);
      await body?.cancel();
      if (status === 200) working += 1;
    }
    return working;
  }
}
