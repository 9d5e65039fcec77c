/**
 * Signing in with another provider: the way at the first page, what becomes of somebody who has come back, and the page for
 * everybody who could not come in. The account is the one that is linked to the identity, never the one with the same address.
 */
import { isDisabled } from "../../accounts/account.ts";
import { hasSecondFactor } from "../../accounts/factors/factor.ts";
import { noteLimited } from "../../accounts/limits/attempt-limits.ts";
import { whoseLimit } from "../../accounts/limits/limit-table.ts";
import { isInDomains } from "../../accounts/identities/linking.ts";
import { onlyProvider } from "../../accounts/providers.ts";
import { WAYS } from "../../accounts/ways/ways.ts";
import { seconds } from "../../core/clock.ts";
import { acrOf, FED_MFA, satisfies, strongestAcr } from "../../provider/authentication.ts";
import { callerOf } from "../../provider/exchange.ts";
import { ANONYMOUS } from "../../records/audit/audit-event.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import { UpstreamFault, type UpstreamIdentity } from "../../upstream/upstream.ts";
import type { EndedTrip } from "../trips.ts";
import { providersAt } from "./first-page.ts";
import { proveFresh } from "./provider-fresh.ts";
import { stateOfNewcomer, withoutUpstream } from "./linking.ts";
import { amrHere, CHANGED, proceed } from "./sign-in.ts";
import type { LeftFor, Newcomer, ProviderProblem } from "./provider-state.ts";
import type { RunningSignIn, SignInState } from "./running-sign-in.ts";
import type { Entry, Outcome, SignInStep, SignInWay, Step, StepServices } from "./step.ts";

/** The field that holds the key of the chosen provider. */
const PROVIDER = "provider";

/** Signing in with a provider. */
export const providerWay: SignInWay = {
  kind: "provider",
  fields: [],
  action: "provider",
  needs: "reauthenticate.needs.provider",
  isOpen: ({ providers = [] }) => providers.length > 0,
  submit: (entry, services, step) => leave(entry, services, step),
};

/** Why nobody came in, with a way on. Nothing has changed. */
export const providerProblem: Step = {
  isOpen: ({ prompt, state }) => prompt !== "consent" && state.step === "provider-problem",
  fields: () => [],
  actions: ({ providers = [], state: { provider } }) => [
    "another-way",
    ...(provider?.problem !== "not-here" && providers.some(({ key }) => key === provider?.key)
      ? ["provider"]
      : []),
  ],
  alternatives: () => [],
  async submit(entry, services) {
    const { state } = entry.signIn;
    const { key = "", from = "login" } = state.provider ?? {};
    if (entry.action === "another-way")
      return { kind: "next", state: { ...withoutProvider(state), step: from } };
    const again = { ...entry, values: new Map([[PROVIDER, key]]) };
    return leave(again, services, from, CHOOSES.has(state.provider?.problem) ? { asks: true } : {});
  },
};

/** The state without what a provider has left. */
function withoutProvider(state: SignInState): SignInState {
  const { step, notice: _notice, provider: _left, upstream: _who, ...rest } = state;
  return step === "login" ? { ...rest, step } : rest;
}

/** The problems that another account at the provider may not have. */
export const CHOOSES: ReadonlySet<string | undefined> = new Set<ProviderProblem>(["not-among", "of-another"]);

/**
 * Leaves for the provider. Nothing goes there without this.
 * @param how.asks the provider asks who it is, also somebody who is signed in there.
 */
