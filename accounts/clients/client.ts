/** What the other parts of the service ask of clients, besides the operations on them. */
import type { ClientRecord, StoredLogo } from "../../records/directory/directory.ts";
import type * as Fapi from "./fapi.ts";
import type { KindOfClient } from "./client-kinds.ts";
import type { IdentifiedClient } from "./client-schema.ts";
import type { Seeded, SeedMark } from "../seed-marks.ts";

/** The `client_id` of the internal client of the account pages; no other client can have it. */
export const ACCOUNT_CLIENT = "sign-in-service.account";

/** The internal client of the console with `profile: strict`. It needs a second factor. */
export const CONSOLE_CLIENT = "sign-in-service.console";

/** The internal client of the administration console, which is no page of the service: it has an address of its own. */
export const ADMINISTRATION_CLIENT = "sign-in-service.administration";

/** A client that the pages of the service use to sign people in. It has no secret, because nobody else uses it. */
export interface InternalClient {
  readonly client_id: string;
  readonly name: string;
  readonly redirect_uris: readonly string[];
  readonly second_factor?: "required";
}

/** What a seed has done with a client, and whether that has another secret or other keys than the seed says. */
export type SeededClient = Seeded & {
  readonly keepsCredentials: boolean;
  /** Whether it is new, and nobody knows its secret. */
  readonly lacksCredentials: boolean;
};

/** The rules of the security profile of a client; `undefined` for a client without one, and then they are not loaded. */
export const profileRules = async (
  client: Readonly<{ profile?: ClientRecord["profile"] | undefined }> | undefined,
): Promise<typeof Fapi | undefined> => (client?.profile === "fapi2" ? import("./fapi.ts") : undefined);

/** Calls that only the service itself uses. */
export interface ClientInternals {
  /**
   * Registers the client of a seed, unless it was removed since a seed made it; of one that exists, sets the members that
   * the seed names, but for its secret and keys.
   * @param made.nameOfNew the name of a new client, if the seed has none.
   */
  seed(
    client: IdentifiedClient,
    made: { readonly nameOfNew: string; readonly mark: SeedMark },
  ): Promise<SeededClient>;
  /**
   * The record of any client, also of disabled and internal ones; of one that nobody has registered, what the kept copy of its document
   * says. By the `client_id` of the protocol, or by the one of the records.
   */
  record(client_id: string): Promise<ClientRecord | undefined>;
  /** What clients of its kind are and may do. */
  kindOf(client: Pick<ClientRecord, "kind" | "document" | "jwks">): KindOfClient;
  /** The records of all registered clients. */
  allRecords(): Promise<readonly ClientRecord[]>;
  /** The origins of all enabled public clients. */
  allOrigins(): Promise<ReadonlySet<string>>;
  /** The logo of a client that people can sign in to; `undefined` if there is none. */
  logo(client_id: string): Promise<StoredLogo | undefined>;
  /** Whether this is a valid secret of the client. It takes as long for an unknown client. */
  secretMatches(
    record: Pick<ClientRecord, "secrets"> | undefined,
    presented: string,
  ): "generated" | "chosen" | undefined;
  /**
   * Registers an internal client, or updates it to these values.
   * @returns the client as it is now, and before the change if there was one.
   */
  putInternal(
    client: InternalClient,
  ): Promise<{ readonly record: ClientRecord; readonly replaced: ClientRecord | undefined }>;
}

/** Whether the pages of the service use this client themselves. */
export const isInternal = ({ service, document }: ClientRecord): boolean =>
  service === null && document === undefined;

type PublicClient = ClientRecord & { readonly service: string };

/** Whether the public calls show this client. They hide internal clients, which have no service. */
export function isPublic(record: ClientRecord | undefined): record is PublicClient {
  return record !== undefined && record.service !== null;
}
