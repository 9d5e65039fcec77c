/** What the forms of the console carry, and what an address carries after a form: both made here, for one session. */
import type { DeliveryFilter } from "../lib/deliveries/delivery.ts";
import type { SignedIn } from "../lib/provider/account.ts";
import type { Signer } from "../lib/sealing.ts";

/** What came of an action, to be said on the page that follows: a code, and values for its text. */
export interface ConsoleResult {
  readonly code: string;
  readonly values: Readonly<Record<string, string | number>>;
}

export interface ConsoleSeals {
  /** The hidden field of a form: good for one action on one thing, in one session. */
  token(person: SignedIn, action: readonly string[]): string;
  /** Whether this is the hidden field of such a form. */
  isToken(person: SignedIn, action: readonly string[], presented: string): boolean;
  /** The result as an address carries it; it says nothing in another session or on another page. */
  seal(person: SignedIn, path: string, result: ConsoleResult): string;
  /** `undefined` when it was not sealed here for this page. */
  open(person: SignedIn, path: string, sealed: string | undefined): ConsoleResult | undefined;
}

/** What the token of the form that sends again all that fits is good for. */
export function redriveAllProof({ receiver = "", type = "", sub = "" }: DeliveryFilter): readonly string[] {
  return ["redriveAll", receiver, type, sub];
}

/** What a signature is about: a purpose in one session of one account. */
function signed(purpose: string, { session, account }: SignedIn, parts: readonly string[]): string {
  const { sub, sessions_generation } = account;
  return JSON.stringify([`console ${purpose}`, session, sub, sessions_generation, ...parts]);
}

/** @param signer other keys make all forms stale. */
export function createConsoleSeals(signer: Signer): ConsoleSeals {
  return {
    token: (person, action) => signer.sign(signed("form", person, action)),
    isToken: (person, action, presented) => signer.verify(signed("form", person, action), presented),
    seal(person, path, result) {
      const text = Buffer.from(JSON.stringify([result.code, result.values])).toString("base64url");
      return `${text}.${signer.sign(signed("result", person, [path, text]))}`;
    },
    open(person, path, sealed = "") {
      const [text = "", signature = ""] = sealed.split(".", 2);
      if (!signer.verify(signed("result", person, [path, text]), signature)) return undefined;
      const [code, values] = JSON.parse(Buffer.from(text, "base64url").toString()) as [
        string,
        ConsoleResult["values"],
      ];
      return { code, values };
    },
  };
}
