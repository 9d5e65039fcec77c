/** The composition root of the HTTP side: oidc-provider, the pages, and what they do at the endpoints. */
import type { AccountServices } from "../accounts/services.ts";
import type { EndpointServices } from "../compat/services.ts";
import { createSigner, deriveKey, hmac } from "../core/sealing.ts";
import { createPeopleServices } from "./account-services.ts";
import { type AccountGate, createAccountGate } from "../interactions/account/gate.ts";
import { createAccountPages } from "../interactions/account/pages.ts";
import { createReturnPaths } from "../interactions/account/return-paths.ts";
import { createAccountSeals } from "../interactions/account/seals.ts";
import { createRequestSeals } from "../interactions/again.ts";
import { createConfirmHandlers } from "../interactions/confirm.ts";
import { createConsolePages, createConsoleSeals } from "../interactions/console/console-pages.ts";
import { createPeoplePages } from "../interactions/console/people.ts";
import { createDeviceCookies } from "../interactions/device-cookie.ts";
import { createEndedSignIns } from "../interactions/ended.ts";
import { createSignInFlow } from "../interactions/flow.ts";
import { createInteractionHandlers } from "../interactions/handlers.ts";
import { createLinkCookie } from "../interactions/link-cookie.ts";
import { createPages } from "../interactions/pages.ts";
import { createProviderCallback } from "../interactions/provider-callback.ts";
import { createSignInProtocol } from "../interactions/protocol.ts";
import type { PageServices } from "../interactions/services.ts";
import { firstState } from "../interactions/steps/passkey-sign-in.ts";
import type { Offers } from "../interactions/steps/step.ts";
import { createTrips } from "../interactions/trips.ts";
import type { Notifications } from "../notifier/operations.ts";
import { createSignedIn, type FindSignedIn } from "../provider/account.ts";
import { createCurrentProvider } from "../provider/current-provider.ts";
import { createConnectedDevices, createDeviceCodes } from "../provider/grants/device-codes.ts";
import type { ServiceContext } from "../provider/exchange.ts";
import type { AccountPage } from "../provider/pages.ts";
import { createProofs } from "../provider/proofs/proofs.ts";
import { createProvider } from "../provider/provider.ts";
import type { ProviderServices } from "../provider/services.ts";
import { createFindBrowser } from "../provider/sessions/browser-cookie.ts";
import {
  cookieName,
  endedSessionCookies,
  hostCookieName,
  sessionCookieName,
} from "../provider/sessions/cookies.ts";
import { createSignInSessions } from "../provider/sessions/sessions.ts";
import { createUnitsOfWork } from "../provider/unit-of-work.ts";

/** Everything that a service is made of. */
export interface Services extends PageServices, EndpointServices {
  readonly pages: PageServices["pages"];
}

/** Everything behind the endpoints. The start fails if oidc-provider refuses its settings. */
export function createHttpServices(
  given: AccountServices & Pick<ProviderServices, "backchannel" | "claims" | "upstream" | "onProvider">,
  {
    notifications,
    onRequest,
  }: { readonly notifications: Notifications } & Pick<EndpointServices, "onRequest">,
): Services {
  const { configuration, storage, clock, keys, sealer } = given;
  const people = createPeopleServices(given);
  const { passkeys } = people.secondFactors;
  const below = {
    ...given,
    ...people,
    units: createUnitsOfWork(storage, sealer, clock),
    proofs: createProofs({ configuration, clients: given.clients, events: given.events, key: keys.proofs }),
    findBrowser: createFindBrowser(configuration),
    pages: createPages({ ...configuration.interactions, accounts: configuration.accounts }),
    firstState: passkeys && (() => firstState(passkeys)),
  };
  const currentProvider = createCurrentProvider(
    (signing) => createProvider(below, signing),
    () => keys.signing.inForce(),
  );
  currentProvider();
  const parts = { ...below, currentProvider, ...cookiesOf(below), trips: createTrips(below) };
  const returns = createReturnPaths({ ...parts, keys: formKeys(parts, "account return") });
  const provider = {
    ...parts,
    gate: createAccountGate(parts, { findSignedIn: findSignedIn(parts), returns }),
  };
  return {
    ...provider,
    ...signInSteps(provider),
    accountPages: accountPages(provider, notifications),
    onRequest,
  };
}

