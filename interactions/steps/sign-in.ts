/**
 * How a person is signed in: by a password, then by a second factor, if the account has one, then by looking at the sign-in
 * methods after a reset, and then by accepting new terms.
 */
import { callerOf } from "../../provider/exchange.ts";
import { ANONYMOUS } from "../../records/audit/audit-event.ts";
import { isDisabled } from "../../accounts/account.ts";
import type { Enrolment } from "../../accounts/factors/enrolment.ts";
import { hasSecondFactor, isPasskeyOfferDue } from "../../accounts/factors/factor.ts";
import { type Clock, seconds } from "../../core/clock.ts";
import {
  ACR_PASSKEY,
  acrOf,
  addableAcr,
  amrAt,
  AMR_PASSWORD,
  FED_MFA,
  satisfies,
  strongestAcr,
} from "../../provider/authentication.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import { noteLimited } from "../../accounts/limits/attempt-limits.ts";
import { whoseLimit } from "../../accounts/limits/limit-table.ts";
import { hasShown, isByMailAlone, isReplaceable, kindsOf, outranksMail } from "../../accounts/ways/ways.ts";
import { isOperator } from "../../config/operators.ts";
import { wideNetwork } from "../../accounts/limits/networks.ts";
import { linkingOf, linkingStep } from "./linking.ts";
import type { Proven, RunningSignIn, SignInState, StepName } from "./running-sign-in.ts";
import { askedAt, CAN_ADD_PASSKEY, type Entry, type Outcome, type StepServices } from "./step.ts";

/** How long a right password counts. */
const LIFETIME_SECONDS = 300;

export const isExpired = ({ at, stepUp }: Proven, clock: Clock): boolean =>
  stepUp !== true && at + LIFETIME_SECONDS <= seconds(clock);

/**
 * Whether somebody who has proven something is at this step. At the prompt `continue`, the person may sign in to
 * another account instead.
 */
export const isAt = ({ prompt, state }: RunningSignIn, step: StepName): boolean =>
  prompt !== "consent" && state.step === step && state.proven !== undefined;

/** The person begins with the password again. A code that was sent still works. */
export function startOver({ email, codeFor, upstream, proven }: SignInState): SignInState {
  const cameBack = upstream ?? proven?.linking?.identity;
  return {
    notice: "begin-anew",
    ...(cameBack && { upstream: cameBack }),
    ...(codeFor !== undefined && { codeFor, ...(email !== undefined && { email }) }),
  };
}

/** Nothing is stored: the page says what to do. */
export const CHANGED: Outcome = { kind: "invalid", problems: [{ code: "begin-anew", fields: [] }] };

/** What the person entered. */
interface Credentials {
  readonly username: string;
  readonly password: string;
  /** The fields that a wrong password is about. */
  readonly fields: readonly string[];
}

const ACTION = "sign_in";

/**
 * Takes the rate-limit points and checks the password.
 * @param then what a right one leads to. Default: it signs the person in.
 */
export async function checkPassword(
  entry: Entry,
  services: StepServices,
  { username, password, fields }: Credentials,
  then: (record: AccountRecord) => Promise<Outcome> = (record) =>
    proceed(entry, services, record, {
      at: seconds(services.configuration.clock),
      amr: AMR_PASSWORD,
      ...(entry.values.get(CAN_ADD_PASSKEY) === "true" && { canAddPasskey: true }),
    }),
): Promise<Outcome> {
  const { ctx, signIn } = entry;
  const { limits, passwordCheck, events, audit, devices } = services;
  const { client_id } = signIn.client;
  const { address } = ctx.exchange;
  const checked = await passwordCheck.check({
    source: "form",
    name: username,
    password,
    party: wideNetwork(address),
    limit: (limited, known) => limits.signIn({ ...limited, address, device: known }),
    ...(devices.has(ctx) && { device: (account) => devices.readAtForm(ctx, account) }),
    isFor: (account) => mayEnter(signIn, account, services),
  });
  const failed = { ...callerOf(ctx, ANONYMOUS), action: ACTION, client: signIn.clientThen } as const;
  if (checked.kind === "limited") {
    events.emit("sign_in.failure", { reason: "limited", client_id });
    noteLimited(audit, failed, checked.attempt);
    const limit = whoseLimit(checked.attempt.refusedBy);
    const whose = limit === "name" ? nameAndWays(services) : limit;
    return { kind: "limited", retryAfter: checked.attempt.retryAfter, ...(whose !== undefined && { whose }) };
  }
  if (checked.kind === "refused") {
    const { reason, record } = checked;
    events.emit("sign_in.failure", { reason, client_id });
    audit.note({ ...failed, ...(record && { subject: record.sub }), outcome: "failure", reason });
    return { kind: "invalid", problems: [{ code: "wrong", fields }] };
  }
  services.units.required().refund(checked.attempt);
  return then(checked.record);
}

