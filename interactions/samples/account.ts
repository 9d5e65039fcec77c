/** The pages of a signed-in person, in all their states. */
import { FULL_NAME } from "../../accounts/names.ts";
import { DOCUMENTED_FIELDS } from "../../accounts/profile-fields.ts";
import { deletionView } from "../account/delete.ts";
import { compareView, deviceDoneView, deviceView } from "../account/device.ts";
import { addressView, newAddressView } from "../account/email.ts";
import { confirmFactorView, newAppView, newPasskeyView } from "../account/new-factor.ts";
import { removeIdentityView, undoIdentityView } from "../account/identity-pages.ts";
import { chooseProviderView, confirmLinkView, linkIdentityView } from "../account/link-identity.ts";
import { overviewView } from "../account/overview.ts";
import { passwordView } from "../account/password.ts";
import type { PersonLocals } from "../account/person-view.ts";
import { profileView } from "../account/profile.ts";
import { servicesView } from "../account/services.ts";
import { sessionsView } from "../account/sessions.ts";
import { codesView, factorView, methodsView } from "../account/sign-in-methods.ts";
import {
  ACCOUNT_URL,
  ADA,
  APP,
  daysAgo,
  LONG_NAME,
  MINUTE_MS,
  NO_FACTORS,
  NOW,
  problem,
  RECOVERY_CODES,
  type Sample,
  sampleApis,
  sampleAttributes,
  sampleFactors,
  sampleFields,
  sampleIdentities,
  states,
  SUB,
  type Text,
} from "./sample.ts";
import { sampleProviders } from "./provider-steps.ts";
import { samplePasskeyCreation } from "./steps.ts";

/** The pages in the navigation of the account. */
const NAVIGATION = [
  "home",
  "profile",
  "email",
  "password",
  "methods",
  "sessions",
  "services",
  "delete",
] as const;

/** What every page shows. @param current the entry of the navigation that it belongs to. */
const at = (text: Text, current: (typeof NAVIGATION)[number]): PersonLocals => ({
  base: text(""),
  action: text(current === "home" ? ACCOUNT_URL : `${ACCOUNT_URL}/${current}`),
  csrf: text("c"),
  person: { name: text("Ada Lovelace"), email: text(ADA) },
  navigation: NAVIGATION.map((page) => ({
    page,
    href: text(`${ACCOUNT_URL}/${page}`),
    isCurrent: page === current,
  })),
});

