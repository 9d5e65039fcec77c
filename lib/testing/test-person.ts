import type { Account } from "../domain/account.ts";
import type { Browser } from "./browser/browser.ts";

/** Somebody with an account, a password and a browser of their own; see `TestSignIn.addPerson`. */
export interface TestPerson {
  readonly account: Account;
  /** What they type as their name: the username. */
  readonly username: string;
  readonly password: string;
  /** Keeps their cookies, so that they stay signed in from one client to the next. */
  readonly browser: Browser;
}
