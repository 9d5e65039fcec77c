/** The table of endpoints. A row shows everything that the service does at an endpoint, step by step. */
import compose from "koa-compose";
import type { AccountPage } from "../provider/pages.ts";
import type { UnitsOfWork } from "../provider/unit-of-work.ts";
import type { EndpointName } from "../config/deployments.ts";
import type { FindBrowser } from "../provider/sessions/browser-cookie.ts";
import {
  checkPushed,
  createRedirectCheck,
  codeResponse,
  exactParameters,
  knownClient,
  matchingRedirect,
  plainScope,
  prefetchSession,
  pushedPoint,
  pushedRequest,
  refusalMode,
  requiredChallenge,
  resumeAuthorization,
  runAuthorization,
} from "./authorize.ts";
import { clientLogo, pageScript } from "./page-files.ts";
import { clientCredentials, confidentialClient } from "./client-credentials.ts";
import { deviceCodes, deviceRequest } from "./device.ts";
import { EndpointError, invalidRequest } from "./errors.ts";
import type { EndpointExchange, Step } from "./exchange.ts";
import type { EndpointServices } from "./services.ts";
import { parseFields } from "./form-fields.ts";
import { introspection } from "./introspect.ts";
import { registeredResources } from "./resources.ts";
import {
  pageHeaders,
  publicDiscovery,
  signOut,
  standardUserinfo,
  withBody,
  withQuery,
} from "./openid-endpoints.ts";
import { createProtocol } from "./protocol.ts";
import { authorizationBody, formBody } from "./request-body.ts";
import {
  eitherRevocation,
  notPrefetched,
  notWhenStrict,
  revokeBearer,
  standardRevocation,
} from "./revoke.ts";
import {
  issueTokens,
  passwordWithoutResource,
  prefetchPresented,
  presentedGrant,
  presentedToken,
  repeatingLostRefresh,
  requiredRedirect,
} from "./token.ts";
import { basicClaims, bearer, profileClaims, TokenOwners } from "./userinfo.ts";

/** The steps of an endpoint, by method; `*` stands for all other methods that its path supports. */
export type StepsByMethod = Readonly<Record<string, readonly Step[]>>;

/** Builds the table for one service. */
export function endpointTable(
  services: EndpointServices,
): Readonly<Partial<Record<EndpointName, StepsByMethod>>> {
  const { configuration, storage, units, clients, claims, events, pages, interactions, confirm } = services;
  const { profile: strictness } = configuration;
  const protocol = createProtocol(services);
  const atomic = atomically(units);
  const inBrowser = ofBrowser(services.findBrowser);
  const authorize = runAuthorization(protocol, services);
  const resources = registeredResources(storage.directory);
  const credentials = clientCredentials(services);
  const requireRegistered = createRedirectCheck(services);
  const owners = new TokenOwners();
  const token = bearer(services, owners);
  const userinfo = { "*": [token(basicClaims)] };
  const profile = { "*": [token(profileClaims)] };
  const documentedRevoke = compose<EndpointExchange>([notPrefetched, token(revokeBearer(services))]);
  const standardRevoke = compose<EndpointExchange>([credentials, standardRevocation(protocol, atomic)]);
  return {
    authorize: {
      "*": [
        exactParameters,
        resources,
        inBrowser,
        atomic,
        prefetchSession(services),
        knownClient(clients),
        pushedRequest(units),
        matchingRedirect(requireRegistered),
        codeResponse(authorize, claims),
        requiredChallenge(strictness),
        plainScope(claims),
        refusalMode,
        authorize,
      ],
    },
    device: {
      "*": [
        authorizationBody,
        resources,
        credentials,
        deviceRequest(services),
        atomic,
        deviceCodes(protocol, claims),
      ],
    },
    resume: { "*": [inBrowser, atomic, resumeAuthorization(authorize, units)] },
    token: {
      "*": [
        formBody,
        resources,
        repeatingLostRefresh([
          atomic,
          prefetchPresented(units, presentedGrant),
          credentials,
          requiredRedirect,
          passwordWithoutResource,
          issueTokens(protocol, owners, events),
        ]),
      ],
    },
    userinfo,
    userinfoAlias: userinfo,
    profile,
    profileAlias: profile,
    revoke: {
      GET: [notWhenStrict(strictness), documentedRevoke],
      POST: [formBody, eitherRevocation(documentedRevoke, standardRevoke)],
    },
    discovery: { "*": [publicDiscovery(services), withQuery(protocol)] },
    jwks: { "*": [withQuery(protocol)] },
    par: {
      "*": [
        authorizationBody,
        resources,
        credentials,
        checkPushed(strictness, requireRegistered, claims),
        pushedPoint(services),
        atomic,
        withBody(protocol),
      ],
    },
    introspect: {
      "*": [
        formBody,
        atomic,
        prefetchPresented(units, presentedToken),
        credentials,
        confidentialClient,
        introspection(protocol, configuration.deployments.openid !== undefined),
      ],
    },
    standardUserinfo: {
      GET: [atomic, standardUserinfo(protocol, units)],
      POST: [formBody, atomic, standardUserinfo(protocol, units)],
    },
    logout: { "*": [atomic, pageHeaders(pages), signOut(protocol)] },
    logoutConfirm: { "*": [formBody, atomic, pageHeaders(pages), withBody(protocol)] },
    logoutSuccess: { "*": [atomic, pageHeaders(pages), withQuery(protocol)] },
    clientLogo: { "*": [clientLogo(clients)] },
    pageScript: { "*": [pageScript(pages.script)] },
    interaction: {
      GET: [inBrowser, atomic, ({ ctx }) => interactions.show(ctx)],
      POST: [inBrowser, atomic, ({ ctx }) => interactions.submit(ctx)],
    },
    confirm: {
      GET: [({ ctx }) => confirm.show(ctx, parseFields(ctx.querystring).one("token"))],
      POST: [({ ctx }) => confirm.submit(ctx)],
    },
  };
}

/** The steps of a page under `{base}/account`. */
export function accountSteps({ methods }: AccountPage): StepsByMethod {
  const rows = Object.entries(methods).map(([method, handler]) => [method, [accountStep(handler)]]);
  return Object.fromEntries(rows) as StepsByMethod;
}

/** A malformed or repeated query parameter is a 400. */
function accountStep(handler: AccountPage["methods"][string]): Step {
  return async ({ ctx, path, uid = "" }) => {
    const query = parseFields(ctx.querystring);
    if (query.repeated().length > 0) throw invalidRequest("a parameter is repeated");
    await handler(ctx, { path, id: uid, query: new Map(query.entries()) });
  };
}

/** A sign-in begins and continues in one browser. */
function ofBrowser(findBrowser: FindBrowser): Step {
  return (exchange, next) => {
    exchange.browser = findBrowser(exchange.ctx);
    return next();
  };
}

/**
 * One request, one write: commits what the following steps write once they succeed. It also commits if they refuse the
 * request with a client error, because revoking a replayed family is part of such a refusal. A fault commits nothing, and neither does a HEAD request.
 */
function atomically(units: UnitsOfWork): Step {
  return async (exchange, next) => {
    await units.run(exchange, async (unit) => {
      let refusal: EndpointError | undefined;
      try {
        await next();
      } catch (error) {
        if (!(error instanceof EndpointError) || error.status >= 500 || error.status === 429) throw error;
        refusal = error;
      }
      if (unit.failure !== undefined) throw unit.failure;
      if (!exchange.isHead) await unit.commit();
      if (refusal) throw refusal;
    });
  };
}
