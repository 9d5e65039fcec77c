/** The kinds of records of clients that nobody has registered: kept copies of their documents, and what an operator has blocked. */
import { hash } from "node:crypto";
import { defineKind, type Kind } from "../kinds.ts";
import type { ClientKey, ClientRecord } from "./directory.ts";

/** What a document decides. Everything else in it is ignored. */
export interface DocumentContent {
  /** What the client calls itself: at most 60 characters, without controls and marks of direction. Missing: nothing. */
  readonly name?: string;
  /** At least one. */
  readonly redirect_uris: readonly string[];
  /** The public keys that verify its assertions. Missing: a public client. */
  readonly jwks?: { readonly keys: readonly ClientKey[] };
}

/** A kept copy of a document. Times are in milliseconds since the epoch. */
export interface StoredDocument extends DocumentContent {
  /** Its address: the `client_id`. */
  readonly url: string;
  /** The origin of the address. */
  readonly origin: string;
  /** Random. What the client got under an earlier one is invalid: codes and tokens. */
  readonly tokens_epoch: string;
  /** When the first copy was fetched. */
  readonly since: number;
  /** When it was last fetched with success. */
  readonly fetched_at: number;
  /** Until when the copy counts without being fetched again. */
  readonly fresh_until: number;
  /** Until when a grant of the client may be alive. Missing: there was none. */
  readonly granted_until?: number;
  /** When the first person allowed it something. Missing: nobody did. */
  readonly first_grant_at?: number;
  /** How many people have allowed it something. Missing: nobody did. */
  readonly people?: number;
  /** The identifiers of the APIs that people have allowed it, the latest last. Missing: none. */
  readonly apis?: readonly string[];
  /** The days, `YYYY-MM-DD` in UTC, on which the address answered 404 or 410 since it last had a document. Missing: none. */
  readonly gone_on?: readonly string[];
}

const DAY_MS = 86_400_000;

/** How long a copy without a grant is kept. */
export const UNUSED_COPY_MS = DAY_MS;

/** The name of a document in keys, columns and logs: a hash of its address. No registered client can have it. */
export const documentId = (url: string): string => `document:${hash("sha256", url, "base64url")}`;

export const isDocumentId = (clientId: string): boolean => clientId.startsWith("document:");

/** How records name the client that has this `client_id` in the protocol. */
export const storedClientId = (clientId: string): string =>
  clientId.startsWith("https://") ? documentId(clientId) : clientId;

/** The `client_id` that a client has in the protocol. */
export const protocolClientId = ({
  client_id,
  document,
}: Pick<ClientRecord, "client_id" | "document">): string => document?.url ?? client_id;

export const DOCUMENT: Kind<StoredDocument, "kept" | "listed" | "origin"> = defineKind<
  StoredDocument,
  "kept" | "listed" | "origin"
>({
  name: "document",
  holds: "a kept copy of the document of a client that nobody has registered",
  key: "`document:` and the SHA-256 of its address",
  keyOf: ({ url }) => documentId(url),
  index: {
    kept: ({ granted_until, fetched_at }) => [
      { at: granted_until === undefined ? "unused" : "granted", order: fetched_at },
    ],
    listed: ({ first_grant_at }) =>
      first_grant_at === undefined ? [] : [{ at: "granted", order: first_grant_at }],
    origin: ({ origin, since }) => [{ at: origin, order: since }],
  },
  indexFor: {
    kept: "the daily look at documents of clients with grants, and which of the others goes first",
    listed: "`documents.list`, those that came last first",
    origin: "blocking an origin",
  },
  expires: "a day after it was fetched, and not before the last grant of its client",
  expiresAt: ({ fetched_at, granted_until = 0 }) => Math.max(fetched_at + UNUSED_COPY_MS, granted_until),
  store: "storage",
  exported: true,
  afterRestore: "removed",
  personal: undefined,
});

/** A document, or all of an origin, that an operator has blocked. */
export interface StoredDocumentBlock {
  /** The address of a document, or an origin. */
  readonly blocked: string;
  /** Seconds since the epoch. */
  readonly blocked_at: number;
  /** Random. What the clients got under another one is invalid: codes and tokens. */
  readonly epoch: string;
  /** When it was unblocked, in seconds since the epoch. Missing: it is blocked. */
  readonly ended_at?: number;
}

export const DOCUMENT_BLOCK: Kind<StoredDocumentBlock> = defineKind<StoredDocumentBlock>({
  name: "document-block",
  holds:
    "that an operator has blocked, or has unblocked, a client that nobody has registered, or all of an origin",
  key: "the SHA-256 of the address or the origin",
  hashed: true,
  keyOf: ({ blocked }) => blocked,
  store: "storage",
  exported: true,
  afterRestore: "kept",
  personal: undefined,
});
