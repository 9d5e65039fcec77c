/** Adds a passkey to an account as the enrolment does, with an authenticator that is real or in memory. */
import { randomBytes } from "node:crypto";
import type { AccountInternals } from "../accounts/account.ts";
import { factorStateOf } from "../accounts/factors/factor.ts";
import { relyingPartyOf } from "../accounts/factors/factors.ts";
import { createPasskeys, type PasskeyCreation, type RelyingParty } from "../accounts/factors/passkeys.ts";
import type { Clock } from "../core/clock.ts";
import type { Records } from "../records/records.ts";
import { SYSTEM } from "../records/audit/audit-event.ts";
import { type AuthenticatorOptions, createAuthenticator, type TestAuthenticator } from "./authenticator.ts";
import type { SignInService } from "../lib/service.ts";

/** A service with passkeys: its host has a name, such as `localhost`. */
interface Running {
  readonly service: Pick<SignInService, "accounts" | "configuration">;
}

/** Adds a passkey of a new authenticator. @param options its kind; default: a phone. */
export async function addPhone(
  running: Running,
  sub: string,
  clock: Clock,
  options: Omit<AuthenticatorOptions, "origin"> = {},
): Promise<TestAuthenticator> {
  const [origin = ""] = partyOf(running).origins;
  const phone = createAuthenticator({ ...options, origin });
  await addPasskey(running, sub, clock, (asked) => phone.create(asked));
  return phone;
}

function partyOf({ service: { configuration } }: Running): RelyingParty {
  const { passkeys, ...interactions } = configuration.interactions;
  // Accounts keep their passkeys when passkeys are turned off.
  const enabled = {
    ...configuration,
    interactions: { ...interactions, passkeys: { ...passkeys, enabled: true } },
  };
  const party = relyingPartyOf(enabled);
  if (party === undefined)
    throw new TypeError("deployments: browsers make no passkeys for an IP address; use localhost");
  return party;
}

/** @param create does what a browser does with the options. Its answer is JSON, and may be anything. */
export async function addPasskey(
  running: Running,
  sub: string,
  clock: Clock,
  create: (options: PasskeyCreation) => unknown,
): Promise<void> {
  const accounts = running.service.accounts as SignInService["accounts"] & AccountInternals;
  const account = await accounts.record(sub);
  if (account === undefined) throw new Error("no account");
  // It reads no records for an account without passkeys.
  const passkeys = createPasskeys(partyOf(running), undefined as unknown as Records, clock);
  const { challenge } = passkeys.challenge();
  const userHandle = account.ways.passkey?.user_handle ?? randomBytes(32).toString("base64url");
  const options = await passkeys.creation({ ...account, ways: {} }, challenge, userHandle);
  const passkey = await passkeys.checkNew(await create(options), challenge, "Phone");
  if (passkey === undefined) throw new Error("the passkey was refused");
  const factor = { kind: "passkey", passkey, userHandle } as const;
  const added = await accounts.addFactor(sub, factor, factorStateOf(account), {}, SYSTEM);
  if (added.kind !== "changed") throw new Error(added.kind);
}
