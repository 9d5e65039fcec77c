/** Every page with realistic data, for the contact sheet and the browser tests. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { builtInLocales } from "../core/texts.ts";
import { compareView, deviceDoneView, deviceView } from "../interactions/account/device.ts";
import { deletionView } from "../interactions/account/delete.ts";
import { addressView, newAddressView } from "../interactions/account/email.ts";
import { overviewView } from "../interactions/account/overview.ts";
import { confirmFactorView, newAppView, newPasskeyView } from "../interactions/account/new-factor.ts";
import { passwordView } from "../interactions/account/password.ts";
import type { PersonLocals } from "../interactions/account/person-pages.ts";
import { profileView } from "../interactions/account/profile.ts";
import { servicesView } from "../interactions/account/services.ts";
import { codesView, factorView, methodsView } from "../interactions/account/sign-in-methods.ts";
import { sessionsView } from "../interactions/account/sessions.ts";
import {
  errorPage,
  loggedOutPage,
  logoutPage,
  startAgainPage,
  unavailablePage,
} from "../interactions/answers.ts";
import { confirmPage } from "../interactions/confirm.ts";
import type { Pages, Visit } from "../interactions/page.ts";
import { createPages, type PageSettings } from "../interactions/pages.ts";
import { sampleNewcomer, type SampleStep, sampleState, sampleStep } from "../interactions/sample-steps.ts";
import type { SignInMethod, StepName } from "../interactions/steps/step.ts";
import { stepPage } from "../interactions/steps/views.ts";
import { consoleScreens } from "./screen-console.ts";
import { mailScreens } from "./screen-mails.ts";

/** A made-up language that is written from right to left: English words in another direction. */
export const RIGHT_TO_LEFT = "qaa";

/** The languages of the contact sheet: those that are built in, and the made-up one. */
export const LANGUAGES: readonly string[] = [...builtInLocales(), RIGHT_TO_LEFT];

/** One page in one state. */
export interface Screen {
  readonly name: string;
  html(visit: Visit): string;
}

const ENGLISH = join(import.meta.dirname, "../core/locales/en.json");

type Shown = Partial<Pick<PageSettings, "locales" | "theme">>;

/** A service with a help page, a privacy policy and terms. */
function settings({ locales = LANGUAGES, theme = {} }: Shown): PageSettings {
  const english: Record<string, string> = JSON.parse(readFileSync(ENGLISH, "utf8"));
  return {
    locales,
    views: [],
    copy: locales.includes(RIGHT_TO_LEFT) ? { [RIGHT_TO_LEFT]: { ...english, direction: "rtl" } } : {},
    theme,
    links: {
      help: "https://example.org/{locale}/help",
      privacy: "https://example.org/{locale}/privacy",
      terms: "https://example.org/{locale}/terms",
    },
  };
}

/** The pages of this service. */
export function screenPages(shown: Shown = {}): Pages {
  return createPages(settings(shown));
}

const NOW = Date.UTC(2026, 8, 21, 14, 20);
const MINUTE = 60_000;
const SUB = "5b8a2c0e-1111-4222-8333-444455556666";
const ADA = "ada@example.com";
const ACCOUNT_URL = "/account";
const HALF = ["K7QM2-XTV4N", "2D9GH-W5RKC", "ZB8PT-3YN6J", "QX4VM-7HDC2", "5RTKW-G9JPN"];
const RECOVERY_CODES: readonly string[] = [
  ...HALF,
  ...HALF.map((each) => each.split("").toReversed().join("")),
];
const METHODS: readonly SignInMethod[] = [
  { kind: "app", id: "app", factor: "app", added_at: NOW / 1000 - 9_000_000, last_used_at: NOW / 1000 - 60 },
  {
    kind: "passkey",
    id: "1",
    factor: "1",
    name: "iPhone",
    added_at: NOW / 1000 - 90_000,
    last_used_at: null,
  },
  {
    kind: "browser",
    id: "2",
    browser: "Firefox",
    system: "Windows",
    added_at: NOW / 1000 - 60,
    expires_at: NOW / 1000 + 2_592_000,
  },
];

