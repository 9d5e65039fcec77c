/** What the calls about accounts accept. */
import { z } from "zod";
import type { AccountChanges, AccountPage, ImportedAccount, NewAccount } from "./account.ts";
import { exactly, flag, integer, mapOf, ruled } from "./arguments.ts";
import { readForeignHash } from "./password-formats.ts";
import {
  clientIdProblem,
  dateProblem,
  emailProblem,
  keyProblem,
  subProblem,
  textProblem,
  usernameProblem,
} from "./text-rules.ts";

const text = ruled(textProblem).nullish();

const fields = {
  username: ruled(usernameProblem).nullish(),
  name: text,
  surname: text,
  date_of_birth: ruled(dateProblem).nullish(),
  gender: text,
  portal: ruled(keyProblem).nullish(),
  email_verified: flag().optional(),
};

const newFields = {
  ...fields,
  email: ruled(emailProblem),
  // Its rules are the configuration's: `passwords.check` holds them.
  password: z.string({ error: "must be a string" }).nullish(),
};

/** Key of a service. */
export const serviceKey: z.ZodType<string> = ruled(keyProblem);

/** One key of a service, or several. */
export const serviceKeys: z.ZodType<readonly string[]> = z
  .union([serviceKey.transform((key) => [key]), z.array(serviceKey)], {
    error: "must be a service key or a list of them",
  })
  .transform((keys) => [...new Set(keys)]);

/** `user_id_in_service`: a safe integer, or `null` while the service has not told it. */
export const userIdInService: z.ZodType<number | null> = z.union(
  [z.null(), integer(Number.MIN_SAFE_INTEGER)],
  { error: "must be a safe integer or null" },
);

/** A `sub` in a question: any string, for an unknown one is no error. */
export const anyString: z.ZodType<string> = z.string({ error: "must be a string" });

/** `client_id`. */
export const clientId: z.ZodType<string> = ruled(clientIdProblem);

/** Argument of `create`. */
export const newAccount: z.ZodType<NewAccount> = exactly(newFields);

/** Argument of `update`. */
export const accountChanges: z.ZodType<AccountChanges> = exactly({
  ...fields,
  email: ruled(emailProblem).optional(),
});

/** Argument of `import`. */
export const importedAccount: z.ZodType<ImportedAccount> = exactly({
  ...newFields,
  sub: ruled(subProblem).optional(),
  user_id: integer(1).optional(),
  password_hash: ruled((hash) =>
    readForeignHash(hash) === undefined
      ? "must be an Argon2, bcrypt, scrypt or PBKDF2 hash of a cost that this service can bear"
      : undefined,
  ).nullish(),
  services: mapOf(serviceKey, userIdInService).optional(),
}).superRefine((account, context) => {
  if (typeof account.password !== "string" || typeof account.password_hash !== "string") return;
  context.addIssue({ code: "custom", path: ["password_hash"], message: "must not be given beside password" });
});

/** Argument of `list`. */
export const accountPage: z.ZodType<AccountPage> = exactly({
  after: anyString.optional(),
  limit: integer(1, 1000).optional(),
});