/** Whether what somebody has shown counts at this client: at the console, only that of operators does. */
export function mayEnter(
  { operatorsOnly }: Pick<RunningSignIn, "operatorsOnly">,
  { sub }: Pick<AccountRecord, "sub">,
  { configuration }: Pick<StepServices, "configuration">,
): boolean {
  return operatorsOnly !== true || isOperator(configuration, sub);
}

/** The words for a limit of a name, with the ways that it does not touch: see the texts `problem.limited.name…`. */
function nameAndWays({ secondFactors: { passkeys }, offers }: StepServices): string {
  return `name${passkeys === undefined ? "" : "Passkey"}${offers.resets ? "Reset" : ""}`;
}

/** What a person has shown of an account, to be kept while something is missing. */
export function provenOf(record: AccountRecord, at: number, amr: readonly string[]): Proven {
  const { sub, sessions_generation: generation } = record;
  return { sub, generation, at, amr, ways: kindsOf(record) };
}

/**
 * The account as it is now, if what was proven of it still counts: a new password, for example, ends that. From then
 * on, even a person who extends the sign-in again and again has only the lifetime of one.
 */
export async function stillProven(
  { sub, generation, at, stepUp }: Proven,
  { accounts, configuration: { clock, lifetimes } }: Pick<StepServices, "accounts" | "configuration">,
): Promise<AccountRecord | undefined> {
  if (!stepUp && at + lifetimes.interaction <= seconds(clock)) return undefined;
  const record = await accounts.record(sub);
  if (record === undefined || isDisabled(record)) return undefined;
  return record.sessions_generation === generation ? record : undefined;
}

/** What was shown, as the client of this sign-in may know it. */
export const amrHere = ({ acceptsProviderMfa }: RunningSignIn, amr: readonly string[]): readonly string[] =>
  amrAt({ ...(acceptsProviderMfa && { providers_mfa: true }) }, amr);

/**
 * Whether the account's second factor is asked for. That of a provider stands for it in an ordinary sign-in; never where a
 * recent one is wanted, nor on the way to the account pages and the console.
 */
function lacksFactor(signIn: RunningSignIn, record: AccountRecord, amr: readonly string[]): boolean {
  if (!hasSecondFactor(record) || amr.includes("mfa")) return false;
  const { client, maxAge, demandedAcr } = signIn;
  const isOrdinary = client.own !== true && maxAge === undefined;
  if (!isOrdinary || !amr.includes(FED_MFA)) return true;
  return demandedAcr !== undefined && !satisfies(acrOf(amrHere(signIn, amr)), demandedAcr);
}

/**
 * The next step of a person who has shown something: the second factor, if the account has one, then the sign-in methods,
 * after a reset, then the terms, if there are new ones, and then the sign-in is complete. Nothing else completes one.
 */
