/** The composition root: makes the parts of a service, in order. Tests make theirs here too, and replace what they watch. */
import { AccessCleanup } from "../accounts/access-cleanup.ts";
import { createAccounts } from "../accounts/accounts.ts";
import { ACCOUNT_CLIENT, CONSOLE_CLIENT } from "../accounts/clients/client.ts";
import { createClients } from "../accounts/clients/clients.ts";
import { createSecondFactors, relyingPartyOf } from "../accounts/factors/factors.ts";
import { createAttemptLimits } from "../accounts/limits/attempt-limits.ts";
import { createNewBrowsers } from "../accounts/limits/new-browsers.ts";
import { createPasswordCheck } from "../accounts/limits/password-check.ts";
import { createBreachCheck } from "../accounts/passwords/breach-check.ts";
import { passwordLength } from "../accounts/passwords/password-rules.ts";
import { createPasswords, type PasswordContext } from "../accounts/passwords/passwords.ts";
import { createConfirmations } from "../accounts/people/confirmations.ts";
import { createPeople } from "../accounts/people/people.ts";
import type { AccountServices } from "../accounts/services.ts";
import type { EndpointServices } from "../compat/exchange.ts";
import type { Configuration, DeploymentKind } from "../config/configuration.ts";
import { createSigner, deriveKey, hmac } from "../core/sealing.ts";
import { createAccountGate } from "../interactions/account/gate.ts";
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
import { createJsonHandlers, wantsJson } from "../interactions/json.ts";
import { createLinkCookie } from "../interactions/link-cookie.ts";
import { createPages } from "../interactions/pages.ts";
import { createSignInProtocol } from "../interactions/protocol.ts";
import type { PageServices } from "../interactions/services.ts";
import { firstState } from "../interactions/steps/passkey-sign-in.ts";
import type { Offers } from "../interactions/steps/step.ts";
import type { Notifications } from "../notifier/notifications.ts";
import type { NewDelivery } from "../records/deliveries/delivery.ts";
import { createSignedIn } from "../provider/account.ts";
import { createCurrentProvider } from "../provider/current-provider.ts";
import { createConnectedDevices, createDeviceCodes } from "../provider/grants/device-codes.ts";
import { GRANTABLE } from "../provider/grants/grant.ts";
import type { AccountPage } from "../provider/pages.ts";
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
import { tellingRefusals } from "../records/rate-limits.ts";
import type { StorageServices } from "../records/services.ts";

/** Everything that a service is made of. */
export interface Services extends PageServices, EndpointServices {
  readonly pages: PageServices["pages"];
}

/** What the accounts are built from, besides the storage. */
type Given = StorageServices &
  Pick<AccountServices, "keys" | "onMail"> &
  Pick<ProviderServices, "backchannel"> & {
    /** Called after a commit that stored deliveries. */
    readonly onDeliveries: (deliveries: readonly NewDelivery[]) => void;
  };

/** The rules of the accounts. @param replaced parts that are not made here. */
export function createAccountServices(
  given: Given,
  hashing: Pick<PasswordContext, "isCheap" | "onHashed">,
  replaced: Partial<AccountServices> = {},
): AccountServices {
  const { configuration, storage, clock, events, audit, keys, backchannel, onMail } = given;
  const { deployments, profile, operators, production } = configuration;
  const mailDeployment = mailDeploymentOf(configuration);
  const passwords =
    replaced.passwords ?? createPasswords(configuration.passwords, { ...passwordContext(given), ...hashing });
  const confirmations = createConfirmations({ ...given, records: storage.records, key: keys.confirmations });
  const limits = createAttemptLimits(
    configuration.rateLimits,
    tellingRefusals(storage.rateLimits, (limit) => events.emit("limit.refused", { limit })),
    keys.rateLimits,
  );
  const cleanup =
    replaced.cleanup ??
    new AccessCleanup({
      storage,
      clock,
      limits: configuration.limits,
      events,
      onAudit: (event) => audit.note(event),
      onSessions: (sub, sessions) => backchannel.sessionsEnded(sub, sessions),
    });
  const accounts = createAccounts({
    ...given,
    cleanup,
    passwords,
    confirmations,
    mailDeployment,
    profile,
    operators,
    grantable: GRANTABLE,
    codeKey: keys.confirmations,
    failureKey: keys.rateLimits,
    notify: given.onDeliveries,
  });
  const clients = createClients({
    ...given,
    cleanup,
    forgetConsents: (clientId, caller) => accounts.forgetConsents(clientId, caller),
    secretKey: keys.clientSecrets,
    sendsLogoutTokens: deployments.openid !== undefined,
    idTokenAlgorithms: () => keys.signing.inForce().map(({ alg }) => alg),
    production,
  });
  return { ...given, mailDeployment, passwords, confirmations, limits, cleanup, accounts, clients, onMail };
}

/** Everything behind the endpoints. oidc-provider checks its settings: a mistake stops the start. */
export function createHttpServices(
  given: AccountServices & Pick<ProviderServices, "backchannel" | "onProvider">,
  {
    notifications,
    onRequest,
  }: { readonly notifications: Notifications } & Pick<EndpointServices, "onRequest">,
): Services {
  const { configuration, storage, clock, keys } = given;
  const { directory } = storage;
  const shared = { ...given, directory };
  const mails = { ...given, store: storage.signIns, key: keys.rateLimits };
  const people = createPeople(configuration, shared, given.onWarning);
  const secondFactors = createSecondFactors(configuration, {
    ...given,
    records: storage.records,
    auditStore: storage.audit,
    codeKey: keys.confirmations,
    relyingParty: relyingPartyOf(configuration),
  });
  const { passkeys } = secondFactors;
  const below = {
    ...given,
    people,
    secondFactors,
    passwordCheck: createPasswordCheck(given.accounts, mails),
    newBrowsers: createNewBrowsers(mails),
    units: createUnitsOfWork(storage.artifacts, keys.sealer, clock),
    findBrowser: createFindBrowser(configuration),
    pages: createPages(configuration.interactions),
    firstState: passkeys && (() => firstState(passkeys)),
  };
  const currentProvider = createCurrentProvider(
    (signing) => createProvider(below, signing),
    () => keys.signing.inForce(),
  );
  currentProvider();
  const provider = { ...below, currentProvider };
  return {
    ...provider,
    ...signInSteps(provider),
    accountPages: accountPages(provider, notifications),
    onRequest,
  };
}

