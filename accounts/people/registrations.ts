/**
 * Registration: a person makes an account of their own. Until the address is confirmed there is no account, and nothing
 * is reserved: of several people who register one name, the first to confirm gets it.
 */
import { randomUUID } from "node:crypto";
import type { AccountRecord, AttributeValue } from "../../records/directory/directory.ts";
import type { Transaction } from "../../records/records.ts";
import { canonicalEmail, domainOf, enteredEmailProblem, type NamedPerson, normalName } from "../names.ts";
import { dotlessDomains, providerForDomain } from "../providers.ts";
import {
  type EnteredProblem,
  enteredProblem,
  type FieldRow,
  type FieldValues,
  holding,
  givenValue,
} from "../profile-fields.ts";
import { passwordNames } from "../accounts.ts";
import type { NewPasskey, NewPassword } from "../factors/factor.ts";
import type { PasswordProblem } from "../passwords/password-rules.ts";
import type { ConfirmedAccount } from "../account.ts";
import { AlreadyExists, NameTaken, StorageUnavailable } from "../../core/errors.ts";
import { wideNetwork } from "../limits/networks.ts";
import type { ConfirmationProof, FoundConfirmation, NewConfirmation, Unproven } from "./confirmations.ts";
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
import type { RegistrationRequest, RegistrationSettings } from "../../config/pages.ts";
import { withTimeout } from "../../core/with-timeout.ts";

/** The form as the person entered it. */
export interface RegistrationForm extends FieldValues {
  readonly email: string;
  /** `null`: the account gets a passkey instead, or, where codes by mail sign in, nothing but its address. */
  readonly password: string | null;
  /** The version of the terms that the person accepted. */
  readonly termsVersion?: string | undefined;
  /** The language of the page: becomes that of the account. */
  readonly locale?: string | undefined;
}

/**
 * What is wrong with a field. `invalid`: its form; `domain`: addresses of this domain can't register; `terms`: they are
 * not accepted, or have changed; `reserved`: nobody may choose this username. The others are the rules for passwords.
 */
type FieldProblem = EnteredProblem | "required" | "domain" | "terms" | PasswordProblem;

/** By the name of the field: `email`, `password`, `termsVersion`, or one that the form asks for. */
type RegistrationProblems = Readonly<Record<string, FieldProblem>>;

type RegistrationStarted =
  /** Mail is on its way. If the address is known, the mail says so. */
  | { readonly kind: "sent" }
  | {
      readonly kind: "invalid";
      readonly problems: RegistrationProblems;
    }
  /** The `check` of the configuration refuses. */
  | { readonly kind: "refused" }
  | Limited;

export type RegistrationConfirmed =
  | {
      readonly kind: "created";
      readonly record: AccountRecord;
      /** Came with the passkey, to be shown once; empty with a password. */
      readonly recoveryCodes: readonly string[];
    }
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
   * interaction ends. The same work, answer and time for a known and an unknown address, a free and a taken username.
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
type PendingForm = Omit<RegistrationForm, "password" | "termsVersion"> & {
  /** Left out: it is made when the address is confirmed. */
  readonly first?: NewPassword;
  readonly terms_version?: string | undefined;
};

/** For the `check` of the configuration. */
const CHECK_TIMEOUT_MS = 3_000;

