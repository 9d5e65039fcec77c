/** Registration, resets and changes of address over a real storage, with the mail that they store. */
import { pino } from "pino";
import type { RecordStore } from "../../../adapters/record-store.ts";
import { ANONYMOUS, type AuditEvent } from "../../../records/audit/audit-event.ts";
import { AccessCleanup, type EndedAccess } from "../../../accounts/access-cleanup.ts";
import type { AccountInternals } from "../../../accounts/account.ts";
import type { Identities } from "../../../accounts/identities/identities.ts";
import type { Accounts } from "../../../accounts/operations/accounts.ts";
import { createEvents, type ServiceEvents } from "../../../core/events.ts";
import { type MailKind, type NewMail, openMail } from "../../../records/people/mail-kinds.ts";
import { createPasswords, type Passwords } from "../../../accounts/passwords/passwords.ts";
import type { Linking } from "../../../accounts/identities/linking.ts";
import type { AddressChanges } from "../../../accounts/people/address-changes.ts";
import type { PasswordResets } from "../../../accounts/people/password-resets.ts";
import type { People } from "../../../accounts/people/people.ts";
import type { ProvidersInput } from "../../../config/providers.ts";
import type { Registrations } from "../../../accounts/people/registrations.ts";
import { createConfirmations } from "../../../accounts/people/confirmations.ts";
import type { SignInCodes } from "../../../accounts/people/sign-in-codes.ts";
import type { AskedAt } from "../../../accounts/people/requests.ts";
import type { CheckedPassword } from "../../../accounts/limits/password-check.ts";
import type { RelyingParty } from "../../../accounts/factors/passkeys.ts";
import type { SecondFactors } from "../../../accounts/factors/factors.ts";
import { KINDS } from "../../../records/all-kinds.ts";
import { Records } from "../../../records/records.ts";
import { createSealer } from "../../../core/sealing.ts";
import { openStorage, type Storage } from "../../../records/storage.ts";
import { TestClock } from "../../../testing/test-clock.ts";
import { closing } from "../../closing.ts";
import { newStorage } from "../../servers/storage.ts";
import type { RegistrationSettings } from "../../../config/pages.ts";
import type { Configuration } from "../../../config/configuration.ts";
import { readConfiguration } from "../../../config/read.ts";
import { defaults } from "../../../config/schema.ts";
import { createAccountServices, createPeopleServices } from "../../../lib/account-services.ts";
import { createStorageServices } from "../../../records/services.ts";
import { fixedKeys, NO_WEBHOOKS, watchedAudit, watchedLogout } from "../../watched-parts.ts";
import type { RateLimits } from "../../../config/rate-limits.ts";

export const PASSWORD = "grapefruit under the stairs";
export const NEW_PASSWORD = "a lighthouse in the fog";

export const AT: AskedAt = {
  deployment: "openid",
  caller: { actor: ANONYMOUS, client: { client_id: "news", services: ["1"] } },
  address: "192.0.2.1",
  locale: "pl",
};

export const RELYING_PARTY: RelyingParty = {
  id: "login.example",
  previousIds: ["old.example"],
  origins: ["https://login.example", "https://id.login.example"],
  name: "Example",
};

const PASSKEYS = { rpId: RELYING_PARTY.id, previousRpIds: [...RELYING_PARTY.previousIds] };

/** Each is from a different network, so that the limits per caller don't apply. */
export function from(number: number): AskedAt {
  return { ...AT, address: `10.${number >> 16}.${(number >> 8) & 255}.${number & 255}` };
}

/** `corp` is the only way in for its domain. */
const PROVIDERS: ProvidersInput = {
  google: { client_id: "news", client_secret: "secret" },
  github: { client_id: "news", client_secret: "secret" },
  microsoft: { client_id: "news", client_secret: "secret", tenants: "any" },
  corp: {
    issuer: "https://login.corp.example",
    client_id: "news",
    name: "Corp ID",
    domains: ["staff.example"],
    only: true,
    trustsEmail: true,
  },
};

/** The same for each limit of mail. */
export function everyMailLimit(limit: RateLimits["registrations"]): RateLimits["mail"] {
  return {
    recipientAndCaller: limit,
    recipientAndCallerDaily: limit,
    recipient: limit,
    recipientDaily: limit,
    caller: limit,
    device: limit,
  };
}

/** As cheap as OWASP allows. */
export const PASSWORDS: Passwords = createPasswords(
  { ...defaults.passwords, memory: 7168, passes: 5 },
  { service: ["Example"] },
);

/** A mail that waits, and what its text contains. */
export interface Mail {
  readonly kind: MailKind;
  readonly to: string;
  readonly locale: string | undefined;
  readonly code: string;
  readonly link: string;
  readonly mail: NewMail;
}

export interface PeopleStage {
  readonly storage: Storage;
  readonly clock: TestClock;
  readonly accounts: Accounts & AccountInternals;
  readonly registrations: Registrations;
  /** The same after a start with other settings. */
  registrationsWith(settings: RegistrationSettings): Registrations;
  /** Everything of people after a start with these providers. */
  withProviders(providers: ProvidersInput): Required<People>;
  /** Missing without `signIn.emailCode`. */
  readonly signInCodes: SignInCodes;
  readonly passwordResets: PasswordResets;
  readonly linking: Linking;
  readonly addressChanges: AddressChanges;
  /** Signs in at the form. */
  signIn(name: string, password: string, at: AskedAt): Promise<CheckedPassword>;
  readonly factors: SecondFactors;
  readonly identities: Identities;
  /** The same over the same storage, as in another process. */
  otherFactors(): SecondFactors;
  otherPeople(): People;
  readonly refusals: AuditEvent[];
  /** What was noted for the audit. */
  readonly noted: readonly AuditEvent[];
  readonly ended: ServiceEvents["session.ended"][];
  /** What account changes have ended. */
  readonly changed: readonly EndedAccess[];
  /** Takes all mail that waits, the oldest first, including mail to nobody. */
  mails(): Promise<Mail[]>;
  /** Takes the only mail that waits for somebody. */
  mail(): Promise<Mail>;
}

