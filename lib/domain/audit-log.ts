/** Reading the audit: who did what, by identifiers. */
import type { z } from "zod";
import type { AuditFilter, AuditPage, AuditStore } from "../audit/audit-event.ts";
import { anyString, checked, exactly, integer } from "./arguments.ts";

/** Which records, and how many of them. */
export interface AuditQuery extends AuditFilter {
  /** `next` of the page before. */
  readonly after?: string;
  /** 1 to 1,000, default 100. */
  readonly limit?: number;
}

/** The audit. A fault of the storage is `StorageUnavailable`. */
export interface AuditLog {
  /**
   * A page of the records that fit, newest first. A page with `next` may be shorter than `limit`, even empty: reading goes
   * on where it stopped.
   * @throws TypeError for a wrong filter.
   */
  list(query?: AuditQuery): Promise<AuditPage>;
}

/** Seconds since the epoch. */
const time = integer(0, 9_000_000_000).exactOptional();

const auditQuery: z.ZodType<AuditQuery> = exactly({
  account: anyString.exactOptional(),
  client: anyString.exactOptional(),
  action: anyString.exactOptional(),
  since: time,
  until: time,
  after: anyString.exactOptional(),
  limit: integer(1, 1_000).exactOptional(),
});

/** @param flush stores what this process has collected, so that its own records are there. */
export function createAuditLog(store: Pick<AuditStore, "list">, flush: () => Promise<void>): AuditLog {
  return {
    async list(query = {}) {
      const { limit = 100, ...rest } = checked("query", auditQuery, query);
      await flush();
      return store.list({ ...rest, limit });
    },
  };
}