export function accountSamples(text: Text): readonly Sample[] {
  const home = at(text, "home");
  const email = at(text, "email");
  const pending = { email: text("ada.lovelace@example.org"), hasLink: false };
  const values = {
    name: text("Ada"),
    surname: text("Lovelace"),
    username: text("ada"),
    date_of_birth: text("1990-12-10"),
    gender: text("female"),
    locale: text(""),
  };
  const overview = {
    ...home,
    account: {
      sub: text(SUB),
      email_verified: true,
      username: text("ada"),
      ways: { password: { hash: text(""), generation: 1, changed_at: daysAgo(90) } },
    },
    browsers: 3,
    services: [text("News"), text("Video"), text("Radio"), text("Library")],
    now: NOW,
  };
  const profile = { ...at(text, "profile"), values, rows: sampleFields(["en", "pl"]).own, set: [] };
  const contact = { phone_number: true, website: true, address: true } as const;
  const confirmed = { ...email, email: text(ADA), isConfirmed: true };
  const newAddress = { ...email, value: text("ada") };
  const password = { ...at(text, "password"), username: text("ada"), min: 8, isSet: true };
  const deletion = { ...at(text, "delete"), email: text(ADA), notified: [text("News"), text(LONG_NAME)] };
  return [
    ...states(overviewView, overview, {
      account: { console: text("/account/deliveries") },
      "account-many-browsers": { browsers: 50, hasMoreBrowsers: true },
      "account-changed": {
        person: { name: "", email: text(ADA) },
        account: { sub: text(SUB), email_verified: false, username: null, ways: {} },
        browsers: 1,
        services: [],
        notice: "password",
      },
    }),
    ...states(profileView, profile, {
      "account-profile": {},
      "account-profile-saved": { rows: sampleFields(["en"]).own, notice: "profile" },
      "account-profile-set": { set: sampleAttributes(text) },
      "account-profile-sections": { rows: sampleFields(["en", "pl"], contact).own },
      "account-profile-wrong": {
        problems: [
          problem("text", "name"),
          problem("taken", "username"),
          problem("date", "date_of_birth"),
          problem("choice", "gender"),
        ],
      },
      "account-profile-username": { problems: [problem("username", "username")] },
    }),
    ...states(addressView, confirmed, {
      "account-email": {},
      "account-email-changed": { notice: "address" },
      "account-email-not-confirmed": { isConfirmed: false, notice: "addressCancelled" },
      "account-email-pending": { pending, notice: "codeSent" },
      "account-email-wrong-code": { pending, problems: [problem("wrong-code", "code")] },
      "account-email-link": { pending: { ...pending, hasLink: true } },
    }),
    ...states(newAddressView, newAddress, {
      "account-new-email": { value: "" },
      "account-new-email-wrong": { problems: [problem("invalid", "email")] },
      "account-new-email-limited": { problems: [problem("limited")] },
    }),
    ...states(passwordView, password, {
      "account-password": {},
      "account-password-first": { isSet: false },
      "account-password-refused": { problems: [problem("common", "password")] },
      "account-password-too-short": { problems: [problem("too-short", "password")] },
    }),
    ...methodSamples(text, at(text, "methods")),
    ...sessionSamples(text, at(text, "sessions")),
    ...serviceSamples(text, at(text, "services")),
    ...deviceSamples(text, home),
    ...states(deletionView, deletion, { "account-delete": {}, "account-delete-nobody": { notified: [] } }),
  ];
}