/** The parts that the pages are built from. */
type PageParts = ProviderServices & Pick<Services, "pages">;

/** The steps of a sign-in, and the page that links in mail lead to. */
function signInSteps(services: PageParts): Pick<Services, "flow" | "ended" | "interactions" | "confirm"> {
  const { configuration, keys, passwords, people, secondFactors } = services;
  const { days } = secondFactors.rememberedBrowsers;
  const offers: Offers = {
    ...(people.registrations !== undefined && { registration: people.registrations.settings }),
    resets: people.passwordResets !== undefined,
    passwordLength: passwords.length,
    ...(days !== undefined && { rememberDays: days }),
    // Adding a first factor takes a confirmation by mail.
    passkeyOffer:
      configuration.secondFactor.offer &&
      secondFactors.passkeys !== undefined &&
      secondFactors.enrolments !== undefined,
  };
  const parts = {
    ...services,
    directory: services.storage.directory,
    offers,
    ...cookiesOf(services),
    forms: createSigner(keys.forms),
    seals: createRequestSeals(formKeys(services, "sign-in again"), services.clock),
    interactionCookie: cookieName(configuration, "interaction"),
    enrolments: secondFactors.enrolments,
    ui: configuration.interactions.ui,
  };
  const ended = createEndedSignIns(parts);
  const flow = createSignInFlow({ ...parts, protocol: createSignInProtocol(parts) });
  const html = createInteractionHandlers({ ...parts, flow, ended });
  const json = createJsonHandlers({ ...parts, flow, ended });
  return {
    flow,
    ended,
    interactions: {
      show: (ctx) => (wantsJson(ctx) ? json : html).show(ctx),
      submit: (ctx) => (wantsJson(ctx) ? json : html).submit(ctx),
    },
    confirm: createConfirmHandlers(parts),
  };
}

/** The pages under `{base}/account`. Without operators there is no console. */
function accountPages(services: PageParts, notifications: Notifications): readonly AccountPage[] {
  const { configuration, storage, accounts, clock, keys, people, secondFactors, passwords } = services;
  const { operators, profile, interactions } = configuration;
  const signer = createSigner(keys.forms);
  const gate = createAccountGate({
    ...services,
    clientId: ACCOUNT_CLIENT,
    strictClientId: CONSOLE_CLIENT,
    findSignedIn: createSignedIn(services.currentProvider, accounts, sessionCookieName(configuration)),
    returns: createReturnPaths({ ...services, keys: formKeys(services, "account return") }),
  });
  const console = {
    ...services,
    gate,
    notifications,
    directory: storage.directory,
    seals: createConsoleSeals(signer),
    operators,
    audit: storage.audit,
    isMailed: services.mailDeployment !== undefined,
  };
  const endedCookies = endedSessionCookies(configuration);
  return createAccountPages({
    ...services,
    ...cookiesOf(services),
    gate,
    operators,
    profile,
    operatorPages: [...createConsolePages(console), ...createPeoplePages(console)],
    addressChanges: people.addressChanges,
    rememberedBrowsers: secondFactors.rememberedBrowsers,
    directory: storage.directory,
    sessions: createSignInSessions(services),
    deviceCodes: createDeviceCodes(services),
    connectedDevices: createConnectedDevices(storage.artifacts),
    seals: createAccountSeals({ signer, keys: formKeys(services, "account forms") }, clock),
    forgetSession: (ctx) => ctx.append("Set-Cookie", [...endedCookies]),
    locales: interactions.locales,
    reservedUsernames: interactions.reservedUsernames,
    length: passwords.length,
  });
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
      passkeyName: hostCookieName(configuration, "passkey"),
      rememberedName: hostCookieName(configuration, "remembered"),
    }),
  };
}

/** How passwords are checked. The names of the service and of its hosts are refused. */
function passwordContext({
  configuration,
  outages,
}: Pick<StorageServices, "configuration" | "outages">): PasswordContext {
  const { passwords, profile, interactions, deployments, fetch: ownFetch } = configuration;
  const hosts = [deployments.oauth2, deployments.openid].flatMap((each) =>
    each === undefined ? [] : [each.host, new URL(each.url).hostname],
  );
  const { breachCheck } = passwords;
  return {
    length: passwordLength(passwords, profile),
    service: [interactions.theme.name ?? "", ...hosts],
    breaches:
      breachCheck &&
      createBreachCheck({
        url: breachCheck.url,
        timeoutMs: breachCheck.timeout * 1000,
        fetch: ownFetch ?? ((target, init) => fetch(target, init)),
        outage: outages("asking whether a new password is known from a breach"),
      }),
  };
}

/** The deployment that mail leads to; `undefined` if no mail is sent. */
export function mailDeploymentOf({
  deployments,
  mail,
  mailer,
}: Pick<Configuration, "deployments" | "mail" | "mailer">): DeploymentKind | undefined {
  if (mailer === undefined && mail === undefined) return undefined;
  return deployments.openid === undefined ? "oauth2" : "openid";
}
