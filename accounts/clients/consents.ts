/** Consents: what a person has allowed third-party clients, stored on the account. */
import { type Caller, clientNow, type ClientThen } from "../../records/audit/audit-event.ts";
import type { AccountRecord, Consent } from "../../records/directory/directory.ts";
import type { DirectoryRecords } from "../../records/directory/directory-records.ts";
import { ConditionFailed } from "../../core/errors.ts";
import { ownValue, withEntry, withoutEntries } from "../../core/untrusted-keys.ts";
import type { Ref } from "../../adapters/record-store.ts";
import { CLIENT } from "../../records/directory/directory-kinds.ts";
import { DOCUMENT, isDocumentId } from "../../records/directory/document-kinds.ts";
import type { NewMail } from "../../records/people/mail-kinds.ts";
import type { Transaction } from "../../records/records.ts";
import type { AccountInternals } from "../account.ts";
import type { AccountWriter } from "../account-change.ts";

const PAGE = 1000;

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

function sessionEnded(): ConditionFailed {
  return new ConditionFailed("the session ended before the consent was stored");
}

/** Removed clients that the account still has consents for. */
async function removedClients(
  tx: Transaction,
  { consents }: AccountRecord,
  clientId: string,
): Promise<ReadonlySet<string>> {
  const others = Object.keys(consents).filter((id) => id !== clientId);
  const refs = others.map((id): Ref => (isDocumentId(id) ? DOCUMENT.ref(id) : CLIENT.ref(id)));
  const found = await tx.peekAll(refs);
  return new Set(others.filter((_id, index) => found[index] === undefined));
}

export function createConsents(
  writer: AccountWriter,
  directory: DirectoryRecords,
  mailAboutDevice: (account: AccountRecord, client: string) => readonly NewMail[],
): Pick<AccountInternals, "rememberConsent" | "connectDevice" | "forgetConsents"> {
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
    const removed = await removedClients(tx, before, client);
    // What a person allows a client that nobody has registered is what the page has just said.
    const earlier = isDocumentId(client) ? { scopes: [], claims: [] } : consentOf(before, client);
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
          mails: mailAboutDevice(before, client.name),
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