export async function proceed(
  entry: Entry,
  services: StepServices,
  record: AccountRecord,
  shown: Pick<Proven, "at" | "signedInAt" | "amr" | "stepUp" | "canAddPasskey" | "provider" | "linking">,
): Promise<Outcome> {
  const { ctx, signIn } = entry;
  const { accounts, devices, newBrowsers, offers, units } = services;
  const needsFactor = lacksFactor(signIn, record, shown.amr);
  const linking = shown.stepUp ? undefined : linkingOf(signIn.state, shown, record);
  // A mailbox and a browser are not two factors, and neither are a provider and a browser. To link an identity, the person shows
  // the factor.
  const mayBeSpared =
    needsFactor && !shown.stepUp && linking === undefined && hasShown(shown.amr, outranksMail);
  const remembered = mayBeSpared && (await isRemembered(entry, services, record));
  const { canAddPasskey, signedInAt, provider } = shown;
  const proven = {
    ...provenOf(record, shown.at, shown.amr),
    ...(signedInAt !== undefined && { signedInAt }),
    ...(remembered && { remembered }),
    ...(provider !== undefined && { provider }),
  };
  if (needsFactor && !remembered)
    return {
      kind: "next",
      state: {
        step: "second-factor",
        proven: { ...proven, ...(canAddPasskey && { canAddPasskey }), ...(linking && { linking }) },
      },
    };
  const { demandedAcr } = signIn;
  const isTooWeak = demandedAcr !== undefined && !satisfies(acrOf(amrHere(signIn, shown.amr)), demandedAcr);
  if (isTooWeak && !satisfies(strongestAcr(record, services.secondFactors), demandedAcr))
    return addDemanded(
      entry,
      services,
      record,
      { ...proven, ...(shown.stepUp && { stepUp: true }), ...(linking && { linking }) },
      demandedAcr,
    );
  if (linking !== undefined) {
    const next = await linkingStep(entry, services, record, { ...proven, linking });
    if (next !== undefined) return next;
  }
  // A code before the linking signs nobody in.
  if (!shown.stepUp && !hasShown(shown.amr, ({ signsIn }) => signsIn))
    return { kind: "next", state: startOver({}) };
  const byMail = isByMailAlone(shown.amr, record);
  // It removes what a code by mail must not remove.
  const needsReview = !shown.stepUp && !byMail && isReviewDue(record, shown.amr);
  const { terms } = offers.registration ?? {};
  // A person who is already signed in is asked at the next sign-in.
  const needsTerms = terms !== undefined && !shown.stepUp && record.terms_version !== terms.version;
  const isComplete = !needsReview && !needsTerms;
  const mayOffer =
    isComplete && canAddPasskey && !remembered && !byMail && mayBeOffered(entry, services, record);
  if (
    mayOffer &&
    (await accounts.offerPasskey(record.sub, callerOf(ctx, { kind: "account", id: record.sub })))
  )
    return { kind: "next", state: { step: "offer-passkey", proven: { ...proven, offered: true } } };
  if (!shown.stepUp && devices.read(ctx, record) === undefined) {
    const at = { interaction: signIn.uid, userAgent: ctx.req.headers["user-agent"] };
    units.required().alongside((tx) => newBrowsers.note(tx, record, at));
  }
  if (needsReview) return { kind: "next", state: { step: "review-methods", proven } };
  if (needsTerms) return { kind: "next", state: { step: "terms", proven } };
  return finishSignIn(entry, services, record, { ...shown, ...(remembered && { remembered }) });
}

/** Whether the person has to look at the sign-in methods first. */
function isReviewDue({ ways: { review } }: AccountRecord, amr: readonly string[]): boolean {
  return review === "due" || (review === "half" && hasShown(amr, isReplaceable));
}

/**
 * Whether to ask this person to add a passkey before an ordinary sign-in ends: not where the client or the request wants
 * more than a password, and not on the way to the account pages, which say it themselves. It reads and writes nothing.
 */
function mayBeOffered(
  { signIn }: Entry,
  { offers, configuration: { clock } }: StepServices,
  record: AccountRecord,
): boolean {
  const { client, account, demandedAcr, wantsEverything } = signIn;
  if (
    !offers.passkeyOffer ||
    client.own ||
    wantsEverything ||
    account !== undefined ||
    demandedAcr !== undefined
  )
    return false;
  return isPasskeyOfferDue(record, seconds(clock));
}

/**
 * Whether the person has asked not to be asked for the second factor here, and may be spared it now. A person who has
 * to review the sign-in methods must show everything that the account has.
 */
async function isRemembered(
  { ctx, signIn }: Entry,
  { devices, secondFactors }: StepServices,
  record: AccountRecord,
): Promise<boolean> {
  const cookie = devices.remembered(ctx);
  if (cookie === undefined || signIn.wantsEverything || signIn.demandedAcr !== undefined) return false;
  if (record.ways.review !== undefined) return false;
  return secondFactors.rememberedBrowsers.isRemembered(record, cookie);
}

