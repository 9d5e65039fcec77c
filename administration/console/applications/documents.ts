/** Clients that nobody has registered: who uses the APIs without being known here, and who may not. */
import type { DocumentClient } from "../../../accounts/operations/documents.ts";
import type { Item } from "../derived/list.ts";
import type { Look } from "../derived/pages.ts";
import { clip, nothing } from "../tables.ts";

const clientIn = (item: Item): DocumentClient => item as unknown as DocumentClient;

export const DOCUMENTS: Look = {
  columns: ["address", "calls_itself", "people", "first_grant_at", "fetched_at", "state"],
  async cells({ t }) {
    return (item) => {
      const { name } = clientIn(item);
      return { calls_itself: name === null ? nothing : clip(t("admin.document.name", { name })) };
    };
  },
  // What it calls itself is no name of ours.
  called: (record) => clientIn(record).address,
  possible(verb, record) {
    const { address, blocked } = clientIn(record);
    return verb === "unblock" ? blocked === address : blocked === null;
  },
  danger: ["block"],
};
