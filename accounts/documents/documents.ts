/** What the other parts of the service ask of clients that nobody has registered. `kept-copies.ts` answers. */
import type { Caller } from "../../records/audit/audit-event.ts";
import type { ClientRecord } from "../../records/directory/directory.ts";
import type {
  DocumentContent,
  StoredDocument,
  StoredDocumentBlock,
} from "../../records/directory/document-kinds.ts";
import type { Transaction } from "../../records/records.ts";
import type { RedirectKind } from "./document.ts";

/** A kept copy, and its name in records. */
export interface KeptDocument extends StoredDocument {
  readonly id: string;
}

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

export interface Documents {
  /** The client of a kept copy, by its address or by its id; `undefined` without a copy. Fetches nothing. */
  client(clientId: string): Promise<ClientRecord | undefined>;
  /** What people are told. @param address where the answer goes. @returns `undefined` for a registered client. */
  shown(client: ClientRecord, address: unknown): ShownDocument | undefined;
  /** Whether the configuration lets the client at this address ask. */
  isAllowed(url: string): boolean;
  /** The kept copies whose clients have grants, or had some in the last day, oldest first; or all. */
  list(page: {
    readonly granted: boolean;
    readonly limit: number;
    readonly after?: string | undefined;
  }): Promise<{ readonly items: readonly KeptDocument[]; readonly next?: string }>;
  /** All blocks. */
  blocks(): Promise<readonly StoredDocumentBlock[]>;
  /**
   * Blocks the client at an address, or all of an origin: codes, refresh and opaque tokens end at once.
   * @param beside what else is written in the transaction.
   * @returns whether it was not blocked before.
   */
  block(what: string, caller: Caller, beside?: (tx: Transaction) => void): Promise<boolean>;
  /** What ended stays ended. @returns whether it was blocked. */
  unblock(what: string, caller: Caller, beside?: (tx: Transaction) => void): Promise<boolean>;
  /** Notes that a person has allowed the client something: its copy is kept as long as the grant may live. */
  granted(tx: Transaction, id: string): Promise<StoredDocument | undefined>;
  /** Keeps what was fetched. @returns `undefined` if the address is blocked. */
  keep(url: string, content: DocumentContent, fresh: Freshness): Promise<StoredDocument | undefined>;
}
