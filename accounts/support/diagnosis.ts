/**
 * Why somebody can't sign in: what can stop a person, in the order in which it matters (decisions.md, What the console shows). The
 * counts of failures are read for the names of one account, and shown to operators only.
 */
import type { Configuration } from "../../config/configuration.ts";
import { seconds } from "../../core/clock.ts";
import type { AuditAction } from "../../records/audit/actions.ts";
import type { AuditRecord } from "../../records/audit/audit-event.ts";
import type { AccountRecord, ApiRecord, ClientRecord } from "../../records/directory/directory.ts";
import { recipientHash } from "../../records/people/outbox.ts";
import { failureSubject } from "../../records/people/sign-ins.ts";
import { isDisabled } from "../account.ts";
import { hasSecondFactor, needsSecondFactor, wantsFactor } from "../factors/factor.ts";
import { FAILURES_BEFORE_LIMIT } from "../limits/password-check.ts";
import { domainOf, namesOf, normalName } from "../names.ts";
import { onlyProvider } from "../providers.ts";
import {
  type Diagnosis,
  SIGN_IN_CHECKS,
  type SignInCheck,
  type SignInCheckCode,
} from "../operations/support.ts";
import type { AccountServices } from "../services.ts";
import { canSignIn, hasWay, type OwnedWays, usesEmailCodes } from "../ways/ways.ts";

type Services = Pick<
  AccountServices,
  "audit" | "clock" | "configuration" | "keys" | "limits" | "mailDeployment" | "sealer" | "storage"
>;

/** What a check has found; `undefined`: it does not hold. */
type Found = Partial<Omit<SignInCheck, "code" | "holds">> | undefined;

/** The account, with what is read of it once. */
interface Patient {
  readonly account: AccountRecord;
  readonly owned: OwnedWays;
  /** The clients of the services that the account is assigned to. */
  readonly clients: readonly ClientRecord[];
  /** The APIs of these services. */
  readonly apis: readonly ApiRecord[];
}

/** Records of the audit in which the last sign-in is looked for: failures stand between. */
const LOOKED_AT = 50;

/** What an account signs in with, as far as this configuration lets it. */
function hasWayIn({ account }: Patient, services: Services): boolean {
  const { configuration } = services;
  const { passkey: _off, ...others } = account.ways;
  const usable = configuration.interactions.passkeys.enabled ? account : { ...account, ways: others };
  const allowed = { emailCode: usesEmailCodes(services, account.sub), providers: configuration.providers };
  return canSignIn(usable, allowed);
}

const aboutClient = ({ client_id, service }: ClientRecord): SignInCheck["detail"] => ({
  client: client_id,
  ...(service !== null && { service }),
});

/** The clients that require a second factor. With `profile: strict`, operators need one as well. */
const needsFactorAt =
  ({ profile }: Pick<Configuration, "profile">) =>
  (client: ClientRecord): boolean =>
    !client.disabled && needsSecondFactor(client, profile);

/** The checks but for `clear`. */
const CHECKS: Readonly<
  Record<Exclude<SignInCheckCode, "clear">, (patient: Patient, services: Services) => Found | Promise<Found>>
