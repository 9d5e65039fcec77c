/**
 * Registration: a person makes an account of their own. Until the address is confirmed there is no account, and nothing
 * is reserved: of several people who register one name, the first to confirm gets it.
 */
import { randomUUID } from "node:crypto";
import type { RegistrationSettings } from "../../config/pages.ts";
import { AlreadyExists, NameTaken } from "../../core/errors.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import type { Transaction } from "../../records/records.ts";
import type { ConfirmedAccount } from "../account.ts";
import type { NewPasskey, NewPassword } from "../factors/factor.ts";
import type { UpstreamIdentity } from "../../upstream/upstream.ts";
import { wideNetwork } from "../limits/networks.ts";
import { canonicalEmail, emailProblem, type NamedPerson, normalName } from "../names.ts";
import type { FieldRow } from "../profile-fields.ts";
import type { ConfirmationProof, FoundConfirmation, NewConfirmation, Unproven } from "./confirmations.ts";
import {
  createRegistrationRules,
  type FieldProblem,
  type RegistrationForm,
  type RegistrationProblems,
} from "./registration-form.ts";
import {
  type AskedAt,
  type AskedFor,
  askedFor,
  callerAs,
  type Limited,
  mailWith,
  type PeopleServices,
  refusalOf,
} from "./requests.ts";

type RegistrationStarted =
  /** Mail is on its way. If the address is known, the mail says so. */
  | { readonly kind: "sent" }
  /** The provider vouches for the address: there is no mail. */
  | Created
  | IdentityKnown
  /** The provider vouches for the address, and an account has it. */
  | { readonly kind: "address-known" }
  | {
      readonly kind: "invalid";
      readonly problems: RegistrationProblems;
    }
  /** The `check` of the configuration refuses. */
  | { readonly kind: "refused" }
  | Limited;

interface Created {
  readonly kind: "created";
  readonly record: AccountRecord;
  /** Came with the passkey, to be shown once; empty with a password or an identity. */
  readonly recoveryCodes: readonly string[];
  /** What the account signs in with, if that is an identity. */
  readonly identity?: UpstreamIdentity;
}

/** Somebody has registered with this identity in the meantime, or linked it: whoever has come back with it can sign in. */
interface IdentityKnown {
  readonly kind: "identity-known";
}

export type RegistrationConfirmed =
  | Created
  | IdentityKnown
  /** The address is confirmed. The account is made with its passkey: see {@link Registrations.complete}. */
  | {
      readonly kind: "passkey-needed";
      readonly owner: NamedPerson;
    }
  /** Somebody else has taken the username in the meantime. The address stays confirmed: see {@link Registrations.rename}. */
  | { readonly kind: "username-taken" }
  | Unproven;

/** Each call rejects with `StorageUnavailable` when the storage fails. */
export interface Registrations {
  /** The fields that the form asks for, and the terms to accept. */
  readonly settings: Pick<RegistrationSettings, "terms" | "passwordless"> & {
    readonly fields: readonly FieldRow[];
  };
  /**
   * Checks the form, and stores it for an hour with the mail to its address. An earlier registration of this
   * interaction ends. The same work, answer and time for a known and an unknown address, a free and a taken username. With the
   * very address that a provider vouches for, the account is made at once, and a taken username is a problem of the form.
   * @param interaction the id of the running sign-in.
   */
  start(interaction: string, form: RegistrationForm, at: AskedAt): Promise<RegistrationStarted>;
  /** Sends a new code and link to the same address. The earlier ones end. `gone`: there is nothing to confirm. */
  resend(
    interaction: string,
    at: AskedAt,
  ): Promise<{ readonly kind: "sent" } | { readonly kind: "gone" } | Limited>;
  /**
   * Creates the account, unless it needs a passkey. A link counts only for its own interaction: find it by
   * `Confirmations.findByLink`, and call this only in the browser that has its cookie. `limited`: as `rename`.
   */
  confirm(
    interaction: string,
    proof: ConfirmationProof,
    at: AskedAt,
  ): Promise<RegistrationConfirmed | Limited>;
  /**
   * Creates the account with another username, after `username-taken`. `null`: without one, if it is not required.
   * `invalid`: the username breaks a rule. `limited`: this registration has already learned of too many taken usernames.
   */
  rename(
    interaction: string,
    username: string | null,
    at: AskedAt,
  ): Promise<RegistrationConfirmed | Limited | { readonly kind: "invalid"; readonly problem: FieldProblem }>;
  /**
   * Creates the account with its passkey in one commit, after `passkey-needed`: no account is without both passkey and
   * password, unless codes by mail sign in. `passkey-taken`: the passkey belongs to an account.
   * @param passkey `null`: without one; `gone` where codes by mail are off.
   */
  complete(
    interaction: string,
    passkey: FirstPasskey | null,
    at: AskedAt,
  ): Promise<RegistrationConfirmed | Limited | { readonly kind: "passkey-taken" }>;
  /** The pending registration of this interaction, and whether its address is already confirmed. */
  pending(interaction: string): Promise<{ readonly email: string; readonly confirmed: boolean } | undefined>;
}

