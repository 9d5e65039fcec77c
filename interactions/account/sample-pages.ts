/** The account pages in all their states, for `interactions/sample-pages.ts`. Add a row here for each new state. */
import { compareView, deviceDoneView, deviceView } from "./device.ts";
import { deletionView } from "./delete.ts";
import { addressView, newAddressView } from "./email.ts";
import { overviewView } from "./overview.ts";
import { confirmFactorView, newAppView, newPasskeyView } from "./new-factor.ts";
import { passwordView } from "./password.ts";
import type { PersonLocals } from "./person-pages.ts";
import { profileView } from "./profile.ts";
import { servicesView } from "./services.ts";
import { codesView, factorView, methodsView } from "./sign-in-methods.ts";
import { sessionsView } from "./sessions.ts";
import { type Sample, sample } from "../page.ts";

/** The pages for the code of a device. */
function devicePages(text: string, common: PersonLocals, at: number): readonly Sample[] {
  const compared = {
    ...common,
    client: { name: text },
    logo: undefined,
    userCode: "BCDFGHJK",
    fields: ["sub", "email", "name", "surname", text],
    apis: [],
    askedAt: at,
    now: at + 1,
    network: text,
    ownNetwork: text,
  };
  return [
    sample(deviceView, "empty", { ...common, value: "" }),
    sample(deviceView, "filled in", { ...common, value: text }),
    ...(["required", "unknown", "used", "expired", "unavailable"] as const).map((reason) =>
      sample(deviceView, reason, { ...common, value: text, problem: { reason } }),
    ),
    sample(deviceView, "limited", { ...common, value: text, problem: { reason: "limited", retryAfter: 90 } }),
    sample(compareView, "the same network", compared),
    sample(compareView, "api", {
      ...compared,
      fields: ["sub"],
      apis: [{ identifier: text, name: text, scopes: [{ name: text, label: text }] }],
    }),
    sample(compareView, "another network", { ...compared, logo: text, network: undefined }),
    sample(deviceDoneView, "connected", { ...common, isConnected: true, notice: "device" }),
    sample(deviceDoneView, "refused", { ...common, isConnected: false, notice: "deviceRefused" }),
  ];
}

/** "Sign-in methods", and adding one. */
function methodPages(text: string, common: PersonLocals, now: number): readonly Sample[] {
  const added_at = now / 1000 - 86_400;
  const passkey = { id: text, name: text, added_at, last_used_at: null, backed_up: true };
  const app = { added_at, last_used_at: added_at, stopped: false };
  const canAdd = { app: true, passkey: true };
  const nothing = { app: null, passkeys: [], recovery_codes_left: 0 };
  const methods = { ...common, factors: nothing, password: { isSet: true }, canAdd, now };
  const both = { app, passkeys: [passkey, { ...passkey, last_used_at: added_at }], recovery_codes_left: 10 };
  const full = {
    ...both,
    app: { ...app, stopped: true },
    passkeys: Array.from({ length: 10 }, () => passkey),
  };
  const confirm = { ...common, kind: "app", isSent: false, isGuarded: false } as const;
  const newApp = {
    ...common,
    kind: "app",
    app: { qrCode: text, key: text, uri: text },
    setUp: text,
  } as const;
  const newPasskey = { ...common, kind: "passkey", passkey: text, setUp: text } as const;
  return [
    sample(methodsView, "password only", { ...methods, password: { isSet: true, changedAt: added_at } }),
    sample(methodsView, "passkeys and app", { ...methods, factors: both, notice: "passkeyAdded" }),
    sample(methodsView, "full and stopped", { ...methods, factors: full, notice: "factorsFull" }),
    sample(methodsView, "few codes", { ...methods, factors: { ...both, recovery_codes_left: 2 } }),
    sample(methodsView, "no codes", { ...methods, factors: { ...both, recovery_codes_left: 0 } }),
    sample(methodsView, "one passkey, no password", {
      ...methods,
      password: { isSet: false },
      factors: { app: null, passkeys: [passkey], recovery_codes_left: 10 },
    }),
    sample(methodsView, "nothing to add", { ...methods, canAdd: { app: false, passkey: false } }),
    sample(factorView, "passkey", { ...common, passkey, isLast: false }),
    sample(factorView, "no name", { ...common, passkey, isLast: true, problem: "name" }),
    sample(factorView, "the only way", { ...common, passkey, isLast: true, problem: "only-way" }),
    sample(factorView, "app", { ...common, isLast: false }),
    sample(codesView, "left", { ...common, codes: [], left: 1 }),
    sample(codesView, "new", { ...common, codes: [text, text], left: 2 }),
    sample(confirmFactorView, "not sent", confirm),
    sample(confirmFactorView, "sent", { ...confirm, isSent: true, isGuarded: true, notice: "factorCode" }),
    sample(confirmFactorView, "wrong code", {
      ...confirm,
      isSent: true,
      problem: { reason: "wrongCode", triesLeft: 3 },
    }),
    ...(["noCode", "noTries", "gone"] as const).map((reason) =>
      sample(confirmFactorView, reason, { ...confirm, isSent: reason === "noCode", problem: { reason } }),
    ),
    sample(confirmFactorView, "limited", { ...confirm, problem: { reason: "limited", retryAfter: 90 } }),
    sample(newAppView, "empty", newApp),
    sample(newAppView, "wrong code", { ...newApp, problem: { reason: "wrongApp" } }),
    sample(newPasskeyView, "empty", newPasskey),
    sample(newPasskeyView, "refused", { ...newPasskey, problem: { reason: "wrongPasskey" } }),
    sample(newPasskeyView, "no name", { ...newPasskey, problem: { reason: "name" } }),
  ];
}