/** Fails if no factor that can be added here is enough, for example because passkeys are off. */
async function addDemanded(
  entry: Entry,
  services: StepServices,
  record: AccountRecord,
  proven: Proven,
  demanded: string,
): Promise<Outcome> {
  if (satisfies(addableAcr(services.secondFactors), demanded))
    return addFactor(entry, services, record, proven);
  const [error, description] = [
    "unmet_authentication_requirements",
    "the account can't sign in with the requested acr",
  ] as const;
  return { kind: "done", location: await services.protocol.refuse(entry.ctx, error, description) };
}

/**
 * A first factor needs a code from the mailbox; after the app, the sign-in is enough. Both must be recent, and more than a code by
 * mail, if the account has more.
 */
export async function addFactor(
  entry: Entry,
  services: StepServices,
  record: AccountRecord,
  proven: Proven,
): Promise<Outcome> {
  if (proven.stepUp || isExpired(proven, services.configuration.clock))
    return { kind: "next", state: startOver(entry.signIn.state) };
  if (isByMailAlone(proven.amr, record)) return { kind: "next", state: { notice: "code-too-little" } };
  return hasSecondFactor(record)
    ? beginEnrolment(entry, services, proven)
    : confirmEnrolment(entry, services, record, proven);
}

/**
 * Sends a code before the person adds a first factor, so that a stolen password alone can't add one. A code that was sent
 * earlier in this sign-in still works, even if the person had to start again.
 */
async function confirmEnrolment(
  entry: Entry,
  services: StepServices,
  { sub }: AccountRecord,
  proven: Proven,
): Promise<Outcome> {
  const { state, uid } = entry.signIn;
  const { enrolments } = services.secondFactors;
  if (enrolments === undefined) return CHANGED;
  const step = { step: "enrol-confirm", proven, codeFor: sub } as const;
  if (state.codeFor === sub && state.email !== undefined)
    return { kind: "next", state: { ...step, email: state.email } };
  const sent = await enrolments.sendCode(sub, uid, askedAt(entry, services));
  if (sent.kind === "limited") return sent;
  if (sent.kind === "gone") return { kind: "next", state: startOver({}) };
  return { kind: "next", state: { ...step, email: sent.to } };
}

/** A further factor needs no code: the one that the account has was shown. */
async function beginEnrolment(entry: Entry, services: StepServices, proven: Proven): Promise<Outcome> {
  const { enrolments } = services.secondFactors;
  if (enrolments === undefined || !proven.amr.includes("mfa")) return CHANGED;
  const begun = await enrolments.begin(proven.sub, entry.signIn.uid, undefined, askedAt(entry, services));
  if (begun.kind !== "begun" || begun.enrolment.as.sessions_generation !== proven.generation) return CHANGED;
  return atEnrol(proven, begun.enrolment);
}

export const atEnrol = (proven: Proven, enrolment: Enrolment): Outcome => ({
  kind: "next",
  state: { step: "enrol", proven, enrolment },
});

/** Signs this person in: everything was shown. */
export async function finishSignIn(
  { ctx, signIn }: Entry,
  services: StepServices,
  record: AccountRecord,
  shown: Pick<Proven, "at" | "signedInAt" | "amr" | "remembered" | "provider">,
): Promise<Outcome> {
  const { units, events, audit, devices, protocol } = services;
  const { client_id } = signIn.client;
  const location = await protocol.signedIn(ctx, signIn, record, shown);
  const success = { sub: record.sub, client_id, deployment: ctx.exchange.deployment.kind };
  const caller = callerOf(ctx, { kind: "account", id: record.sub });
  const by = shown.provider === undefined ? undefined : { provider: shown.provider };
  // For support: which of the methods works.
  const detail = { amr: shown.amr.join(" "), ...by };
  units.current()?.whenCommitted(() => {
    devices.write(ctx, record);
    if (by !== undefined) devices.keepLastWay(ctx, by);
    else if (acrOf(shown.amr) === ACR_PASSKEY) devices.keepLastWay(ctx, "passkey");
    events.emit("sign_in.success", success);
    audit.note({
      ...caller,
      action: ACTION,
      client: signIn.clientThen,
      subject: record.sub,
      detail,
    });
  });
  return { kind: "done", location };
}
