/** What a user and two clients hold, and what remains of it. */
import { randomBytes } from "node:crypto";
import { expect } from "@jest/globals";
import type { Account } from "../../accounts/operations/accounts.ts";
import type { Browser } from "../../testing/browser/browser.ts";
import type { TestClient, TestTokens, TestVisitor } from "../../testing/test-client.ts";
import { clientAt } from "./clients.ts";
import { CALLBACK, NEWS, type RunningService, SHOP } from "./running-service.ts";

/** Where the browsers of both clients stop. */
export const STOP: { readonly stopAt: string[] } = { stopAt: [CALLBACK, ...SHOP.redirect_uris] };

export interface Held {
  readonly account: Account;
  readonly person: TestVisitor;
  readonly browser: Browser;
  readonly news: TestTokens;
  readonly newsCode: string;
  readonly shop: TestTokens;
  readonly shopCode: string;
}

export class Holdings {
  readonly #running: RunningService;
  readonly #news: TestClient;
  readonly #shop: TestClient;

  constructor(running: RunningService) {
    this.#running = running;
    this.#news = clientAt(running, "openid", NEWS);
    this.#shop = clientAt(running, "openid", SHOP);
  }

  /** A new account. */
  async newcomer(): Promise<{ account: Account; person: TestVisitor }> {
    const username = `user-${randomBytes(6).toString("hex")}`;
    const password = "a password of a newcomer";
    const account = await this.#running.service.accounts.create({
      email: `${username}@example.com`,
      username,
      password,
    });
    return { account, person: { username, password } };
  }

  /** A new account that has signed in to both clients. */
  async everything(): Promise<Held> {
    const { account, person } = await this.newcomer();
    const browser = this.#news.browser(STOP);
    return {
      account,
      person,
      browser,
      news: await this.#news.signIn({ ...person, browser }, { scope: "openid" }),
      shop: await this.#shop.signIn({ ...person, browser }, { scope: "openid" }),
      newsCode: await this.#news.code({ ...person, browser }),
      shopCode: await this.#shop.code({ ...person, browser }),
    };
  }

  /** What remains: the tokens of both clients, and the session. */
  async left(held: Held): Promise<[news: boolean, shop: boolean, session: boolean]> {
    const news = await this.#alive(this.#news, held.news, held.newsCode);
    const shop = await this.#alive(this.#shop, held.shop, held.shopCode);
    return [news, shop, (await this.#news.silently(held.browser)) === "code"];
  }

  /** Whether a client's tokens and code still work, everywhere. */
  async #alive(party: TestClient, tokens: TestTokens, code: string): Promise<boolean> {
    const results = [
      (await party.userinfo(tokens.access_token)).status === 200,
      (await party.profile(tokens.access_token)).status === 200,
      (await party.bearer("/oauth2/userinfo", tokens.access_token)).status === 200,
      (await this.#isActive(party, tokens.access_token)) === true,
      (await this.#isActive(party, tokens.refresh_token)) === true,
      (await party.refresh(tokens.refresh_token)).status === 200,
      (await party.exchange(code)).status === 200,
    ];
    const [first = false] = results;
    // Either all of them work or none.
    expect(results).toEqual(results.map(() => first));
    return first;
  }

  /** Whether RFC 7662 calls the token active. */
  async #isActive(client: TestClient, token: string): Promise<unknown> {
    return (await client.at("openid").post("/oauth2/introspect", { token })).body["active"];
  }
}
