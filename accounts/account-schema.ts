/** The arguments of the calls for accounts. The comment of a key is its documentation, in editors and in `docs/`. */
import { z } from "zod";
import { described } from "../config/documented-schema.ts";
import { anyString, exactly, flag, integer, mapOf, ruled, whenValid } from "./arguments.ts";
import type { AttributeValue } from "../records/directory/directory.ts";
import { HASH_PROBLEM, readForeignHash } from "./passwords/password-formats.ts";
import { roleNames } from "./roles.ts";
import { appSecret } from "./factors/factor.ts";
import { canonicalEmail, emailProblem } from "./names.ts";
import {
  type FieldArguments,
  PERSON_FIELD_NAMES,
  PERSON_FIELDS,
  type PersonField,
} from "./profile-fields.ts";
import { clientIdProblem, isClientId, keyFormProblem, keyProblem, subProblem } from "./text-rules.ts";

export const attributeValue: z.ZodType<AttributeValue, AttributeValue> = z.union(
  [z.string(), z.number(), z.boolean(), z.record(z.string(), z.string())],
  { error: "must be a text, a number, true, false, or an object of texts" },
);

const fields = {
  ...(Object.fromEntries(
    PERSON_FIELD_NAMES.map((name) => {
      const { problem, form } = PERSON_FIELDS[name];
      return [name, described(ruled((value) => problem(value)).nullish(), { form })] as const;
    }),
  ) as Readonly<Record<PersonField, z.ZodOptional<z.ZodNullable<z.ZodString>>>>),
  /**
   * Values of the attributes that the service has besides these: name → value, or `null` for none. Those that are left out stay as they
   * are. Default: none.
   */
  attributes: described(mapOf(anyString, attributeValue.nullable()).meta({ option: "changes" }).optional(), {
    form: "an object: name of an attribute → value or `null`",
  }),
  /** Whether the address is confirmed to be the person's. Default: `false`. */
  email_verified: flag().optional(),
};

const email = described(ruled(emailProblem).transform(canonicalEmail), {
  form: "an e-mail address of at most 254 characters, at most 64 of them before the `@`",
});

const newFields = {
  /**
   * Also a name to sign in with; unique among usernames and e-mail addresses, regardless of case. Its domain is stored as A-labels
   * in lower case.
   */
  email,
  ...fields,
  /** The first password; its rules are `passwords` of the configuration. Default: none: the person can't sign in with one. */
  password: described(z.string({ error: "must be a string" }).nullish(), {
    form: "a text that `passwords` allows",
    holds: "secret",
  }),
  /**
   * An authenticator app that the person has set up in another system. The account then has no recovery codes until the person,
   * or `resetRecoveryCodes`, makes some. Default: none.
   */
  app: appSecret.optional(),
};

/** Key of a service. */
export const serviceKey = ruled(keyProblem);

/**
 * Key of an assignment to remove. It may be a name that is no longer allowed, so that old assignments can be removed.
 */
const storedServiceKey = ruled(keyFormProblem);

/** One or more keys of services to unassign from. */
export const serviceKeys = z
  .union([storedServiceKey.transform((key) => [key]), z.array(storedServiceKey)], {
    error: "must be a service key or a list of them",
  })
  .transform((keys) => [...new Set(keys)])
  .meta({ option: "list" });

/** `user_id`. */
export const userId = integer(1);

/** `user_id_in_service`: a safe integer, or `null` until the service reports it. */
export const userIdInService = z.union([z.null(), integer(Number.MIN_SAFE_INTEGER)], {
  error: "must be a safe integer or null",
});

/** `client_id`. */
export const clientId = ruled(clientIdProblem);

/** `client_id`, also of a client that nobody has registered. */
export const anyClientId = ruled((client) =>
  isClientId(client) ? undefined : `${clientIdProblem(client)}, or the address of a document`,
);

export const newAccount = exactly(newFields);

/** The argument of `accounts.create`. A field that is left out, or `null`, has no value. */
export interface NewAccount extends FieldArguments, Readonly<z.input<typeof newAccount>> {}

