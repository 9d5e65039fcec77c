/** The steps of a sign-in with realistic data. */
import { confirmPage } from "../../interactions/confirm.ts";
import { sampleNewcomer, type SampleStep, sampleState, sampleStep } from "../../interactions/sample-steps.ts";
import type { SignInMethod, StepName } from "../../interactions/steps/step.ts";
import { stepPage } from "../../interactions/steps/views.ts";
import type { Pages } from "../../interactions/page.ts";
import { ACCOUNT_URL, ADA, NOW, RECOVERY_CODES, type Screen, SUB } from "./screen.ts";

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
export function signInScreens(pages: Pages): readonly Screen[] {
  const screen = (name: string, step: StepName, shown: SampleStep = {}): Screen => {
    const client = { client_id: "news", name: step === "consent" ? "Partner" : "News" };
    const account = (step === "consent" || step === "continue") && {
      account: { sub: SUB, email: ADA, name: "Ada Lovelace", hasPassword: true },
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
    screen("continue-device", "continue", { signIn: { forDevice: true } }),
    screen("login-new-password", "login", { signIn: { state: { notice: "password-changed" } } }),
    screen("reauthenticate", "reauthenticate", {
      signIn: { account: { sub: SUB, email: ADA, name: "Ada Lovelace", hasPassword: true } },
    }),
    screen("second-factor", "second-factor"),
    screen("offer-passkey", "offer-passkey"),
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
