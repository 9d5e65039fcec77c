/** The pages of a signed-in person with realistic data. */
import { compareView, deviceDoneView, deviceView } from "../../interactions/account/device.ts";
import { deletionView } from "../../interactions/account/delete.ts";
import { addressView, newAddressView } from "../../interactions/account/email.ts";
import { overviewView } from "../../interactions/account/overview.ts";
import { confirmFactorView, newAppView, newPasskeyView } from "../../interactions/account/new-factor.ts";
import { passwordView } from "../../interactions/account/password.ts";
import type { PersonLocals } from "../../interactions/account/person-pages.ts";
import { profileView } from "../../interactions/account/profile.ts";
import { servicesView } from "../../interactions/account/services.ts";
import { codesView, factorView, methodsView } from "../../interactions/account/sign-in-methods.ts";
import { sessionsView } from "../../interactions/account/sessions.ts";
import { loggedOutPage } from "../../interactions/answers.ts";
import type { Pages, Visit } from "../../interactions/page.ts";
import { ACCOUNT_URL, ADA, MINUTE_MS, NOW, RECOVERY_CODES, type Screen, SUB } from "./screen.ts";

/** The pages in the navigation of the account. */
const PLACES = ["home", "profile", "email", "password", "methods", "sessions", "services", "delete"] as const;

/** What every page at one of these places shows. */
const at = (current: (typeof PLACES)[number]): PersonLocals => ({
  base: "",
  action: current === "home" ? ACCOUNT_URL : `${ACCOUNT_URL}/${current}`,
  csrf: "c",
  person: { name: "Ada Lovelace", email: ADA },
  places: PLACES.map((page) => ({ page, href: `${ACCOUNT_URL}/${page}`, isCurrent: page === current })),
});

/** As large as a QR code. Drawing a real one is asynchronous. */
const QR_CODE = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 9 9'/%3E";

/** "Sign-in methods" and the pages below it. */
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

/** When a session was used, in seconds. */
const used = (minutesAgo: number) => ({
  firstUse: (NOW - 9_000 * MINUTE_MS) / 1000,
  lastUse: (NOW - minutesAgo * MINUTE_MS) / 1000,
});

/** The pages of a signed-in person. */
export function accountScreens(pages: Pages): readonly Screen[] {
  const overview = {
    ...at("home"),
    account: {
      sub: SUB,
      email_verified: true,
      username: "ada",
      password_hash: "",
      password_changed_at: (NOW - 130_000 * MINUTE_MS) / 1000,
    },
    browsers: 3,
    services: ["News", "Video", "Radio", "Library"],
    now: NOW,
  };
  const address = { ...at("email"), email: ADA, isConfirmed: true };
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
    { key: "1", name: "News", since: NOW - 60_000 * MINUTE_MS, fields, apis },
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
          person: { name: "", email: ADA },
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
          email: ADA,
          notified: services.map(({ name }) => name),
        }),
    },
    {
      name: "account-deleted",
      html: (visit) => pages.render(loggedOutPage, visit, { accountUrl: ACCOUNT_URL, after: "deleted" }),
    },
  ];
}
