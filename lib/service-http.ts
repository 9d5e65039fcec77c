/** The HTTP side of a service: the provider, the pages and the endpoints, put together. */
import type { Middleware } from "koa";
import { createConnectedDevices, createDeviceCodes } from "../provider/grants/device-codes.ts";
import { createUnitsOfWork, type UnitsOfWork } from "../provider/unit-of-work.ts";
import { tellingRefusals } from "../records/rate-limits.ts";
import type { Storage } from "../records/storage.ts";
import { type AccountPage, type ConfirmPage, type ErrorPages, type PageHandlers } from "../provider/pages.ts";
import { createRoutes } from "../compat/routes.ts";
import type { Configuration, DeploymentKind } from "../config/configuration.ts";
import { createAccountGate } from "../interactions/account/gate.ts";
import { createAccountPages } from "../interactions/account/pages.ts";
import { createReturnPaths } from "../interactions/account/return-paths.ts";
import { createAccountSeals } from "../interactions/account/seals.ts";
import { createConsolePages, createConsoleSeals } from "../interactions/console/console-pages.ts";
import { createPeoplePages } from "../interactions/console/people.ts";
import { createDeviceCookies, type DeviceCookies } from "../interactions/device-cookie.ts";
import { createRequestSeals } from "../interactions/again.ts";
import { createConfirmHandlers } from "../interactions/confirm.ts";
import { createEndedSignIns, type EndedSignIns } from "../interactions/ended.ts";
import { createSignInFlow, type SignInFlow } from "../interactions/flow.ts";
import { createInteractionHandlers } from "../interactions/handlers.ts";
import type { Pages } from "../interactions/page.ts";
import { createPages } from "../interactions/pages.ts";
import { createJsonHandlers, wantsJson } from "../interactions/json.ts";
import { createInteractions, type Interactions } from "../interactions/own-routes.ts";
import { createLinkCookie, type LinkCookie } from "../interactions/link-cookie.ts";
import { firstState } from "../interactions/steps/passkey-sign-in.ts";
import type { Offers, StepServices } from "../interactions/steps/step.ts";
import { createSignInProtocol } from "../interactions/protocol.ts";
import type { Notifications } from "../notifier/notifications.ts";
import type { HandledRequest } from "../compat/request-log.ts";
import type { AccessCleanup } from "../accounts/access-cleanup.ts";
import type { AccountInternals, Accounts } from "../accounts/account.ts";
import {
  ACCOUNT_CLIENT,
  CONSOLE_CLIENT,
  type ClientInternals,
  type Clients,
} from "../accounts/clients/client.ts";
import type { AuditCollector } from "../records/audit/collector.ts";
import type { ServiceEmitter } from "../core/events.ts";
import type { BackchannelLogout } from "../provider/sessions/backchannel-logout.ts";
import { createFindBrowser } from "../provider/sessions/browser-cookie.ts";
import {
  cookieName,
  endedSessionCookies,
  hostCookieName,
  sessionCookieName,
} from "../provider/sessions/cookies.ts";
import type { Passwords } from "../accounts/passwords/passwords.ts";
import { createSecondFactors, relyingPartyOf, type SecondFactors } from "../accounts/factors/factors.ts";
import type { Confirmations } from "../accounts/people/confirmations.ts";
import { createPeople, type People } from "../accounts/people/people.ts";
import { type AttemptLimits, createAttemptLimits } from "../accounts/limits/attempt-limits.ts";
import { createPasswordCheck } from "../accounts/limits/password-check.ts";
import { createNewBrowsers, type NewBrowsers } from "../accounts/limits/new-browsers.ts";
import { createCurrentProvider, type CurrentProvider } from "../provider/current-provider.ts";
import { createProvider, type ProviderOptions } from "../provider/provider.ts";
import { createSignedIn } from "../provider/account.ts";
import { createSignInSessions } from "../provider/sessions/sessions.ts";
import { createSigner, deriveKey, hmac, type Signer } from "../core/sealing.ts";
import { securityHeaders } from "../core/security-headers.ts";
import type { ServiceKeys } from "../accounts/keys/service-keys.ts";