/** The steps of a sign-in. */
function stepScreens(pages: Pages): readonly Screen[] {
  const screen = (name: string, step: StepName, shown: SampleStep = {}): Screen => {
    const client = { client_id: "news", name: step === "consent" ? "Partner" : "News" };
    const account = (step === "consent" || step === "continue") && {
      account: { sub: SUB, email: ADA, hasPassword: true },
    };
    const signIn = { client, path: "/interaction/1", csrf: "c", ...account, ...shown.signIn };
    const present = sampleStep(step, "https://example.org/terms", { ...shown, signIn });
    return { name, html: (visit) => pages.render(stepPage(step), visit, present) };
  };
  const loginHint = "ada";
  const waiting = { step: "confirm-email", email: ADA } as const;
  return [
    screen("login", "login"),
    screen("login-own", "login", { signIn: { client: { client_id: "x", name: "Account", own: true } } }),
    screen("login-long-name", "login", {
      signIn: { client: { client_id: "x", name: "Wirtualna Czytelnia Naukowo-Techniczna Południe" } },
    }),
    screen("login-wrong", "login", {
      signIn: { loginHint },
      problems: [{ code: "wrong", fields: ["username", "password"] }],
    }),
    screen("login-missing", "login", {
      problems: [
        { code: "required", fields: ["username"] },
        { code: "required", fields: ["password"] },
      ],
    }),
    screen("login-limited", "login", {
      signIn: { loginHint },
      problems: [{ code: "limited", fields: [], values: { retryAfter: 840 } }],
    }),
    screen("consent", "consent", {
      signIn: { shares: ["sub", "email", "name", "surname", "date_of_birth", "gender"] },
    }),
    screen("consent-id", "consent", { signIn: { shares: ["sub"] } }),
    screen("continue", "continue"),
    screen("login-new-password", "login", { signIn: { state: { notice: "password-changed" } } }),
    screen("reauthenticate", "reauthenticate", {
      signIn: { account: { sub: SUB, email: ADA, hasPassword: true } },
    }),
    screen("second-factor", "second-factor"),
    screen("invitation", "invitation"),
    screen("enrol-confirm", "enrol-confirm", {
      signIn: { state: { ...sampleState("enrol-confirm", ADA), email: ADA } },
    }),
    screen("enrol", "enrol"),
    screen("enrol-new-account", "enrol", { signIn: sampleNewcomer(ADA) }),
    screen("recovery-codes", "recovery-codes", { recoveryCodes: RECOVERY_CODES }),
    screen("recovery-codes-lost", "recovery-codes"),
    screen("review-methods", "review-methods", { methods: METHODS }),
    screen("review-methods-none", "review-methods", {
      methods: [],
      signIn: { state: { ...sampleState("review-methods", ADA), notice: "method-removed" } },
    }),
    screen("register", "register"),
    screen("register-problems", "register", {
      signIn: { loginHint: ADA },
      problems: [
        { code: "common", fields: ["password"], values: { min: 8, max: 128 } },
        { code: "required", fields: ["terms"] },
      ],
    }),
    screen("confirm-email", "confirm-email", { signIn: { state: waiting } }),
    screen("confirm-email-again", "confirm-email", { signIn: { state: { ...waiting, notice: "sent" } } }),
    screen("confirm-email-wrong", "confirm-email", {
      signIn: { state: waiting },
      problems: [{ code: "wrong-code", fields: ["code"] }],
    }),
    screen("confirm-email-link", "confirm-email", { signIn: { state: waiting, link: "x" } }),
    screen("confirm-email-username", "confirm-email", {
      signIn: { state: { ...waiting, usernameTaken: true, notice: "username-taken" } },
    }),
    screen("forgot-password", "forgot-password", { signIn: { loginHint: ADA } }),
    screen("new-password", "new-password", { signIn: { state: { step: "new-password" } } }),
    screen("new-password-link", "new-password", { signIn: { state: {}, link: "x" }, ways: [] }),
    screen("terms", "terms"),
    {
      name: "confirm-elsewhere",
      html: (visit) => pages.render(confirmPage, visit, { accountUrl: ACCOUNT_URL, kind: "elsewhere" }),
    },
    {
      name: "confirm-gone",
      html: (visit) => pages.render(confirmPage, visit, { accountUrl: ACCOUNT_URL, kind: "gone" }),
    },
  ];
}

