/** Reading the audit log. */
import type { z } from "zod";
import type { AuditFilter, AuditPage, AuditStore } from "../records/audit/audit-event.ts";
import { anyString, checked, exactly, integer } from "./arguments.ts";

/** Which records to list, and how many. */
export interface AuditQuery extends AuditFilter {
  /** The `next` of the previous page. */
  readonly after?: string;
  /** 1 to 1,000, default 100. */
  readonly limit?: number;
}

/** The audit log. A storage fault is `StorageUnavailable`. */
export interface AuditLog {
  /**
   * A page of the records that match, newest first. A page with `next` can be shorter than `limit`, even empty: the next
   * page continues where it ends.
   * @throws InvalidArgument for a wrong filter.
   */
  list(query?: AuditQuery): Promise<AuditPage>;
}

/** Seconds since the epoch. */
const time = integer(0, 9_000_000_000).exactOptional();

const auditQuery: z.ZodType<AuditQuery> = exactly({
  account: anyString.exactOptional(),
  client: anyString.exactOptional(),
  action: anyString.exactOptional(),
  request: anyString.exactOptional(),
  since: time,
  until: time,
  after: anyString.exactOptional(),
  limit: integer(1, 1_000).exactOptional(),
});

/** @param flush writes the records that this process has collected, so that the list includes them. */
export function createAuditLog(store: Pick<AuditStore, "list">, flush: () => Promise<void>): AuditLog {
  return {
    async list(query = {}) {
      const { limit = 100, ...rest } = checked("query", auditQuery, query);
      await flush();
      return store.list({ ...rest, limit });
    },
  };
}
