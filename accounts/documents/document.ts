/** What the document of a client says (OAuth Client ID Metadata Document), as far as it decides anything. */
import type { DocumentSettings } from "../../config/clients.ts";
import { clientKeyProblem, MAX_KEYS, storedClientKey } from "../../core/client-keys.ts";
import { isObject, isTooDeep } from "../../core/untrusted-json.ts";
import { urlProblem } from "../../config/value-forms.ts";
import type { ClientKey } from "../../records/directory/directory.ts";
import type { DocumentContent } from "../../records/directory/document-kinds.ts";
import { withoutPort } from "../clients/client-kinds.ts";

const MAX_ADDRESSES = 20;
/** Bytes of a kept copy. */
const MAX_COPY_BYTES = 16 * 1024;

/** Why a document makes no client: one of a fixed set, for pages and metrics. */
export type DocumentFault =
  | "form"
  | "other_client"
  | "secret"
  | "authentication"
  | "keys"
  | "addresses"
  | "size";

/** A document that makes no client. */
export class DocumentRefused extends Error {
  readonly fault: DocumentFault;

  constructor(fault: DocumentFault, message: string) {
    super(message);
    this.fault = fault;
  }
}

/** What a document says before its keys are fetched. */
export interface ReadDocument extends DocumentContent {
  /** Where its keys are. Missing: they are in it, or it has none. */
  readonly jwks_uri?: string;
}

