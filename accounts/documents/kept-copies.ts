/** Clients that nobody has registered: each describes itself in a document at its `client_id`, of which a copy is kept. */
import { type DocumentSettings, isDocumentEntry, needsName } from "../../config/clients.ts";
import { seconds } from "../../core/clock.ts";
import { InvalidArgument } from "../../core/errors.ts";
import type { Caller } from "../../records/audit/audit-event.ts";
import type { Transaction } from "../../records/records.ts";
import type { ClientRecord } from "../../records/directory/directory.ts";
import { newTokensEpoch } from "../../records/directory/directory-kinds.ts";
import {
  DOCUMENT,
  DOCUMENT_BLOCK,
  documentId,
  isDocumentId,
  type StoredDocument,
  type StoredDocumentBlock,
} from "../../records/directory/document-kinds.ts";
import { redirectKind } from "./document.ts";
import { createAsking, type KnownAddress } from "./asking.ts";
import type { Documents, KeptDocuments } from "./documents.ts";
import { putRemoval } from "../access-cleanup.ts";
import type { AccountServices } from "../services.ts";

/** A refresh token of such a client lives at most this long. */
export const MAX_REFRESH_SECONDS = 30 * 24 * 60 * 60;

/** The client that a document describes, as all other parts of the service know clients. */
function clientOf(document: StoredDocument): ClientRecord {
  const { url, name, redirect_uris, jwks, tokens_epoch, since, fetched_at } = document;
  return {
    client_id: documentId(url),
    document: { url, ...(name !== undefined && { name }) },
    kind: "public",
    name: new URL(url).host,
    service: null,
    secrets: [],
    ...(jwks !== undefined && { jwks }),
    native: true,
    redirect_uris,
    post_logout_redirect_uris: [],
    backchannel_logout_uri: null,
    grant_types: ["authorization_code", "refresh_token"],
    first_party: false,
    refresh_tokens: { rotate: true, sliding: false },
    error_status: "standard",
    tokens_epoch,
    disabled: false,
    created_at: Math.floor(since / 1000),
    updated_at: Math.floor(fetched_at / 1000),
  };
}

/** APIs that a copy remembers. */
const MAX_APIS = 10;

type Services = Pick<
  AccountServices,
  "configuration" | "storage" | "events" | "clock" | "cleanup" | "limits" | "telemetry"
>;

const originOf = (url: string): string | undefined => (URL.canParse(url) ? new URL(url).origin : undefined);

/** What operators have decided about the client of a copy: about its address, and about all of its origin. */
const decisionsOn = ({ url, origin }: Pick<StoredDocument, "url" | "origin">) =>
  [DOCUMENT_BLOCK.ref(url), DOCUMENT_BLOCK.ref(origin)] as const;

const isBlocking = (decision: StoredDocumentBlock | undefined): boolean =>
  decision !== undefined && decision.ended_at === undefined;

/** The client of a copy; `undefined` if it is blocked. What it got before it was blocked had another epoch. */
function inForce(
  document: StoredDocument,
  decisions: readonly (StoredDocumentBlock | undefined)[],
): ClientRecord | undefined {
  if (decisions.some(isBlocking)) return undefined;
  const epochs = decisions.flatMap((each) => (each === undefined ? [] : [each.epoch]));
  const tokens_epoch = [document.tokens_epoch, ...epochs].join(".");
  return clientOf({ ...document, tokens_epoch });
}

/** @throws InvalidArgument for something that is neither the address of a document nor an origin. */
function requireBlockable(what: string): void {
  if (isDocumentEntry(what)) return;
  throw new InvalidArgument({ path: "address", message: "must be the address of a document, or an origin" });
}