async function leave(
  entry: Entry,
  services: StepServices,
  step: SignInStep,
  { asks = false }: { readonly asks?: boolean } = {},
): Promise<Outcome> {
  const { ctx, signIn, values, locale } = entry;
  const { trips, protocol, events, audit } = services;
  const key = values.get(PROVIDER);
  // The only way in of a domain is offered to its people by every client.
  const offered = [
    ...providersAt(step, signIn),
    ...services.configuration.providers.filter(({ only }) => only && step === "login"),
  ];
  const provider = offered.find((each) => each.key === key)?.key;
  if (provider === undefined) return { kind: "invalid", problems: [{ code: "no-provider", fields: [] }] };
  const { uid, account, maxAge, loginHint, client } = signIn;
  const owner = {
    kind: "sign-in",
    uid,
    ...(step === "reauthenticate" && { sub: account?.sub ?? "" }),
  } as const;
  try {
    const age = asks ? 0 : maxAge;
    const begun = await trips.begin(ctx, { provider, owner, maxAge: age, loginHint, locale });
    if (begun.kind === "begun") {
      // In the commit of the trip: a sign-in that has ended begins none.
      protocol.keep(signIn, withoutProvider(signIn.state));
      return { kind: "done", location: begun.location };
    }
    const { attempt } = begun;
    events.emit("sign_in.failure", { reason: "limited", client_id: client.client_id });
    const failed = { ...callerOf(ctx, ANONYMOUS), action: "sign_in", client: signIn.clientThen } as const;
    noteLimited(audit, failed, attempt);
    const whose = whoseLimit(attempt.refusedBy);
    return { kind: "limited", retryAfter: attempt.retryAfter, ...(whose !== undefined && { whose }) };
  } catch (error) {
    if (!(error instanceof UpstreamFault)) throw error;
    return atProblem(entry, services, { key: provider, from: step, problem: PROBLEMS[error.reason] });
  }
}

/** What a fault is to the person. Somebody who cancels is back at the first page: that is no fault. */
const PROBLEMS: Readonly<Record<UpstreamFault["reason"], ProviderProblem>> = {
  cancelled: "unusable",
  slow: "slow",
  refused: "unusable",
  lied: "unusable",
  stranger: "not-among",
};

/** The page of a problem. It shows nothing of the provider's own words. */
function atProblem({ signIn: { state } }: Entry, { configuration }: StepServices, left: Left): Outcome {
  const { hd, domains = [] } = configuration.providers.find(({ key }) => key === left.key) ?? {};
  const organizations = left.problem === "not-among" ? (hd ?? domains) : [];
  const provider = { ...left, ...(organizations.length > 0 && { organizations }) };
  return { kind: "next", state: { ...withoutProvider(state), step: "provider-problem", provider } };
}

type Left = LeftFor & Required<Pick<LeftFor, "problem">>;

/** What a provider has answered. */
export type Arrival = UpstreamIdentity | UpstreamFault;

/** Goes on with somebody who has come back to this sign-in. */
export async function arrive(
  entry: Entry,
  services: StepServices,
  trip: Pick<EndedTrip, "provider" | "owner" | "startedAt">,
  arrival: Arrival,
): Promise<Outcome> {
  const { signIn } = entry;
  const { provider: key, owner } = trip;
  const wanted = owner.kind === "sign-in" ? owner.sub : undefined;
  const left = { key, from: wanted === undefined ? "login" : "reauthenticate" } as const;
  if (signIn.prompt === "consent") return { kind: "gone" };
  if (arrival instanceof UpstreamFault) {
    if (arrival.reason !== "cancelled")
      return refuse(entry, services, { ...left, problem: PROBLEMS[arrival.reason] });
    const state = { ...withoutProvider(signIn.state), step: left.from, notice: "provider-cancelled" };
    return { kind: "next", state: { ...state, provider: left } };
  }
  const record = await services.identities.find(arrival);
  if (record === undefined && wanted === undefined)
    return (
      (await welcome(entry, services, { ...arrival, leftAt: trip.startedAt })) ??
      refuse(entry, services, { ...left, problem: "not-here" })
    );
  if (wanted !== undefined && record !== undefined && record.sub !== wanted)
    return refuse(entry, services, { ...left, problem: "of-another" }, record);
  if (record === undefined || isDisabled(record) || !isOffered(entry, services, record, key))
    return refuse(entry, services, { ...left, problem: "not-here" }, record);
  return signInAs(entry, services, record, trip, arrival);
}

/** Goes on with somebody whom nobody knows yet. `undefined`: there is nowhere to go. */
async function welcome(
  entry: Entry,
  services: StepServices,
  upstream: Newcomer,
): Promise<Outcome | undefined> {
  const { signIn } = entry;
  const { provider: key, email } = upstream;
  const provider = services.configuration.providers.find((each) => each.key === key);
  if (provider?.only !== true && signIn.providers?.some((each) => each.key === key) !== true)
    return undefined;
  if (!isInDomains(services.configuration.providers, key, email))
    return refuse(entry, services, { key, from: "login", problem: "not-among" });
  const state = await stateOfNewcomer(entry, services, upstream);
  return state && { kind: "next", state: { ...withoutProvider(signIn.state), ...state } };
}

