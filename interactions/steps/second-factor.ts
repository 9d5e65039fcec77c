/**
 * The step `second-factor`: after the right password, or in a session that must become stronger, a code of the
 * authenticator app, a passkey, or a recovery code. What was shown before counts for five minutes, and only while nothing
 * ends the sessions of the account. Nothing is signed in before this step is complete.
 */
import { AMR_CODE, amrOfPasskey } from "../../provider/authentication.ts";
import { seconds } from "../../core/clock.ts";
import type { GiveBack, RefusedCode } from "../../accounts/factors/codes.ts";
import { type AskedAt, callerAs } from "../../accounts/people/requests.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import { isAt, isExpired, proceed, startOver, stillProven } from "./sign-in.ts";
import { countWrongPasskey, parsed } from "./passkey-sign-in.ts";
import type { Proven } from "./running-sign-in.ts";
import { askedAt, type Entry, type Field, type Outcome, type Step, type StepServices } from "./step.ts";

/** The checkbox that asks to remember this browser. */
const REMEMBER = {
  name: "remember",
  type: "checkbox",
  autocomplete: "off",
  required: false,
  value: "1",
} as const satisfies Field;

export const secondFactor: Step = {
  isOpen: (signIn) => isAt(signIn, "second-factor"),
  fields({ state: { proven } }, { rememberDays }) {
    if (proven?.ways.includes("app") !== true || proven.passkeyOnly === true) return [];
    const code: Field = { name: "code", type: "text", autocomplete: "one-time-code", required: true };
    // Never ticked beforehand: it makes the next sign-ins weaker.
    const mayRemember = rememberDays !== undefined && proven.stepUp !== true && proven.provider === undefined;
    return mayRemember ? [code, REMEMBER] : [code];
  },
  actions({ state: { proven, passkey } }) {
    const byPasskey = passkey === undefined ? [] : ["passkey"];
    if (proven?.passkeyOnly === true) return byPasskey;
    return [...(proven?.ways.includes("app") === true ? ["submit"] : []), ...byPasskey, "recovery"];
  },
  passkey: ({ state }) => state.passkey,
  alternatives: () => ["login"],

  async prepare({ state }, { accounts, configuration, secondFactors: { passkeys } }) {
    const { proven, challenge } = state;
    if (passkeys === undefined || proven?.ways.includes("passkey") !== true) return undefined;
    if (challenge !== undefined && challenge.expiresAt > configuration.clock.now()) return undefined;
    const record = await stillProven(proven, { accounts, configuration });
    if (record === undefined) return undefined;
    const fresh = passkeys.challenge();
    return { ...state, challenge: fresh, passkey: await passkeys.accountRequest(record, fresh) };
  },

  async submit(entry, services) {
    const { state } = entry.signIn;
    const { proven } = state;
    if (proven === undefined) return { kind: "gone" };
    if (isExpired(proven, services.configuration.clock)) return { kind: "next", state: startOver(state) };
    const record = await stillProven(proven, services);
    if (record === undefined) return { kind: "next", state: startOver(state) };
    return entry.action === "passkey"
      ? usePasskey(entry, services, record, proven)
      : useCode(entry, services, record, proven);
  },
};

async function useCode(
  entry: Entry,
  services: StepServices,
  record: AccountRecord,
  proven: Proven,
): Promise<Outcome> {
  const { codes } = services.secondFactors;
  const code = entry.values.get("code") ?? "";
  const at = askedAt(entry, services);
  const isApp = entry.action === "submit";
  if (code.trim() === "") return refused({ kind: "wrong" }, isApp);
  const giveBack: GiveBack = (attempt) => services.units.required().refund(attempt);
  const result = isApp
    ? await codes.useApp(record.sub, code, at, giveBack)
    : await codes.useRecovery(record.sub, code, at, giveBack);
  if (result.kind === "gone") return { kind: "next", state: startOver(entry.signIn.state) };
  if (result.kind !== "right") return refused(result, isApp);
  const mayRemember = proven.stepUp !== true && proven.provider === undefined;
  if (isApp && mayRemember && entry.values.get(REMEMBER.name) === REMEMBER.value)
    await rememberBrowser(entry, services, record, at);
  // A person who has just lost an app is not asked to add something else.
  const { canAddPasskey: _lost, ...rest } = proven;
  return complete(entry, services, record, isApp ? proven : rest, AMR_CODE);
}

/** From now on the password is enough in this browser, until something ends that. */
async function rememberBrowser(
  { ctx }: Entry,
  { devices, secondFactors, units, configuration }: StepServices,
  record: AccountRecord,
  at: AskedAt,
): Promise<void> {
  const userAgent = ctx.req.headers["user-agent"];
  const known = devices.remembered(ctx);
  const remembered = await secondFactors.rememberedBrowsers.remember(
    record,
    { cookie: known, userAgent },
    callerAs(record.sub, at),
  );
  if (remembered === undefined) return;
  const { cookie, expires_at } = remembered;
  const lifetimeSeconds = expires_at - seconds(configuration.clock);
  units.current()?.whenCommitted(() => devices.remember(ctx, { cookie, lifetimeSeconds }));
}

function refused(result: Exclude<RefusedCode, { readonly kind: "gone" }>, isApp: boolean): Outcome {
  if (result.kind === "limited") return result;
  if (result.kind === "stopped") return { kind: "invalid", problems: [{ code: "app-stopped", fields: [] }] };
  // The form of recovery codes has no field of the step.
  return {
    kind: "invalid",
    problems: [
      isApp ? { code: "wrong-app-code", fields: ["code"] } : { code: "wrong-recovery-code", fields: [] },
    ],
  };
}

async function usePasskey(
  entry: Entry,
  services: StepServices,
  record: AccountRecord,
  proven: Proven,
): Promise<Outcome> {
  const { passkeys } = services.secondFactors;
  const { state } = entry.signIn;
  const { challenge: used, passkey: _request, ...rest } = state;
  if (passkeys === undefined || used === undefined) return { kind: "gone" };
  const credential = parsed(entry.values.get("credential"));
  const result = await passkeys.use(credential, used, record.sub);
  // A challenge is answered once, whatever the answer: the step gets a new one.
  if (result.kind === "refused")
    return (
      (await countWrongPasskey(entry, services, record.sub)) ?? {
        kind: "next",
        state: { ...rest, notice: "passkey-refused" },
      }
    );
  return complete(entry, services, record, proven, amrOfPasskey(result.backupEligible));
}

/** @param shown adds to what was shown before. A step-up keeps the time of the sign-in; else it is now, also after a provider. */
function complete(
  entry: Entry,
  services: StepServices,
  record: AccountRecord,
  { at, signedInAt, amr, stepUp, canAddPasskey, provider, linking }: Proven,
  shown: readonly string[],
): Promise<Outcome> {
  const all = [...new Set([...amr, ...shown])];
  if (stepUp)
    return proceed(entry, services, record, {
      at,
      amr: all,
      stepUp,
      ...(signedInAt !== undefined && { signedInAt }),
    });
  const now = {
    at: seconds(services.configuration.clock),
    amr: all,
    ...(provider !== undefined && { provider }),
    ...(linking && { linking }),
  };
  return proceed(entry, services, record, { ...now, ...(canAddPasskey && { canAddPasskey }) });
}