/** The passkey of a new account, which was tried. */
interface FirstPasskey {
  /** The identifier of the account. */
  readonly sub: string;
  readonly factor: NewPasskey;
}

/** The form as it is stored until the address is confirmed, and until there is a passkey. */
type PendingForm = Omit<RegistrationForm, "password" | "termsVersion" | "identity"> & {
  /** Left out: it is made when the address is confirmed. */
  readonly first?: NewPassword | NewIdentity;
  readonly terms_version?: string | undefined;
};

/** What the account signs in with. */
type First = NewPassword | NewPasskey | NewIdentity;

const GONE = { kind: "gone" } as const;

/** The identity of the new account, with everything that the provider said about the person. */
interface NewIdentity {
  readonly kind: "identity";
  readonly identity: UpstreamIdentity;
}

/** Whether the provider vouches for this very address. What the form says of it is never believed. */
function isVouched({ vouched, email }: UpstreamIdentity, entered: string): boolean {
  return (
    vouched && email !== undefined && emailProblem(email) === undefined && canonicalEmail(email) === entered
  );
}

function createdWith(
  registered: Pick<Created, "record" | "recoveryCodes">,
  first: First | undefined,
): Created {
  return { kind: "created", ...registered, ...(first?.kind === "identity" && { identity: first.identity }) };
}

const place = (interaction: string) => ({ purpose: "registration", interaction }) as const;

/** Ends a registration whose address somebody else has taken. */
function ended(pending: Pick<FoundConfirmation<PendingForm>, "remove">): typeof GONE {
  pending.remove();
  return GONE;
}

/** Keeps a registration whose username somebody else has taken: the person chooses another one. */
function awaitingUsername(pending: Pick<FoundConfirmation<PendingForm>, "keep">): {
  readonly kind: "username-taken";
} {
  pending.keep();
  return { kind: "username-taken" };
}

