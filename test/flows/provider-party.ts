/** A service with a provider that tests control, and people whose accounts are linked there. */
import type { IdentityChanges, LinkedAs } from "../../accounts/identities/identity.ts";
import type { SignInServiceConfig } from "../../config/input.ts";
import { SYSTEM } from "../../records/audit/audit-event.ts";
import type { Browser } from "../../testing/browser/browser.ts";
import { createTestProvider, type ProviderPerson, type TestProvider } from "../../testing/test-provider.ts";
import { closing } from "../closing.ts";
import { onLocalhost, type RunningOptions, type RunningService, startService } from "./running-service.ts";

type ProviderSettings = NonNullable<SignInServiceConfig["providers"]>[string];

export interface ProviderParty extends RunningService {
  /** The service calls it `corp`. */
  readonly provider: TestProvider;
  /** Links somebody at a provider to an account. Default: at `corp`. */
  link(sub: string, person: Pick<ProviderPerson, "sub" | "email">, key?: string): Promise<void>;
}

/** @param settings of the provider, besides those of every one. */
export async function startWithProvider(
  settings: Partial<ProviderSettings> = {},
  { config, ...options }: RunningOptions = {},
): Promise<ProviderParty> {
  const provider = await createTestProvider();
  closing(provider);
  if (config?.clock !== undefined) provider.clock = config.clock;
  const { issuer } = provider;
  const running = await startService({
    deployments: onLocalhost,
    ...options,
    config: { ...config, providers: { corp: { ...provider.settings, ...settings }, ...config?.providers } },
  });
  return Object.assign(running, {
    provider,
    link: (sub: string, { sub: subject, email }: Pick<ProviderPerson, "sub" | "email">, key = "corp") =>
      linkTo(running, sub, { provider: key, issuer, subject, ...(email !== undefined && { email }) }),
  });
}

/** Links an identity to an account. */
export async function linkTo(
  { service }: Pick<RunningService, "service">,
  sub: string,
  identity: LinkedAs,
): Promise<void> {
  const accounts = service.accounts as typeof service.accounts & IdentityChanges;
  const linked = await accounts.addIdentity(sub, identity, undefined, SYSTEM);
  if (linked.kind !== "linked") throw new Error(`not linked: ${linked.kind}`);
}

/** Presses the button of a provider. The browser goes there, and comes back if it follows redirects of other hosts. */
export function leaveFor(browser: Browser, key = "corp"): Promise<Browser> {
  const form = browser
    .forms()
    .find(({ buttons }) => buttons.some(([name, value]) => name === "provider" && value === key));
  return browser.submit(form, { provider: key });
}

/** The address with which the provider sends a browser back that {@link leaveFor} has left at the way there. */
export async function answerOf(party: ProviderParty, browser: Browser): Promise<string> {
  if (browser.location === undefined) throw new Error("the browser did not leave");
  return (await party.provider.visit(browser.location.href)).url;
}
