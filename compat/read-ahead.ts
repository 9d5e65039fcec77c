/**
 * Reads that need nothing of each other are on their way together: what a request presents is asked for before it is
 * known whose request it is. Who has no right to it is told so all the same.
 */
import { artifactKey, PRESENTABLE } from "../adapters/oidc/adapter.ts";
import type { Ahead } from "../adapters/oidc/unit-of-work.ts";
import type { CompatDependencies, Exchange, Step } from "./exchange.ts";

/** Which artifact a grant begins with, and the parameter that names it. */
const PRESENTED: Readonly<Record<string, readonly [model: string, parameter: string]>> = {
  authorization_code: ["AuthorizationCode", "code"],
  refresh_token: ["RefreshToken", "refresh_token"],
};

function begun(model: string, key: string, found: Ahead["found"]): Ahead {
  // Whoever asks for it meets the fault; perhaps nobody does.
  found.catch(() => undefined);
  return { model, key, found };
}

/** The code or refresh token of a token request, with its grant. */
export function presentedGrant(
  { body, ctx }: Pick<Exchange, "body" | "ctx">,
  { artifacts }: Pick<CompatDependencies, "artifacts">,
): Ahead | undefined {
  // Nothing is read for those who show no secret.
  if (ctx.req.headers.authorization === undefined && !body?.has("client_secret")) return undefined;
  const grantType = body?.one("grant_type") ?? "";
  const [model, parameter] = (Object.hasOwn(PRESENTED, grantType) && PRESENTED[grantType]) || [];
  const presented = parameter === undefined ? undefined : body?.one(parameter);
  if (model === undefined || presented === undefined || !PRESENTABLE.test(presented)) return undefined;
  const key = artifactKey(presented);
  return begun(model, key, artifacts.find(model, key));
}

/** Begins to read the code or refresh token. */
export function grantAhead(dependencies: CompatDependencies): Step {
  return async (exchange, next) => {
    exchange.ahead = presentedGrant(exchange, dependencies);
    await next();
  };
}

/** Begins to read the session that the cookie names; whether the cookie is ours is seen to before it counts. */
export function sessionAhead({ artifacts, sessionCookie }: CompatDependencies): Step {
  const front = `${sessionCookie}=`;
  return async (exchange, next) => {
    const pairs = exchange.ctx.req.headers.cookie?.split(/; */) ?? [];
    const id = pairs.find((pair) => pair.startsWith(front))?.slice(front.length);
    if (id !== undefined && PRESENTABLE.test(id)) {
      const key = artifactKey(id);
      exchange.ahead = begun("Session", key, artifacts.find("Session", key));
    }
    await next();
  };
}
