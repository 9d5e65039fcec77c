/** Reading the audit: what was changed and asked for, by identifiers. */
import type { AuditRecord, DirectoryStore } from "../directory/directory.ts";
import { checked, exactly, integer } from "./arguments.ts";

/** How much of the audit. */
export interface AuditPage {
  /** 1 to 10,000, default 100. */
  readonly limit?: number;
}

/** @throws TypeError for a wrong page; StorageUnavailable */
export type AuditLog = (page?: AuditPage) => Promise<AuditRecord[]>;

const auditPage = exactly({ limit: integer(1, 10_000).exactOptional() });

/** The newest record comes first. */
export function createAuditLog(directory: Pick<DirectoryStore, "listAudit">): AuditLog {
  return async (page = {}) => {
    const { limit = 100 } = checked("page", auditPage, page);
    return directory.listAudit({ limit });
  };
}
