/** How a registered client looks to oidc-provider. */
import type { AdapterPayload, Client } from "oidc-provider";
import type { ClientRecord } from "../directory/directory.ts";
import type { Configuration } from "../../config/configuration.ts";

/** The record from which the library's client was built; as fresh as the request, for it is read on each. */
export function clientRecord(client: Client): ClientRecord {
  return client["record"] as ClientRecord;
}

/**
 * The metadata of a client (OpenID Connect Dynamic Client Registration 1.0, section 2).
 * @param options.signingAlgorithm for clients that were registered without one.
 * @param options.profile with `strict` the library does not know the password grant, not even as a name.
 */
export function clientMetadata(
  record: ClientRecord,
  { signingAlgorithm, profile }: { signingAlgorithm: string; profile: Configuration["profile"] },
): AdapterPayload {
  return {
    client_id: record.client_id,
    client_name: record.name,
    // Required to be there; it is never compared, see the patch of compareClientSecret.
    client_secret: "kept-as-a-keyed-digest",
    application_type: "web",
    token_endpoint_auth_method: "client_secret_basic",
    redirect_uris: [...record.redirect_uris],
    post_logout_redirect_uris: [...record.post_logout_redirect_uris],
    grant_types: record.grant_types.filter((type) => profile !== "strict" || type !== "password"),
    // With a response type the library adds the grant that belongs to it.
    response_types: record.grant_types.includes("authorization_code") ? ["code"] : [],
    id_token_signed_response_alg: record.id_token_signed_response_alg ?? signingAlgorithm,
    ...(record.backchannel_logout_uri === null
      ? {}
      : { backchannel_logout_uri: record.backchannel_logout_uri, backchannel_logout_session_required: true }),
    record,
  } as AdapterPayload;
}
