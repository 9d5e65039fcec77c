/**
 * Everything that the service holds about one person, for a request of that person (decisions.md, Export). `PERSONAL_DATA` says
 * where each kind of record with personal data is in it, so a new kind is not forgotten.
 */
import type { StoredArtifact } from "../../records/artifacts/artifact.ts";
import { subjectOf } from "../../records/audit/actions.ts";
import type { AuditRecord } from "../../records/audit/audit-event.ts";
import { deliveryContext, invitationLane } from "../../records/deliveries/delivery-kinds.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import { REMEMBERED_BROWSER, type StoredRememberedBrowser } from "../../records/factors/factor-kinds.ts";
import {
  CONFIRMATION,
  confirmationContext,
  type StoredConfirmation,
} from "../../records/people/confirmation-kinds.ts";
import { IDENTITY, identityContext, type StoredIdentity } from "../../records/people/identity-kinds.ts";
import {
  INVITATION,
  invitationContext,
  type StoredInvitation,
} from "../../records/people/invitation-kinds.ts";
import { MAIL, openMail, type StoredMail } from "../../records/people/mail-kinds.ts";
import { isDocumentId } from "../../records/directory/document-kinds.ts";
import { pagesOf } from "../../core/pages.ts";
import { noAccount } from "../account-access.ts";
import { hostOf } from "../clients/consents.ts";
import { namesOf, normalName } from "../names.ts";
import type { AccountData, accounts } from "../operations/accounts.ts";
import type { Handlers } from "../operations/operation.ts";
import type { AccountServices } from "../services.ts";

type Rows = Handlers<typeof accounts.rows>;
type Operations = Pick<Rows, "find" | "factors" | "sessions" | "consents">;

/** The member that has what a kind of record holds about a person; or why nothing of it is said. */
type Place = keyof AccountData | { readonly leftOut: string };

const HASHED = { leftOut: "a hash of what `account` has" };
const TOKEN = { leftOut: "a secret; `grants` says which client holds it" };
const RUNNING = { leftOut: "a sign-in under way, for minutes; whose it is, is known to its browser alone" };

/** By the name of the kind: all with personal data. */
export const PERSONAL_DATA: Readonly<Record<string, Place>> = {
  account: "account",
  identifier: "account",
  "user-id": "account",
  "sign-in-name": HASHED,
  "search-words": HASHED,
  seeded: HASHED,
  removal: { leftOut: "of an account that is deleted" },
  audit: "audit",
  delivery: "deliveries",
  payload: "deliveries",
  lane: { leftOut: "counts the deliveries" },
  mail: "mails",
  confirmation: "requests",
  invitation: "invitations",
  idempotency: { leftOut: "the `sub` alone, for a day" },
  "operator-confirmation": { leftOut: "the `sub` of an operator, whose confirmation `audit` has" },
  grant: "grants",
  session: "sessions",
  interaction: RUNNING,
  "pushed-authorization-request": RUNNING,
  trip: RUNNING,
  "authorization-code": TOKEN,
  "device-code": TOKEN,
  "access-token": TOKEN,
  "refresh-token": TOKEN,
  "notice-count": { leftOut: "a count, for an hour" },
  "signed-in-before": { leftOut: "that somebody has signed in, which `audit` says" },
  "authenticator-app": "factors",
  passkey: "factors",
  "recovery-codes": "factors",
  identity: "identities",
  "remembered-browser": "remembered_browsers",
};

const secondsOf = (milliseconds: number): number => Math.floor(milliseconds / 1_000);

/** Records that are read at a time. */
const PAGE = 500;

function more({ services_since = {}, terms_version, ways }: AccountRecord): AccountData["more"] {
  return {
    services_since,
    terms_version: terms_version ?? null,
    has_password: typeof ways.password?.hash === "string",
    password_changed_at: ways.password?.changed_at ?? null,
    passkey_offered_at: ways.passkey_offer?.at ?? null,
  };
}

/** Of what an operator did to others it says what, and not to whom. */
function withoutOthers(record: AuditRecord, account: string): AuditRecord {
  const isOther = subjectOf(record.action) === "account" && record.subject !== account;
  return isOther ? { ...record, subject: null } : record;
}

/** The hosts of clients that nobody has registered, which records name by a hash: those that the person allows now, and has allowed. */
function hostsOf({ consents }: AccountRecord, audit: readonly AuditRecord[]): ReadonlyMap<string, string> {
  const now = Object.entries(consents).flatMap(([id, { document }]) =>
    document === undefined ? [] : [[id, hostOf(document)] as const],
  );
  const then = audit.flatMap(({ client, detail: { host } }) =>
    client !== null && isDocumentId(client) && typeof host === "string" ? [[client, host] as const] : [],
  );
  return new Map([...then, ...now]);
}

