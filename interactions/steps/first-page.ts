/**
 * What the first page of a sign-in asks for. Where a provider that counts at the client has domains, it asks for the name first, and
 * then for what the domain of the name allows, whether or not there is such an account (decisions.md, Signing in with another
 * provider, Domains).
 */
import { domainOf, shownEmail } from "../../accounts/names.ts";
import { providerForDomain } from "../../accounts/providers.ts";
import type { DomainProvider, ShownProvider } from "../look/providers.ts";
import type { RunningSignIn, StepName } from "./running-sign-in.ts";

/** What the step `login` asks for now. */
export interface FirstPage {
  /**
   * A name and what proves it; the name first, and then what proves it; or nothing: people with such an address sign in with a provider
   * and with nothing else.
   */
  readonly asks: "everything" | "name" | "proof" | "nothing";
  /** The domain of the name, if a provider has it. */
  readonly domain?: DomainOffer;
}

interface DomainOffer {
  /** As people read it. */
  readonly name: string;
  readonly provider: DomainProvider;
}

type Signing = Pick<
  RunningSignIn,
  "client" | "providers" | "domains" | "account" | "state" | "hinted" | "byOwnWay"
>;

/** On the pages of the service itself there is always the password: an operator may have to repair the provider. */
export function firstPage({ client, domains = [], state: { named, username = "" } }: Signing): FirstPage {
  if (domains.length === 0) return { asks: "everything" };
  if (named !== true) return { asks: "name" };
  const provider = providerForDomain(domains, username);
  if (provider === undefined) return { asks: "proof" };
  const isOnly = provider.only && client.own !== true;
  return { asks: isOnly ? "nothing" : "proof", domain: { name: domainOf(shownEmail(username)), provider } };
}

/**
 * The providers that the person can go to at this step: after the name, that of its domain; after a hint of the client, that one; to
 * sign in again, those that the account has.
 */
export function providersAt(step: StepName, signIn: Signing): readonly ShownProvider[] {
  const { providers = [], account, hinted, byOwnWay = false } = signIn;
  if (step === "provider") return providers.filter(({ key }) => key === hinted);
  if (step === "reauthenticate" && byOwnWay) return [];
  if (step === "reauthenticate")
    return providers.filter(({ key }) => account?.providers?.includes(key) === true);
  if (step !== "login") return [];
  const { asks, domain } = firstPage(signIn);
  if (asks === "everything" || asks === "name") return providers;
  return domain === undefined ? [] : [domain.provider];
}
