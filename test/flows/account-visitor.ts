/** People at the account pages. */
import { Browser } from "../../lib/testing/browser/browser.ts";
import { ADA } from "./running-service.ts";

/** Somebody who can sign in. */
interface Person {
  readonly username: string;
  readonly password: string;
}

/** Signs in with the form that is shown. */
export async function signIn(browser: Browser, { username, password }: Person = ADA): Promise<Browser> {
  return browser.submit(browser.form("password"), { username, password });
}

/** A browser in which somebody is signed in to the account pages of a deployment. */
export async function signedIn(base: string, person: Person = ADA): Promise<Browser> {
  return signIn(await new Browser().get(`${base}/account`), person);
}

/** A browser in front of the callback, with the address that it was sent to. */
export async function atCallback(
  base: string,
): Promise<{ readonly browser: Browser; readonly location: URL }> {
  const browser = new Browser({ stopAt: `${base}/account/callback` });
  await browser.get(`${base}/account?tab=1`);
  await signIn(browser);
  if (browser.location === undefined) throw new Error("no redirect to the callback");
  return { browser, location: browser.location };
}