> = {
  async disabled({ account }, services) {
    return isDisabled(account) ? cause(await lastOf(services, account.sub, "account.disabled")) : undefined;
  },
  no_way_in: (patient, services) => (hasWayIn(patient, services) ? undefined : {}),
  provider_only({ account }, { configuration }) {
    const provider = onlyProvider(configuration, account);
    return provider && { detail: { provider: provider.key, domain: domainOf(normalName(account.email)) } };
  },
  async app_stopped({ account, owned }, services) {
    if (owned.app?.stopped !== true) return undefined;
    const refused = await recordsOf(services, account.sub, "second_factor");
    // The last wrong code has stopped it. Later ones are not compared.
    const last = refused.find(({ reason, detail }) => reason === "wrong" && detail["factor"] === "app");
    return { since: last?.at ?? null };
  },
  async many_failures({ account }, { keys, storage }) {
    const subjects = namesOf(account).map((name) => failureSubject(keys.rateLimits, name));
    const counts = await Promise.all(
      subjects.flatMap((subject) =>
        (["form", "password_grant"] as const).map((source) => storage.signIns.failures(source, subject)),
      ),
    );
    const failures = Math.max(...counts);
    return failures < FAILURES_BEFORE_LIMIT ? undefined : { detail: { failures } };
  },
  async limited({ account }, { clock, limits }) {
    const full = await limits.full(account);
    const longest = full.toSorted((one, other) => other.endsIn - one.endsIn)[0];
    return longest && { detail: { limit: longest.limit, until: seconds(clock) + longest.endsIn } };
  },
  factor_required({ account, clients, apis }, { configuration }) {
    if (hasSecondFactor(account)) return undefined;
    const client = clients.find(needsFactorAt(configuration));
    if (client !== undefined) return { detail: aboutClient(client) };
    const api = apis.find(wantsFactor);
    return api && { detail: { api: api.identifier, service: api.service } };
  },
  address_unconfirmed: ({ account }) => (account.email_verified ? undefined : {}),
  async mail_refused({ account }, { sealer, storage }) {
    const refusal = await storage.outbox.refusal(recipientHash(sealer, normalName(account.email)));
    return refusal && { since: Math.floor(refusal.at / 1000), detail: { reason: refusal.reason } };
  },
  async client_disabled({ clients }, services) {
    const client = clients.find(({ disabled }) => disabled);
    if (client === undefined) return undefined;
    const { items } = await services.storage.audit.list({
      client: client.client_id,
      action: "client.disabled",
      limit: 1,
    });
    return { ...cause(items[0]), detail: aboutClient(client) };
  },
};

/** The newest records of an account. What this process has collected is among them. */
async function recordsOf(
  { audit, storage }: Services,
  account: string,
  action: AuditAction,
): Promise<readonly AuditRecord[]> {
  await audit.flush();
  const { items } = await storage.audit.list({ account, action, limit: LOOKED_AT });
  return items;
}

async function lastOf(
  services: Services,
  account: string,
  action: AuditAction,
): Promise<AuditRecord | undefined> {
  const records = await recordsOf(services, account, action);
  return records.find(({ outcome, subject }) => outcome === "success" && subject === account);
}

/** Since when and by whom; nothing if the audit does not reach back so far. */
function cause(record: AuditRecord | undefined): Pick<SignInCheck, "since" | "by"> {
  if (record === undefined) return { since: null, by: null };
  const { kind, id = null } = record.actor;
  return { since: record.at, by: { kind, id } };
}

/** What stops somebody who does everything right. */
function stops(holding: ReadonlyMap<SignInCheckCode, SignInCheck>, { account, owned }: Patient): boolean {
  if (holding.has("disabled") || holding.has("no_way_in")) return true;
  const limit = holding.get("limited")?.detail["limit"];
  if (typeof limit === "string" && limit.startsWith("signIn.")) return true;
  const hasPasskey = hasWay(account, ({ kind }) => kind === "passkey");
  return holding.has("app_stopped") && !hasPasskey && owned.recovery_codes_left === 0;
}

/** @param owned what the account has besides its password. */
export async function diagnosisOf(
  services: Services,
  account: AccountRecord,
  owned: OwnedWays,
): Promise<Diagnosis> {
  const { directory } = services.storage;
  const isTheirs = ({ service }: { readonly service: string | null }): boolean =>
    service !== null && Object.hasOwn(account.services, service);
  const [clients, apis] = await Promise.all([directory.listClients(), directory.listApis()]);
  const patient = { account, owned, clients: clients.filter(isTheirs), apis: apis.filter(isTheirs) };
  const checks: SignInCheck[] = [];
  for (const code of SIGN_IN_CHECKS) {
    if (code === "clear") continue;
    const found = await CHECKS[code](patient, services);
    checks.push({ code, holds: found !== undefined, since: null, by: null, detail: {}, ...found });
  }
  const holding = new Map(checks.flatMap((each) => (each.holds ? [[each.code, each] as const] : [])));
  const last = await lastOf(services, account.sub, "sign_in");
  const detail = {
    ...(last?.browser && { browser: last.browser }),
    ...(last?.client && { client: last.client }),
  };
  checks.push({ code: "clear", holds: holding.size === 0, since: last?.at ?? null, by: null, detail });
  const [headline = "clear"] = holding.keys();
  return { can_sign_in: !stops(holding, patient), headline, checks };
}