/** The pages that those of a signed-in person link to. */
const PLACES = ["home", "profile", "email", "password", "methods", "sessions", "services", "delete"] as const;

/** Has the size of a QR code; drawing a real one takes a promise. */
const QR_CODE = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 9 9'/%3E";

/** What "Sign-in methods" and the pages below it show. */
function methodScreens(pages: Pages, common: PersonLocals): readonly Screen[] {
  const day = 86_400;
  const added_at = NOW / 1000 - 200 * day;
  const passkey = { id: "1", name: "iPhone", added_at, last_used_at: NOW / 1000 - 7_200, backed_up: true };
  const key = { id: "2", name: "YubiKey", added_at, last_used_at: null, backed_up: false };
  const app = { added_at, last_used_at: NOW / 1000 - 3 * day, stopped: false };
  const password = { isSet: true, changedAt: added_at };
  const methods = { ...common, password, canAdd: { app: true, passkey: true }, now: NOW };
  const nothing = { app: null, passkeys: [], recovery_codes_left: 0 };
  const both = { app, passkeys: [passkey, key], recovery_codes_left: 9 };
  const confirm = { ...common, kind: "app", isSent: false, isGuarded: false } as const;
  const uri = "otpauth://totp/Example:ada?secret=JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP&issuer=Example";
  const key32 = "JBSW Y3DP EHPK 3PXP JBSW Y3DP EHPK 3PXP";
  const newApp = { ...common, kind: "app", app: { qrCode: QR_CODE, key: key32, uri }, setUp: "s" } as const;
  const newPasskey = { ...common, kind: "passkey", passkey: "{}", setUp: "s" } as const;
  const shown: readonly [string, (visit: Visit) => string][] = [
    ["", (visit) => pages.render(methodsView, visit, { ...methods, factors: nothing })],
    ["-several", (visit) => pages.render(methodsView, visit, { ...methods, factors: both })],
    [
      "-stopped",
      (visit) =>
        pages.render(methodsView, visit, {
          ...methods,
          factors: { ...both, app: { ...app, stopped: true } },
          notice: "passkeyRemoved",
        }),
    ],
    ["-passkey", (visit) => pages.render(factorView, visit, { ...common, passkey, isLast: false })],
    ["-app", (visit) => pages.render(factorView, visit, { ...common, isLast: true })],
    ["-confirm", (visit) => pages.render(confirmFactorView, visit, confirm)],
    [
      "-code",
      (visit) =>
        pages.render(confirmFactorView, visit, {
          ...confirm,
          isSent: true,
          isGuarded: true,
          problem: { reason: "wrongCode", triesLeft: 3 },
        }),
    ],
    ["-new-app", (visit) => pages.render(newAppView, visit, newApp)],
    ["-new-passkey", (visit) => pages.render(newPasskeyView, visit, newPasskey)],
    ["-codes-left", (visit) => pages.render(codesView, visit, { ...common, codes: [], left: 2 })],
    ["-codes", (visit) => pages.render(codesView, visit, { ...common, codes: RECOVERY_CODES, left: 10 })],
  ];
  return shown.map(([name, html]) => ({ name: `account-methods${name}`, html }));
}

