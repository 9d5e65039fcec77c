/** The arguments of the calls for accounts, with the descriptions that the documentation prints. */
import { z } from "zod";
import { described } from "../config/documented-schema.ts";
import type { AccountChanges, AccountPage, ImportedAccount, NewAccount } from "./account.ts";
import { anyString, exactly, flag, integer, mapOf, ruled, whenValid } from "./arguments.ts";
import { readForeignHash } from "./passwords/password-formats.ts";
import { roleNames } from "./roles.ts";
import { appSecret } from "./factors/factor.ts";
import { canonicalEmail, emailProblem, personNameProblem, trimmed, usernameProblem } from "./names.ts";
import {
  birthDateProblem,
  clientIdProblem,
  keyFormProblem,
  keyProblem,
  localeProblem,
  subProblem,
  textProblem,
} from "./text-rules.ts";

/** What a person is called. */
function personName(description: string): z.ZodOptional<z.ZodNullable<z.ZodType<string>>> {
  return described(ruled(personNameProblem).transform(trimmed).nullish(), {
    form: "a text of 1 to 100 characters; white space at both ends is removed",
    description,
    otherwise: "none",
  });
}

const fields = {
  username: described(ruled(usernameProblem).nullish(), {
    form: "1 to 64 characters without `@`",
    description: "A name to sign in with; unique among usernames and e-mail addresses, regardless of case",
    otherwise: "none: the e-mail address is the only one",
  }),
  name: personName("Given name"),
  surname: personName("Family name"),
  date_of_birth: described(ruled(birthDateProblem).nullish(), {
    form: "a real date, `YYYY-MM-DD`, not before 1850 and not in the future",
    description: "Date of birth",
    otherwise: "none",
  }),
  gender: described(ruled(textProblem).nullish(), {
    form: "a text of 1 to 256 characters",
    description: "Gender",
    otherwise: "none",
  }),
  locale: described(ruled(localeProblem).nullish(), {
    form: "a language tag (BCP 47) of at most 35 characters, such as `pl`",
    description: "The language of pages and mail",
    otherwise: "none: that of the browser; for mail, the first of `interactions.locales`",
  }),
  portal: described(ruled(keyProblem).nullish(), {
    form: "the key of a portal",
    description: "The portal that the account belongs to",
    otherwise: "none",
  }),
  email_verified: described(flag().optional(), {
    form: "`true` or `false`",
    description: "Whether the address is confirmed to be the person's",
    otherwise: "`false`",
  }),
};

const email = described(ruled(emailProblem).transform(canonicalEmail), {
  form: "an e-mail address of at most 254 characters, at most 64 of them before the `@`",
  description:
    "Also a name to sign in with; unique among usernames and e-mail addresses, regardless of case. Its domain is stored as A-labels in lower case",
  otherwise: "required",
});

const newFields = {
  email,
  ...fields,
  // Its rules are in `passwords`: see `password-rules.ts`.
  password: described(z.string({ error: "must be a string" }).nullish(), {
    form: "a text that `passwords` allows",
    description: "The first password",
    otherwise: "none: the person can't sign in with one",
  }),
  app: appSecret.optional(),
};

/** Key of a service. */
export const serviceKey: z.ZodType<string> = ruled(keyProblem);

/**
 * Key of an assignment to remove. It may be a name that is no longer allowed, so that old assignments can be removed.
 */
const storedServiceKey = ruled(keyFormProblem);

/** One or more keys of services to unassign from. */
export const serviceKeys: z.ZodType<readonly string[]> = z
  .union([storedServiceKey.transform((key) => [key]), z.array(storedServiceKey)], {
    error: "must be a service key or a list of them",
  })
  .transform((keys) => [...new Set(keys)]);

/** `user_id_in_service`: a safe integer, or `null` until the service reports it. */
export const userIdInService: z.ZodType<number | null> = z.union(
  [z.null(), integer(Number.MIN_SAFE_INTEGER)],
  { error: "must be a safe integer or null" },
);

/** `client_id`. */
export const clientId: z.ZodType<string> = ruled(clientIdProblem);

/** Argument of `create`. */
export const newAccount: z.ZodType<NewAccount> = exactly(newFields);

/** Argument of `update`. */
export const accountChanges: z.ZodType<AccountChanges> = exactly({
  ...fields,
  email: email.optional(),
});

/** Argument of `import`. */
export const importedAccount: z.ZodType<ImportedAccount> = exactly({
  ...newFields,
  password_hash: described(
    ruled((hash) =>
      readForeignHash(hash) === undefined
        ? "must be an Argon2, bcrypt, scrypt or PBKDF2 hash of a cost that this service accepts"
        : undefined,
    ).nullish(),
    {
      form: "an Argon2, bcrypt, scrypt or PBKDF2 hash of a cost that this service accepts",
      description: "The password of an account from another system, in place of `password`",
      otherwise: "none",
    },
  ),
  sub: described(ruled(subProblem).optional(), {
    form: "a UUID in lower case",
    description: "Identifier of the account",
    otherwise: "a new one",
  }),
  user_id: described(integer(1).optional(), {
    form: "a positive integer that no account has",
    description: "Number of the account; the counter continues after it",
    otherwise: "the next one",
  }),
  services: described(mapOf(serviceKey, userIdInService).optional(), {
    form: "an object: key of a service → a whole number or `null`",
    description: "The services that the account is assigned to, with its number there",
    otherwise: "none",
  }),
  roles: described(mapOf(serviceKey, roleNames).optional(), {
    form: "an object: key of a service in `services` → a list of roles that the service has",
    description: "The roles of the account in its services",
    otherwise: "none",
  }),
}).superRefine(
  (account, context) => {
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
  },
  whenValid("password", "password_hash", "roles", "services"),
);

/** Argument of `list`. */
export const accountPage: z.ZodType<AccountPage> = exactly({
  after: anyString.optional(),
  limit: integer(1, 1000).optional(),
});
