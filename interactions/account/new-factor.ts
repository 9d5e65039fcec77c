/**
 * Adding an authenticator app or a passkey, after a recent sign-in. The first factor of an account also needs a code
 * from a mail. The form holds what the new factor is created with, encrypted for this session and page. The factor is
 * tried before it counts, and the account must not have changed meanwhile (see `accounts/factors/enrolment.ts`).
 */
import { z } from "zod";
import type { Enrolment, Enrolments } from "../../accounts/factors/enrolment.ts";
import { passkeyCreation, type PasskeyCreation } from "../../accounts/factors/passkeys.ts";
import { section } from "../../config/documented-schema.ts";
import { groupedKey, qrCode } from "../look/qr-code.ts";
import { wrongCode } from "../steps/mailed-code.ts";
import { type FactorKind, NEW_FACTORS } from "../steps/new-factor.ts";
import type { Problem } from "../steps/step.ts";
import { codeField, GONE, NO_CODE } from "./email.ts";
import type { Reply } from "../reply.ts";
import type { Sent } from "../submission.ts";
import { askedAt, type PersonPage, type PersonServices, type PersonVisit } from "./person-pages.ts";
import { limited, type PersonLocals, type PersonView, personView } from "./person-view.ts";
import {
  backLocals,
  backToMethods,
  codesView,
  METHODS_PATH,
  nameField,
  newFactorPath,
  showCodes,
} from "./sign-in-methods.ts";

interface NewFactorLocals extends PersonLocals {
  readonly kind: FactorKind;
}

/** `account-confirm-factor`: a form that sends the code, and one for the code. */
interface ConfirmFactorLocals extends NewFactorLocals {
  /** Whether a code may be on its way. */
  readonly isSent: boolean;
  /** The address has changed in the last seven days: the code goes to the one before it. */
  readonly isGuarded: boolean;
}

const kind = z.enum(["app", "passkey"]);

export const confirmFactorView: PersonView<ConfirmFactorLocals> = personView({
  name: "confirm-factor",
  view: "account-confirm-factor",
  takes: { code: ["code"], send: [] },
  problems: "methods",
  members: { kind: kind.describe("What is added afterwards.") },
  content: (t, { isSent, isGuarded, kind: which }) => ({
    title: t(`methods.new.${which}`),
    texts: [t("methods.confirm.text"), ...(isGuarded ? [t("methods.confirm.guarded")] : [])],
    fields: isSent ? [codeField(t)] : [],
    actions: isSent
      ? [
          { name: "code", label: t("methods.confirm.submit") },
          { name: "send", label: t("email.again"), look: "second" },
        ]
      : [{ name: "send", label: t("methods.confirm.send") }],
    members: { kind: which },
  }),
  locals: (t, { base }) => backLocals(t, base),
});

/** What the form sends back: what the new factor is created with, encrypted. */
const setUpField = (value: string) =>
  ({ name: "set-up", type: "hidden", autocomplete: "off", required: true, label: "", value }) as const;

/** `account-new-app`: the QR code, the key and a form with the first code. */
interface NewAppLocals extends NewFactorLocals {
  readonly app: { readonly qrCode: string; readonly secret: string; readonly uri: string };
  readonly setUp: string;
}

export const newAppView: PersonView<NewAppLocals> = personView({
  name: "new-app",
  view: "account-new-app",
  takes: { app: ["set-up", "code"] },
  problems: "methods",
  members: {
    app: section({ secret: z.string(), uri: z.string() }).describe(
      "The secret in Base32, and its `otpauth:` address for a QR code.",
    ),
  },
  content: (t, { app: { secret, uri }, setUp }) => ({
    title: t("methods.new.app"),
    texts: [t("new-app.scan")],
    fields: [
      setUpField(setUp),
      { ...codeField(t), label: t("second-factor.code"), hint: t("methods.new.app.hint") },
    ],
    actions: [{ name: "app", label: t("methods.new.app"), text: t("methods.effect") }],
    members: { app: { secret, uri } },
  }),
  locals: (t, { base, app: { secret, ...app } }) => ({
    ...backLocals(t, base),
    app: { ...app, key: groupedKey(secret) },
  }),
});

/** `account-new-passkey`: a form whose script creates the passkey. */
interface NewPasskeyLocals extends NewFactorLocals {
  /** The argument of `navigator.credentials.create`. */
  readonly passkey: PasskeyCreation;
  readonly setUp: string;
}

export const newPasskeyView: PersonView<NewPasskeyLocals> = personView({
  name: "new-passkey",
  view: "account-new-passkey",
  takes: { passkey: ["set-up", "name", "credential"] },
  problems: "methods",
  members: {
    passkey: section({ publicKey: passkeyCreation }).describe(
      "For `createPasskey` of `sign-in-service/browser`. Send what that returns as `credential`.",
    ),
  },
  content: (t, { passkey: publicKey, setUp }) => ({
    title: t("methods.new.passkey"),
    texts: [t("new-passkey.text"), t("methods.effect")],
    fields: [setUpField(setUp), nameField(t, t("new-passkey.default"))],
    actions: [{ name: "passkey", label: t("new-passkey.submit") }],
    members: { passkey: { publicKey } },
  }),
  locals: (t, { base, passkey, setUp }) => ({
    ...backLocals(t, base),
    passkey: JSON.stringify(passkey),
    setUp,
  }),
});

/** A visit of the page that adds one kind of factor. */
interface Addition {
  readonly visit: PersonVisit;
  readonly services: PersonServices;
  readonly enrolments: Enrolments;
  readonly kind: FactorKind;
}