interface ServiceHttpOptions {
  readonly configuration: Configuration;
  readonly storage: Storage;
  readonly keys: ServiceKeys;
  readonly accounts: Accounts & AccountInternals;
  readonly clients: Clients & ClientInternals;
  readonly events: ServiceEmitter;
  /** Emits the events of endpoints and pages. */
  readonly audit: Pick<AuditCollector, "note" | "noteRefusal">;
  readonly backchannel: BackchannelLogout;
  readonly cleanup: AccessCleanup;
  /** For the console. */
  readonly notifications: Notifications;
  readonly confirmations: Confirmations;
  readonly passwords: Passwords;
  /** The deployment that mail leads to; `undefined` if no mail is sent. */
  readonly mailDeployment: DeploymentKind | undefined;
  /** Called after a commit that stored mail. */
  readonly onMail: () => void;
  /** Receives warnings for the operator. */
  readonly onWarning: (text: string) => void;
  /** Receives unexpected errors. */
  readonly onDefect: (error: unknown) => void;
  /** Called after each request, for metrics and the log. */
  readonly onRequest: (request: HandledRequest) => void;
  /** Called with each new instance of oidc-provider, before it serves. */
  readonly onProvider: ProviderOptions["onProvider"];
}

export interface ServiceHttp {
  readonly currentProvider: CurrentProvider;
  /** Registration, password resets and changes of address. */
  readonly people: People;
  readonly routes: Middleware;
  /** What requests reveal about the proxies and the host application in front: phrases for the operator. */
  readonly arrivals: () => readonly string[];
  readonly interactions: Interactions;
  /** Resolves when no request of the service is running, after 30 seconds at most. */
  drain(): Promise<void>;
}

/** Builds the middleware for the host application's server. Nothing listens here. */
export function createServiceHttp(options: ServiceHttpOptions): ServiceHttp {
  const { configuration, storage, keys, accounts, clients, events, audit, onWarning, onDefect } = options;
  const { artifacts, directory } = storage;
  const units = createUnitsOfWork(artifacts, keys.sealer, configuration.clock);
  const limits = createAttemptLimits(
    configuration.rateLimits,
    tellingRefusals(storage.rateLimits, (limit) => events.emit("limit.refused", { limit })),
    keys.rateLimits,
  );
  const people = openPeople(options, limits);
  const secondFactors = openSecondFactors(options, limits);
  const mails = {
    store: storage.signIns,
    key: keys.rateLimits,
    sealer: keys.sealer,
    clock: configuration.clock,
    mailDeployment: options.mailDeployment,
    onMail: options.onMail,
  };
  const passwordCheck = createPasswordCheck(accounts, mails);
  const pages = createPages(configuration.interactions);
  const shared = {
    configuration,
    artifacts,
    directory,
    units,
    accounts,
    clients,
    limits,
    passwordCheck,
    events,
    audit,
  };
  const { backchannel, cleanup } = options;
  const offersRegistration = people.registrations !== undefined;
  const { onProvider } = options;
  const { passkeys } = secondFactors;
  const providerOptions = {
    ...shared,
    keys,
    pages,
    backchannel,
    cleanup,
    offersRegistration,
    secondFactors,
    onProvider,
    ...(passkeys && { firstState: () => firstState(passkeys) }),
  };
  const currentProvider = createCurrentProvider(
    (signing) => createProvider(providerOptions, signing),
    () => keys.signing.inForce(),
  );
  // oidc-provider checks its settings when it is created: a mistake stops the start.
  currentProvider();
  const newBrowsers = createNewBrowsers(mails);
  const steps = createSteps(options, {
    ...shared,
    newBrowsers,
    currentProvider,
    people,
    secondFactors,
    pages,
  });
  const findBrowser = createFindBrowser(configuration);
  const routes = createRoutes({
    ...shared,
    currentProvider,
    onWarning,
    onDefect,
    onRequest: options.onRequest,
    pages: errorPages(pages),
    interactions: steps.interactions,
    confirm: steps.confirm,
    offersRegistration,
    accountPages: accountPages(options, {
      currentProvider,
      pages,
      people,
      secondFactors,
      limits,
      units,
    }),
    sessionCookie: sessionCookieName(configuration),
    findBrowser,
  });
  return {
    currentProvider,
    people,
    routes: routes.middleware,
    arrivals: routes.arrivals,
    drain: () => routes.drain(),
    interactions: createInteractions({ ...steps, pages, units }, (ctx) => {
      const request = routes.locate(ctx);
      return request?.endpoint === "interaction" && request.uid !== undefined
        ? { ...request, uid: request.uid, browser: findBrowser(ctx) }
        : undefined;
    }),
  };
}

