/** Consents: what a person has allowed third-party clients, stored on the account. */
import { type Caller, clientNow, type ClientThen } from "../../records/audit/audit-event.ts";
import type {
  AccountRecord,
  ApiRecord,
  Consent,
  ConsentDocument,
} from "../../records/directory/directory.ts";
import { type Clock, seconds } from "../../core/clock.ts";
import { ConditionFailed } from "../../core/errors.ts";
import { ownValue, withEntry, withoutEntries } from "../../core/untrusted-keys.ts";
import { CLIENT } from "../../records/directory/directory-kinds.ts";
import type { Transaction } from "../../records/records.ts";
import type { AccountInternals } from "../account.ts";
import type { AccountWriter } from "../account-change.ts";
import type { Notices } from "../account-ownership.ts";
import type { AccountServices } from "../services.ts";

/** What an account allows a client that nobody has registered. */
export interface AllowedDocument {
  /** The name of the client in records. */
  readonly id: string;
  readonly document: ConsentDocument;
  readonly apis: NonNullable<Consent["apis"]>;
}

const PAGE = 1000;
/** How many unregistered clients an account can have allowed at once. Beyond that, the oldest consent is dropped. */
const MAX_DOCUMENTS = 100;

/** The consent that the account has given the client so far. */
export function consentOf(record: Pick<AccountRecord, "consents">, clientId: string): Consent {
  return ownValue(record.consents, clientId) ?? { scopes: [], claims: [] };
}

/** Merges both consents, each pair of API and scope once. */
function withApis(earlier: Consent["apis"], added: Consent["apis"]): Pick<Consent, "apis"> {
  let apis = earlier;
  for (const [identifier, scopes] of Object.entries(added ?? {})) {
    const known = ownValue(apis ?? {}, identifier) ?? [];
    apis = withEntry(apis ?? {}, identifier, [...new Set([...known, ...scopes])].toSorted());
  }
  return apis === undefined ? {} : { apis };
}

/** What the API says about these scopes. */
const labelsOf = ({ scopes: texts }: ApiRecord, scopes: readonly string[]): string =>
  scopes.map((scope) => ownValue(texts, scope) ?? scope).join("; ");

const gone = (): ConditionFailed => new ConditionFailed("the client is no longer known");

function sessionEnded(): ConditionFailed {
  return new ConditionFailed("the session ended before the consent was stored");
}

/** The host that people are shown of a client that nobody has registered. */
export const hostOf = ({ url }: Pick<ConsentDocument, "url">): string => new URL(url).host;

/** What the account allows clients that nobody has registered, as long as their grants can be alive. */
export function allowedDocuments(
  { consents }: Pick<AccountRecord, "consents">,
  clock: Clock,
): readonly AllowedDocument[] {
  return Object.entries(consents).flatMap(([id, { document, apis = {} }]) =>
    document === undefined || document.until <= seconds(clock) ? [] : [{ id, document, apis }],
  );
}

/** Clients that the account has consents for, but that were removed; if nobody has registered them, those that are over. */
async function removedClients(
  tx: Transaction,
  { consents }: AccountRecord,
  clientId: string,
  clock: Clock,
): Promise<ReadonlySet<string>> {
  const living = new Set(allowedDocuments({ consents }, clock).map(({ id }) => id));
  const others = Object.keys(consents).filter((id) => id !== clientId && !living.has(id));
  const found = await tx.peekAll(others.map((id) => CLIENT.ref(id)));
  return new Set(others.filter((_id, index) => found[index] === undefined));
}

export function createConsents(
  writer: AccountWriter,
  { storage: { directory }, clock, documents }: Pick<AccountServices, "storage" | "clock" | "documents">,
  notices: Pick<Notices, "deviceConnected" | "documentAllowed">,
): Pick<
  AccountInternals,
  "rememberConsent" | "allowDocument" | "endDocument" | "connectDevice" | "forgetConsents"
