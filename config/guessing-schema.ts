/** The sections of the configuration that keep passwords and secrets from being guessed: `passwords` and `rateLimits`. */
import { z } from "zod";
import type { PasswordRules, RateLimit, RateLimits } from "./configuration.ts";
import { defaults } from "./defaults.ts";
import {
  described,
  duration,
  optional,
  section,
  text,
  whole,
  writtenAs,
  type Written,
} from "./documented-schema.ts";
import type { PasswordsInput, RateLimitsInput } from "./input.ts";
import { isServiceAddress } from "./value-forms.ts";

const { passwords, rateLimits } = defaults;

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
    minLength: whole(
      [8, 64],
      passwords.minLength,
      "Characters of a new password at least; with `profile: strict` never fewer than 15",
    ),
    maxLength: whole([64, 1024], passwords.maxLength, "Characters of a password at most"),
    parallel: whole(
      [1, 64],
      passwords.parallel,
      "Hashes that a process computes in parallel, each in its own thread",
    ),
    breachCheck: optional(
      z.strictObject({
        url: described(
          text(2048, isServiceAddress, "an address").default("https://api.pwnedpasswords.com/range"),
          {
            form: "an https address, or http on loopback, without a query",
            description: "Whom to ask: the first 5 of the 40 digits of a SHA-1 are added as the last segment",
          },
        ),
        timeout: described(z.number().min(0.1).max(4).default(2), {
          form: "a number of seconds from 0.1 to 4",
          description: "Without an answer in this time, the password is accepted",
        }),
      }),
      {
        form: "an object with `url` and `timeout`; `{}` asks Pwned Passwords",
        description:
          "Refuses new passwords that are known from data breaches; neither they nor their hashes are sent",
        otherwise: "none: that is not checked",
      },
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
    mail: section(
      z
        .strictObject({
          recipientAndCaller: limit(
            rateLimits.mail.recipientAndCaller,
            "Mail to one address that was asked for from one address (IPv6: /64)",
          ),
          recipientAndCallerDaily: limit(rateLimits.mail.recipientAndCallerDaily, "The same in a day"),
          recipient: limit(
            rateLimits.mail.recipient,
            "Mail to one address that somebody asked for, who may be a stranger",
          ),
          recipientDaily: limit(rateLimits.mail.recipientDaily, "The same in a day"),
          caller: limit(rateLimits.mail.caller, "Such mail that was asked for from one address (IPv6: /64)"),
          device: limit(
            rateLimits.mail.device,
            "Such mail that was asked for in a browser which has signed in to the account before. It is stopped by no other of these limits",
          ),
        })
        .prefault({}),
      "Mail that a stranger can cause: confirmations and password resets",
    ),
    changes: limit(rateLimits.changes, "Changes that a signed-in person makes to one account"),
    registrations: limit(rateLimits.registrations, "Registrations from one address (IPv6: /64)"),
    clientSecret: limit(rateLimits.clientSecret, "Wrong secrets for one client from one address"),
    interactions: limit(rateLimits.interactions, "Sign-ins begun from one address"),
  }),
);
