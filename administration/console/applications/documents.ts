/** Clients that nobody has registered: who uses the APIs without being known here, and who may not. */
import type { DocumentClient } from "../../../accounts/operations/documents.ts";
import type { Item } from "../derived/list.ts";
import type { Look } from "../derived/pages.ts";
import { clip, nothing, text } from "../tables.ts";

const clientIn = (item: Item): DocumentClient => item as unknown as DocumentClient;

export const DOCUMENTS: Look = {
  columns: ["address", "calls_itself", "called_apis", "people", "first_grant_at", "state"],
  async cells({ t }) {
    return (item) => {
      const { address, name, called_apis: apis } = clientIn(item);
      return {
        // The host is never clipped, however long the address is.
        address: { ...text(new URL(address).host), note: new URL(address).pathname.replace(/^\/$/u, "") },
        calls_itself: name === null ? nothing : text(t("admin.document.name", { name })),
        called_apis: apis.length === 0 ? nothing : clip(apis.toReversed().join(" ")),
      };
    };
  },
  // What it calls itself is no name of ours.
  called: (record) => clientIn(record).address,
  async parts({ t }, record) {
    const { name } = clientIn(record);
    return { facts: { name: name === null ? undefined : text(t("admin.document.name", { name })).value } };
  },
  possible(verb, record) {
    const { address, blocked } = clientIn(record);
    return verb === "unblock" ? blocked === address : blocked === null;
  },
  danger: ["block"],
};