/** Somebody has registered with the identity in the meantime, in another tab perhaps: whoever came back with it signs in. */
export async function signInKnown(
  entry: Entry,
  services: StepServices,
  upstream: Newcomer,
): Promise<Outcome> {
  const record = await services.identities.find(upstream);
  if (record === undefined || isDisabled(record)) return CHANGED;
  return signInAs(entry, services, record, { startedAt: upstream.leftAt }, upstream);
}

/** Whether this account may come in by this provider here: its domain may have another one as the only way in. */
function isOffered(
  { signIn: { providers = [] } }: Entry,
  { configuration }: StepServices,
  record: AccountRecord,
  key: string,
): boolean {
  const only = onlyProvider(configuration, record);
  return only === undefined ? providers.some((each) => each.key === key) : only.key === key;
}

/** Nobody has come in. */
function refuse(entry: Entry, services: StepServices, left: Left, record?: AccountRecord): Outcome {
  const { ctx, signIn } = entry;
  const { events, audit } = services;
  const { client_id } = signIn.client;
  const reason = record !== undefined && isDisabled(record) ? "disabled" : "credentials";
  events.emit("sign_in.failure", { reason, client_id });
  audit.note({
    ...callerOf(ctx, ANONYMOUS),
    action: "sign_in",
    client: signIn.clientThen,
    outcome: "failure",
    reason,
    ...(record && { subject: record.sub }),
    detail: { provider: left.key },
  });
  return atProblem(entry, services, left);
}

/** The provider's clock may be late by this. */
const CLOCK_TOLERANCE_SECONDS = 10;

/**
 * Whether the provider proves that the person has signed in there as recently as the request wants. A provider may ignore that it was
 * asked for it, and its session may outlive ours.
 */
function isFresh(
  { auth_time: at }: UpstreamIdentity,
  { maxAge, now, startedAt }: { readonly maxAge: number; readonly now: number; readonly startedAt: number },
): boolean {
  if (at === undefined) return false;
  return at >= Math.floor(startedAt / 1_000) - CLOCK_TOLERANCE_SECONDS || at + maxAge >= now;
}

/** How recent a sign-in must be to add a second factor. */
const RECENT_SECONDS = 300;

/** The greatest age that this sign-in needs, in seconds; `undefined` if any will do. */
function neededAge(
  signIn: RunningSignIn,
  record: AccountRecord,
  services: StepServices,
  amr: readonly string[],
): number | undefined {
  const { maxAge, demandedAcr } = signIn;
  if (maxAge !== undefined || demandedAcr === undefined) return maxAge;
  const isEnough = satisfies(acrOf(amrHere(signIn, amr)), demandedAcr);
  // The person adds a factor.
  return isEnough || satisfies(strongestAcr(record, services.secondFactors), demandedAcr)
    ? undefined
    : RECENT_SECONDS;
}

/** The account that is linked to the identity. */
export async function signInAs(
  signedIn: Entry,
  services: StepServices,
  record: AccountRecord,
  { startedAt }: Pick<EndedTrip, "startedAt">,
  identity: UpstreamIdentity,
): Promise<Outcome> {
  // There is nothing to link.
  const entry = withoutUpstream(signedIn);
  const { configuration, identities, units } = services;
  const now = seconds(configuration.clock);
  const amr = [...WAYS.provider.amr, ...(identity.mfa ? [FED_MFA] : [])];
  const maxAge = neededAge(entry.signIn, record, services, amr);
  units.required().alongside((tx) => identities.used(tx, identity));
  const { auth_time: at } = identity;
  const signedInAt = at === undefined ? null : Math.min(at, now);
  const shown = { at: now, amr, signedInAt, provider: identity.provider };
  const isProven = maxAge === undefined || isFresh(identity, { maxAge, now, startedAt });
  // Its second factor proves it as well.
  if (isProven || hasSecondFactor(record)) return proceed(entry, services, record, shown);
  return proveFresh(entry, services, record, shown);
}
