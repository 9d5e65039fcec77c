/** Clients that nobody has registered: each describes itself in a document at its `client_id`, of which a copy is kept. */
import { documentAddressProblem, type DocumentSettings, needsName } from "../../config/clients.ts";
import { isOrigin } from "../../config/admin.ts";
import { InvalidArgument } from "../../core/errors.ts";
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
import { createAsking } from "./asking.ts";
import type { Documents, KeptDocuments } from "./documents.ts";
import { read } from "../../records/records.ts";
import { putRemoval } from "../access-cleanup.ts";
import type { AccountServices } from "../services.ts";

/** A refresh token of such a client lives at most this long. */
export const MAX_REFRESH_SECONDS = 30 * 24 * 60 * 60;

/** Copies that a block reads at a time. */
const PAGE = 200;

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

type Services = Pick<AccountServices, "configuration" | "storage" | "clock" | "cleanup" | "limits">;

/** @throws InvalidArgument for something that is neither the address of a document nor an origin. */
function requireBlockable(what: string): void {
  const isWhole = documentAddressProblem(what) === undefined;
  if (isWhole || (what.startsWith("https:") && isOrigin(what))) return;
  throw new InvalidArgument({ path: "blocked", message: "must be the address of a document, or an origin" });
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

  /** Copies of an origin. What is written meanwhile has read the block. */
  async function endAll(origin: string): Promise<void> {
    for (;;) {
      const page = await records.list<StoredDocument>(DOCUMENT.where("origin", origin), PAGE);
      for (const { value } of page) await end(value.url);
      if (page.length < PAGE) return;
    }
  }

  const kept: KeptDocuments = {
    async client(clientId) {
      const id = isDocumentId(clientId) ? clientId : documentId(clientId);
      const document = (await records.find(DOCUMENT.ref(id)))?.value;
      return document !== undefined && kept.isAllowed(document.url) ? clientOf(document) : undefined;
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

    async list({ granted, limit, after }) {
      const query = { ...DOCUMENT.where("kept", granted ? "granted" : "unused"), limit, after };
      const [page] = await records.store.list([query]);
      const items = (page?.records ?? []).map((each) => {
        const { value } = read<StoredDocument>(each);
        return Object.assign(value, { id: documentId(value.url) });
      });
      return { items, ...(page?.next !== undefined && { next: page.next }) };
    },

    async blocks() {
      return records.all<StoredDocumentBlock>(DOCUMENT_BLOCK.name);
    },

    async block(what, _caller, beside) {
      requireBlockable(what);
      const isNew = await records.transact(async (tx) => {
        if ((await tx.get(DOCUMENT_BLOCK.ref(what))) !== undefined) return false;
        tx.put(DOCUMENT_BLOCK.record({ blocked: what, blocked_at: Math.floor(clock.now() / 1000) }));
        beside?.(tx);
        return true;
      });
      // Also when it was blocked before: the process may have died in between.
      await (new URL(what).origin === what ? endAll(what) : end(what));
      return isNew;
    },

    async unblock(what, _caller, beside) {
      requireBlockable(what);
      return records.transact(async (tx) => {
        if ((await tx.get(DOCUMENT_BLOCK.ref(what))) === undefined) return false;
        tx.remove(DOCUMENT_BLOCK.ref(what));
        beside?.(tx);
        return true;
      });
    },

    granted: (id) =>
      records.transact(async (tx) => {
        const document = await tx.get(DOCUMENT.ref(id));
        if (document === undefined) return false;
        const { granted_until: before = 0 } = document;
        const granted_until = Math.max(before, Math.floor(clock.now()) + grantSeconds * 1000);
        tx.put(DOCUMENT.record({ ...document, granted_until }));
        return true;
      }),

    keep(url, content, { fresh_until }) {
      const { origin } = new URL(url);
      return records.transact(async (tx) => {
        const refs = [DOCUMENT_BLOCK.ref(url), DOCUMENT_BLOCK.ref(origin)] as const;
        const blocked = await tx.getAll(refs);
        if (blocked.some((each) => each !== undefined)) return undefined;
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
        };
        tx.put(DOCUMENT.record(document));
        return document;
      });
    },
  };
  return { ...kept, ...createAsking(services, settings, { ...kept, end, clientOf }) };
}
