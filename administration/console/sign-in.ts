/** How operators sign in to the console: through the service itself, with an authorization code that only the console can use. */
import { createHash, randomBytes } from "node:crypto";
import { ADMINISTRATION_CLIENT, type ClientInternals } from "../../accounts/clients/client.ts";
import type { ConsoleAccess } from "../operators.ts";
import type { Configuration, Deployment } from "../../config/configuration.ts";
import { roleOf } from "../../config/operators.ts";
import { type Clock, seconds } from "../../core/clock.ts";
import { readCookie, setCookie } from "../../core/cookies.ts";
import { type Encrypter, isEqual } from "../../core/sealing.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import type { ArtifactStore } from "../../records/artifacts/artifact-store.ts";
import { artifactKey } from "../../provider/adapter.ts";
import { ACR_MFA, hasShownSecondFactor } from "../../provider/authentication.ts";
import type { SignInSessions } from "../../provider/sessions/sessions.ts";
import { type ConsoleSessions, consoleCookie } from "./session.ts";
import type { ConsoleContext } from "./request.ts";

/** Where operators come back to, below the address of the console. */
export const CALLBACK_PATH = "/callback";

/** How long somebody may take to sign in. */
const LIFETIME_SECONDS = 3_600;

/** What the console keeps of a sign-in that it has asked for, encrypted in the cookie of the browser. */
type Asked = readonly [state: string, verifier: string, to: string, at: number];

/** Why nobody was let in: a page says it. */
export type Refusal = "no-factor" | "new-factor" | "again";

export interface ConsoleSignIn {
  /** The address at which the operator signs in, and then comes back to `to`, an address of the console. */
  begin(ctx: ConsoleContext, to: string): Promise<string>;
  /** Ends the sign-in that the service has sent back. @returns the address that the operator wanted, or why not. */
  finish(
    ctx: ConsoleContext,
  ): Promise<
    { readonly kind: "in"; readonly to: string } | { readonly kind: "refused"; readonly why: Refusal }
  >;
}

/** What the sign-in needs of the service. */
export interface SignInParts {
  readonly configuration: Configuration;
  readonly clock: Clock;
  readonly clients: Pick<ClientInternals, "putInternal">;
  readonly artifacts: Pick<ArtifactStore, "find" | "change">;
  readonly sessions: Pick<SignInSessions, "signedIn">;
  /** Whether the factors of an operator are old enough, or confirmed. */
  readonly mayOpenConsole: (account: AccountRecord) => Promise<ConsoleAccess>;
  readonly encrypter: Encrypter;
}

/** The deployment whose pages sign operators in. */
export function deploymentOf({ deployments }: Pick<Configuration, "deployments">): Deployment {
  const found = deployments.openid ?? deployments.oauth2;
  if (found === undefined) throw new TypeError("a service has a deployment");
  return found;
}

/** The members of a stored code that the console looks at. */
interface StoredCode {
  readonly clientId?: string;
  readonly accountId?: string;
  readonly redirectUri?: string;
  readonly codeChallenge?: string;
  readonly sessionUid?: string;
}

const CODE = "AuthorizationCode";

/** @param url the address of the console, without a path. */
export function createConsoleSignIn(
  parts: SignInParts,
  consoles: Pick<ConsoleSessions, "begin">,
  url: string,
): ConsoleSignIn {
  const { configuration, clock, clients, artifacts, sessions, mayOpenConsole, encrypter } = parts;
  const secure = url.startsWith("https:");
  const name = consoleCookie(configuration, url, "admin_signing_in");
  const redirectUri = url + CALLBACK_PATH;
  let registered: Promise<unknown> | undefined;

  /** The client of the console. Every process that serves a console puts it there. */
  async function register(): Promise<void> {
    registered ??= clients.putInternal({
      client_id: ADMINISTRATION_CLIENT,
      name: configuration.interactions.theme.name ?? "Account",
      redirect_uris: [redirectUri],
    });
    try {
      await registered;
    } catch (error) {
      registered = undefined;
      throw error;
    }
  }

  /** Takes the code: it works once, and for nobody else. */
  async function take(code: string, verifier: string): Promise<StoredCode | undefined> {
    const found = await artifacts.change(
      async () => {
        const family = await artifacts.find(CODE, artifactKey(code));
        if (family?.grant === undefined || family.artifact.consumedAt !== undefined) return undefined;
        const { clientId, redirectUri: to, codeChallenge = "" } = family.artifact.payload as StoredCode;
        const isOurs =
          clientId === ADMINISTRATION_CLIENT &&
          to === redirectUri &&
          isEqual(codeChallenge, challengeOf(verifier));
        return isOurs ? family.artifact : undefined;
      },
      () => undefined,
    );
    return found?.payload;
  }

  return {
    async begin(ctx, to) {
      await register();
      const [state, verifier] = [randomBytes(32), randomBytes(32)].map((bytes) =>
        bytes.toString("base64url"),
      );
      const asked: Asked = [state ?? "", verifier ?? "", to, seconds(clock)];
      const value = encrypter.encrypt(name, JSON.stringify(asked));
      setCookie(ctx, { name, value, lifetimeSeconds: LIFETIME_SECONDS, secure });
      const query = new URLSearchParams({
        client_id: ADMINISTRATION_CLIENT,
        response_type: "code",
        redirect_uri: redirectUri,
        state: asked[0],
        code_challenge: challengeOf(asked[1]),
        code_challenge_method: "S256",
        prompt: "login",
        // A wish: nobody who has none is asked to add a factor here.
        acr_values: ACR_MFA,
      });
      return `${deploymentOf(configuration).url}/oauth2/authorize?${query}`;
    },
    async finish(ctx) {
      const again = { kind: "refused", why: "again" } as const;
      const query = new URLSearchParams(ctx.querystring);
      const text = encrypter.decrypt(name, readCookie(ctx, name) ?? "");
      if (text === undefined) return again;
      const [state, verifier, to, at] = JSON.parse(text) as Asked;
      if (!isEqual(state, query.get("state") ?? "") || seconds(clock) >= at + LIFETIME_SECONDS) return again;
      // It was for this answer.
      setCookie(ctx, { name, value: "", lifetimeSeconds: 0, secure });
      const { accountId = "", sessionUid = "" } = (await take(query.get("code") ?? "", verifier)) ?? {};
      const signedIn = await sessions.signedIn(accountId, sessionUid);
      // Somebody may have taken `prompt=login` out of the address: a sign-in from before is not one to the console.
      if (signedIn === undefined || signedIn.signedInAt < at) return again;
      const { account, acr } = signedIn;
      if (roleOf(configuration, account.sub) === undefined) return again;
      if (!hasShownSecondFactor(acr, account)) return { kind: "refused", why: "no-factor" };
      const access = await mayOpenConsole(account);
      if (access !== "yes")
        return { kind: "refused", why: access === "no_factor" ? "no-factor" : "new-factor" };
      consoles.begin(ctx, account.sub, sessionUid);
      return { kind: "in", to };
    },
  };
}

/** RFC 7636, section 4.2. */
const challengeOf = (verifier: string): string => createHash("sha256").update(verifier).digest("base64url");