function openPeople(
  { configuration, storage, accounts, confirmations, passwords, audit, onWarning }: ServiceHttpOptions,
  limits: AttemptLimits,
): People {
  const { clock } = configuration;
  const { directory } = storage;
  const parts = { directory, accounts, confirmations, passwords, limits, audit, clock };
  return createPeople(configuration, parts, onWarning);
}

/** Codes, passkeys, enrolment and remembered browsers. */
function openSecondFactors(
  {
    configuration,
    storage,
    keys,
    accounts,
    confirmations,
    audit,
    mailDeployment,
    onMail,
  }: ServiceHttpOptions,
  limits: AttemptLimits,
): SecondFactors {
  return createSecondFactors(configuration, {
    records: storage.records,
    auditStore: storage.audit,
    clock: configuration.clock,
    sealer: keys.sealer,
    codeKey: keys.confirmations,
    relyingParty: relyingPartyOf(configuration),
    accounts,
    confirmations,
    limits,
    audit,
    mailDeployment,
    onMail,
  });
}

/** The steps of a sign-in, and the page that links in mail lead to. */
interface Steps {
  readonly flow: SignInFlow;
  readonly ended: EndedSignIns;
  readonly interactions: PageHandlers;
  readonly confirm: ConfirmPage;
}

function createSteps(
  { keys, passwords, configuration }: ServiceHttpOptions,
  shared: Omit<
    ProviderOptions,
    "keys" | "pages" | "backchannel" | "cleanup" | "offersRegistration" | "secondFactors"
  > & {
    readonly currentProvider: CurrentProvider;
    readonly accounts: StepServices["accounts"];
    readonly newBrowsers: NewBrowsers;
    readonly people: People;
    readonly secondFactors: SecondFactors;
    readonly pages: Pages;
  },
): Steps {
  const { people, secondFactors, pages } = shared;
  const { days } = secondFactors.rememberedBrowsers;
  const forms = createSigner(keys.forms);
  const devices = deviceCookies(configuration, forms);
  const links = linkCookie(configuration);
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
  const seals = createRequestSeals(
    keys.forms.map((key) => deriveKey(hmac(key, "sign-in again"), "sign-in-service sign-in again")),
    configuration.clock,
  );
  const protocol = createSignInProtocol({ ...shared, forms, seals });
  const ended = createEndedSignIns({
    ...shared,
    seals,
    interactionCookie: cookieName(configuration, "interaction"),
    clock: configuration.clock,
  });
  const flow = createSignInFlow({ ...shared, devices, links, offers, protocol });
  const { ui } = configuration.interactions;
  const html = createInteractionHandlers({ flow, pages, links, ended, ui });
  const json = createJsonHandlers({ flow, pages, ended });
  return {
    flow,
    ended,
    interactions: {
      show: (ctx) => (wantsJson(ctx) ? json : html).show(ctx),
      submit: (ctx) => (wantsJson(ctx) ? json : html).submit(ctx),
    },
    confirm: createConfirmHandlers({
      pages,
      people,
      links,
      devices,
      offers,
      forms,
      clock: configuration.clock,
      enrolments: secondFactors.enrolments,
    }),
  };
}