export function createDocuments(services: Services, settings: DocumentSettings): Documents {
  const { configuration, storage, clock, cleanup } = services;
  const { allow, schemes } = settings;
  const { records } = storage;
  const { lifetimes } = configuration;
  const grantSeconds =
    lifetimes.interaction +
    lifetimes.authorizationCode +
    Math.min(lifetimes.refreshToken, MAX_REFRESH_SECONDS);

  /** Reads the copy of a document and its blocks in one call of the storage. */
  async function look(url: string): Promise<KnownAddress> {
    const refs = [DOCUMENT.ref(documentId(url)), ...decisionsOn({ url, origin: new URL(url).origin })];
    const [copy, ...found] =
      await records.get<[StoredDocument, StoredDocumentBlock, StoredDocumentBlock]>(refs);
    const decisions = found.map((each) => each?.value);
    return {
      copy: copy?.value,
      client: copy && inForce(copy.value, decisions),
      isBlocked: decisions.some(isBlocking),
    };
  }

  /** Ends the client of a copy: whoever holds a code or a token of it holds nothing. */
  async function end(url: string): Promise<void> {
    const id = documentId(url);
    const isEnded = await records.transact(async (tx) => {
      if ((await tx.get(DOCUMENT.ref(id))) === undefined) return false;
      tx.remove(DOCUMENT.ref(id));
      putRemoval(tx, "client", id, clock);
      return true;
    });
    if (isEnded) await cleanup.clientEnded(id);
  }

  /** The subject is no longer than that of other records, whatever the address is. */
  function note(
    tx: Transaction,
    action: "document.blocked" | "document.unblocked",
    address: string,
    caller: Caller,
  ): void {
    const subject = documentId(address);
    tx.create(storage.audit.recordOf({ ...caller, action, subject, detail: { address } }));
  }

  const kept: KeptDocuments = {
    async client(clientId) {
      if (isDocumentId(clientId)) {
        const document = (await records.find(DOCUMENT.ref(clientId)))?.value;
        if (document === undefined || !kept.isAllowed(document.url)) return undefined;
        const decisions = await records.get<[StoredDocumentBlock, StoredDocumentBlock]>(
          decisionsOn(document),
        );
        return inForce(
          document,
          decisions.map((each) => each?.value),
        );
      }
      if (!URL.canParse(clientId) || !kept.isAllowed(clientId)) return undefined;
      return (await look(clientId)).client;
    },

    shown({ document }, address) {
      if (document === undefined) return undefined;
      const { url, name } = document;
      const { host, pathname, origin } = new URL(url);
      const how = redirectKind(String(address), origin, schemes) ?? "scheme";
      return {
        host,
        ...((allow === "any" || !allow.includes(url)) && { path: pathname }),
        how,
        ...(how === "scheme" && { scheme: String(address).replace(/:.*$/su, "") }),
        ...(name !== undefined && { name }),
        checked: allow !== "any",
      };
    },

    mayRedirect: (url, address) => redirectKind(address, new URL(url).origin, schemes) !== undefined,

    isAllowed(url) {
      const { origin } = new URL(url);
      if (allow === "any") return !needsName(origin);
      return allow.includes(url) || allow.includes(origin);
    },

    mayHaveScripts(origin) {
      if (originOf(origin) !== origin || !origin.startsWith("https:")) return false;
      return allow === "any" ? !needsName(origin) : allow.some((each) => originOf(each) === origin);
    },

    async blocks() {
      const all = await records.all<StoredDocumentBlock>(DOCUMENT_BLOCK.name);
      return all.filter(isBlocking);
    },

    block(address, caller) {
      requireBlockable(address);
      return records.transact(async (tx) => {
        if (isBlocking(await tx.get(DOCUMENT_BLOCK.ref(address)))) return false;
        const blocked_at = seconds(clock);
        tx.put(DOCUMENT_BLOCK.record({ blocked: address, blocked_at, epoch: newTokensEpoch() }));
        note(tx, "document.blocked", address, caller);
        return true;
      });
    },

    unblock(address, caller) {
      requireBlockable(address);
      return records.transact(async (tx) => {
        const before = await tx.get(DOCUMENT_BLOCK.ref(address));
        if (before === undefined || !isBlocking(before)) return false;
        // Its epoch stays: what had ended does not begin again.
        tx.put(DOCUMENT_BLOCK.record({ ...before, ended_at: seconds(clock) }));
        note(tx, "document.unblocked", address, caller);
        return true;
      });
    },

    async granted(tx, id, { isNew, api }) {
      const document = await tx.get(DOCUMENT.ref(id));
      if (document === undefined) return undefined;
      if ((await tx.getAll(decisionsOn(document))).some(isBlocking)) return undefined;
      const now = Math.floor(clock.now());
      const { granted_until: before = 0, first_grant_at = now } = document;
      const people = (document.people ?? 0) + (isNew ? 1 : 0);
      const apis = [...(document.apis ?? []).filter((each) => each !== api), api].slice(-MAX_APIS);
      const until = now + grantSeconds * 1000;
      const granted_until = Math.max(before, until);
      tx.put(DOCUMENT.record({ ...document, granted_until, first_grant_at, people, apis }));
      return until;
    },

    keep(url, content, { fresh_until }) {
      const { origin } = new URL(url);
      return records.transact(async (tx) => {
        if ((await tx.getAll(decisionsOn({ url, origin }))).some(isBlocking)) return undefined;
        const before = await tx.get(DOCUMENT.ref(documentId(url)));
        const now = Math.floor(clock.now());
        const document: StoredDocument = {
          url,
          origin,
          ...content,
          tokens_epoch: before?.tokens_epoch ?? newTokensEpoch(),
          since: before?.since ?? now,
          fetched_at: now,
          fresh_until,
          ...(before?.granted_until !== undefined && { granted_until: before.granted_until }),
          ...(before?.first_grant_at !== undefined && { first_grant_at: before.first_grant_at }),
          ...(before?.people !== undefined && { people: before.people }),
          ...(before?.apis !== undefined && { apis: before.apis }),
        };
        tx.put(DOCUMENT.record(document));
        return document;
      });
    },
  };
  return { ...kept, ...createAsking(services, settings, { ...kept, end, look }) };
}
