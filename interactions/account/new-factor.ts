/**
 * Adding an authenticator app or a passkey, after a recent sign-in. The first factor of an account also needs a code
 * from a mail. The form holds what the new factor is made with, encrypted for this session and page. The factor is
 * tried before it counts, and the account must not have changed meanwhile (see `accounts/factors/enrolment.ts`).
 */
import type { Enrolment, Enrolments } from "../../accounts/factors/enrolment.ts";
import { type NewFactor, passkeyName } from "../../accounts/factors/factor.ts";
import type { Clock } from "../../core/clock.ts";
import type { Translator } from "../../core/texts.ts";
import { AMR_CODE, amrOfPasskey } from "../../provider/authentication.ts";
import type { SignInSessions } from "../../provider/sessions/sessions.ts";
import type { DeviceCookies } from "../device-cookie.ts";
import type { Form, FormProblem } from "../forms.ts";
import { waitText } from "../look/moments.ts";
import { groupedKey, qrCode } from "../look/qr-code.ts";
import type { Page, SendOptions } from "../page.ts";
import { parsed } from "../steps/passkey-sign-in.ts";
import {
  askedAt,
  personLocals,
  type PersonLocals,
  type PersonPage,
  type PersonVisit,
} from "./person-pages.ts";
import type { AccountSeals } from "./seals.ts";
import {
  backToMethods,
  doneAt,
  METHODS_PATH,
  type MethodsPageParts,
  newFactorPath,
  showCodes,
} from "./sign-in-methods.ts";

type FactorKind = NewFactor["kind"];

/** A problem with a code from a mail, or with a new factor. */
type NewFactorProblem =
  | { readonly reason: "noCode" | "noTries" | "gone" | "wrongApp" | "wrongPasskey" | "name" }
  | { readonly reason: "wrongCode"; readonly triesLeft: number }
  /** Seconds. */
  | { readonly reason: "limited"; readonly retryAfter: number };

interface NewFactorLocals extends PersonLocals {
  readonly kind: FactorKind;
  readonly problem?: NewFactorProblem;
}

/** `account-confirm-factor`: a form that sends the code, and one for the code. */
interface ConfirmFactorLocals extends NewFactorLocals {
  /** Whether a code may be on its way. */
  readonly isSent: boolean;
  /** The address has changed in the last seven days: the code goes to the one before it. */
  readonly isGuarded: boolean;
}

export const confirmFactorView: Page<ConfirmFactorLocals> = {
  view: "account-confirm-factor",
  locals: (t, locals) => ({
    ...newFactorLocals(t, locals, "code"),
    isSent: locals.isSent,
    isGuarded: locals.isGuarded,
  }),
};

/** `account-new-app`: the QR code, the key and a form with the first code. */
interface NewAppLocals extends NewFactorLocals {
  readonly app: { readonly qrCode: string; readonly key: string; readonly uri: string };
  readonly setUp: string;
}

export const newAppView: Page<NewAppLocals> = {
  view: "account-new-app",
  locals: (t, locals) => ({
    ...newFactorLocals(t, locals, "code"),
    app: locals.app,
    setUp: locals.setUp,
  }),
};

/** `account-new-passkey`: a form whose script makes the passkey. */
interface NewPasskeyLocals extends NewFactorLocals {
  /** The argument of `navigator.credentials.create`, as JSON. */
  readonly passkey: string;
  readonly setUp: string;
}

export const newPasskeyView: Page<NewPasskeyLocals> = {
  view: "account-new-passkey",
  locals: (t, locals) => ({
    ...newFactorLocals(t, locals, ""),
    passkey: locals.passkey,
    setUp: locals.setUp,
  }),
};

/** @param field that a wrong entry is about; empty: none. */
function newFactorLocals(t: Translator, locals: NewFactorLocals, field: string) {
  const { base, kind, problem } = locals;
  return {
    ...personLocals(t, locals, t(`methods.new.${kind}`), problemsOf(t, field, problem)),
    back: base + METHODS_PATH,
    backTo: t("account.methods"),
  };
}

function problemsOf(t: Translator, field: string, problem: NewFactorProblem | undefined): FormProblem[] {
  if (problem === undefined) return [];
  const isAboutField = field !== "" && ["noCode", "wrongCode", "wrongApp"].includes(problem.reason);
  const values = {
    wait: problem.reason === "limited" ? waitText(t.locale, problem.retryAfter) : "",
    tries: problem.reason === "wrongCode" ? problem.triesLeft : "",
  };
  return [{ fields: isAboutField ? [field] : [], text: t(`methods.problem.${problem.reason}`, values) }];
}

export interface NewFactorPageParts extends Pick<MethodsPageParts, "secondFactors"> {
  readonly seals: AccountSeals;
  readonly sessions: Pick<SignInSessions, "keep">;
  readonly devices: Pick<DeviceCookies, "has" | "read">;
  readonly clock: Clock;
}

/** None without mail: nobody could confirm a first factor. */
export function newFactorPages(parts: NewFactorPageParts): readonly PersonPage[] {
  const { enrolments, passkeys } = parts.secondFactors;
  if (enrolments === undefined) return [];
  const pages = [newFactorPage(parts, enrolments, "app")];
  return passkeys === undefined ? pages : [...pages, newFactorPage(parts, enrolments, "passkey")];
}

/**
 * A form sends `action`: `send` for a mail with a code, `code` with that `code`, or the kind of the factor with `set-up` and
 * its first use: `code`, or `credential` and `name`.
 */
