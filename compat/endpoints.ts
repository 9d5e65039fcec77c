/** The table of endpoints: everything that the documents say about one can be read off its row. */
import type { EndpointName } from "../config/deployments.ts";
import { atomically } from "./atomically.ts";
import {
  authorizeProtocol,
  boundedState,
  codeResponse,
  exactParameters,
  knownClient,
  matchingRedirect,
  plainScope,
  provenCode,
  pushedRequest,
  readableRefusal,
  resumeProtocol,
} from "./authorize.ts";
import { ANONYMOUS } from "../lib/audit/audit-event.ts";
import { noteLimited } from "../lib/provider/attempt-limits.ts";
import { basicClaims, bearer, endToken, notPrefetched, profileClaims, queriedClient } from "./bearer.ts";
import { auditCaller } from "./caller.ts";
import { EndpointError } from "./endpoint-error.ts";
import type { CompatDependencies, Step } from "./exchange.ts";
import {
  checkPushed,
  introspection,
  plainDiscovery,
  standardUserinfo,
  withBody,
  withQuery,
} from "./openid-endpoints.ts";
import { createProtocolStep, type Protocol } from "./protocol-step.ts";
import { grantAhead, sessionAhead } from "./read-ahead.ts";
import { parseFields } from "./form-fields.ts";
import { formBody } from "./request-body.ts";
import { byMeaning, standardRevocation } from "./revoke.ts";
import { basicReadings, namedClient, requiredRedirect, tokenProtocol } from "./token.ts";

/** The steps of each endpoint, by method; a method that is not there falls under `*`. */
export type EndpointTable = Readonly<
  Partial<Record<EndpointName, Readonly<Record<string, readonly Step[]>>>>
>;

/** `profile: strict` takes no credentials and changes nothing in a GET. */
function refusedBy(strict: boolean): Step {
  return async (_exchange, next) => {
    if (strict)
      throw new EndpointError(
        400,
        "invalid_request",
        "revoke with POST: GET is turned off (profile: strict)",
      );
    await next();
  };
}

/** Builds the table for one service. */
export function endpointTable(dependencies: CompatDependencies): EndpointTable {
  const protocol = createProtocolStep(dependencies);
  const authorize = authorizeProtocol(dependencies, protocol);
  const atomic = atomically(dependencies);
  const strict = dependencies.configuration.profile === "strict";
  const tokenOwner = [queriedClient(dependencies), bearer(dependencies)];
  const userinfo = { "*": [...tokenOwner, basicClaims] };
  const profile = { "*": [...tokenOwner, profileClaims] };
  const authenticated = [namedClient(dependencies), basicReadings];
  const tokens = tokenProtocol(protocol, atomic, dependencies);
  const documentedRevoke = compose([notPrefetched, ...tokenOwner, endToken(dependencies)]);
  const standardRevoke = compose([...authenticated, standardRevocation(protocol, atomic)]);
  return {
    authorize: {
      "*": [
        exactParameters,
        sessionAhead(dependencies),
        knownClient(dependencies),
        atomic,
        pushedRequest(dependencies),
        matchingRedirect,
        boundedState,
        codeResponse(authorize),
        provenCode(dependencies),
        plainScope,
        readableRefusal,
        authorize,
      ],
    },
    resume: { "*": [atomic, resumeProtocol(dependencies, protocol)] },
    token: { "*": [formBody, grantAhead(dependencies), ...authenticated, requiredRedirect, tokens] },
    userinfo,
    userinfoAlias: userinfo,
    profile,
    profileAlias: profile,
    revoke: {
      GET: [refusedBy(strict), documentedRevoke],
      POST: [formBody, byMeaning(documentedRevoke, standardRevoke)],
    },
    discovery: { "*": [plainDiscovery, withQuery(protocol)] },
    jwks: { "*": [withQuery(protocol)] },
    par: { "*": [formBody, ...authenticated, checkPushed(dependencies), atomic, withBody(protocol)] },
    introspect: { "*": [formBody, ...authenticated, atomic, introspection(protocol)] },
    standardUserinfo: {
      GET: [atomic, standardUserinfo(protocol)],
      POST: [formBody, atomic, standardUserinfo(protocol)],
    },
    logout: { "*": [atomic, pageFrame(dependencies), signOut(dependencies, protocol)] },
    logoutConfirm: { "*": [formBody, atomic, pageFrame(dependencies), withBody(protocol)] },
    logoutSuccess: { "*": [atomic, pageFrame(dependencies), withQuery(protocol)] },
    interaction: {
      GET: [atomic, ({ ctx }) => dependencies.interactions.show(ctx)],
      POST: [atomic, ({ ctx }) => dependencies.interactions.submit(ctx)],
    },
  };
}

/** The library keeps a session for everybody who asks to be signed out: who is not signed in takes a point for it. */
function signOut({ limits, audit }: CompatDependencies, protocol: Protocol): Step {
  return async (exchange) => {
    const { oidc } = await protocol(exchange, { query: parseFields(exchange.ctx.querystring) });
    if (oidc?.session?.accountId !== undefined) return;
    const attempt = await limits.interaction(exchange.address);
    if (attempt.allowed) return;
    noteLimited(audit, { ...auditCaller(exchange, ANONYMOUS), action: "interaction" }, attempt);
    const { retryAfter } = attempt;
    throw new EndpointError(429, "temporarily_unavailable", "too many requests", { retryAfter });
  };
}

/** The library's own pages carry the headers of ours. */
function pageFrame({ pages }: CompatDependencies): Step {
  return async ({ ctx }, next) => {
    pages.security(ctx);
    await next();
  };
}

/** One step that runs several, in order. */
export function compose(steps: readonly Step[]): Step {
  return (exchange, next) => {
    const at = (index: number): Promise<void> => {
      const step = steps[index];
      return step === undefined ? next() : step(exchange, () => at(index + 1));
    };
    return at(0);
  };
}