const MAX_CHARACTERS = 60;
/** Controls, marks of direction, and everything else that has no width of its own. */
const INVISIBLE = /[\p{C}\p{Default_Ignorable_Code_Point}]/gu;
/** Letters that are drawn over their neighbours when many marks are piled on them. */
const PILED_MARKS = /(\p{M}{2})\p{M}+/gu;
/** A name can't end its own quotation and begin a sentence of ours. */
const QUOTATION_MARKS = /[\p{Pi}\p{Pf}"„‚‛‟〝〞〟＂]/gu;

/**
 * The name that a client calls itself, so that it can be shown between quotation marks and says nothing else.
 * @param name as the document has it: of any length, with any characters.
 * @returns at most 60 characters on one line, or `undefined` if nothing is left that can be seen.
 */
export function claimedName(name: string): string | undefined {
  const characters = Array.from(
    name
      // The rest of a long one is never shown.
      .slice(0, 50 * MAX_CHARACTERS)
      .normalize("NFC")
      .replaceAll(/\s+/gu, " ")
      .replaceAll(INVISIBLE, "")
      .replaceAll(PILED_MARKS, "$1")
      .replaceAll(QUOTATION_MARKS, "'")
      .replaceAll(/ {2,}/g, " ")
      .trim(),
  );
  if (!/[\p{L}\p{N}\p{S}\p{P}]/u.test(characters.join(""))) return undefined;
  if (characters.length <= MAX_CHARACTERS) return characters.join("");
  return `${characters
    .slice(0, MAX_CHARACTERS - 1)
    .join("")
    .trimEnd()}…`;
}

/** What is kept of a name: its first characters that can be seen. */
function nameOf(value: unknown): string | undefined {
  if (typeof value !== "string") return undefined;
  const seen = value
    .slice(0, 50 * MAX_CHARACTERS)
    .toWellFormed()
    .replaceAll(/[\s\p{Z}]+/gu, " ")
    .replaceAll(INVISIBLE, "")
    .trim();
  return claimedName(Array.from(seen).slice(0, MAX_CHARACTERS).join(""));
}

/** How an answer gets to the client. */
export type RedirectKind = "https" | "loopback" | "scheme";

/** How an answer gets to an address of a document; `undefined` if none may go there. */
export function redirectKind(
  address: string,
  origin: string,
  schemes: DocumentSettings["schemes"],
): RedirectKind | undefined {
  if (!/^[\u0021-\u007e]{1,2048}$/u.test(address) || /[\\"<>^`{|}#*]/u.test(address)) return undefined;
  if (/^https?:/u.test(address)) {
    if (urlProblem(address) !== undefined || !URL.canParse(address)) return undefined;
    if (withoutPort(address) !== undefined) return "loopback";
    return address.startsWith("https:") && new URL(address).origin === origin ? "https" : undefined;
  }
  const scheme = /^([a-z][a-z0-9+.-]*):/u.exec(address)?.[1];
  if (scheme === undefined || !schemes.includes(scheme)) return undefined;
  return URL.canParse(address) && !/^[^:]*:\/\/[^/?]*@/u.test(address) ? "scheme" : undefined;
}

function addressesOf(value: unknown, origin: string, schemes: DocumentSettings["schemes"]): string[] {
  const written = Array.isArray(value) ? (value as unknown[]) : [];
  const allowed = written.filter(
    (each): each is string => typeof each === "string" && redirectKind(each, origin, schemes) !== undefined,
  );
  if (allowed.length === 0)
    throw new DocumentRefused("addresses", "the document has no redirect address that the client may have");
  return [...new Set(allowed)].slice(0, MAX_ADDRESSES);
}

/** The keys of a set that verify signatures here. @throws DocumentRefused without any. */
export function usableKeys(jwks: unknown): { readonly keys: readonly ClientKey[] } {
  const written: unknown = isObject(jwks) ? jwks["keys"] : undefined;
  const keys = (Array.isArray(written) ? (written as unknown[]) : [])
    .slice(0, MAX_KEYS)
    .filter((key) => clientKeyProblem(key) === undefined)
    .map((key) => storedClientKey(key as Readonly<Record<string, unknown>>));
  if (keys.length === 0) throw new DocumentRefused("keys", "the client has no key that can be used");
  return { keys };
}

/** The members that say that there is a secret. */
const SECRETS = ["client_secret", "client_secret_expires_at"] as const;

function authenticationOf(
  document: Readonly<Record<string, unknown>>,
  origin: string,
): Pick<ReadDocument, "jwks" | "jwks_uri"> {
  const method = document["token_endpoint_auth_method"] ?? "none";
  if (
    SECRETS.some((name) => Object.hasOwn(document, name)) ||
    (typeof method === "string" && method.startsWith("client_secret_"))
  )
    throw new DocumentRefused("secret", "a client that describes itself in a document can't have a secret");
  if (method === "none") return {};
  if (method !== "private_key_jwt")
    throw new DocumentRefused("authentication", "token_endpoint_auth_method must be none or private_key_jwt");
  const { jwks, jwks_uri: address } = document;
  if (jwks !== undefined) return { jwks: usableKeys(jwks) };
  if (typeof address !== "string" || urlProblem(address) !== undefined || new URL(address).origin !== origin)
    throw new DocumentRefused(
      "keys",
      "private_key_jwt needs jwks, or a jwks_uri of the origin of the client_id",
    );
  return { jwks_uri: address };
}

/**
 * Reads the document at an address.
 * @throws DocumentRefused if it makes no client.
 */
export function readDocument(
  url: string,
  document: unknown,
  schemes: DocumentSettings["schemes"],
): ReadDocument {
  if (!isObject(document) || isTooDeep(document))
    throw new DocumentRefused("form", "the document is not a JSON object of a client");
  if (document["client_id"] !== url)
    throw new DocumentRefused("other_client", "the client_id in the document is not its address");
  const { origin } = new URL(url);
  const name = nameOf(document["client_name"]);
  return {
    ...(name !== undefined && { name }),
    redirect_uris: addressesOf(document["redirect_uris"], origin, schemes),
    ...authenticationOf(document, origin),
  };
}

/** @throws DocumentRefused for more than is kept. */
export function requireKeepable(content: DocumentContent): void {
  if (Buffer.byteLength(JSON.stringify(content)) > MAX_COPY_BYTES)
    throw new DocumentRefused("size", "the document has too much to be kept");
}