/** @param text replaces every text from outside. */
export function personPages(text: string): readonly Sample[] {
  const common = {
    base: text,
    action: text,
    csrf: text,
    person: { name: "", email: text },
    places: ["home", "profile", "email", "password", "methods", "sessions", "services", "delete"].map(
      (page) => ({
        page,
        href: text,
        isCurrent: page === "home",
      }),
    ),
  };
  const overview = {
    ...common,
    account: { sub: text, email_verified: false, username: null, password_hash: null },
    browsers: 1,
    services: [],
    now: 1_790_000_000_000,
  };
  const address = { ...common, email: text, isConfirmed: true };
  const pending = { email: text, hasLink: false };
  const values = {
    name: text,
    surname: text,
    username: text,
    date_of_birth: text,
    gender: text,
    locale: text,
  };
  const profile = { ...common, values, locales: ["en", "pl"], problems: [] };
  const password = { ...common, username: text, min: 8, max: 128, isSet: true };
  const at = 1_790_000_000_000;
  const session = { uid: text, firstUse: at / 1000, lastUse: at / 1000 };
  const where = { address: text, browser: text, system: text };
  const kept = { id: text, browser: text, system: null, added_at: at / 1000, expires_at: at / 1000 };
  const seen = { ...common, network: text, remembered: [kept], now: at };
  const one = { isThis: true, session };
  const sessions = [one, { isThis: false, session: { ...session, ...where } }];
  const apis = [{ identifier: text, name: text, scopes: [{ name: text, label: text }] }];
  const service = { key: text, name: text, since: undefined, fields: ["sub", "email", text], apis };
  return [
    sample(overviewView, "person", overview),
    sample(overviewView, "operator", {
      ...overview,
      person: { name: text, email: text },
      account: {
        sub: text,
        email_verified: true,
        username: text,
        password_hash: text,
        password_changed_at: 0,
      },
      browsers: 50,
      hasMoreBrowsers: true,
      services: [text, text, text, text],
      console: text,
      notice: "password",
    }),
    sample(profileView, "filled in", profile),
    sample(profileView, "saved, one language", { ...profile, locales: ["en"], notice: "profile" }),
    sample(profileView, "wrong", {
      ...profile,
      problems: [
        { field: "name", reason: "text" },
        { field: "username", reason: "taken" },
        { field: "username", reason: "username" },
        { field: "date_of_birth", reason: "date" },
        { field: "gender", reason: "choice" },
      ],
    }),
    sample(addressView, "confirmed", { ...address, notice: "address" }),
    sample(addressView, "not confirmed", { ...address, isConfirmed: false, notice: "addressCancelled" }),
    sample(addressView, "pending", { ...address, pending, notice: "codeSent" }),
    sample(addressView, "wrong code", {
      ...address,
      pending,
      problem: { reason: "wrongCode", triesLeft: 3 },
    }),
    sample(addressView, "link", { ...address, pending: { email: text, hasLink: true } }),
    sample(newAddressView, "empty", { ...common, value: "" }),
    sample(newAddressView, "wrong", { ...common, value: text, problem: { reason: "invalid" } }),
    sample(newAddressView, "limited", {
      ...common,
      value: text,
      problem: { reason: "limited", retryAfter: 90 },
    }),
    sample(passwordView, "empty", password),
    sample(passwordView, "first", { ...password, isSet: false }),
    sample(passwordView, "refused", { ...password, problem: "too-short" }),
    sample(sessionsView, "one", { ...seen, remembered: [], sessions: [one] }),
    sample(sessionsView, "several", { ...seen, sessions, now: at + 1, notice: "session" }),
    sample(sessionsView, "next page", { ...seen, sessions, first: text, next: text }),
    sample(servicesView, "none", {
      ...common,
      services: [],
      devices: [],
      offersDevices: false,
      now: at,
      notice: "service",
    }),
    sample(servicesView, "some", {
      ...common,
      services: [service, { ...service, since: at }],
      devices: [{ id: text, client: { name: text }, since: at / 1000 }],
      offersDevices: true,
      now: at + 1,
    }),
    sample(servicesView, "next page", {
      ...common,
      services: [],
      devices: [],
      first: text,
      next: text,
      offersDevices: false,
      now: at,
    }),
    ...methodPages(text, common, at),
    ...devicePages(text, common, at),
    sample(deletionView, "nobody is notified", { ...common, email: text, notified: [] }),
    sample(deletionView, "some are notified", { ...common, email: text, notified: [text, text] }),
  ];
}
