/** The table of endpoints. A row shows everything that the service does at an endpoint, step by step. */
import type { AccountPage } from "../provider/pages.ts";
import type { UnitsOfWork } from "../provider/unit-of-work.ts";
import type { DirectoryRecords } from "../records/directory/directory-records.ts";
import type { EndpointName } from "../config/deployments.ts";
import {
  asksForCode,
  checkPushed,
  consumeSignInPoint,
  createRedirectCheck,
  knownClient,
  prefetchSession,
  providerParameters,
  pushedRequest,
  refuseResponseType,
  requireChallenge,
  resumeAuthorization,
  runAuthorization,
  sentParameters,
  withoutResponseType,
  withRedirect,
  withRefusalMode,
} from "./authorize.ts";
import { clientLogo, pageScript } from "./page-files.ts";
import { clientCredentials, isOpen, requireProfile } from "./client-credentials.ts";
import { deviceCodes, deviceRequest } from "./device.ts";
import { badRequest, EndpointError, invalidRequest } from "./errors.ts";
import type { Atomic, Handler } from "./exchange.ts";
import type { EndpointServices } from "./services.ts";
import { type Fields, parseFields, queryFields } from "./form-fields.ts";
import { introspection } from "./introspect.ts";
import { publicDiscovery, signOut, standardUserinfo, withQuery } from "./openid-endpoints.ts";
import { unregisteredStep } from "./unregistered.ts";
import { createProofChecks } from "./proofs.ts";
import { createProtocol } from "./protocol.ts";
import { authorizationForm, protocolForm } from "./request-body.ts";
import { isBearerRevocation, refuseGet, refusePrefetch, revokeBearer, standardRevocation } from "./revoke.ts";
import {
  issueTokens,
  prefetch,
  presentedGrant,
  presentedToken,
  repeatingLostRefresh,
  requireTokenParameters,
} from "./token.ts";
import { basicClaims, bearer, profileClaims, TokenOwners } from "./userinfo.ts";

/** The handlers of an endpoint, by method; `*` stands for all other methods that its path supports. */
export type HandlersByMethod = Readonly<Record<string, Handler>>;

