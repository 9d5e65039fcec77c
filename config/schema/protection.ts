/** `passwords`, `rateLimits` and `audit`. */
import { z } from "zod";
import type { Configuration, PasswordRules, RateLimit, RateLimits } from "../configuration.ts";
import { defaults } from "../defaults.ts";
import type { AuditInput, PasswordsInput, RateLimitsInput } from "../input.ts";
import { duration, section, whole, writtenAs, type Written } from "./parts.ts";

const { audit, passwords, rateLimits } = defaults;

/** `passwords`. */
export const passwordsSchema: z.ZodType<PasswordRules, Written<PasswordsInput>> = writtenAs<PasswordsInput>()(
  z.strictObject({
    memory: whole([7168, 4_194_304], passwords.memory, "Argon2id: memory in KiB"),
    passes: whole(
      [1, 100],
      passwords.passes,
      "Argon2id: passes. With the memory at least as costly as OWASP asks: 47104 KiB and 1 pass, 19456 and 2, 12288 and 3, 9216 and 4, or 7168 and 5",
    ),
    lanes: whole([1, 64], passwords.lanes, "Argon2id: lanes"),
    minLength: whole([8, 64], passwords.minLength, "Characters of a password at least"),
    maxLength: whole([64, 1024], passwords.maxLength, "Characters of a password at most"),
    parallel: whole(
      [1, 64],
      passwords.parallel,
      "Hashes computed at once in a process, each in a thread of its own; the others wait",
    ),
  }),
);

const limit = (byDefault: RateLimit, what: string) =>
  section(
    z
      .strictObject({
        points: whole([1, 1_000_000_000], byDefault.points, `${what}: how many in a window`),
        seconds: duration(byDefault.seconds, `${what}: seconds of the window`),
      })
      .prefault({}),
    what,
  );

/** `rateLimits`. */
export const rateLimitsSchema: z.ZodType<RateLimits, Written<RateLimitsInput>> = writtenAs<RateLimitsInput>()(
  z.strictObject({
    signIn: section(
      z
        .strictObject({
          accountAndAddress: limit(
            rateLimits.signIn.accountAndAddress,
            "Failed sign-ins with one name from one address",
          ),
          account: limit(rateLimits.signIn.account, "Failed sign-ins with one name"),
          address: limit(rateLimits.signIn.address, "Failed sign-ins from one address (IPv6: /64)"),
        })
        .prefault({}),
      "The sign-in form",
    ),
    passwordGrant: section(
      z
        .strictObject({
          accountAndClient: limit(
            rateLimits.passwordGrant.accountAndClient,
            "Failed password grants with one name at one client",
          ),
          account: limit(rateLimits.passwordGrant.account, "Failed password grants with one name"),
          client: limit(rateLimits.passwordGrant.client, "Failed password grants at one client"),
        })
        .prefault({}),
      "The password grant",
    ),
    clientSecret: limit(rateLimits.clientSecret, "Wrong secrets for one client from one address"),
    interactions: limit(rateLimits.interactions, "Sign-ins begun from one address"),
  }),
);

/** `audit`. */
export const auditSchema: z.ZodType<Configuration["audit"], Written<AuditInput>> = writtenAs<AuditInput>()(
  z.strictObject({
    retention: duration(audit.retention, "Seconds for which audit records are kept"),
  }),
);
