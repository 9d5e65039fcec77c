/** Forgotten passwords: a mail to the stored address lets its owner choose a new password. */
import { passwordNames } from "../account-ownership.ts";
import type { PasswordProblem } from "../passwords/password-rules.ts";
import { type AccountState, isDisabled, passwordGeneration, stateOf } from "../account.ts";
import { normalName, readName } from "../names.ts";
import { onlyProvider } from "../providers.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import { ACCOUNT } from "../../records/directory/directory-kinds.ts";
import type { Transaction } from "../../records/records.ts";
import {
  CONFIRMATION_LIFETIME_MS,
  type ConfirmationProof,
  type FoundConfirmation,
  type Unproven,
} from "./confirmations.ts";
import type { DeviceAccount } from "../limits/password-check.ts";
import { wideNetwork } from "../limits/networks.ts";
import {
  askedFor,
  type AskedAt,
  callerAs,
  type Limited,
  mailWith,
  type PeopleServices,
  refusalOf,
} from "./requests.ts";

/** The link, which works in any browser, or the code, which works where the running sign-in waits for it. */
type ResetProof =
  | Extract<ConfirmationProof, { readonly link: string }>
  | (Extract<ConfirmationProof, { readonly code: string }> & { readonly interaction: string });

export type ResetFinished =
  /** The account as it is now, as far as a device cookie depends on it. */
  | ({ readonly kind: "done" } & DeviceAccount)
  | { readonly kind: "refused-password"; readonly problem: PasswordProblem }
  /** Too many passwords were tried with the mail of this account. */
  | Limited
  | Unproven;

/** Each call rejects with `StorageUnavailable` when the storage fails. */
export interface PasswordResets {
  /**
   * Sends code and link to the stored address of the account with this name. The same work, answer and time for a name
   * that no account has. An earlier reset of the account ends, except for one that lasts: its mail was the last one that
   * the limits allowed, so it works until there can be another, for a day at most.
   * @param interaction the running sign-in that waits for the code; `undefined`: only the link works.
   * @param login a username or an e-mail address, as typed.
   */
  start(
    interaction: string | undefined,
    login: string,
    at: AskedAt,
  ): Promise<{ readonly kind: "sent" } | Limited>;
  /**
   * Whether `finish` would take this proof. Does not use it up, but a wrong code costs a try.
   * @returns with a right one, the sign-in that asked for it, if there was one.
   */
  check(
    proof: ResetProof,
  ): Promise<{ readonly kind: "valid"; readonly interaction: string | undefined } | Unproven>;
  /**
   * Sets the password, ends all codes, tokens and sessions of the account, and notifies its owner by mail. A refused
   * password does not use up the proof.
   */
  finish(proof: ResetProof, password: string, at: AskedAt): Promise<ResetFinished>;
}

const DAY_MS = 86_400_000;

/** @param fullFor seconds until there can be another mail. @returns `undefined` if there can be one now. */
function lifetimeOfLast(fullFor: number): number | undefined {
  if (fullFor === 0) return undefined;
  return Math.min(Math.max(fullFor * 1000, CONFIRMATION_LIFETIME_MS), DAY_MS);
}

export function createPasswordResets(services: PeopleServices): PasswordResets {
  const { accounts, configuration, confirmations, passwords, limits } = services;

  /** Whether a password would sign this account in. */
  const canHavePassword = (record: AccountRecord): boolean =>
    !isDisabled(record) && onlyProvider(configuration, record) === undefined;

  function prove<T>(
    proof: ResetProof,
    act: (found: FoundConfirmation<AccountState>, tx: Transaction) => Promise<T>,
  ): Promise<T | Unproven> {
    const where = "interaction" in proof ? { interaction: proof.interaction } : undefined;
    return confirmations.prove("password-reset", where, proof, act);
  }

  /** The hash of a password that breaks no rule. A point is consumed before another service is asked about it. */
  async function choose(
    sub: string,
    password: string,
    at: AskedAt,
  ): Promise<
    { readonly kind: "hash"; readonly hash: string } | Exclude<ResetFinished, Unproven | { kind: "done" }>
  > {
    const limited = refusalOf(services, at, await limits.newPassword(sub), "account.password_reset");
    if (limited !== undefined) return limited;
    const party = wideNetwork(at.address);
    if (await passwords.isBreached(password, party)) return { kind: "refused-password", problem: "breached" };
    return { kind: "hash", hash: await passwords.hash(password, party) };
  }

  return {
    async start(interaction, login, at) {
      const name = readName(login);
      const asked = await askedFor(services, name, at, { limit: "mail", purpose: "reset" });
      if (asked.kind === "limited") return asked;
      const { record } = asked;
      const found = record !== undefined && canHavePassword(record) ? record : undefined;
      const sent = await asked.recipient(found === undefined ? name : normalName(found.email));
      // With too much mail to the address already, nobody gets any, and the last one lasts.
      const account = sent.allowed ? found : undefined;
      const lastsMs = lifetimeOfLast(Math.max(asked.fullFor, sent.fullFor));
      const { deployment, clientName } = at;
      const locale = account?.locale ?? at.locale;
      await confirmations.issue<AccountState>({
        purpose: "password-reset",
        subject: account?.sub ?? confirmations.nobody(name ?? ""),
        interaction,
        extra: stateOf(account ?? { email: name ?? "", ways: {} }),
        lasting:
          lastsMs === undefined ? undefined : { ms: lastsMs, of: sent.allowed ? undefined : found?.sub },
        mail: mailWith(services, {
          kind: "reset-password",
          to: account?.email ?? "",
          locale,
          deployment,
          clientName,
          lastsMs,
        }),
      });
      services.audit.note({
        ...at.caller,
        action: "password_reset.requested",
        ...(record && { subject: record.sub }),
      });
      return { kind: "sent" };
    },

    check: (proof) =>
      prove(proof, async (pending) => {
        // Parallel tries of a code count one after the other, the right one too.
        if ("code" in proof) pending.keep();
        return { kind: "valid", interaction: pending.interaction } as const;
      }),

    finish(proof, password, at) {
      /** Asks and hashes once, however often the transaction is repeated. */
      let chosen: ReturnType<typeof choose> | undefined;
      return prove<ResetFinished>(proof, async (pending, tx) => {
        const sub = pending.subject;
        const record = await tx.get(ACCOUNT.ref(sub));
        // The address is in the domain of its provider since the mail was sent.
        if (record !== undefined && onlyProvider(configuration, record) !== undefined) {
          pending.remove();
          return { kind: "gone" };
        }
        const problem = record && passwords.problem(password, passwordNames(record));
        const result =
          problem === undefined
            ? await (chosen ??= choose(sub, password, at))
            : ({ kind: "refused-password", problem } as const);
        if (result.kind !== "hash") {
          if ("code" in proof) pending.keep();
          return result;
        }
        const caller = callerAs(sub, at);
        const after = await accounts.resetPassword(tx, sub, result.hash, pending.extra, caller);
        pending.remove();
        // If not, the account is gone, or its address or password has changed since.
        if (after === undefined) return { kind: "gone" };
        return { kind: "done", sub, ways: { password: { generation: passwordGeneration(after) } } };
      });
    },
  };
}