/** Builds the table for one service. */
export function endpointTable(
  services: EndpointServices,
): Readonly<Partial<Record<EndpointName, HandlersByMethod>>> {
  const { configuration, storage, units, clients, claims, pages } = services;
  const { interactions, confirm, providerCallback } = services;
  const { profile: strictness } = configuration;
  const protocol = createProtocol(services);
  const atomic = atomically(units);
  const readSessionAhead = prefetchSession(services);
  const authorize = runAuthorization(protocol, services);
  const resume = resumeAuthorization(authorize, units);
  const resources = registeredResources(storage.directory);
  const withClient = clientCredentials(services);
  const unregistered = unregisteredStep(services, { seesPerson: true });
  const unregisteredPush = unregisteredStep(services, { seesPerson: false });
  const requireRegistered = createRedirectCheck(services);
  const checkPush = checkPushed(services, requireRegistered);
  const requireDevice = deviceRequest(services);
  const issueDeviceCode = deviceCodes(protocol, claims);
  const owners = new TokenOwners();
  const issue = issueTokens(protocol, owners, services);
  const introspect = introspection(protocol, configuration.deployments.openid !== undefined);
  const proofChecks = createProofChecks(services);
  const token = bearer(services, owners, proofChecks);
  const userinfo = { "*": token(basicClaims) };
  const profile = { "*": token(profileClaims) };
  const userinfoOfToken = standardUserinfo(protocol, units, proofChecks);
  const revokeToken = standardRevocation(protocol, atomic);
  const revokeBearerToken = token(revokeBearer(services));
  const revokeAsDocumented: Handler = async (exchange) => {
    refusePrefetch(exchange);
    await revokeBearerToken(exchange);
  };
  const answerQuery = withQuery(protocol);

  /** Runs oidc-provider, which may render a page itself. */
  const onPage =
    (handler: Handler): Handler =>
    (exchange) =>
      atomic(exchange, async () => {
        pages.security(exchange.ctx);
        await handler(exchange);
      });

  return {
    authorize: {
      "*": async (exchange) => {
        const sent = await unregistered(exchange, await resources(await sentParameters(exchange)));
        await atomic(exchange, async () => {
          readSessionAhead(exchange);
          const client = await knownClient(exchange, sent, clients);
          await requireProfile("authorization", exchange, client, sent);
          if (sent.has("request_uri"))
            return authorize(exchange, await pushedRequest(sent, client, units.required()));
          const query = withRedirect(exchange, sent, client, clients, requireRegistered);
          const forProvider = (fields: Fields): Fields =>
            providerParameters(fields, exchange, client, services);
          if (!asksForCode(query)) {
            const reporting = withoutResponseType(exchange, query);
            if (reporting === undefined) return refuseResponseType(exchange, query);
            return authorize(exchange, forProvider(reporting));
          }
          requireChallenge(query, strictness);
          await authorize(exchange, withRefusalMode(forProvider(query)));
        });
      },
    },
    device: {
      "*": async (exchange) => {
        const body = await resources(await authorizationForm(exchange));
        await withClient(exchange, body, async ({ authorization, ...presented }) => {
          const client = await requireDevice(exchange, presented.client);
          await atomic(exchange, () => issueDeviceCode(exchange, { body, authorization }, client));
        });
      },
    },
    resume: { "*": (exchange) => atomic(exchange, () => resume(exchange)) },
    token: {
      "*": async (exchange) => {
        const body = await resources(await protocolForm(exchange));
        const attempt = (): Promise<void> =>
          atomic(exchange, () => {
            prefetch(units.required(), exchange, body, presentedGrant(body));
            return withClient(exchange, body, async (presented) => {
              requireTokenParameters(body);
              await issue(exchange, { body, ...presented });
            });
          });
        await repeatingLostRefresh(exchange, body, attempt);
      },
    },
    userinfo,
    userinfoAlias: userinfo,
    profile,
    profileAlias: profile,
    revoke: {
      GET: async (exchange) => {
        refuseGet(strictness);
        await revokeAsDocumented(exchange);
      },
      POST: async (exchange) => {
        const body = await protocolForm(exchange);
        if (isBearerRevocation(exchange, body, await proofChecks.revokes(exchange)))
          return revokeAsDocumented(exchange);
        await withClient(exchange, body, ({ authorization }) =>
          revokeToken(exchange, { body, authorization }),
        );
      },
    },
    discovery: { "*": publicDiscovery(protocol, services) },
    jwks: { "*": answerQuery },
    par: {
      "*": async (exchange) => {
        const body = await unregisteredPush(exchange, await resources(await authorizationForm(exchange)));
        await withClient(exchange, body, async ({ client, authorization }) => {
          checkPush(exchange, body, client);
          await requireProfile("pushed", exchange, client, body);
          await proofChecks.pushed(exchange);
          const pushed = providerParameters(body, exchange, client, services);
          // A client without credentials is a stranger: its request consumes the point of the sign-in that follows.
          if (isOpen(clients, client)) await consumeSignInPoint(exchange, services);
          await atomic(exchange, async () => {
            await protocol(exchange, { body: pushed, authorization });
          });
        });
      },
    },
    introspect: {
      "*": async (exchange) => {
        const body = await protocolForm(exchange);
        await atomic(exchange, () => {
          prefetch(units.required(), exchange, body, presentedToken(body));
          return withClient(exchange, body, async ({ client, authorization }) => {
            // RFC 7662 section 2.1.
            if (isOpen(clients, client))
              throw badRequest("invalid_client", "introspection needs a client with credentials");
            await introspect(exchange, { body, authorization });
          });
        });
      },
    },
    standardUserinfo: {
      GET: (exchange) => atomic(exchange, () => userinfoOfToken(exchange)),
      POST: async (exchange) => {
        const body = await protocolForm(exchange);
        await atomic(exchange, () => userinfoOfToken(exchange, body));
      },
    },
    logout: { "*": onPage(signOut(protocol)) },
    logoutConfirm: {
      "*": async (exchange) => {
        const body = await protocolForm(exchange);
        await onPage(async () => {
          await protocol(exchange, { body });
        })(exchange);
      },
    },
    logoutSuccess: { "*": onPage(answerQuery) },
    clientLogo: { "*": clientLogo(clients) },
    pageScript: { "*": pageScript(pages.script) },
    interaction: {
      GET: (exchange) => atomic(exchange, () => interactions.show(exchange.ctx)),
      POST: (exchange) => atomic(exchange, () => interactions.submit(exchange.ctx)),
    },
    confirm: {
      GET: ({ ctx }) => confirm.show(ctx, parseFields(ctx.querystring).one("token")),
      POST: ({ ctx }) => confirm.submit(ctx),
    },
    providerCallback: {
      GET: async ({ ctx }) => {
        const query = queryFields(ctx.querystring);
        if (query.repeated().length > 0) throw invalidRequest("a parameter is repeated");
        await providerCallback.show(ctx, new URLSearchParams(query.toString()));
      },
      POST: ({ ctx }) => providerCallback.submit(ctx),
    },
  };
}

/** The handlers of a page under `{base}/account`. A malformed or repeated query parameter is a 400. */
export function accountHandlers({ methods }: AccountPage): HandlersByMethod {
  const rows = Object.entries(methods).map(([method, handler]): [string, Handler] => [
    method,
    async ({ ctx, path, uid = "" }) => {
      const query = parseFields(ctx.querystring);
      if (query.repeated().length > 0) throw invalidRequest("a parameter is repeated");
      await handler(ctx, { path, id: uid, query: new Map(query.entries()) });
    },
  ]);
  return Object.fromEntries(rows);
}

function atomically(units: UnitsOfWork): Atomic {
  return (exchange, work) =>
    units.run(exchange, async (unit) => {
      let refusal: EndpointError | undefined;
      try {
        await work();
      } catch (error) {
        if (!(error instanceof EndpointError) || error.status >= 500 || error.status === 429) throw error;
        refusal = error;
      }
      if (unit.failure !== undefined) throw unit.failure;
      if (!exchange.isHead) await unit.commit();
      if (refusal) throw refusal;
    });
}

/** An origin with a slash behind it, as many clients write it because they make URLs of identifiers. */
const ORIGIN_WITH_SLASH = /^https?:\/\/[^/?#]+\/$/;

/**
 * The parameter `resource` (RFC 8707), before anything else reads it (decisions.md, What is an API?). Removes the slash of
 * `https://host/` if the registered identifier is `https://host`.
 */
function registeredResources({
  findApi,
}: Pick<DirectoryRecords, "findApi">): (fields: Fields) => Promise<Fields> {
  return async (fields) => {
    const named = new Set(fields.all("resource").filter((each) => ORIGIN_WITH_SLASH.test(each)));
    if (named.size === 0) return fields;
    const known = new Map<string, string>();
    for (const each of named) {
      const plain = each.slice(0, -1);
      const [exact, other] = await Promise.all([findApi(each), findApi(plain)]);
      if (exact === undefined && other !== undefined) known.set(each, plain);
    }
    return fields.map("resource", (each) => known.get(each) ?? each);
  };
}