function linkCookie(configuration: Configuration): LinkCookie {
  return createLinkCookie(cookieName(configuration, "link"), createFindBrowser(configuration));
}

function deviceCookies(configuration: Configuration, signer: Signer): DeviceCookies {
  return createDeviceCookies({
    signer,
    name: hostCookieName(configuration, "device"),
    passkeyName: hostCookieName(configuration, "passkey"),
    rememberedName: hostCookieName(configuration, "remembered"),
  });
}

function errorPages(pages: Pages): ErrorPages {
  return {
    ...pages,
    security(ctx) {
      const { secure } = ctx.exchange.deployment;
      securityHeaders(ctx, { styleHash: pages.styleHash(), secure, libraryScript: true });
    },
  };
}

/** The pages under `{base}/account`. Without operators there is no console. */
function accountPages(
  options: ServiceHttpOptions,
  {
    currentProvider,
    pages,
    people,
    secondFactors,
    limits,
    units,
  }: {
    readonly secondFactors: SecondFactors;
    readonly limits: AttemptLimits;
    readonly units: UnitsOfWork;
    readonly currentProvider: CurrentProvider;
    readonly pages: Pages;
    readonly people: People;
  },
): readonly AccountPage[] {
  const { configuration, storage, accounts, clients, keys, notifications, events, audit, onDefect } = options;
  const { artifacts } = storage;
  const { clock, operators, profile } = configuration;
  const signer = createSigner(keys.forms);
  const gate = createAccountGate({
    clientId: ACCOUNT_CLIENT,
    strictClientId: CONSOLE_CLIENT,
    pages,
    findSignedIn: createSignedIn(currentProvider, accounts, sessionCookieName(configuration)),
    returns: createReturnPaths({
      keys: keys.forms.map((key) => deriveKey(hmac(key, "account return"), "sign-in-service account return")),
      findBrowser: createFindBrowser(configuration),
      clock,
    }),
    clock,
  });
  const console = {
    pages,
    notifications,
    directory: storage.directory,
    onDefect,
    clock,
    seals: createConsoleSeals(signer),
  };
  const isMailed = options.mailDeployment !== undefined;
  const operatorPages = [
    ...createConsolePages(console),
    ...createPeoplePages({ ...console, gate, accounts, audit: storage.audit, operators, isMailed }),
  ];
  const endedCookies = endedSessionCookies(configuration);
  return createAccountPages({
    pages,
    gate,
    operators,
    profile,
    operatorPages,
    accounts,
    addressChanges: people.addressChanges,
    rememberedBrowsers: secondFactors.rememberedBrowsers,
    confirmations: people.confirmations,
    secondFactors,
    links: linkCookie(configuration),
    directory: storage.directory,
    sessions: createSignInSessions({
      artifacts,
      backchannel: options.backchannel,
      events,
      audit,
      clock,
      sessionMax: configuration.lifetimes.sessionMax,
    }),
    deviceCodes: createDeviceCodes({ configuration, artifacts, units, currentProvider, keys }),
    connectedDevices: createConnectedDevices(artifacts),
    units,
    clients,
    events,
    seals: createAccountSeals(
      {
        signer,
        keys: keys.forms.map((key) => deriveKey(hmac(key, "account forms"), "sign-in-service account forms")),
      },
      clock,
    ),
    limits,
    audit,
    devices: deviceCookies(configuration, signer),
    forgetSession: (ctx) => ctx.append("Set-Cookie", [...endedCookies]),
    clock,
    locales: configuration.interactions.locales,
    reservedUsernames: configuration.interactions.reservedUsernames,
    length: options.passwords.length,
  });
}