export function createAccountData(
  operations: Operations,
  { audit, sealer, storage }: Pick<AccountServices, "audit" | "sealer" | "storage">,
): Pick<Rows, "data"> {
  const { artifacts, deliveries, records } = storage;

  async function grantsOf(sub: string, nameOf: (client: string) => string): Promise<readonly unknown[]> {
    const all: StoredArtifact[] = [];
    const pages = pagesOf(async (after) => {
      const { next = null, ...page } = await artifacts.page({ model: "Grant", account: sub }, { after });
      return { ...page, next };
    });
    for await (const page of pages) all.push(...page.artifacts);
    return all.map(({ clientId, expiresAt, usedAt }) => ({
      client: clientId === undefined ? null : nameOf(clientId),
      last_used_at: usedAt === undefined ? null : secondsOf(usedAt),
      expires_at: secondsOf(expiresAt),
    }));
  }

  /** With their addresses there, which only the person is shown. */
  async function identitiesOf({ ways }: AccountRecord): Promise<readonly unknown[]> {
    const refs = (ways.provider?.links ?? []).map(({ id }) => IDENTITY.ref(id));
    const found = refs.length === 0 ? [] : await records.store.get(refs);
    return found
      .filter((each) => each !== undefined)
      .map(({ value }) => {
        const { id, sealed, sub: _own, ...identity } = value as unknown as StoredIdentity;
        const email = sealed === null ? null : sealer.open(identityContext(id), sealed);
        return Object.assign(identity, { email });
      });
  }

  async function browsersOf(sub: string): Promise<readonly unknown[]> {
    const found = await records.list<StoredRememberedBrowser>(REMEMBERED_BROWSER.where("account", sub));
    return found.map(({ value: { browser, system, added_at, expires_at } }) => ({
      browser,
      system,
      added_at,
      expires_at,
    }));
  }

  async function requestsOf({ sub, address_undos = [], ways }: AccountRecord): Promise<readonly unknown[]> {
    const links = ways.provider?.links ?? [];
    const subjects = new Set([sub, ...[...address_undos, ...links].map(({ id }) => id)]);
    const all = await records.all<StoredConfirmation>(CONFIRMATION.name);
    return all
      .filter(({ subject }) => subjects.has(subject))
      .map(({ purpose, subject, sealed, createdAt, expiresAt }) => {
        const { email } = JSON.parse(sealer.open(confirmationContext(purpose, subject), sealed)) as {
          readonly email?: unknown;
        };
        const address = typeof email === "string" ? email : null;
        return {
          purpose,
          email: address,
          created_at: secondsOf(createdAt),
          expires_at: secondsOf(expiresAt),
        };
      });
  }

  async function mailsTo(names: readonly string[]): Promise<readonly unknown[]> {
    const all = await records.all<StoredMail>(MAIL.name);
    return all.flatMap((mail) => {
      const { to, kind } = openMail(sealer, mail);
      if (!names.includes(normalName(to))) return [];
      return [{ kind, to, created_at: secondsOf(mail.createdAt), expires_at: secondsOf(mail.expiresAt) }];
    });
  }

  async function invitationsOf(
    sub: string,
    names: readonly string[],
  ): Promise<readonly { readonly id: string }[]> {
    const all = await records.all<StoredInvitation>(INVITATION.name);
    return all.flatMap(({ id, sealed, state, invitedBy, createdAt, expiresAt, ...invitation }) => {
      const input = JSON.parse(sealer.open(invitationContext(id), sealed)) as { readonly email: string };
      if (invitation.sub !== sub && !names.includes(normalName(input.email))) return [];
      const times = { created_at: secondsOf(createdAt), expires_at: secondsOf(expiresAt) };
      return [{ id, state, invited_by: invitedBy, ...times, ...input }];
    });
  }

  /** @param lane the account, or an invitation. */
  async function deliveriesOf(lane: string): Promise<readonly unknown[]> {
    const all: unknown[] = [];
    const pages = pagesOf((after) =>
      deliveries.page({ sub: lane, limit: PAGE, ...(after !== undefined && { after }) }),
    );
    for await (const page of pages)
      for (const { id, receiver, type, at, state } of page.deliveries) {
        const payload = (await deliveries.find(id))?.payload;
        const body = payload ? (JSON.parse(sealer.open(deliveryContext(id), payload)) as unknown) : null;
        all.push({ id, receiver, type, at, state, body });
      }
    return all;
  }

  async function auditOf(account: string): Promise<AuditRecord[]> {
    await audit.flush();
    const all: AuditRecord[] = [];
    for await (const { items } of pagesOf((after) => storage.audit.list({ account, limit: PAGE, after })))
      all.push(...items.map((item) => withoutOthers(item, account)));
    return all;
  }

  return {
    async data({ target: [sub], caller }): Promise<AccountData> {
      const call = { target: [sub], input: {}, caller } as const;
      const [record, account] = [await storage.directory.findAccount(sub), await operations.find(call)];
      if (record === undefined || account === undefined) throw noAccount();
      // Before anything of it is shown.
      await storage.audit.append({ ...caller, action: "account.data_exported", subject: sub });
      const names = namesOf(record);
      const invitations = await invitationsOf(sub, names);
      // What was told of an invitation has a lane of its own.
      const lanes = [sub, ...invitations.map(({ id }) => invitationLane(id))];
      const events = await auditOf(sub);
      const hosts = hostsOf(record, events);
      const nameOf = (client: string): string => hosts.get(client) ?? client;
      return {
        account,
        more: more(record),
        factors: await operations.factors(call),
        identities: await identitiesOf(record),
        sessions: await operations.sessions(call),
        remembered_browsers: await browsersOf(sub),
        consents: await operations.consents(call),
        grants: await grantsOf(sub, nameOf),
        requests: await requestsOf(record),
        mails: await mailsTo(names),
        invitations,
        deliveries: (await Promise.all(lanes.map(deliveriesOf))).flat(),
        audit: events.map((each) =>
          Object.assign({}, each, { client: each.client === null ? null : nameOf(each.client) }),
        ),
      };
    },
  };
}