> {
  async function forgetConsent(sub: string, client: ClientThen, caller: Caller): Promise<void> {
    await writer.change(sub, caller, (before) => {
      if (before === undefined || !Object.hasOwn(before.consents, client.client_id)) return undefined;
      const consents = withoutEntries(before.consents, new Set([client.client_id]));
      return { action: "account.consent_forgotten", record: { ...before, consents }, client };
    });
  }

  /** The consents of the account with what it allows the client now. */
  async function withConsent(
    tx: Transaction,
    before: AccountRecord,
    client: string,
    { scopes, claims, attributes = [], apis }: Consent,
  ): Promise<AccountRecord["consents"]> {
    const removed = await removedClients(tx, before, client, clock);
    const earlier = consentOf(before, client);
    const consent = {
      scopes: [...earlier.scopes, ...scopes],
      claims: [...earlier.claims, ...claims],
      attributes: [...(earlier.attributes ?? []), ...attributes],
      ...withApis(earlier.apis, apis),
    };
    return writer.bounded(withEntry(withoutEntries(before.consents, removed), client, consent));
  }

  return {
    async rememberConsent(sub, client, { sessionsGeneration, ...consent }, caller) {
      const { record } = await writer.change(sub, caller, async (before, tx) => {
        if (before?.sessions_generation !== sessionsGeneration) throw sessionEnded();
        const consents = await withConsent(tx, before, client.client_id, consent);
        // Both have their members in the order of the storage, so equal text is an equal record.
        if (JSON.stringify(consents) === JSON.stringify(before.consents)) return undefined;
        return { action: "account.consented", record: { ...before, consents }, client };
      });
      if (record === undefined) throw sessionEnded();
      return record;
    },

    async allowDocument(sub, { client, api, scopes, how, sessionsGeneration }, caller) {
      const { client_id: id, document } = client;
      if (documents === undefined || document === undefined) throw gone();
      const { url } = document;
      const host = hostOf(document);
      await writer.change(sub, caller, async (before, tx) => {
        if (before?.sessions_generation !== sessionsGeneration) throw sessionEnded();
        const living = allowedDocuments(before, clock);
        const known = living.find((each) => each.id === id);
        // What is read and written here of the client is one commit with the consent: a client that is gone by then gets none.
        const allowed = { isNew: known === undefined, api: api.identifier };
        const until = await documents.granted(tx, id, allowed);
        if (until === undefined) throw gone();
        const removed = await removedClients(tx, before, id, clock);
        const consent: Consent = {
          scopes: [],
          claims: [],
          apis: { [api.identifier]: [...scopes] },
          document: {
            url,
            since: seconds(clock),
            begun: known?.document.begun ?? Math.floor(clock.now()),
            until: Math.floor(until / 1000),
          },
        };
        // One that is forgotten ends with it.
        const tooMany = living
          .filter((each) => each !== known)
          .toSorted((one, other) => other.document.since - one.document.since)
          .slice(MAX_DOCUMENTS - 1)
          .map((each) => each.id);
        const left = withoutEntries(before.consents, new Set([...removed, ...tooMany]));
        const consents = withEntry(left, id, consent);
        const isNewHost = !living.some((each) => hostOf(each.document) === host);
        const mails = isNewHost
          ? notices.documentAllowed(before, { host, how, api: api.name, scopes: labelsOf(api, scopes) })
          : [];
        return {
          action: "account.consented",
          record: { ...before, consents },
          client: { client_id: id, services: [] },
          detail: { host },
          mails,
        };
      });
    },

    async endDocument(sub, id, caller) {
      const { changed } = await writer.change(sub, caller, (before) => {
        const document = before && ownValue(before.consents, id)?.document;
        if (before === undefined || document === undefined) return undefined;
        const record = {
          ...before,
          // Its generation is in the consent.
          consents: withoutEntries(before.consents, new Set([id])),
        };
        return {
          action: "account.tokens_revoked",
          record,
          client: { client_id: id, services: [] },
          detail: { host: hostOf(document) },
        };
      });
      return changed;
    },

    async connectDevice(sub, { client, consent, sessionsGeneration }, caller) {
      await writer.change(sub, caller, async (before, tx) => {
        if (before?.sessions_generation !== sessionsGeneration) throw sessionEnded();
        const consents = consent && {
          consents: await withConsent(tx, before, client.client_id, consent),
        };
        return {
          action: "account.device_connected",
          record: { ...before, ...consents },
          client: clientNow(client),
          mails: notices.deviceConnected(before, client.name),
        };
      });
    },

    async forgetConsents(client, caller) {
      let after: number | undefined;
      for (;;) {
        const page = await directory.listAccounts({ limit: PAGE, after });
        for (const { sub, consents } of page) {
          if (Object.hasOwn(consents, client.client_id)) await forgetConsent(sub, client, caller);
        }
        if (page.length < PAGE) return;
        after = page.at(-1)?.user_id;
      }
    },
  };
}
