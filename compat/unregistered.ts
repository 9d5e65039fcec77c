/** Requests of clients that nobody has registered: the step that may fetch their documents, after every check that needs none. */
import { createSignedIn } from "../provider/account.ts";
import { callerOf } from "../provider/exchange.ts";
import { sessionCookieName } from "../provider/sessions/cookies.ts";
import type { ProviderServices } from "../provider/services.ts";
import { noteLimited } from "../accounts/limits/attempt-limits.ts";
import { ANONYMOUS } from "../records/audit/audit-event.ts";
import type { ApiRecord } from "../records/directory/directory.ts";
import { badRequest, EndpointError, invalidRequest } from "./errors.ts";
import type { EndpointExchange } from "./exchange.ts";
import type { Fields } from "./form-fields.ts";

/** @returns the parameters with the scopes that such a client may have; those of other requests as they are. */
export type UnregisteredStep = (exchange: EndpointExchange, fields: Fields) => Promise<Fields>;

const isDocument = (clientId: string | undefined): clientId is string =>
  clientId?.startsWith("https://") === true;

/** The requested scopes that such a client may have of the API; all of them if none is left. */
function withScopes(fields: Fields, { unregistered, scopes }: ApiRecord): Fields {
  const [scope = "", ...more] = fields.all("scope");
  if (more.length > 0) return fields;
  const allowed = unregistered.filter((each) => Object.hasOwn(scopes, each));
  const wanted = scope.split(" ");
  const left = allowed.filter((each) => wanted.includes(each));
  return fields.with("scope", (left.length > 0 ? left : allowed).join(" "));
}

/**
 * The step at the authorization endpoint and at PAR. Without a kept copy that counts, it fetches the document.
 * @param seesPerson whether a browser is there, which somebody may be signed in with.
 */
export function unregisteredStep(
  services: Pick<
    ProviderServices,
    "documents" | "storage" | "configuration" | "currentProvider" | "accounts" | "audit"
  >,
  { seesPerson }: { readonly seesPerson: boolean },
): UnregisteredStep {
  const { documents, storage, configuration, currentProvider, audit } = services;
  if (documents === undefined) return async (_exchange, fields) => fields;
  const { directory } = storage;
  const findSignedIn = createSignedIn(currentProvider, services, sessionCookieName(configuration));

  /** What is wrong whatever the document says. */
  async function problem(url: string, fields: Fields): Promise<EndpointError | ApiRecord> {
    const [address, ...others] = fields.all("redirect_uri");
    if (fields.all("response_type").join(" ") !== "code") return invalidRequest("response_type must be code");
    if (address === undefined || others.length > 0) return invalidRequest("redirect_uri must be sent once");
    if (!documents?.mayRedirect(url, address))
      return badRequest("invalid_redirect_uri", "redirect_uri is no address that this client may have");
    const [resource = "", ...more] = fields.all("resource");
    const api = more.length > 0 ? undefined : await directory.findApi(resource);
    return api === undefined || api.unregistered.length === 0
      ? badRequest(
          "invalid_target",
          "resource must name one API that is open to clients that nobody registered",
        )
      : api;
  }

  return async (exchange, fields) => {
    const [url, ...others] = fields.all("client_id");
    if (!isDocument(url) || others.length > 0) return fields;
    const { ctx, address, deployment } = exchange;
    const unknown = badRequest("invalid_client", "the client is not known");
    if (deployment.kind !== "openid" || !URL.canParse(url) || !documents.isAllowed(url)) throw unknown;
    // What was pushed has been checked.
    if (fields.has("request_uri")) return fields;
    const found = await problem(url, fields);
    if (found instanceof EndpointError) {
      // A known client gets the answer at its address.
      if ((await documents.client(url)) === undefined) throw found;
      return fields;
    }
    exchange.api = found;
    const sub = async (): Promise<string | undefined> => {
      if (!seesPerson) return undefined;
      const { req, res } = ctx;
      return (await findSignedIn({ req, res, secure: deployment.secure }))?.account.sub;
    };
    // A slow document holds up nobody else.
    const asked = await exchange.outside(() => documents.ask(url, { address, sub }));
    if (asked.kind === "unknown") throw unknown;
    if (asked.kind === "fault") throw badRequest("invalid_client", asked.error.message);
    if (asked.kind === "wait") {
      const { retryAfter } = asked.attempt;
      exchange.retryAfter = retryAfter;
      noteLimited(audit, { ...callerOf(ctx, ANONYMOUS), action: "interaction" }, asked.attempt);
      throw new EndpointError(503, "temporarily_unavailable", "too many new clients were looked at", {
        retryAfter,
      });
    }
    exchange.client = asked.client;
    return withScopes(fields, found);
  };
}