/** "Sign-in methods", and adding one. */
function methodSamples(text: Text, common: PersonLocals): readonly Sample[] {
  const factors = sampleFactors(text);
  const [passkey, unused] = factors.passkeys;
  const stopped = { ...factors.app, stopped: true };
  const password = { hash: text(""), generation: 1 };
  const account = { sub: text(SUB), ways: { password: { ...password, changed_at: daysAgo(200) } } };
  const linked = { identities: [], providers: [], only: undefined, allowed: {}, canUndo: true };
  const providers = sampleProviders(text).map((provider) => Object.assign(provider, { only: false }));
  const several = { ...linked, identities: sampleIdentities(text), providers };
  const methods = {
    ...common,
    account,
    factors,
    linked,
    linkCsrf: text("c"),
    canAdd: ["passkey", "app"],
    now: NOW,
  };
  const named = { kind: "passkey", ...passkey };
  const one = { ...common, method: { kind: "app", id: "app", name: null }, isLast: false };
  const confirm = { ...common, kind: "app", isSent: false, isGuarded: false } as const;
  const app = { qrCode: text(APP.qrCode), secret: text(APP.key), uri: text(APP.uri) };
  const newApp = { ...common, kind: "app", app, setUp: text("s") } as const;
  const newPasskey = {
    ...common,
    kind: "passkey",
    passkey: samplePasskeyCreation(text),
    setUp: text("s"),
  } as const;
  const codes = { ...common, codes: [], left: 1 };
  const identity = { ...common, identity: { id: "1", provider: "google" }, providers };
  const linking = { ...common, linkable: providers };
  const started = {
    ...common,
    provider: { key: text("google"), preset: "google", name: text("Google") },
    setUp: text("s"),
    isSent: false,
    isGuarded: false,
    there: text("a.lovelace@gmail.com"),
    here: text(ADA),
  } as const;
  return [
    ...states(methodsView, methods, {
      "account-methods": { factors: NO_FACTORS },
      "account-methods-nothing-to-add": {
        factors: NO_FACTORS,
        account: { sub: text(SUB), ways: { password } },
        canAdd: [],
      },
      "account-methods-several": { notice: "passkeyAdded" },
      "account-methods-stopped": { factors: { ...factors, app: stopped }, notice: "passkeyRemoved" },
      "account-methods-full": {
        factors: { ...factors, app: stopped, passkeys: Array.from({ length: 10 }, () => unused) },
        notice: "factorsFull",
      },
      "account-methods-few-codes": { factors: { ...factors, recovery_codes_left: 2 } },
      "account-methods-no-codes": { factors: { ...factors, recovery_codes_left: 0 } },
      "account-methods-no-password": {
        account: { sub: text(SUB), ways: {} },
        factors: { ...factors, app: null, passkeys: [passkey] },
      },
      "account-methods-linked": { linked: several, notice: "identityLinked" },
      "account-methods-linked-only-way": {
        account: { sub: text(SUB), ways: { provider: { links: [] } } },
        factors: NO_FACTORS,
        linked: { ...several, identities: several.identities.slice(1) },
      },
      "account-methods-organization": {
        linked: { ...several, identities: several.identities.slice(1), only: providers[1] },
      },
    }),
    ...states(factorView, one, {
      "account-methods-passkey": { method: named },
      "account-methods-passkey-no-name": {
        method: named,
        isLast: true,
        problems: [problem("passkey-name", "name")],
      },
      "account-methods-passkey-last-sign-in-method": {
        method: named,
        isLast: true,
        problems: [problem("last-sign-in-method")],
      },
      "account-methods-app": { isLast: true },
      "account-methods-app-of-several": { isLast: false },
    }),
    ...states(confirmFactorView, confirm, {
      "account-methods-confirm": {},
      "account-methods-confirm-sent": { isSent: true, isGuarded: true, notice: "factorCode" },
      "account-methods-code": {
        isSent: true,
        isGuarded: true,
        problems: [problem("wrong-code", "code")],
      },
      "account-methods-no-code": { isSent: true, problems: [problem("no-code", "code")] },
      "account-methods-no-tries": { problems: [problem("no-tries")] },
      "account-methods-code-gone": { problems: [problem("gone")] },
      "account-methods-confirm-limited": { problems: [problem("limited")] },
    }),
    ...states(newAppView, newApp, {
      "account-methods-new-app": {},
      "account-methods-new-app-wrong": { problems: [problem("wrong-app-code", "code")] },
    }),
    ...states(newPasskeyView, newPasskey, {
      "account-methods-new-passkey": {},
      "account-methods-new-passkey-refused": { problems: [problem("new-passkey-refused")] },
      "account-methods-new-passkey-no-name": { problems: [problem("passkey-name", "name")] },
    }),
    ...states(chooseProviderView, linking, {
      "account-link": {},
      "account-link-nothing": { linkable: [] },
      ...Object.fromEntries(
        ["cancelled", "slow", "unusable", "domain", "taken", "full", "sign-in"].map((code) => [
          `account-link-${code}`,
          { problems: [problem(code)] },
        ]),
      ),
      "account-link-limited": { problems: [problem("limited")] },
    }),
    ...states(confirmLinkView, started, {
      "account-link-confirm": {},
      "account-link-confirm-sent": { isSent: true, isGuarded: true, notice: "factorCode" },
      "account-link-wrong-code": { isSent: true, problems: [problem("wrong-code", "code")] },
      "account-link-no-tries": { problems: [problem("gone")] },
    }),
    ...states(linkIdentityView, started, {
      "account-linking": {},
      "account-linking-unknown-address": { there: "" },
      "account-linking-limited": { problems: [problem("limited")] },
    }),
    ...states(removeIdentityView, identity, { "account-identity-remove": {} }),
    ...states(undoIdentityView, identity, { "account-identity-undo": {} }),
    ...states(codesView, codes, {
      "account-methods-codes-left": {},
      "account-methods-codes": { codes: RECOVERY_CODES.map(text), left: 10 },
    }),
  ];
}

