/** oidc-provider with the documented answers: the constructor calls both methods that are overridden here. */
import {
  Provider,
  type Configuration,
  type KoaContextWithOIDC,
  type TokenEndpointGrantContext,
} from "oidc-provider";
import type { ProtocolDependencies, ProtocolState } from "./dependencies.ts";
import { tellEndings } from "./endings.ts";
import { appendToQuery, described, responseMembers } from "./responses.ts";
import { codeGrant, refreshGrant, type GrantHandler } from "./token-grants.ts";

type ResponseMode = Parameters<Provider["registerResponseMode"]>[1];

/** The `state` as it was sent, also an empty one. */
function sentState(ctx: KoaContextWithOIDC): string | undefined {
  const value = ctx.oidc.params?.["sent_state"];
  return typeof value === "string" ? value.slice(1) : undefined;
}

/** The documented redirect: 302, exactly the documented members, on both deployments in the query. */
const query: ResponseMode = (ctx, address, members) => {
  const { deployment } = ctx.state as ProtocolState;
  ctx.status = 302;
  ctx.set(
    "Location",
    appendToQuery(address, responseMembers(described(members), sentState(ctx), deployment)),
  );
  ctx.body = "";
};

/** Another response mode with the members that the deployment sends. */
function deployed(handler: ResponseMode): ResponseMode {
  return (ctx, address, members) => {
    // An error is an answer to the client too: the page that carries it there is no error of its own.
    ctx.status = 200;
    const { deployment } = ctx.state as ProtocolState;
    return handler(ctx, address, responseMembers(described(members), sentState(ctx), deployment));
  };
}

const grantWrappers: Readonly<
  Record<string, (original: GrantHandler, dependencies: ProtocolDependencies) => GrantHandler>
> = { authorization_code: codeGrant, refresh_token: refreshGrant };

/** Makes the provider; the constructor already registers what is wrapped here. */
export function createServiceProvider(
  issuer: string,
  configuration: Configuration,
  dependencies: ProtocolDependencies,
): Provider {
  class ServiceProvider extends Provider {
    override registerResponseMode(name: string, handler: ResponseMode): void {
      // A code never travels in a fragment: who asks for it is refused in the query.
      if (name === "fragment") return;
      super.registerResponseMode(name, name === "query" ? query : deployed(handler));
    }

    override registerGrantType<Params extends object>(
      name: string,
      handler: (ctx: TokenEndpointGrantContext<Params>) => void | Promise<void>,
      ...rest: (string | readonly string[] | ReadonlySet<string>)[]
    ): void {
      const original: GrantHandler = (ctx) => handler(ctx as unknown as TokenEndpointGrantContext<Params>);
      const wrapped = grantWrappers[name]?.(original, dependencies) ?? original;
      super.registerGrantType(name, (ctx) => wrapped(ctx), ...rest);
    }
  }
  const provider = new ServiceProvider(issuer, configuration);
  // What it hides behind an answer of its own, such as a store that does not answer, is kept for the edge.
  provider.on("server_error", (_ctx, error) => {
    const unit = dependencies.units.current();
    if (unit !== undefined) unit.failure ??= error;
  });
  tellEndings(provider, dependencies);
  return provider;
}