const nothing = (): void => undefined;

/** Removes nothing. */
class WatchedCleanup extends AccessCleanup {
  readonly changed: EndedAccess[] = [];

  override async accountChanged(ended: EndedAccess): Promise<void> {
    this.changed.push(ended);
  }
}

/**
 * @param replaced the functions that compare and hash passwords, where they differ.
 * @param through wraps the store that the parts use.
 * @param more of the configuration.
 */
export async function openPeople(
  settings: RegistrationSettings = {},
  rateLimits: RateLimits = defaults.rateLimits,
  replaced: Partial<Passwords> = {},
  through?: (store: RecordStore) => RecordStore,
  more: Partial<Pick<Configuration, "signIn" | "operators" | "providers">> = {},
): Promise<PeopleStage> {
  const clock = new TestClock();
  const { keys: _keys, ...addresses } = await newStorage();
  const configurationWith = (registration: RegistrationSettings): Configuration => {
    const read = readConfiguration({
      clock,
      deployments: { openid: { url: "https://login.example" }, oauth2: { url: "https://id.login.example" } },
      storage: "postgresql://database.example/sign_in",
      keys: { secrets: [Buffer.alloc(32, 7).toString("base64")] },
      proxy: 1,
      mail: { url: "smtps://mail.example" },
      secondFactor: { offer: true, remember: 30 },
      interactions: { passkeys: PASSKEYS, theme: { name: RELYING_PARTY.name } },
      providers: PROVIDERS,
    });
    const interactions = { ...read.interactions, registration };
    return { ...read, ...more, artifacts: addresses.storage, ...addresses, rateLimits, interactions };
  };
  const configuration = configurationWith(settings);
  const storage = closing(await openStorage(configuration, undefined, through));
  const sealer = createSealer([Buffer.alloc(32, 7).toString("base64")]);
  const { outbox } = storage;
  const ended: ServiceEvents["session.ended"][] = [];
  const events = createEvents(console.error);
  events.on("session.ended", (each) => void ended.push(each));
  const audit = watchedAudit();
  const logger = pino({ level: "silent" });
  const base = createStorageServices({ configuration, storage, sealer, logger }, { events, audit });
  const cleanup = new WatchedCleanup({ ...base, webhooks: NO_WEBHOOKS }, async () => undefined);
  const services = createAccountServices(
    {
      ...base,
      keys: fixedKeys(sealer),
      backchannel: watchedLogout(),
      onMail: nothing,
      onDeliveries: nothing,
    },
    {},
    { cleanup, passwords: { ...PASSWORDS, ...replaced } },
  );
  const { accounts, limits } = services;
  const { people, passwordCheck, secondFactors, identities } = createPeopleServices(services);
  async function mails(): Promise<Mail[]> {
    const claims = await outbox.claim(1_000, 60_000);
    await Promise.all(claims.map((claim) => outbox.remove(claim)));
    return claims.map((claim) => {
      const mail = openMail(sealer, claim);
      const { kind, to, locale, params } = mail;
      return { kind, to, locale, code: params["code"] ?? "", link: params["link"] ?? "", mail };
    });
  }
  const otherProcess = () => {
    const records = new Records(storage.records.store, clock, KINDS);
    const other = { ...services, storage: { ...storage, records } };
    const confirmations = createConfirmations(other, services.keys.confirmations, nothing);
    return createPeopleServices({ ...other, confirmations });
  };
  return {
    storage,
    clock,
    accounts,
    registrations: people.registrations as Registrations,
    registrationsWith: (other) =>
      createPeopleServices({ ...services, configuration: configurationWith(other) }).people
        .registrations as Registrations,
    withProviders(providers) {
      const { providers: read } = readConfiguration({
        deployments: { openid: { url: "http://127.0.0.1:1" } },
        providers,
      });
      const other = { ...services, configuration: { ...configuration, providers: read } };
      return createPeopleServices(other).people as Required<People>;
    },
    passwordResets: people.passwordResets as PasswordResets,
    signInCodes: people.signInCodes as SignInCodes,
    linking: people.linking as Linking,
    addressChanges: people.addressChanges as AddressChanges,
    signIn: (name, password, { address, device: read }) =>
      passwordCheck.check({
        source: "form",
        name,
        password,
        party: address,
        limit: (limited, device) => limits.signIn({ ...limited, address, device }),
        ...(read && { device: read }),
      }),
    factors: secondFactors,
    identities,
    otherFactors: () => otherProcess().secondFactors,
    otherPeople: () => otherProcess().people,
    refusals: audit.refusals,
    noted: audit.noted,
    ended,
    changed: cleanup.changed,
    mails,
    async mail() {
      const waiting = (await mails()).filter(({ to }) => to !== "");
      if (waiting.length !== 1)
        throw new Error(`${waiting.length} mails: ${waiting.map(({ kind }) => kind).join()}`);
      return waiting[0] as Mail;
    },
  };
}

/** Another code than this one. */
export function wrongCode(code: string): string {
  return (code.startsWith("0") ? "1" : "0") + code.slice(1);
}
