/**
 * The step `review-methods`: the first sign-in after a password reset, or after an undone change, lists the authenticator app,
 * passkeys, identities at providers and remembered browsers, each with "Remove" (decisions.md, Lost factors). Somebody who knew
 * the old password may have added one. The step comes after every factor that the account needs, so access to the mailbox
 * alone never leads here. It comes again until the person chooses "Continue".
 */
import { factorKey } from "../../accounts/factors/factor.ts";
import { type Method, methodsOf } from "../../accounts/ways/ways.ts";
import { callerAs, refusalOf } from "../../accounts/people/requests.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import { CHANGED, isAt, isExpired, proceed, stillProven } from "./sign-in.ts";
import type { Proven, SignInState } from "./running-sign-in.ts";
import {
  askedAt,
  type Entry,
  type Outcome,
  type SignInIdentity,
  type SignInMethod,
  type Step,
  type StepServices,
} from "./step.ts";

const BEGIN_ANEW: SignInState = { notice: "begin-anew" };

export const reviewMethods: Step = {
  isOpen: (signIn) => isAt(signIn, "review-methods"),
  // What the action `remove` removes.
  fields: () => [{ name: "method", type: "select", autocomplete: "off", required: false }],
  actions: () => ["submit", "remove"],
  alternatives: () => [],

  prepare: async ({ state: { proven } }, services) =>
    proven === undefined || (await stillProven(proven, services)) === undefined ? BEGIN_ANEW : undefined,

  async methods({ state: { proven } }, services) {
    const record = proven && (await stillProven(proven, services));
    return record === undefined ? [] : listOf(record, services);
  },

  async submit(entry, services) {
    const { proven } = entry.signIn.state;
    if (proven === undefined) return { kind: "gone" };
    const record = await stillProven(proven, services);
    if (entry.action === "remove") return record ? remove(entry, services, record, proven) : CHANGED;
    if (record === undefined) return { kind: "next", state: BEGIN_ANEW };
    const caller = callerAs(record.sub, askedAt(entry, services));
    const after = await services.accounts.reviewedFactors(record.sub, proven.amr, proven.generation, caller);
    return after === undefined
      ? { kind: "next", state: BEGIN_ANEW }
      : proceed(entry, services, after, proven);
  },
};

/** What the account has besides the password, in the order of the rows, then the browsers, the newest first. */
async function listOf(
  record: AccountRecord,
  {
    accounts,
    identities,
    secondFactors,
    configuration,
  }: Pick<StepServices, "accounts" | "identities" | "secondFactors" | "configuration">,
): Promise<readonly SignInMethod[]> {
  const [owned, linked, browsers] = await Promise.all([
    accounts.ownedWays(record.sub),
    identities.list(record.sub),
    secondFactors.rememberedBrowsers.list(record),
  ]);
  /** The provider's name, and the address there. */
  function identityOf({ id, provider }: Method): Pick<SignInIdentity, "label" | "email"> {
    if (provider === undefined) return {};
    const { name = provider } = configuration.providers.find(({ key }) => key === provider) ?? {};
    return { label: name, email: linked.find((each) => each.id === id)?.email ?? undefined };
  }
  return [
    ...(owned === undefined ? [] : methodsOf(owned)).map((method) =>
      Object.assign({}, method, identityOf(method), { id: factorKey(method.id), factor: method.id }),
    ),
    ...browsers.map((browser) => Object.assign(browser, { kind: "browser" } as const)),
  ];
}

/** The rules are those of the account pages: a recent sign-in, a limit, a mail, and the end of everything else. */
async function remove(
  entry: Entry,
  services: StepServices,
  record: AccountRecord,
  proven: Proven,
): Promise<Outcome> {
  const { signIn, values } = entry;
  const { state, demandedAcr } = signIn;
  const { accounts, secondFactors, limits, protocol, configuration } = services;
  const { sub } = record;
  if (isExpired(proven, configuration.clock)) return { kind: "next", state: BEGIN_ANEW };
  const method = (await listOf(record, services)).find(({ id }) => id === values.get("method"));
  if (method === undefined) return { kind: "invalid", problems: [{ code: "no-method", fields: [] }] };
  const at = askedAt(entry, services);
  const limited = refusalOf(services, at, await limits.change(sub));
  if (limited !== undefined) return limited;
  if (!("factor" in method)) {
    await secondFactors.rememberedBrowsers.end(sub, method.id, callerAs(sub, at));
    return { kind: "next", state: { ...state, notice: "browser-forgotten" } };
  }
  const change = { generation: proven.generation, keepsLast: demandedAcr !== undefined };
  const result = await accounts.removeOwnFactor(sub, method.factor, change, callerAs(sub, at));
  if (result.kind === "required") return { kind: "invalid", problems: [{ code: "last-factor", fields: [] }] };
  if (result.kind === "last_sign_in_method")
    return { kind: "invalid", problems: [{ code: "last-sign-in-method", fields: [] }] };
  if (result.kind !== "changed") return CHANGED;
  protocol.detach(signIn, sub);
  const now = { ...proven, generation: result.sessions_generation };
  return { kind: "next", state: { ...state, proven: now, notice: "method-removed" } };
}
