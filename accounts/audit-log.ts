/** The calls of `service.audit`. */
import { seconds } from "../core/clock.ts";
import { exportAudit } from "../records/audit/audit-export.ts";
import { type AuditLog, audit as table } from "./operations/audit.ts";
import { facade } from "./operations/operation.ts";
import type { AccountServices } from "./services.ts";

export function createAuditLog({
  storage,
  audit,
  clock,
}: Pick<AccountServices, "storage" | "audit" | "clock">): AuditLog {
  // What is read includes what this process has collected.
  return facade(table, {
    async list({ input }) {
      await audit.flush();
      return storage.audit.list(input);
    },
    async find({ target: [id] }) {
      await audit.flush();
      return storage.audit.find(id);
    },
    async export({ input, caller }) {
      await audit.flush();
      return exportAudit(storage.audit, input, caller, seconds(clock));
    },
  });
}
