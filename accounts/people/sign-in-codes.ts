/**
 * Signing in with a code by mail. The code belongs to the sign-in that asked for it, and whatever changes the account ends it. It
 * goes to a confirmed address only; where a code is not enough, the mail says so instead (decisions.md, Signing in with a code by
 * mail).
 */
import { isOperator } from "../../config/operators.ts";
import { randomUUID } from "node:crypto";
import type { AccountRecord } from "../../records/directory/directory.ts";
import { ACCOUNT } from "../../records/directory/directory-kinds.ts";
import { systemFamily } from "../../records/audit/origin.ts";
import { isDisabled } from "../account.ts";
import { type FactorState, factorStateOf, isStill } from "../factors/factor.ts";
import type { Attempt } from "../limits/attempt-limits.ts";
import { wideNetwork } from "../limits/networks.ts";
import { normalName, readName } from "../names.ts";
import { onlyProvider } from "../providers.ts";
import { hasWay, outranksMail, WAYS } from "../ways/ways.ts";
import { SIGN_IN_CODE_LIFETIME_MS, type Unproven } from "./confirmations.ts";
import {
  type AskedAt,
  askedFor,
  type Limited,
  mailWith,
  type PeopleServices,
  refusalOf,
} from "./requests.ts";

/** Who asks, and what the mail says about it. */
export interface CodeAskedAt extends AskedAt {
  /** The header; only the families of browser and system leave this module. */
  readonly userAgent: string | undefined;
}

/** Each call rejects with `StorageUnavailable` when the storage fails. */
export interface SignInCodes {
  /** Whether a code by mail can sign in to this account at all. */
  isFor(account: AccountRecord): boolean;
  /**
   * Sends a code to the address of the account with this name. The same work, answer and time for a name that no account has. An
   * earlier code of this sign-in ends.
   * @param interaction the running sign-in.
   * @param login a username or an e-mail address, as typed.
   * @param isRecent whether a recent sign-in is asked for: then only an account without password and passkey gets a code.
   */
  start(
    interaction: string,
    login: string,
    isRecent: boolean,
    at: CodeAskedAt,
  ): Promise<{ readonly kind: "sent" } | Limited>;
  /**
   * Uses up a code. Takes points of the sign-in form.
   * @param interaction the sign-in that asked for it. @param login the name that it asked with. @param code as typed.
   * @returns with a right one the account, and the points to give back.
   */
  use(
    interaction: string,
    login: string,
    code: string,
    at: AskedAt,
  ): Promise<
    | { readonly kind: "right"; readonly record: AccountRecord; readonly attempt: Pick<Attempt, "succeed"> }
    | Unproven
    | Limited
  >;
}

/** The account that a code was sent to, and its state then. */
interface CodeFor {
  /** `null`: nobody can sign in with this code, because nobody got it. */
  readonly sub: string | null;
  readonly as: FactorState;
}

const PURPOSE = "sign-in";

/** Stands for the account of a name that no account has: it takes the same work. */
const NOBODY: FactorState = {
  email: "",
  password_generation: 0,
  sessions_generation: 0,
  factors_generation: 0,
};

export function createSignInCodes(services: PeopleServices): SignInCodes {
  const { accounts, audit, clock, confirmations, configuration, limits } = services;

  /** Whether the owner of the address may get a mail. Where a provider is the only way in, there is none, as at a reset. */
  const isReader = (account: AccountRecord): boolean =>
    !isDisabled(account) &&
    WAYS.email.ids(account).length > 0 &&
    onlyProvider(configuration, account) === undefined;

  const isFor = (account: AccountRecord): boolean =>
    !isOperator(configuration, account.sub) && isReader(account);

  /** Whether a code signs in to this account now. Who reads the mail of a moved account may have moved it. */
  function isEnough(account: AccountRecord, isRecent: boolean): boolean {
    const { address_undos = [] } = account;
    if (!isFor(account)) return false;
    if (!hasWay(account, outranksMail)) return true;
    return !isRecent && address_undos.every(({ expires_at }) => expires_at <= clock.now());
  }

  return {
    isFor,

    async start(interaction, login, isRecent, at) {
      const name = readName(login);
      const asked = await askedFor(services, name, at, { limit: "mail", purpose: PURPOSE });
      if (asked.kind === "limited") return asked;
      const { record } = asked;
      const found = record !== undefined && isReader(record) ? record : undefined;
      const sent = await asked.recipient(found === undefined ? name : normalName(found.email));
      const reader = sent.allowed ? found : undefined;
      const account = reader !== undefined && isEnough(reader, isRecent) ? reader : undefined;
      const { deployment, clientName, caller, userAgent } = at;
      const system = systemFamily(userAgent);
      const mail = mailWith(services, {
        kind: "sign-in-code",
        to: reader?.email ?? "",
        locale: reader?.locale ?? at.locale,
        deployment,
        clientName,
        lifetimeMs: SIGN_IN_CODE_LIFETIME_MS,
        params: {
          network: wideNetwork(at.address),
          ...(caller.browser !== undefined && caller.browser !== "other" && { browser: caller.browser }),
          ...(system !== undefined && { system }),
        },
      });
      await confirmations.issue<CodeFor>({
        purpose: PURPOSE,
        subject: interaction,
        extra: {
          sub: account?.sub ?? null,
          as: account === undefined ? NOBODY : factorStateOf(account),
        },
        // Without a link, which would sign in whatever browser opens it.
        mail: ({ code }) => mail({ code: account === undefined ? "" : code, link: "" }),
      });
      audit.note({ ...caller, action: "sign_in.code_requested", ...(record && { subject: record.sub }) });
      return { kind: "sent" };
    },

    async use(interaction, login, code, at) {
      const { address, device: deviceOf, caller } = at;
      const name = readName(login);
      let record = deviceOf && (await accounts.recordByName(name));
      // An unknown name costs the same comparisons.
      const own = deviceOf?.(record ?? { sub: randomUUID(), ways: {} });
      const attempt = await limits.signIn({ name, address, device: record && own, guessed: false });
      const limited = refusalOf(services, at, attempt, "sign_in");
      if (limited !== undefined) return limited;
      try {
        if (deviceOf === undefined) record = await accounts.recordByName(name);
        const result = await confirmations.prove<
          CodeFor,
          { readonly kind: "right"; readonly record: AccountRecord } | Unproven
        >(PURPOSE, { subject: interaction }, { code }, async (pending, tx) => {
          pending.remove();
          const { sub, as } = pending.extra;
          const current = sub === null ? undefined : await tx.get(ACCOUNT.ref(sub));
          // The configuration may have changed as well.
          const isStillRight = current !== undefined && isStill(current, as) && isEnough(current, false);
          return isStillRight ? { kind: "right", record: current } : { kind: "gone" };
        });
        if (result.kind === "right") return { ...result, attempt };
        audit.note({
          ...caller,
          action: "sign_in",
          ...(record && { subject: record.sub }),
          outcome: "failure",
          reason: "credentials",
          detail: { factor: "email" },
        });
        return result;
      } catch (fault) {
        await attempt.withdraw();
        throw fault;
      }
    },
  };
}