const GONE = { kind: "gone" } as const;

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
  const { configuration, storage, accounts, fields, confirmations, passwords, limits, clock } = services;
  const { directory } = storage;
  const { terms, domains, passwordless = false } = settings;
  const dotless = dotlessDomains(configuration);

  /** Whether nobody can complete it any more, because registration without a password was turned off. */
  const cannotComplete = ({ first }: PendingForm): boolean => first === undefined && !passwordless;

  const isTaken = async (name: string): Promise<boolean> =>
    (await directory.findAccountByName(normalName(name))) !== undefined;

  /** The fields that were asked for. Empty ones count as left out, and others are dropped. */
  function asked(form: RegistrationForm): RegistrationForm {
    const filled = fields.registered.flatMap((row) => {
      const value = givenValue(row, form) ?? "";
      return value === "" ? [] : [[row, value] as const];
    });
    return {
      email: form.email,
      password: form.password,
      ...holding(filled),
      ...(terms === undefined ? {} : { termsVersion: form.termsVersion }),
      ...(form.locale === undefined ? {} : { locale: form.locale }),
    };
  }

  function emailFault(email: string): FieldProblem | undefined {
    if (email === "") return "required";
    if (enteredEmailProblem(email, dotless) !== undefined) return "invalid";
    // Its people register with their provider.
    if (providerForDomain(configuration.providers, email)?.only === true) return "domain";
    return domains === undefined || domains.includes(domainOf(canonicalEmail(email))) ? undefined : "domain";
  }

  /** @param isTooLarge whether all attributes together are, so that each of them has to be shorter. */
  function extraFault(
    row: FieldRow,
    value: AttributeValue | null,
    isTooLarge: boolean,
  ): FieldProblem | undefined {
    if (value === null) return row.registration === "required" ? "required" : undefined;
    return isTooLarge && row.isAttribute ? "invalid" : enteredProblem(row, value, clock);
  }

  function passwordFault(form: RegistrationForm): FieldProblem | undefined {
    const { password } = form;
    if (password === null && passwordless) return undefined;
    return password === null || password === ""
      ? "required"
      : passwords.problem(password, passwordNames(form));
  }

  function problemsOf(form: RegistrationForm): RegistrationProblems {
    const isTooLarge = fields.isTooLarge(form);
    const found: (readonly [string, FieldProblem | undefined])[] = [
      ["email", emailFault(form.email)],
      ["password", passwordFault(form)],
      ...fields.registered.map(
        (row) => [row.name, extraFault(row, givenValue(row, form), isTooLarge)] as const,
      ),
      ["termsVersion", form.termsVersion === terms?.version ? undefined : "terms"],
    ];
    return Object.fromEntries(
      found.flatMap(([field, problem]) => (problem === undefined ? [] : [[field, problem]])),
    );
  }

  /** Whether the `check` of the configuration lets the form through. */
  async function isAllowed(
    { password: _password, termsVersion: _terms, ...entered }: RegistrationForm,
    at: AskedAt,
  ) {
    if (settings.check === undefined) return true;
    const { client } = at.caller;
    const request = {
      ...entered,
      ...(client === undefined ? {} : { client_id: client }),
      address: at.address,
    };
    const { check } = settings;
    try {
      const answer = (async () => check(request as RegistrationRequest))();
      return await withTimeout(CHECK_TIMEOUT_MS, answer, () => new Error("no answer"));
    } catch (cause) {
      throw new StorageUnavailable("the check of registrations failed", { cause });
    }
  }

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
    account: ConfirmedAccount,
    at: AskedAt,
  ): Promise<RegistrationConfirmed> {
    try {
      const registered = await accounts.register(tx, account, callerAs(account.sub, at));
      pending.remove();
      return { kind: "created", ...registered };
    } catch (error) {
      if (!(error instanceof NameTaken)) throw error;
    }
    return (await isTaken(account.email)) ? ended(pending) : awaitingUsername(pending);
  }

  return {
    settings: {
      fields: fields.registered,
      ...(terms && { terms }),
      ...(passwordless && { passwordless }),
    },

    async start(interaction, entered, at) {
      const typed = asked(entered);
      const problems = problemsOf(typed);
      if (Object.keys(problems).length > 0) return { kind: "invalid", problems };
      const form = { ...typed, email: canonicalEmail(typed.email) };
      const request = await askedFor(services, normalName(form.email), at, {
        limit: "registration",
        purpose: "registration",
      });
      if (request.kind === "limited") return request;
      if (!(await isAllowed(form, at))) return { kind: "refused" };
      const { password, termsVersion, ...rest } = form;
      const party = wideNetwork(at.address);
      let first: NewPassword | undefined;
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

    confirm: (interaction, proof, at) =>
      confirmations.prove<PendingForm, RegistrationConfirmed | Limited>(
        "registration",
        { interaction },
        proof,
        (pending, tx) => create(tx, pending, pending.extra, at),
      ),

    async rename(interaction, username, at) {
      const row = fields.rows.find(({ name }) => name === "username");
      const problem = row && extraFault(row, username, false);
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
