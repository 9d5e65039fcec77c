/** The client through which the account pages sign in: first-party, not listed, of no service. */
import type { ClientRecord } from "../directory/directory.ts";
import { SYSTEM } from "../audit/audit-event.ts";
import { seconds } from "../clock.ts";
import { changeClient, type ClientDeps } from "./client-change.ts";

/** Its `client_id`: no other client can have it. */
export const ACCOUNT_CLIENT = "sign-in-service.account";

/** What the internal client is made of; it has no secret, for nobody outside speaks in its name. */
export interface InternalClient {
  readonly client_id: string;
  readonly name: string;
  readonly redirect_uris: readonly string[];
}

/** See `ClientInternals.keepInternal`. A client of a service with this id is left as it is, which is an error. */
export async function keepInternalClient(deps: ClientDeps, client: InternalClient): Promise<ClientRecord> {
  const { record } = await changeClient(deps, client.client_id, SYSTEM, (before) => {
    if (before !== undefined && before.service !== null) {
      throw new TypeError("client_id: belongs to a registered client");
    }
    const after = { ...(before ?? blank(client.client_id, seconds(deps.clock))), ...client };
    if (before !== undefined && JSON.stringify(after) === JSON.stringify(before)) return undefined;
    return { action: before === undefined ? "client.registered" : "client.updated", record: after };
  });
  if (record === undefined) throw new TypeError("client_id: could not be kept");
  return record;
}

function blank(client_id: string, now: number): ClientRecord {
  return {
    client_id,
    name: "",
    service: null,
    secrets: [],
    redirect_uris: [],
    post_logout_redirect_uris: [],
    backchannel_logout_uri: null,
    grant_types: ["authorization_code"],
    first_party: true,
    refresh_tokens: {},
    error_status: "documented",
    disabled: false,
    created_at: now,
    updated_at: now,
    version: 1,
  };
}