function newFactorPage(parts: NewFactorPageParts, enrolments: Enrolments, kind: FactorKind): PersonPage {
  const { seals, sessions, devices, clock } = parts;
  const path = newFactorPath(kind);

  function showConfirmation(visit: PersonVisit, isSent: boolean, problem?: NewFactorProblem): void {
    const { account } = visit.person;
    const isGuarded = (account.address_undos ?? []).some(({ expires_at }) => expires_at > clock.now());
    const data = { ...visit.locals, kind, isSent, isGuarded, ...(problem && { problem }) };
    visit.send(confirmFactorView, data, answerOf(problem));
  }

  async function showSetUp(visit: PersonVisit, made: Enrolment, problem?: NewFactorProblem): Promise<void> {
    const { app, passkey } = made;
    const data = {
      ...visit.locals,
      kind,
      setUp: seals.encrypt(visit.person, path, JSON.stringify(kept(made))),
      ...(problem && { problem }),
    };
    if (kind === "app") {
      // Another one was added meanwhile.
      if (app === null) return visit.done(METHODS_PATH, "factorsFull");
      const { secret, uri } = app;
      const shown = { qrCode: await qrCode(uri), key: groupedKey(secret), uri };
      return visit.send(newAppView, { ...data, app: shown }, answerOf(problem));
    }
    if (passkey === null) return visit.done(METHODS_PATH, "factorsFull");
    const json = JSON.stringify(passkey.publicKey);
    return visit.send(newPasskeyView, { ...data, passkey: json }, answerOf(problem));
  }

  /** Keeps only what this page adds. The excluded passkeys are long, and only the browser needs them. */
  function kept(made: Enrolment): Enrolment {
    if (kind === "app" || made.passkey === null) return { ...made, passkey: null };
    return { ...made, app: null };
  }

  /** @param code from the mail, if there is one. */
  async function begin(visit: PersonVisit, code?: string): Promise<void> {
    const { account, session } = visit.person;
    const begun = await enrolments.begin(account.sub, session, code, askedAt(visit, devices));
    if (begun.kind === "begun") return showSetUp(visit, begun.enrolment);
    if (begun.kind === "code-required") return showConfirmation(visit, visit.locals.notice === "factorCode");
    if (begun.kind === "wrong") {
      const { triesLeft } = begun;
      return triesLeft === 0
        ? showConfirmation(visit, false, { reason: "noTries" })
        : showConfirmation(visit, true, { reason: "wrongCode", triesLeft });
    }
    if (code === undefined) return visit.done(METHODS_PATH, "factorsFull");
    return showConfirmation(visit, false, { reason: "gone" });
  }

  async function send(visit: PersonVisit): Promise<void> {
    const { account, session } = visit.person;
    const sent = await enrolments.sendCode(account.sub, session, askedAt(visit, devices));
    if (sent.kind === "limited")
      return showConfirmation(visit, false, { reason: "limited", retryAfter: sent.retryAfter });
    return visit.done(path, "factorCode");
  }

  function setUpOf({ person }: PersonVisit, form: Form): Enrolment | undefined {
    const text = seals.decrypt(person, path, form.get("set-up") ?? "");
    return text === undefined ? undefined : (JSON.parse(text) as Enrolment);
  }

  async function add(visit: PersonVisit, form: Form): Promise<void> {
    const { session } = visit.person;
    const made = setUpOf(visit, form);
    if (made === undefined) return begin(visit);
    const name = form.get("name") ?? "";
    if (kind === "passkey" && passkeyName(name) === undefined)
      return showSetUp(visit, made, { reason: "name" });
    const change = { keepSession: session };
    const added =
      kind === "app"
        ? await enrolments.addApp(made, form.get("code") ?? "", change, askedAt(visit, devices))
        : await enrolments.addPasskey(
            made,
            parsed(form.get("credential")),
            name,
            change,
            askedAt(visit, devices),
          );
    switch (added.kind) {
      case "limited":
        return visit.limited(added.retryAfter);
      case "wrong":
        return showSetUp(visit, made, { reason: kind === "app" ? "wrongApp" : "wrongPasskey" });
      case "limit_reached":
        return visit.done(METHODS_PATH, "factorsFull");
      case "stale":
        return visit.done(METHODS_PATH, "factorOutdated");
      case "required":
      case "last_sign_in_method":
      case "not_found":
        return backToMethods(visit);
      case "changed": {
        // The person has just shown this factor, so this session need not be asked for it again.
        const { backupEligible } = { backupEligible: undefined, ...added };
        const shown = backupEligible === undefined ? AMR_CODE : amrOfPasskey(backupEligible);
        await sessions.keep(session, added.sessions_generation, shown);
        if (added.recoveryCodes.length > 0) return showCodes(visit, added.recoveryCodes);
        return doneAt(visit, kind === "app" ? "appAdded" : "passkeyAdded", added.sessions_generation);
      }
    }
  }

  return {
    path,
    needs: "recent sign-in",
    // Each call of an enrolment takes its own points.
    isUnlimited: true,
    show: (visit) => begin(visit),
    submit(visit, form) {
      const action = form.get("action");
      if (action === kind) return add(visit, form);
      if (action !== "code") return send(visit);
      const code = form.get("code") ?? "";
      if (code.trim() === "") {
        showConfirmation(visit, true, { reason: "noCode" });
        return Promise.resolve();
      }
      return begin(visit, code);
    },
  };
}

function answerOf(problem: NewFactorProblem | undefined): SendOptions {
  if (problem?.reason === "limited") return { status: 429, retryAfter: problem.retryAfter };
  return { status: problem === undefined ? 200 : 400 };
}
