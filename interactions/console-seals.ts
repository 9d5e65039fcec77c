/** What the forms of the console carry, and what an address carries after a form: both made here, for one session. */
import type { DeliveryFilter } from "../adapters/deliveries.ts";
import type { SignedIn } from "../lib/protocol/signed-in.ts";
import { type SecretKey, hmac } from "../lib/sealing.ts";
import { isSameToken } from "./forgery.ts";

/** What came of an action, to be said on the page that follows: a code, and values for its text. */
export interface ConsoleResult {
  readonly code: string;
  readonly values: Readonly<Record<string, string | number>>;
}

export interface ConsoleSeals {
  /** The hidden field of a form: good for one action on one thing, in one session. */
  token(person: SignedIn, action: readonly string[]): string;
  /** The result as an address carries it; it says nothing in another session or on another page. */
  seal(person: SignedIn, path: string, result: ConsoleResult): string;
  /** `undefined` when it was not sealed here for this page. */
  open(person: SignedIn, path: string, sealed: string | undefined): ConsoleResult | undefined;
}

/** What the token of the form that sends again all that fits is good for. */
export function redriveAllProof({ receiver = "", type = "", sub = "" }: DeliveryFilter): readonly string[] {
  return ["redriveAll", receiver, type, sub];
}

/** @param key makes digests; another one makes all forms stale. */
export function createConsoleSeals(key: SecretKey): ConsoleSeals {
  const digest = (purpose: string, { session, account }: SignedIn, parts: readonly string[]): string =>
    hmac(
      key,
      JSON.stringify([`console ${purpose}`, session, account.sub, account.sessions_generation, ...parts]),
    );
  return {
    token: (person, action) => digest("form", person, action),
    seal(person, path, result) {
      const text = Buffer.from(JSON.stringify([result.code, result.values])).toString("base64url");
      return `${text}.${digest("result", person, [path, text])}`;
    },
    open(person, path, sealed = "") {
      const [text = "", digested = ""] = sealed.split(".", 2);
      if (!isSameToken(digest("result", person, [path, text]), digested)) return undefined;
      const [code, values] = JSON.parse(Buffer.from(text, "base64url").toString()) as [
        string,
        ConsoleResult["values"],
      ];
      return { code, values };
    },
  };
}
