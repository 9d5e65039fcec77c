/** What operators see of clients that nobody has registered, and how they keep them out. */
import { isDocumentEntry } from "../../config/clients.ts";
import { NotApplicable } from "../../core/errors.ts";
import {
  DOCUMENT,
  documentId,
  type StoredDocument,
  type StoredDocumentBlock,
} from "../../records/directory/document-kinds.ts";
import type { Documents } from "./documents.ts";
import { type DocumentClient, type DocumentClients, documents as table } from "../operations/documents.ts";
import { facade, pageOf } from "../operations/operation.ts";
import type { AccountServices } from "../services.ts";

const secondsOf = (at: number | undefined): number | null =>
  at === undefined ? null : Math.floor(at / 1000);

function stateOf(isAllowed: boolean, block: StoredDocumentBlock | undefined): DocumentClient["state"] {
  if (block !== undefined) return "blocked";
  return isAllowed ? "allowed" : "refused";
}

/** A client as the calls show it. @param block of the client or its origin. */
function shownDocument(
  { url, name, people = 0, redirect_uris, jwks, ...times }: StoredDocument,
  { isAllowed, block }: { readonly isAllowed: boolean; readonly block: StoredDocumentBlock | undefined },
): DocumentClient {
  return {
    address: url,
    host: new URL(url).host,
    name: name ?? null,
    state: stateOf(isAllowed, block),
    people,
    first_grant_at: secondsOf(times.first_grant_at),
    fetched_at: secondsOf(times.fetched_at),
    blocked: block?.blocked ?? null,
    blocked_at: block?.blocked_at ?? null,
    redirect_uris,
    authentication: jwks === undefined ? "none" : "private_key_jwt",
  };
}

/** An origin, or an address of which there is no copy. */
const unkept = (
  address: string,
  { isAllowed, block }: { readonly isAllowed: boolean; readonly block: StoredDocumentBlock | undefined },
): DocumentClient => ({
  address,
  host: new URL(address).host,
  name: null,
  state: stateOf(isAllowed, block),
  people: 0,
  first_grant_at: null,
  fetched_at: null,
  blocked: block?.blocked ?? null,
  blocked_at: block?.blocked_at ?? null,
  redirect_uris: [],
  authentication: "none",
});

/** @param documents undefined while `clients.metadataDocuments` is not set. */
export function createDocumentClients({
  documents,
  storage: { records },
}: Pick<AccountServices, "documents" | "storage">): DocumentClients {
  function required(): Documents {
    if (documents === undefined) throw new NotApplicable("clients.metadataDocuments is not set");
    return documents;
  }

  async function all(from: Documents): Promise<readonly DocumentClient[]> {
    const [kept, blocked] = await Promise.all([
      records.list<StoredDocument>(DOCUMENT.where("kept", "granted")),
      from.blocks(),
    ]);
    const by = new Map(blocked.map((each) => [each.blocked, each]));
    const clients = kept.map(({ value }) =>
      shownDocument(value, {
        isAllowed: from.isAllowed(value.url),
        block: by.get(value.url) ?? by.get(value.origin),
      }),
    );
    const known = new Set(clients.map(({ address }) => address));
    const others = blocked
      .filter(({ blocked: address }) => !known.has(address))
      .map((block) => unkept(block.blocked, { isAllowed: false, block }));
    return [...clients, ...others].toSorted((one, other) => (one.address < other.address ? -1 : 1));
  }

  return facade(table, {
    async list({ input: { state, ...window } }) {
      if (documents === undefined) return { items: [], next: null };
      const found = await all(documents);
      const listed = found.filter((each) => state === undefined || each.state === state);
      return pageOf(listed, ({ address }) => address, window);
    },
    async find({ target: [address] }) {
      if (documents === undefined || !isDocumentEntry(address)) return undefined;
      const [kept, blocked] = await Promise.all([
        records.find(DOCUMENT.ref(documentId(address))),
        documents.blocks(),
      ]);
      const { origin } = new URL(address);
      const block =
        blocked.find((each) => each.blocked === address) ?? blocked.find((each) => each.blocked === origin);
      const found = { isAllowed: documents.isAllowed(address), block };
      return kept === undefined ? unkept(address, found) : shownDocument(kept.value, found);
    },
    async block({ target: [address], input: { whole_origin: isWhole = false }, caller }) {
      const what = isWhole && URL.canParse(address) ? new URL(address).origin : address;
      await required().block(what, caller);
    },
    async unblock({ target: [address], caller }) {
      if (!(await required().unblock(address, caller))) throw new NotApplicable("it is not blocked");
    },
  });
}
