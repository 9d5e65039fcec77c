/** Events and audit records for the token families and sessions that oidc-provider has ended. */
import { clientRecord } from "./clients.ts";
import type { KoaContextWithOIDC, Provider } from "oidc-provider";
import { artifactKey } from "./adapter.ts";
import type { Unit } from "./unit-of-work.ts";
import type { AuditAction } from "../records/audit/actions.ts";
import type { Actor, AuditEvent } from "../records/audit/audit-event.ts";
import type { FamilyEnd } from "../core/events.ts";
import { callerOf } from "./exchange.ts";
import type { ProviderServices } from "./services.ts";

/** A family ends once. */
const FAMILY_WINDOW_SECONDS = 86_400;

interface Revocation {
  readonly reason: FamilyEnd;
  readonly action: AuditAction;
  readonly outcome: NonNullable<AuditEvent["outcome"]>;
}

const REVOKED: Revocation = { reason: "revoked", action: "family.revoked", outcome: "success" };
const SIGNED_OUT: Revocation = { ...REVOKED, reason: "signed_out" };
/** At the token endpoint a family is revoked because a code or refresh token was used again. */
const REUSED: Readonly<Record<string, Revocation>> = {
  authorization_code: { reason: "code_replayed", action: "code.replayed", outcome: "failure" },
  refresh_token: { reason: "refresh_token_reused", action: "refresh_token.reused", outcome: "failure" },
};

function revocationOf({ oidc: { route, params } }: KoaContextWithOIDC): Revocation {
  if (route === "token") return REUSED[String(params?.["grant_type"])] ?? REVOKED;
  return route === "end_session_confirm" ? SIGNED_OUT : REVOKED;
}

/** The account of a revoked family. Its grant is gone, and oidc-provider only exposes a code after accepting it. */
function accountOf(
  { entities, params, session }: KoaContextWithOIDC["oidc"],
  unit: Unit | undefined,
): string | undefined {
  const code = params?.["code"];
  const presented =
    typeof code === "string" ? unit?.known("AuthorizationCode", artifactKey(code)) : entities.RefreshToken;
  return presented?.accountId ?? session?.accountId;
}

/** Listens to the provider. Nothing is reported for a request that is not committed. */
export function reportEndedAccess(
  provider: Provider,
  { units, events, audit, webhooks }: Pick<ProviderServices, "units" | "events" | "audit" | "webhooks">,
): void {
  provider.on("grant.revoked", (ctx, grantId) => {
    const unit = units.current();
    const { reason, action, outcome } = revocationOf(ctx);
    const sub = accountOf(ctx.oidc, unit);
    const client_id = ctx.oidc.client && clientRecord(ctx.oidc.client).client_id;
    const actor: Actor =
      reason === "signed_out" || client_id === undefined
        ? { kind: "account", ...(sub === undefined ? {} : { id: sub }) }
        : { kind: "client", id: client_id };
    const event: AuditEvent = {
      ...callerOf(ctx, actor),
      action,
      ...(sub === undefined ? {} : { subject: sub }),
      ...(outcome === "success" ? {} : { outcome }),
    };
    unit?.whenCommitted(() => {
      events.emit("family.revoked", {
        ...(sub === undefined ? {} : { sub }),
        ...(client_id === undefined ? {} : { client_id }),
        reason,
      });
      // Requests at the same time all find the family. However many there are, it is one record.
      audit.noteRefusal(event, {
        limit: "family",
        bucket: artifactKey(grantId),
        seconds: FAMILY_WINDOW_SECONDS,
      });
    });
  });
  provider.on("end_session.success", (ctx) => {
    const { session, params } = ctx.oidc;
    const sub = session?.accountId;
    if (sub === undefined || !params?.["logout"]) return;
    const caller = callerOf(ctx, { kind: "account", id: sub });
    const event: AuditEvent = { ...caller, action: "session.ended", subject: sub, reason: "signed_out" };
    const unit = units.current();
    unit?.alongside((tx) => webhooks.beside(tx, event));
    unit?.whenCommitted(() => {
      events.emit("session.ended", { sub, reason: "signed_out" });
      audit.note(event);
    });
  });
}
