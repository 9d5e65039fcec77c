/** The form of a registration: which of its fields count, what is wrong with them, and the `check` of the configuration. */
import type { Configuration } from "../../config/configuration.ts";
import type { RegistrationRequest, RegistrationSettings } from "../../config/pages.ts";
import type { Clock } from "../../core/clock.ts";
import { StorageUnavailable } from "../../core/errors.ts";
import { withTimeout } from "../../core/with-timeout.ts";
import type { AttributeValue } from "../../records/directory/directory.ts";
import { passwordNames } from "../account-ownership.ts";
import type { UpstreamIdentity } from "../../upstream/upstream.ts";
import { isInDomains } from "../identities/linking.ts";
import { canonicalEmail, domainOf, enteredEmailProblem } from "../names.ts";
import { dotlessDomains } from "../providers.ts";
import type { PasswordProblem } from "../passwords/password-rules.ts";
import type { Passwords } from "../passwords/passwords.ts";
import {
  type EnteredProblem,
  enteredProblem,
  type FieldRow,
  type FieldValues,
  givenValue,
  holding,
  type PersonFields,
} from "../profile-fields.ts";
import type { AskedAt } from "./requests.ts";

/** The form as the person entered it. */
export interface RegistrationForm extends FieldValues {
  readonly email: string;
  /** `null`: the account gets a passkey instead or, where codes by mail sign in, nothing but its address; or it has the identity. */
  readonly password: string | null;
  /** Who came back from a provider: the account signs in with it, and has no password. */
  readonly identity?: UpstreamIdentity | undefined;
  /** The version of the terms that the person accepted. */
  readonly termsVersion?: string | undefined;
  /** The language of the page: becomes that of the account. */
  readonly locale?: string | undefined;
}

/**
 * What is wrong with a field. `invalid`: its form; `domain`: addresses of this domain can't register; `terms`: they are
 * not accepted, or have changed; `reserved`: nobody may choose this username; `taken`: somebody has it. The others are the rules
 * for passwords.
 */
export type FieldProblem = EnteredProblem | "required" | "domain" | "terms" | "taken" | PasswordProblem;

/** By the name of the field: `email`, `password`, `termsVersion`, or one that the form asks for. */
export type RegistrationProblems = Readonly<Record<string, FieldProblem>>;

/** What the registrations ask of their form. */
export interface RegistrationRules {
  /** The fields that were asked for. Empty ones count as left out, and others are dropped. */
  asked(form: RegistrationForm): RegistrationForm;
  problems(form: RegistrationForm): RegistrationProblems;
  /** What is wrong with one value. @param isTooLarge whether all attributes together are, so that each has to be shorter. */
  fieldProblem(row: FieldRow, value: AttributeValue | null, isTooLarge?: boolean): FieldProblem | undefined;
  /** Whether the `check` of the configuration lets the form through. @throws StorageUnavailable without an answer. */
  isAllowed(form: RegistrationForm, at: AskedAt): Promise<boolean>;
}

/** For the `check` of the configuration. */
const CHECK_TIMEOUT_MS = 3_000;

export function createRegistrationRules(
  {
    fields,
    passwords,
    clock,
    configuration,
  }: {
    readonly fields: PersonFields;
    readonly passwords: Pick<Passwords, "problem">;
    readonly clock: Clock;
    readonly configuration: Pick<Configuration, "interactions" | "providers">;
  },
  settings: RegistrationSettings,
): RegistrationRules {
  const { terms, domains, passwordless = false } = settings;
  const dotless = dotlessDomains(configuration);

  function asked(form: RegistrationForm): RegistrationForm {
    const filled = fields.registered.flatMap((row) => {
      const value = givenValue(row, form) ?? "";
      return value === "" ? [] : [[row, value] as const];
    });
    return {
      email: form.email,
      password: form.identity === undefined ? form.password : null,
      ...(form.identity && { identity: form.identity }),
      ...holding(filled),
      ...(terms === undefined ? {} : { termsVersion: form.termsVersion }),
      ...(form.locale === undefined ? {} : { locale: form.locale }),
    };
  }

  function emailFault({ email, identity }: RegistrationForm): FieldProblem | undefined {
    if (email === "") return "required";
    if (enteredEmailProblem(email, dotless) !== undefined) return "invalid";
    // The people of such a domain register with its provider, and only they.
    if (!isInDomains(configuration.providers, identity?.provider, email)) return "domain";
    return domains === undefined || domains.includes(domainOf(canonicalEmail(email))) ? undefined : "domain";
  }

  function fieldProblem(
    row: FieldRow,
    value: AttributeValue | null,
    isTooLarge = false,
  ): FieldProblem | undefined {
    if (value === null) return row.registration === "required" ? "required" : undefined;
    return isTooLarge && row.isAttribute ? "invalid" : enteredProblem(row, value, clock);
  }

  function passwordFault(form: RegistrationForm): FieldProblem | undefined {
    const { password, identity } = form;
    if (password === null && (passwordless || identity !== undefined)) return undefined;
    return password === null || password === ""
      ? "required"
      : passwords.problem(password, passwordNames(form));
  }

  function problems(form: RegistrationForm): RegistrationProblems {
    const isTooLarge = fields.isTooLarge(form);
    const found: (readonly [string, FieldProblem | undefined])[] = [
      ["email", emailFault(form)],
      ["password", passwordFault(form)],
      ...fields.registered.map(
        (row) => [row.name, fieldProblem(row, givenValue(row, form), isTooLarge)] as const,
      ),
      ["termsVersion", form.termsVersion === terms?.version ? undefined : "terms"],
    ];
    return Object.fromEntries(
      found.flatMap(([field, problem]) => (problem === undefined ? [] : [[field, problem]])),
    );
  }

  async function isAllowed(
    { password: _password, termsVersion: _terms, identity: _identity, ...entered }: RegistrationForm,
    at: AskedAt,
  ) {
    if (settings.check === undefined) return true;
    const { client } = at.caller;
    const request = {
      ...entered,
      ...(client === undefined ? {} : { client_id: client.client_id }),
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

  return { asked, problems, fieldProblem, isAllowed };
}
