/** A collection as a part that is handed out page by page, and taken in. */
import type { AnyBulkWriteOperation, Collection, Document, Filter } from "mongodb";
import type { TransferPart } from "../transfer.ts";
import type { Connection } from "./connection.ts";

/** Milliseconds for one page: a server may be slow, and nobody waits for a request. */
export const PAGE_TIME = 60_000;

export interface TransferCollection<Stored extends Document, Item> {
  readonly collection: Collection<Stored>;
  /** What it is ordered by, and found by: unique. */
  readonly by: keyof Stored & string;
  /** The value of that field for a place, and the other way round. Default: for strings. */
  readonly places?: { toPlace(value: unknown): string; toValue(place: string): unknown };
  /** Which documents are meant. Default: all. */
  filter?(): Filter<Stored>;
  toItems(documents: readonly Stored[]): Promise<readonly Item[]> | readonly Item[];
  /** @param position counted from 1. */
  toWrites(item: Item, position: number): AnyBulkWriteOperation<Stored>[];
  /** What else has to be written, after that. */
  afterwards?(items: readonly Item[]): Promise<void>;
}

const strings = { toPlace: String, toValue: (place: string): unknown => place };

export function createCollectionPart<Stored extends Document, Item>(
  connection: Connection,
  part: TransferCollection<Stored, Item>,
): TransferPart<Item> {
  const { collection, by, places = strings } = part;

  async function read(after: string | undefined, limit: number): Promise<readonly Stored[]> {
    const behind = after === undefined ? {} : { [by]: { $gt: places.toValue(after) } };
    const filter = { ...part.filter?.(), ...behind } as Filter<Stored>;
    const found = collection
      .find(filter)
      .sort({ [by]: 1 })
      .hint({ [by]: 1 })
      .limit(limit);
    return (await found.toArray()) as Stored[];
  }

  return {
    count: () => connection.run(() => collection.estimatedDocumentCount(), PAGE_TIME),
    read: ({ after, limit }) =>
      connection.run(async () => {
        const documents = await read(after, limit);
        const last = documents.length < limit ? undefined : documents.at(-1);
        return {
          records: await part.toItems(documents),
          ...(last !== undefined && { after: places.toPlace(last[by]) }),
        };
      }, PAGE_TIME),
    write: (items, before) =>
      connection.run(async () => {
        const writes = items.flatMap((item, index) => part.toWrites(item, before + index + 1));
        if (writes.length > 0) await collection.bulkWrite(writes, { ordered: false });
        await part.afterwards?.(items);
      }, PAGE_TIME),
  };
}

/** Puts a document in the place of the one with its `_id`, if there is one. */
export function put<Stored extends { readonly _id: unknown }>(
  document: Stored,
): AnyBulkWriteOperation<Stored> {
  const { _id } = document;
  return {
    replaceOne: { filter: { _id } as Filter<Stored>, replacement: document, upsert: true },
  };
}
