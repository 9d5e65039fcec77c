/** The page that a person returns to after signing in to the account pages. */
import type { KeyObject } from "node:crypto";
import type { Deployment } from "../../config/configuration.ts";
import type { Clock } from "../../core/clock.ts";
import type { BrowserContext, FindBrowser } from "../../provider/sessions/browser-cookie.ts";
import { createEncrypter } from "../../core/sealing.ts";

/** A request for a page of a deployment. */
interface ReturnContext extends BrowserContext {
  readonly exchange: { readonly deployment: Pick<Deployment, "url" | "path" | "secure"> };
}

/**
 * The page that a person returns to after signing in: a path of the account pages, or that for the code of a device, encrypted into the `state` of the
 * sign-in, valid for two days and only in the same browser.
 */
export interface ReturnPaths {
  /** Seals a path for this browser. A path outside `{base}/account` becomes `{base}/account`. */
  seal(ctx: ReturnContext, path: string): string;
  /** The path; `undefined` if it was sealed elsewhere, for another browser, or more than two days ago. */
  open(ctx: ReturnContext, state: string): string | undefined;
}

/** A page of the sign-in can start again for a day, and the sign-in then takes hours, if the person asks for more time. */
const LIFETIME_SECONDS = 172_800;
/** Characters; the sealed path stays far below the limit of `state`. */
const MAX_PATH_LENGTH = 1_024;

/** The associated data of the encryption, with the digest of the browser. */
function context(digest: string): string {
  return `account return ${digest}`;
}

/** Whether this is a path of the account pages or that for the code of a device, in the form that browsers normalise paths to. */
export function isAccountPath(path: string, { url, path: base }: Pick<Deployment, "url" | "path">): boolean {
  const home = `${base}/account`;
  if (path.length > MAX_PATH_LENGTH || !/^\/[\x21-\x7e]*$/.test(path) || /[\\#]/.test(path)) return false;
  const { origin } = new URL(url);
  const target = URL.parse(path, origin);
  // A browser would read it as another host or another path.
  if (target?.href !== origin + path) return false;
  return (
    target.pathname === home || target.pathname.startsWith(`${home}/`) || target.pathname === `${base}/device`
  );
}

/**
 * @param parts.keys the first seals, all open; at least one.
 */
export function createReturnPaths({
  keys,
  findBrowser,
  clock,
}: {
  readonly keys: readonly KeyObject[];
  readonly findBrowser: FindBrowser;
  readonly clock: Clock;
}): ReturnPaths {
  const encrypter = createEncrypter(keys);

  return {
    seal(ctx, path) {
      const { deployment } = ctx.exchange;
      const browser = findBrowser(ctx);
      browser.remember(ctx);
      const local = isAccountPath(path, deployment) ? path : `${deployment.path}/account`;
      const sealed = [local, clock.now() + LIFETIME_SECONDS * 1000];
      return encrypter.encrypt(context(browser.digest), JSON.stringify(sealed));
    },
    open(ctx, state) {
      const { digest } = findBrowser(ctx);
      const text = encrypter.decrypt(context(digest), state);
      if (text === undefined) return undefined;
      const [path, until] = JSON.parse(text) as readonly [string, number];
      return clock.now() < until && isAccountPath(path, ctx.exchange.deployment) ? path : undefined;
    },
  };
}