export const accountChanges = exactly({
  ...fields,
  /**
   * A new address is unverified unless the same call sets `email_verified`. An account that has passkeys and no password
   * always has a confirmed address, so there the call must set it to `true`.
   */
  email: email.optional(),
});

/** The argument of `accounts.update`. Only the given fields change; `null` removes a value. */
export interface AccountChanges extends FieldArguments, Readonly<z.input<typeof accountChanges>> {}

/** The members of an account of another system. */
export const importedFields = {
  ...newFields,
  /** The password of an account from another system, in place of `password`. Default: none. */
  password_hash: described(
    ruled((hash) => (readForeignHash(hash) === undefined ? HASH_PROBLEM : undefined)).nullish(),
    { form: HASH_PROBLEM.replace("must be ", "") },
  ),
  /** Identifier of the account, a UUID. Default: a new one. */
  sub: described(ruled(subProblem).optional(), { form: "a UUID in lower case" }),
  /** Number of the account; the counter continues after it. Default: the next one. */
  user_id: described(userId.optional(), { form: "a positive integer that no account has" }),
  /** The services that the account is assigned to, with its number there: service key → `user_id_in_service`. Default: none. */
  services: described(mapOf(serviceKey, userIdInService).optional(), {
    form: "an object: key of a service → a whole number or `null`",
  }),
  /** The roles of the account in its services: service key → names that the service has. Default: none. */
  roles: described(mapOf(serviceKey, roleNames).optional(), {
    form: "an object: key of a service in `services` → a list of roles that the service has",
  }),
};

/** The rules that span several of them. */
export function checkImported(
  account: Readonly<z.output<z.ZodObject<typeof importedFields>>>,
  context: z.RefinementCtx,
): void {
  for (const key of Object.keys(account.roles ?? {})) {
    if (Object.hasOwn(account.services ?? {}, key)) continue;
    context.addIssue({ code: "custom", path: ["roles", key], message: "must be a service in services" });
  }
  if (typeof account.password !== "string" || typeof account.password_hash !== "string") return;
  context.addIssue({
    code: "custom",
    path: ["password_hash"],
    message: "must not be given together with password",
  });
}

/** When they are checked. */
export const WHEN_CHECKED: ReturnType<typeof whenValid> = whenValid(
  "password",
  "password_hash",
  "roles",
  "services",
);

const { email_verified: _confirmedByTheLink, ...invitedFields } = fields;

const invited = exactly({
  /** Where the invitation goes. It becomes the confirmed address of the account. */
  email,
  ...invitedFields,
  /** Keys of the services that the account is assigned to. Default: none. */
  services: z.array(serviceKey, { error: "must be a list of service keys" }).readonly().optional(),
  /** The roles of the account in these services: service key → names that the service has. Default: none. */
  roles: described(mapOf(serviceKey, roleNames).meta({ option: "lists" }).optional(), {
    form: "an object: key of a service in `services` → a list of roles that the service has",
  }),
}).superRefine(
  ({ services = [], roles = {} }, context) => {
    for (const key of Object.keys(roles).filter((each) => !services.includes(each)))
      context.addIssue({ code: "custom", path: ["roles", key], message: "must be a service in services" });
  },
  whenValid("roles", "services"),
);

/** The argument of `accounts.invite`: whom, and what the account has from the beginning. */
export interface NewInvitation extends FieldArguments, Readonly<z.input<typeof invited>> {}
export const newInvitation: z.ZodType<NewInvitation, NewInvitation> = invited;

/** An account of another system, with its identifiers. */
export interface ImportedAccount
  extends FieldArguments, Readonly<z.input<z.ZodObject<typeof importedFields>>> {}
export const importedAccount: z.ZodType<ImportedAccount, ImportedAccount> = exactly(
  importedFields,
).superRefine(checkImported, WHEN_CHECKED);

/** The argument of `accounts.import`: such an account, and whether it is announced. */
export interface ImportArguments extends ImportedAccount {
  /** Whether `account.created` is sent to systems of your own. Default: `false`. */
  readonly notify?: boolean | undefined;
}
export const importArguments: z.ZodType<ImportArguments, ImportArguments> = exactly({
  ...importedFields,
  notify: flag().optional(),
}).superRefine(checkImported, WHEN_CHECKED);
