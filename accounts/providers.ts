/** What providers mean for clients and accounts (decisions.md, Signing in with another provider, Domains). */
import { isOperator } from "../config/operators.ts";
import type { Configuration } from "../config/configuration.ts";
import type { IdentityProvider } from "../config/providers.ts";
import { seconds } from "../core/clock.ts";
import type { AccountRecord, ClientRecord } from "../records/directory/directory.ts";
import { domainOf, readName } from "./names.ts";

/** Whether a client offers this provider to everybody. One with `only` is offered to its domains in any case. */
export function offersProvider(
  { providers }: Pick<ClientRecord, "providers">,
  { key }: Pick<IdentityProvider, "key">,
): boolean {
  return providers?.includes(key) ?? true;
}

/**
 * The provider of the domain of an address, in whatever form it was typed. It depends on nothing else, so it says nothing about
 * accounts. `undefined` for a username, and for a domain that no provider has.
 */
export function providerForDomain<P extends Pick<IdentityProvider, "domains">>(
  providers: readonly P[],
  typed: string,
): P | undefined {
  const name = readName(typed);
  if (name === undefined || !name.includes("@")) return undefined;
  const domain = domainOf(name);
  return providers.find(({ domains }) => domains.includes(domain));
}

/**
 * The provider that an account signs in with and with nothing else: its confirmed address is in a domain of a provider with `only`.
 * `undefined` for operators of the service, who may have to repair the provider.
 */
export function onlyProvider(
  configuration: Pick<Configuration, "providers" | "operators">,
  account: Pick<AccountRecord, "sub" | "email" | "email_verified">,
): IdentityProvider | undefined {
  const { providers } = configuration;
  if (!account.email_verified || !providers.some(({ only }) => only)) return undefined;
  if (isOperator(configuration, account.sub)) return undefined;
  const provider = providerForDomain(providers, account.email);
  return provider?.only === true ? provider : undefined;
}

/** When somebody was last at a provider to sign in. Sessions have it, and the grants, codes and tokens that come from them. */
export interface ProviderSignIn {
  readonly sub: string;
  /** Its key. */
  readonly provider: string;
  /** Seconds since the epoch. */
  readonly at: number;
}

/** The configuration that sessions and tokens depend on. */
export type ProviderRules = Pick<Configuration, "providers" | "operators" | "clock">;

/**
 * Whether a session or a token with this last sign-in at a provider still counts. For an account that signs in at a provider only, it does
 * for `sessionMax`: the provider lets nobody in who has left. Nothing else that the person shows here prolongs that.
 */
export function isProvided(
  rules: ProviderRules,
  account: Pick<AccountRecord, "sub" | "email" | "email_verified">,
  last: ProviderSignIn | undefined,
): boolean {
  const only = onlyProvider(rules, account);
  if (only === undefined) return true;
  if (last === undefined || last.sub !== account.sub || last.provider !== only.key) return false;
  return last.at + (only.sessionMax ?? 0) > seconds(rules.clock);
}

/** The domains that need no dot in an address that a person enters: the organization has them inside. */
export function dotlessDomains({
  interactions: { registration },
  providers,
}: Pick<Configuration, "interactions" | "providers">): readonly string[] {
  const { domains = [] } = typeof registration === "object" ? registration : {};
  return [...domains, ...providers.flatMap((provider) => provider.domains)];
}
