/** Who asks, and from where, as far as the audit keeps it: of a request that the protocol library answers. */
import type { KoaContextWithOIDC } from "oidc-provider";
import type { Actor, Caller } from "../audit/audit-event.ts";
import { placeOf } from "../audit/place.ts";
import type { ProtocolState } from "./dependencies.ts";

/** @param ctx a context of the library; its client is the one through which it is asked. */
export function protocolCaller(
  ctx: Pick<KoaContextWithOIDC, "state" | "headers"> & { readonly oidc?: KoaContextWithOIDC["oidc"] },
  actor: Actor,
): Caller {
  const { address = "" } = ctx.state as Partial<ProtocolState>;
  const client = ctx.oidc?.client?.clientId;
  return {
    actor,
    ...(client === undefined ? {} : { client }),
    ...placeOf(address, ctx.headers["user-agent"]),
  };
}
