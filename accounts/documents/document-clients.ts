/** What operators see of clients that nobody has registered, and how they keep them out. */
import { isDocumentEntry } from "../../config/clients.ts";
import { InvalidArgument, NotApplicable } from "../../core/errors.ts";
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
  { url, name, people = 0, apis = [], redirect_uris, jwks, ...times }: StoredDocument,
  { isAllowed, block }: { readonly isAllowed: boolean; readonly block: StoredDocumentBlock | undefined },
): DocumentClient {
  return {
    address: url,
    host: new URL(url).host,
    name: name ?? null,
    state: stateOf(isAllowed, block),
    people,
    called_apis: apis,
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
  called_apis: [],
  first_grant_at: null,
  fetched_at: null,
  blocked: block?.blocked ?? null,
  blocked_at: block?.blocked_at ?? null,
  redirect_uris: [],
  authentication: "none",
});

/** The block of a client, or else of its origin. */
const blockOf = (blocks: readonly StoredDocumentBlock[], { url, origin }: StoredDocument) =>
  blocks.find(({ blocked }) => blocked === url) ?? blocks.find(({ blocked }) => blocked === origin);

/** The place of a client in the list: the time of its first grant, and its id. */
interface Position {
  readonly order: number;
  readonly id: string;
}

/** Sorts before the addresses of all blocks. */
const AFTER_CLIENTS = "https:";

/** Reads `after`. A string is the address of a block; blocks follow the clients. @throws InvalidArgument for a value that no page returned. */
function positionOf(after: string): Position | string {
  if (after === AFTER_CLIENTS || isDocumentEntry(after)) return after;
  const [, order = "", id = ""] = /^(\d{1,15})\.(document:[\w-]{43})$/u.exec(after) ?? [];
  if (id === "") throw new InvalidArgument({ path: "after", message: "must be `next` of another page" });
  return { order: Number(order), id };
}

/** @param documents undefined while `clients.metadataDocuments` is not set. */
export function createDocumentClients({
  documents,
  storage: { records },
}: Pick<AccountServices, "documents" | "storage">): DocumentClients {
  function required(): Documents {
    if (documents === undefined) throw new NotApplicable("clients.metadataDocuments is not set");
    return documents;
  }

  /** The blocks of addresses and origins that are not listed as clients. */
  async function others(blocks: readonly StoredDocumentBlock[]): Promise<readonly DocumentClient[]> {
    const kept = await records.get<StoredDocument[]>(
      blocks.map(({ blocked }) => DOCUMENT.ref(documentId(blocked))),
    );
    return blocks
      .filter((_block, index) => kept[index]?.value.first_grant_at === undefined)
      .map((block) => unkept(block.blocked, { isAllowed: false, block }))
      .toSorted((one, other) => (one.address < other.address ? -1 : 1));
  }

  /** One read, however many clients there are. The store orders those whose first grants have the same time. */
  async function clients({ limit, after }: { readonly limit: number; readonly after: Position | undefined }) {
    const query = { ...DOCUMENT.where("listed", "granted"), descending: true, to: after?.order };
    const found = await records.list<StoredDocument>(query, limit + 2);
    const values = found.map(({ value }) => value);
    const last = values.findIndex(({ url }) => documentId(url) === after?.id);
    const rest = values
      .slice(last + 1)
      .filter(({ first_grant_at }) => last >= 0 || first_grant_at !== after?.order);
    return { items: rest.slice(0, limit), hasMore: rest.length > limit };
  }

  return facade(table, {
    async list({ input: { state, limit, after } }) {
      if (documents === undefined) return { items: [], next: null };
      const blocks = await documents.blocks();
      const fits = (each: DocumentClient): boolean => state === undefined || each.state === state;
      const position = after === undefined ? undefined : positionOf(after);
      if (typeof position === "string")
        return pageOf((await others(blocks)).filter(fits), ({ address }) => address, {
          limit,
          after: position,
        });
      const page = await clients({ limit, after: position });
      const shown = page.items.map((each) =>
        shownDocument(each, { isAllowed: documents.isAllowed(each.url), block: blockOf(blocks, each) }),
      );
      const last = page.items.at(-1);
      if (page.hasMore && last !== undefined)
        return { items: shown.filter(fits), next: `${last.first_grant_at}.${documentId(last.url)}` };
      const listed = shown.filter(fits);
      const room = limit - listed.length;
      const rest = (await others(blocks)).filter(fits);
      if (room === 0 && rest.length > 0) return { items: listed, next: AFTER_CLIENTS };
      const { items, next } = pageOf(rest, ({ address }) => address, {
        limit: Math.max(1, room),
        after: undefined,
      });
      return { items: [...listed, ...items], next };
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
