/** What the other parts of the service ask of clients that nobody has registered. `kept-copies.ts` answers. */
import type { Caller } from "../../records/audit/audit-event.ts";
import type { ClientRecord } from "../../records/directory/directory.ts";
import type {
  DocumentContent,
  StoredDocument,
  StoredDocumentBlock,
} from "../../records/directory/document-kinds.ts";
import type { Transaction } from "../../records/records.ts";
import type { Attempt } from "../limits/attempt-limits.ts";
import type { DocumentRefused, RedirectKind } from "./document.ts";
import type { DocumentUnavailable } from "./fetching.ts";

/** How long a fetched copy counts. */
export interface Freshness {
  readonly fresh_until: number;
}

/** What people are told about a client that nobody has registered. */
export interface ShownDocument {
  readonly host: string;
  /** Missing: the configuration names the whole address. */
  readonly path?: string;
  readonly how: RedirectKind;
  /** `scheme` only. */
  readonly scheme?: string;
  /** What it calls itself. */
  readonly name?: string;
  /** Whether the configuration names its origin or its address. */
  readonly checked: boolean;
}

export interface KeptDocuments {
  /** The client of a kept copy, by its address or by its id; `undefined` without a copy. Fetches nothing. */
  client(clientId: string): Promise<ClientRecord | undefined>;
  /** What people are told. @param address where the answer goes. @returns `undefined` for a registered client. */
  shown(client: ClientRecord, address: unknown): ShownDocument | undefined;
  /** Whether the client at an address could have its answers sent there, as far as that does not depend on its document. */
  mayRedirect(url: string, address: string): boolean;
  /** Whether the configuration lets the client at this address ask. */
  isAllowed(url: string): boolean;
  /** Whether scripts of this origin may be a client. */
  mayHaveScripts(origin: string): boolean;
  /** All blocks that are in force. */
  blocks(): Promise<readonly StoredDocumentBlock[]>;
  /**
   * Blocks the client at an address, or all of an origin: codes, refresh and opaque tokens end with the commit.
   * @returns whether it was not blocked before.
   */
  block(address: string, caller: Caller): Promise<boolean>;
  /** What ended stays ended. @returns whether it was blocked. */
  unblock(address: string, caller: Caller): Promise<boolean>;
  /**
   * Notes that a person has allowed the client something: its copy is kept as long as the grant may live.
   * @param allowed whether it is another person, and for which API.
   * @returns until when, in milliseconds since the epoch; `undefined` if there is no such client, or it is blocked.
   */
  granted(
    tx: Transaction,
    id: string,
    allowed: { readonly isNew: boolean; readonly api: string },
  ): Promise<number | undefined>;
  /** Keeps what was fetched. @returns `undefined` if the address is blocked. */
  keep(url: string, content: DocumentContent, fresh: Freshness): Promise<StoredDocument | undefined>;
}

/** Why there is no client at an address. `wait`: a limit has no room for asking. */
export type NoDocument =
  | { readonly kind: "unknown" }
  | { readonly kind: "fault"; readonly error: DocumentRefused | DocumentUnavailable }
  | { readonly kind: "wait"; readonly attempt: Attempt };

/** What a request has got. */
export type Asked = { readonly kind: "client"; readonly client: ClientRecord } | NoDocument;

/** Who causes a request. */
export interface Asker {
  /** The account that is signed in. Asked only if it matters. */
  readonly sub: () => Promise<string | undefined>;
  readonly address: string;
}

export interface Asking {
  /** The document at an address: the kept copy while it counts, otherwise fetched. */
  ask(url: string, asker: Asker): Promise<Asked>;
  /** Fetches the keys of a client anew, at most once in five minutes. @returns whether it did. */
  newKeys(url: string): Promise<boolean>;
  /** Fetches what clients with grants publish, once a day, and ends the grants of those that are gone. */
  refreshDue(signal: AbortSignal): Promise<void>;
}

export interface Documents extends KeptDocuments, Asking {}