export function createRegistrations(services: PeopleServices, settings: RegistrationSettings): Registrations {
  const { configuration, storage, accounts, fields, confirmations, passwords, limits } = services;
  const { directory } = storage;
  const { terms, passwordless = false } = settings;
  const rules = createRegistrationRules(services, settings);

  /** Whether nobody can complete it any more, because registration without a password was turned off. */
  const cannotComplete = ({ first }: PendingForm): boolean => first === undefined && !passwordless;

  const isTaken = async (name: string): Promise<boolean> =>
    (await directory.findAccountByName(normalName(name))) !== undefined;

  /** The mail to the address. If it is known, the mail only says that an account exists. The work is the same. */
  async function mailTo(
    email: string,
    { deployment, locale: language, clientName }: AskedAt,
    { record: known, recipient }: AskedFor,
  ): Promise<NewConfirmation<PendingForm>["mail"]> {
    const { allowed: isFree } = await recipient(normalName(email));
    const kind = known === undefined ? "confirm-registration" : "known-address";
    const mail = mailWith(services, {
      kind,
      to: isFree ? email : "",
      locale: known?.locale ?? language,
      deployment,
      clientName,
    });
    // If the address is taken, nobody gets a code, not even its owner.
    return (secrets) => mail(known === undefined ? secrets : { code: "", link: "" });
  }

  /**
   * Creates the account, or says what is missing. Consumes a point before the username is looked up, and refunds it unless the
   * answer reveals that it is taken.
   */
  async function create(
    tx: Transaction,
    pending: FoundConfirmation<PendingForm>,
    form: PendingForm,
    at: AskedAt,
    passkey?: FirstPasskey | null,
  ): Promise<RegistrationConfirmed | Limited> {
    if (cannotComplete(form)) return GONE;
    const attempt = form.username === undefined ? undefined : await limits.usernameTaken(pending.subject);
    const limited = attempt && refusalOf(services, at, attempt);
    if (limited !== undefined) return limited;
    let revealed = false;
    try {
      const result = await tryToCreate(tx, pending, form, at, passkey);
      revealed = result.kind === "username-taken";
      return result;
    } finally {
      if (!revealed) await attempt?.withdraw();
    }
  }

  async function tryToCreate(
    tx: Transaction,
    pending: FoundConfirmation<PendingForm>,
    form: PendingForm,
    at: AskedAt,
    passkey: FirstPasskey | null | undefined,
  ): Promise<RegistrationConfirmed> {
    const { first } = form;
    if (first !== undefined) {
      // The person has gone back, and chosen a password.
      if (passkey !== undefined) return GONE;
      return stored(tx, pending, { ...form, first, sub: randomUUID() }, at);
    }
    if (passkey === null)
      return configuration.signIn.emailCode ? stored(tx, pending, { ...form, sub: randomUUID() }, at) : GONE;
    if (passkey !== undefined) {
      const { sub, factor } = passkey;
      return stored(tx, pending, { ...form, first: factor, sub }, at);
    }
    if (await isTaken(form.email)) return ended(pending);
    const { email, username = null } = form;
    if (username !== null && (await isTaken(username))) return awaitingUsername(pending);
    pending.keep(form);
    return { kind: "passkey-needed", owner: { email, ...fields.shown(form) } };
  }

  async function stored(
    tx: Transaction,
    pending: FoundConfirmation<PendingForm>,
    account: Omit<ConfirmedAccount, "first"> & { readonly first?: First },
    at: AskedAt,
  ): Promise<RegistrationConfirmed> {
    try {
      const registered = await accounts.register(tx, account, callerAs(account.sub, at));
      pending.remove();
      return createdWith(registered, account.first);
    } catch (error) {
      if (!(error instanceof NameTaken)) throw error;
    }
    return (await isTaken(account.email)) ? ended(pending) : awaitingUsername(pending);
  }

  /**
   * Registers somebody whose provider vouches for the address, without sending mail. The address is theirs, so the answer may reveal
   * that an account already has it.
   */
  async function startVouched(
    interaction: string,
    entered: RegistrationForm,
    identity: UpstreamIdentity,
    at: AskedAt,
  ): Promise<RegistrationStarted> {
    const { password: _none, identity: _same, termsVersion: terms_version, ...form } = entered;
    const limited = refusalOf(services, at, await limits.vouchedRegistration(at.address));
    if (limited !== undefined) return limited;
    if (!(await rules.isAllowed(entered, at))) return { kind: "refused" };
    const attempt = form.username === undefined ? undefined : await limits.usernameTaken(interaction);
    const tooMany = attempt && refusalOf(services, at, attempt);
    if (tooMany !== undefined) return tooMany;
    let revealed = false;
    try {
      const first = { kind: "identity", identity } as const;
      const account = { ...form, first, terms_version, sub: randomUUID() };
      const registered = await storage.records.transact((tx) =>
        accounts.register(tx, account, callerAs(account.sub, at)),
      );
      return createdWith(registered, first);
    } catch (error) {
      if (error instanceof AlreadyExists) return { kind: "identity-known" };
      if (!(error instanceof NameTaken)) throw error;
      if (await isTaken(form.email)) return { kind: "address-known" };
      revealed = true;
      return { kind: "invalid", problems: { username: "taken" } };
    } finally {
      if (!revealed) await attempt?.withdraw();
    }
  }

  return {
    settings: {
      fields: fields.registered,
      ...(terms && { terms }),
      ...(passwordless && { passwordless }),
    },

    async start(interaction, entered, at) {
      const typed = rules.asked(entered);
      const problems = rules.problems(typed);
      if (Object.keys(problems).length > 0) return { kind: "invalid", problems };
      const form = { ...typed, email: canonicalEmail(typed.email) };
      const { identity } = form;
      if (identity !== undefined && isVouched(identity, form.email))
        return startVouched(interaction, form, identity, at);
      const request = await askedFor(services, normalName(form.email), at, {
        limit: "registration",
        purpose: "registration",
      });
      if (request.kind === "limited") return request;
      if (!(await rules.isAllowed(form, at))) return { kind: "refused" };
      const { password, termsVersion, identity: _identity, ...rest } = form;
      const party = wideNetwork(at.address);
      let first: PendingForm["first"] = identity && { kind: "identity", identity };
      if (password !== null) {
        try {
          if (await passwords.isBreached(password, party)) {
            await request.notSent();
            return { kind: "invalid", problems: { password: "breached" } };
          }
          first = { kind: "password", hash: await passwords.hash(password, party) };
        } catch (fault) {
          await request.withdraw();
          throw fault;
        }
      }
      await confirmations.issue<PendingForm>({
        purpose: "registration",
        subject: interaction,
        interaction,
        extra: { ...rest, ...(first && { first }), terms_version: termsVersion },
        mail: await mailTo(form.email, at, request),
      });
      return { kind: "sent" };
    },

    async resend(interaction, at) {
      const first = await confirmations.find<PendingForm>(place(interaction));
      if (first === undefined || first.confirmed || cannotComplete(first.extra)) return GONE;
      const { email } = first.extra;
      const request = await askedFor(services, normalName(email), at, {
        limit: "mail",
        purpose: "registration",
      });
      if (request.kind === "limited") return request;
      const mail = await mailTo(email, at, request);
      return (await confirmations.renew(place(interaction), mail)) ? { kind: "sent" } : { kind: "gone" };
    },

    async confirm(interaction, proof, at) {
      try {
        return await confirmations.prove<PendingForm, RegistrationConfirmed | Limited>(
          "registration",
          { interaction },
          proof,
          (pending, tx) => create(tx, pending, pending.extra, at),
        );
      } catch (error) {
        // There is no passkey yet.
        if (error instanceof AlreadyExists) return { kind: "identity-known" };
        throw error;
      }
    },

    async rename(interaction, username, at) {
      const row = fields.rows.find(({ name }) => name === "username");
      const problem = row && rules.fieldProblem(row, username);
      if (problem !== undefined) return { kind: "invalid", problem };
      return confirmations.change<PendingForm, RegistrationConfirmed | Limited>(
        place(interaction),
        (pending, tx) =>
          pending?.confirmed === true
            ? create(tx, pending, { ...pending.extra, username: username ?? undefined }, at)
            : GONE,
      );
    },

    async complete(interaction, passkey, at) {
      try {
        return await confirmations.change<PendingForm, RegistrationConfirmed | Limited>(
          place(interaction),
          (pending, tx) =>
            pending?.confirmed === true ? create(tx, pending, pending.extra, at, passkey) : GONE,
        );
      } catch (error) {
        if (error instanceof AlreadyExists) return { kind: "passkey-taken" };
        throw error;
      }
    },

    async pending(interaction) {
      const found = await confirmations.find<PendingForm>(place(interaction));
      return found && { email: found.extra.email, confirmed: found.confirmed };
    },
  };
}
