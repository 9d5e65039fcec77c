/** Tells events and audit what the protocol library has ended, once that is committed: families and sessions. */
import type { KoaContextWithOIDC, Provider } from "oidc-provider";
import { artifactKey } from "../../adapters/oidc/adapter.ts";
import type { Unit } from "../../adapters/oidc/unit-of-work.ts";
import type { AuditAction } from "../audit/actions.ts";
import type { Actor, AuditEvent } from "../audit/audit-event.ts";
import type { FamilyEnd } from "../events.ts";
import { protocolCaller } from "./caller.ts";
import type { ProtocolDependencies } from "./dependencies.ts";

type Oidc = KoaContextWithOIDC["oidc"];

interface Ending {
  readonly reason: FamilyEnd;
  readonly action: AuditAction;
  readonly outcome: NonNullable<AuditEvent["outcome"]>;
}

const REVOKED: Ending = { reason: "revoked", action: "family.revoked", outcome: "success" };
const SIGNED_OUT: Ending = { ...REVOKED, reason: "signed_out" };
/** At the token endpoint a family ends because something was used again. */
const REUSED: Readonly<Record<string, Ending>> = {
  authorization_code: { reason: "code_replayed", action: "code.replayed", outcome: "failure" },
  refresh_token: { reason: "refresh_token_reused", action: "refresh_token.reused", outcome: "failure" },
};

function endingOf({ oidc }: KoaContextWithOIDC): Ending {
  const { route, params } = oidc;
  if (route === "token") return REUSED[String(params?.["grant_type"])] ?? REVOKED;
  return route === "end_session_confirm" ? SIGNED_OUT : REVOKED;
}

/** Whose the family was. The grant itself is gone by now; a code is known to the library only once it is found good. */
function accountOf({ entities, params, session }: Oidc, unit: Unit | undefined): string | undefined {
  const code = params?.["code"];
  const presented =
    typeof code === "string" ? unit?.known("AuthorizationCode", artifactKey(code)) : entities.RefreshToken;
  return presented?.accountId ?? session?.accountId;
}

/** Listens to the provider; a request that is not committed has ended nothing. */
export function tellEndings(
  provider: Provider,
  { units, events, audit }: Pick<ProtocolDependencies, "units" | "events" | "audit">,
): void {
  provider.on("grant.revoked", (ctx) => {
    const unit = units.current();
    const { oidc } = ctx;
    const { reason, action, outcome } = endingOf(ctx);
    const sub = accountOf(oidc, unit);
    const client_id = oidc.client?.clientId;
    const actor: Actor =
      reason === "signed_out" || client_id === undefined
        ? { kind: "account", ...(sub === undefined ? {} : { id: sub }) }
        : { kind: "client", id: client_id };
    const event: AuditEvent = {
      ...protocolCaller(ctx, actor),
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
      audit.note(event);
    });
  });
  provider.on("end_session.success", (ctx) => {
    const { session, params } = ctx.oidc;
    const sub = session?.accountId;
    if (sub === undefined || !params?.["logout"]) return;
    const caller = protocolCaller(ctx, { kind: "account", id: sub });
    units.current()?.whenCommitted(() => {
      events.emit("session.ended", { sub, reason: "signed_out" });
      audit.note({ ...caller, action: "session.ended", subject: sub, reason: "signed_out" });
    });
  });
}