function sessionSamples(text: Text, common: PersonLocals): readonly Sample[] {
  const session = (uid: string, minutesAgo: number, where: object = {}) => ({
    isThis: minutesAgo === 0,
    session: {
      uid: text(uid),
      firstUse: daysAgo(6.25),
      lastUse: (NOW - minutesAgo * MINUTE_MS) / 1000,
      ...where,
    },
  });
  const firefox = { browser: text("Firefox"), system: text("Windows") };
  const here = { browser: text("Safari"), system: text("iPhone"), address: text("203.0.113.0/24") };
  const sessions = [
    session("1", 0, here),
    session("2", 130, { ...firefox, address: text("2001:db8:1::/48") }),
    session("3", 5_000),
  ];
  const browser = { id: text("1"), added_at: daysAgo(2), expires_at: daysAgo(-28) };
  const remembered = [
    { ...browser, ...firefox },
    { ...browser, browser: text("Opera"), system: null },
  ];
  const shown = { ...common, sessions, remembered: [], network: text("203.0.113.0/24"), now: NOW };
  return states(sessionsView, shown, {
    "account-sessions": {},
    "account-sessions-one": { sessions: sessions.slice(0, 1), notice: "sessions" },
    "account-sessions-unknown": { sessions: [session("1", 0)] },
    "account-sessions-remembered": { remembered, notice: "session" },
    "account-sessions-next": { remembered, first: text("?"), next: text("?after=3") },
  });
}

function serviceSamples(text: Text, common: PersonLocals): readonly Sample[] {
  const fields = ["sub", "email", ...DOCUMENTED_FIELDS, text("shoe_size")];
  const since = NOW - 60_000 * MINUTE_MS;
  const services = [
    { key: text("1"), name: text("News"), since, fields, apis: sampleApis(text) },
    { key: text("2"), name: text(LONG_NAME), since: undefined, fields: ["sub", "email"], apis: [] },
  ];
  const devices = [{ id: text(""), client: { name: text("News on TV") }, since: daysAgo(1) }];
  const applications = [
    { id: text("1"), host: text("assistant.example.net"), since: daysAgo(2), apis: sampleApis(text) },
  ];
  const none = { ...common, services: [], devices: [], applications: [], offersDevices: false, now: NOW };
  return states(servicesView, none, {
    "account-services": { services, devices, applications, offersDevices: true },
    "account-services-none": { notice: "service" },
    "account-services-next": { first: text("?"), next: text("?after=2") },
  });
}

/** The pages for the code of a device. */
function deviceSamples(text: Text, common: PersonLocals): readonly Sample[] {
  const device = { ...common, value: text("WDJB-MJHT") };
  const compare = {
    ...common,
    client: { name: text("News on TV") },
    logo: undefined,
    userCode: "WDJBMJHT",
    fields: ["sub", "email", ...FULL_NAME, text("shoe_size")],
    apis: [],
    askedAt: NOW - 70_000,
    now: NOW,
    network: text("203.0.113.0/24"),
    ownNetwork: text("198.51.100.0/24"),
  };
  const done = { ...common, isConnected: true };
  return [
    ...states(deviceView, device, {
      device: { value: "" },
      "device-filled-in": {},
      "device-required": { problems: [problem("required", "user_code")] },
      "device-unknown": { problems: [problem("unknown", "user_code")] },
      "device-used": { problems: [problem("used", "user_code")] },
      "device-expired": { problems: [problem("expired", "user_code")] },
      "device-unavailable": { problems: [problem("unavailable", "user_code")] },
      "device-second-factor": { problems: [problem("second-factor", "user_code")] },
      "device-limited": { problems: [problem("limited")] },
    }),
    ...states(compareView, compare, {
      "device-compare": {},
      "device-compare-same-network": { ownNetwork: text("203.0.113.0/24") },
      "device-compare-unknown-network": { logo: text("/clients/1/logo?1"), network: undefined },
      "device-compare-api": { fields: ["sub"], apis: sampleApis(text) },
    }),
    ...states(deviceDoneView, done, {
      "device-done": {},
      "device-refused": { isConnected: false },
    }),
  ];
}