/** The parts that the pages are built from. */
type PageParts = ProviderServices &
  Pick<Services, "pages" | "links" | "devices" | "trips"> & { readonly gate: AccountGate };

/** The steps of a sign-in, and the page that links in mail lead to. */
function signInSteps(
  services: PageParts,
): Pick<Services, "flow" | "ended" | "interactions" | "confirm" | "providerCallback"> {
  const { configuration, keys, passwords, people, secondFactors } = services;
  const { days } = secondFactors.rememberedBrowsers;
  const offers: Offers = {
    ...(people.registrations !== undefined && { registration: people.registrations.settings }),
    resets: people.passwordResets !== undefined,
    emailCode: people.signInCodes !== undefined,
    passwordLength: passwords.length,
    ...(days !== undefined && { rememberDays: days }),
    // Adding a first factor takes a confirmation by mail.
    passkeys: secondFactors.passkeys !== undefined,
    passkeyOffer:
      configuration.secondFactor.offer &&
      secondFactors.passkeys !== undefined &&
      secondFactors.enrolments !== undefined,
  };
  const parts = {
    ...services,
    directory: services.storage.directory,
    offers,
    forms: createSigner(keys.forms),
    seals: createRequestSeals(formKeys(services, "sign-in again"), services.clock),
  };
  const ended = createEndedSignIns(services, parts.seals);
  const flow = createSignInFlow({ ...parts, protocol: createSignInProtocol(services, parts) });
  return {
    flow,
    ended,
    interactions: createInteractionHandlers({ ...services, flow, ended }, configuration.interactions.ui),
    confirm: createConfirmHandlers(services, parts),
    providerCallback: createProviderCallback({ ...parts, flow }, findSignedIn(services)),
  };
}

const findSignedIn = (services: ProviderServices): FindSignedIn =>
  createSignedIn(services.currentProvider, services, sessionCookieName(services.configuration));

/** The pages under `{base}/account`. Without operators there is no console. */
function accountPages(services: PageParts, notifications: Notifications): readonly AccountPage[] {
  const { configuration, storage, clock, keys } = services;
  const signer = createSigner(keys.forms);
  const console = {
    ...services,
    notifications,
    seals: createConsoleSeals(signer),
  };
  const endedCookies = endedSessionCookies(configuration);
  const parts = {
    ...services,
    sessions: createSignInSessions(services),
    deviceCodes: createDeviceCodes(services),
    connectedDevices: createConnectedDevices(storage.artifacts, services.clients, configuration),
    seals: createAccountSeals({ signer, keys: formKeys(services, "account forms") }, clock),
    forgetSession: (ctx: ServiceContext) => ctx.append("Set-Cookie", [...endedCookies]),
  };
  return createAccountPages(parts, [...createConsolePages(console), ...createPeoplePages(console)]);
}

/** The keys that seal one thing of the forms. The first one seals, all open. */
function formKeys({ keys }: Pick<AccountServices, "keys">, purpose: string): ReturnType<typeof deriveKey>[] {
  return keys.forms.map((key) => deriveKey(hmac(key, purpose), `sign-in-service ${purpose}`));
}

function cookiesOf({
  configuration,
  keys,
  findBrowser,
}: Pick<ProviderServices, "configuration" | "keys" | "findBrowser">) {
  return {
    links: createLinkCookie(cookieName(configuration, "link"), findBrowser),
    devices: createDeviceCookies({
      signer: createSigner(keys.forms),
      name: hostCookieName(configuration, "device"),
      wayName: hostCookieName(configuration, "way"),
      rememberedName: hostCookieName(configuration, "remembered"),
    }),
  };
}