function showConfirmation(
  { visit, services: { clock }, kind: which }: Addition,
  isSent: boolean,
  problem?: Problem,
): Reply {
  const { account } = visit.person;
  const isGuarded = (account.address_undos ?? []).some(({ expires_at }) => expires_at > clock.now());
  const problems = problem === undefined ? [] : [problem];
  return visit.show(confirmFactorView, { ...visit.locals, kind: which, isSent, isGuarded, problems });
}

async function showSetUp(
  { visit, services: { seals }, kind: which }: Addition,
  made: Enrolment,
  problems: readonly Problem[] = [],
): Promise<Reply> {
  const { app, passkey } = made;
  // Only what this page adds. The excluded passkeys are long, and only the browser needs them.
  const kept =
    which === "app" ? { ...made, passkey: null } : passkey === null ? made : { ...made, app: null };
  const data = {
    ...visit.locals,
    kind: which,
    setUp: seals.encrypt(visit.person, newFactorPath(which), JSON.stringify(kept)),
    problems,
  };
  if (which === "app" && app !== null) {
    const { secret, uri } = app;
    return visit.show(newAppView, { ...data, app: { qrCode: await qrCode(uri), secret, uri } });
  }
  if (which === "passkey" && passkey !== null)
    return visit.show(newPasskeyView, { ...data, passkey: passkey.publicKey });
  // Another one was added meanwhile.
  return visit.done(METHODS_PATH, "factorsFull");
}

/** @param code from the mail, if there is one. */
async function begin(addition: Addition, code?: string): Promise<Reply> {
  const { visit, services, enrolments } = addition;
  const { account, session } = visit.person;
  const begun = await enrolments.begin(account.sub, session, code, askedAt(visit, services.devices));
  if (begun.kind === "begun") return showSetUp(addition, begun.enrolment);
  if (begun.kind === "code-required") return showConfirmation(addition, visit.locals.notice === "factorCode");
  if (begun.kind === "wrong") {
    const { triesLeft } = begun;
    return showConfirmation(addition, triesLeft > 0, wrongCode(triesLeft));
  }
  if (code === undefined) return visit.done(METHODS_PATH, "factorsFull");
  return showConfirmation(addition, false, GONE);
}

async function send(addition: Addition): Promise<Reply> {
  const { visit, services, enrolments, kind: which } = addition;
  const { account, session } = visit.person;
  const sent = await enrolments.sendCode(account.sub, session, askedAt(visit, services.devices));
  if (sent.kind === "limited") return showConfirmation(addition, false, limited(sent.retryAfter));
  return visit.done(newFactorPath(which), "factorCode");
}

async function add(addition: Addition, { values }: Sent): Promise<Reply> {
  const { visit, services, enrolments, kind: which } = addition;
  const { session } = visit.person;
  const text = services.seals.decrypt(visit.person, newFactorPath(which), values.get("set-up") ?? "");
  if (text === undefined) return begin(addition);
  const made = JSON.parse(text) as Enrolment;
  const change = { keepSession: session };
  const at = askedAt(visit, services.devices);
  const added = await NEW_FACTORS[which].add(enrolments, made, values, change, at);
  switch (added.kind) {
    case "limited":
      return visit.limited(added.retryAfter);
    case "invalid":
      return showSetUp(addition, made, added.problems);
    case "limit_reached":
      return visit.done(METHODS_PATH, "factorsFull");
    case "stale":
      return visit.done(METHODS_PATH, "factorOutdated");
    case "changed": {
      // The person has just shown this factor, so this session need not be asked for it again.
      await services.sessions.keep(session, added.sessions_generation, added.shown);
      if (added.recoveryCodes.length > 0) return showCodes(visit, added.recoveryCodes);
      return visit.done(
        METHODS_PATH,
        which === "app" ? "appAdded" : "passkeyAdded",
        added.sessions_generation,
      );
    }
    case "required":
    case "last_sign_in_method":
    case "not_found":
      break;
  }
  return backToMethods(visit);
}

/**
 * A form sends `action`: `send` for a mail with a code, `code` with that `code`, or the kind of the factor with `set-up` and
 * its first use: `code`, or `credential` and `name`.
 */
const newFactorPage = (which: FactorKind): PersonPage => {
  /** Calls back if there are enrolments, which is always: the page is offered only then. */
  const within = async (
    visit: PersonVisit,
    services: PersonServices,
    work: (addition: Addition) => Promise<Reply> | Reply,
  ): Promise<Reply> => {
    const { enrolments } = services.secondFactors;
    return enrolments === undefined
      ? backToMethods(visit)
      : work({ visit, services, enrolments, kind: which });
  };
  return {
    path: newFactorPath(which),
    needs: "recent sign-in",
    // Each call of an enrolment takes its own points.
    isUnlimited: true,
    views: [confirmFactorView, which === "app" ? newAppView : newPasskeyView, codesView],
    // Without mail, nobody could confirm a first factor.
    isOffered: ({ secondFactors: { enrolments, passkeys } }) =>
      enrolments !== undefined && (which === "app" || passkeys !== undefined),
    show: (visit, services) => within(visit, services, (addition) => begin(addition)),
    submit: (visit, sent, services) =>
      within(visit, services, async (addition) => {
        const { action, values } = sent;
        if (action === which) return add(addition, sent);
        if (action !== "code") return send(addition);
        const code = values.get("code") ?? "";
        return code.trim() === "" ? showConfirmation(addition, true, NO_CODE) : begin(addition, code);
      }),
  };
};

export const newFactorPages: readonly PersonPage[] = [newFactorPage("app"), newFactorPage("passkey")];