/** The pages of a signed-in person. */
function personScreens(pages: Pages): readonly Screen[] {
  const email = "ada@example.com";
  /** What a page is given that is at one of these places. */
  const at = (current: (typeof PLACES)[number]) => ({
    base: "",
    action: current === "home" ? "/account" : `/account/${current}`,
    csrf: "c",
    person: { name: "Ada Lovelace", email },
    places: PLACES.map((page) => ({ page, href: `/account/${page}`, isCurrent: page === current })),
  });
  const overview = {
    ...at("home"),
    account: {
      sub: SUB,
      email_verified: true,
      username: "ada",
      password_hash: "",
      password_changed_at: (NOW - 130_000 * MINUTE) / 1000,
    },
    browsers: 3,
    services: ["News", "Video", "Radio", "Library"],
    now: NOW,
  };
  const address = { ...at("email"), email, isConfirmed: true };
  const pending = { email: "ada.lovelace@example.org", hasLink: false };
  const values = {
    name: "Ada",
    surname: "Lovelace",
    username: "ada",
    date_of_birth: "1990-12-10",
    gender: "female",
    locale: "",
  };
  const profile = { ...at("profile"), values, locales: ["en", "pl"], problems: [] };
  const password = { ...at("password"), username: "ada", min: 8, max: 128, isSet: true };
  const used = (minutesAgo: number) => ({
    firstUse: (NOW - 9_000 * MINUTE) / 1000,
    lastUse: (NOW - minutesAgo * MINUTE) / 1000,
  });
  const sessions = [
    {
      isThis: true,
      session: { uid: "1", browser: "Safari", system: "iPhone", address: "203.0.113.0/24", ...used(0) },
    },
    {
      isThis: false,
      session: {
        uid: "2",
        browser: "Firefox",
        system: "Windows",
        address: "2001:db8:1::/48",
        ...used(130),
      },
    },
    { isThis: false, session: { uid: "3", ...used(5_000) } },
  ];
  const signedIn = { ...at("sessions"), network: "203.0.113.0/24", now: NOW };
  const fields = ["sub", "email", "name", "surname", "date_of_birth", "gender"];
  const apis = [
    {
      identifier: "https://articles.example/",
      name: "Articles",
      scopes: [
        { name: "articles:read", label: "Read your articles" },
        { name: "articles:write", label: "Write and delete articles" },
      ],
    },
  ];
  const other = "Wirtualna Czytelnia Naukowo-Techniczna";
  const services = [
    { key: "1", name: "News", since: NOW - 60_000 * MINUTE, fields, apis },
    { key: "2", name: other, since: undefined, fields: ["sub", "email"], apis: [] },
  ];
  return [
    {
      name: "account",
      html: (visit) => pages.render(overviewView, visit, { ...overview, console: "/account/deliveries" }),
    },
    {
      name: "account-changed",
      html: (visit) =>
        pages.render(overviewView, visit, {
          ...overview,
          person: { name: "", email },
          account: { sub: SUB, email_verified: false, username: null, password_hash: null },
          browsers: 1,
          services: [],
          notice: "password",
        }),
    },
    { name: "account-profile", html: (visit) => pages.render(profileView, visit, { ...profile }) },
    {
      name: "account-profile-wrong",
      html: (visit) =>
        pages.render(profileView, visit, {
          ...profile,
          problems: [
            { field: "username", reason: "taken" },
            { field: "date_of_birth", reason: "date" },
          ],
        }),
    },
    { name: "account-email", html: (visit) => pages.render(addressView, visit, { ...address }) },
    {
      name: "account-email-pending",
      html: (visit) => pages.render(addressView, visit, { ...address, pending, notice: "codeSent" }),
    },
    {
      name: "account-email-wrong-code",
      html: (visit) =>
        pages.render(addressView, visit, {
          ...address,
          pending,
          problem: { reason: "wrongCode", triesLeft: 3 },
        }),
    },
    {
      name: "account-email-link",
      html: (visit) =>
        pages.render(addressView, visit, { ...address, pending: { ...pending, hasLink: true } }),
    },
    {
      name: "account-new-email",
      html: (visit) => pages.render(newAddressView, visit, { ...at("email"), value: "" }),
    },
    {
      name: "account-new-email-wrong",
      html: (visit) =>
        pages.render(newAddressView, visit, { ...at("email"), value: "ada", problem: { reason: "invalid" } }),
    },
    { name: "account-password", html: (visit) => pages.render(passwordView, visit, { ...password }) },
    {
      name: "account-password-first",
      html: (visit) => pages.render(passwordView, visit, { ...password, isSet: false }),
    },
    {
      name: "account-password-refused",
      html: (visit) => pages.render(passwordView, visit, { ...password, problem: "common" }),
    },
    ...methodScreens(pages, at("methods")),
    {
      name: "account-sessions",
      html: (visit) => pages.render(sessionsView, visit, { ...signedIn, sessions, remembered: [] }),
    },
    {
      name: "account-sessions-one",
      html: (visit) =>
        pages.render(sessionsView, visit, {
          ...signedIn,
          sessions: sessions.slice(0, 1),
          remembered: [],
          notice: "sessions",
        }),
    },
    {
      name: "account-services",
      html: (visit) =>
        pages.render(servicesView, visit, {
          ...at("services"),
          services,
          devices: [{ id: "", client: { name: "News on TV" }, since: NOW / 1000 - 86_400 }],
          offersDevices: true,
          now: NOW,
        }),
    },
    {
      name: "account-services-none",
      html: (visit) =>
        pages.render(servicesView, visit, {
          ...at("services"),
          services: [],
          devices: [],
          offersDevices: false,
          now: NOW,
          notice: "service",
        }),
    },
    { name: "device", html: (visit) => pages.render(deviceView, visit, { ...signedIn, value: "" }) },
    {
      name: "device-compare",
      html: (visit) =>
        pages.render(compareView, visit, {
          ...signedIn,
          client: { name: "News on TV" },
          logo: undefined,
          userCode: "WDJBMJHT",
          fields: ["sub", "email", "name", "surname"],
          apis: [],
          askedAt: NOW - 70_000,
          now: NOW,
          network: "203.0.113.0/24",
          ownNetwork: "198.51.100.0/24",
        }),
    },
    {
      name: "device-done",
      html: (visit) => pages.render(deviceDoneView, visit, { ...signedIn, isConnected: true }),
    },
    {
      name: "account-delete",
      html: (visit) =>
        pages.render(deletionView, visit, {
          ...at("delete"),
          email,
          notified: services.map(({ name }) => name),
        }),
    },
    {
      name: "account-deleted",
      html: (visit) => pages.render(loggedOutPage, visit, { accountUrl: "/account", after: "deleted" }),
    },
  ];
}

/** All mails of this service. */
export function screenMails(shown: Shown = {}): readonly Screen[] {
  return mailScreens(settings(shown));
}

/** All pages. */
export function screens(pages: Pages): readonly Screen[] {
  return [
    ...stepScreens(pages),
    ...personScreens(pages),
    { name: "logout", html: (visit) => pages.render(logoutPage, visit, { action: "/x", xsrf: "x" }) },
    {
      name: "logged-out",
      html: (visit) => pages.render(loggedOutPage, visit, { accountUrl: "/account", after: "signed out" }),
    },
    {
      name: "start-again",
      html: (visit) => pages.render(startAgainPage, visit, { accountUrl: ACCOUNT_URL, action: "/i" }),
    },
    {
      name: "error",
      html: (visit) =>
        pages.render(errorPage, visit, {
          accountUrl: ACCOUNT_URL,
          error: "invalid_redirect_uri",
          description: "redirect_uri did not match any of the client's registered redirect_uris",
        }),
    },
    {
      name: "unavailable",
      html: (visit) => pages.render(unavailablePage, visit, { accountUrl: ACCOUNT_URL }),
    },
    ...consoleScreens(pages, { now: NOW, sub: SUB, accountUrl: ACCOUNT_URL }),
  ];
}
