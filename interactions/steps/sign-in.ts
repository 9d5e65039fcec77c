/** How a person is signed in: by a password, and then, if there are terms to accept, by accepting them. */
import { ANONYMOUS } from "../../lib/audit/audit-event.ts";
import { seconds } from "../../lib/clock.ts";
import type { AccountRecord } from "../../lib/directory/directory.ts";
import { noteLimited } from "../../lib/provider/attempt-limits.ts";
import { callerOf, type Entry, type Outcome, type StepServices } from "./step.ts";

/** What the person entered. */
interface Credentials {
  readonly username: string;
  readonly password: string;
  /** The fields that a wrong password is about. */
  readonly fields: readonly string[];
}

const ACTION = "sign_in";

/** Takes the rate-limit points, checks the password and, if it is right, signs the person in. */
export async function checkPassword(
  entry: Entry,
  services: StepServices,
  { username, password, fields }: Credentials,
): Promise<Outcome> {
  const { ctx, signIn } = entry;
  const { accounts, limits, guessing, events, audit, devices, newBrowsers, addressOf } = services;
  const { client_id } = signIn.client;
  const known = await accounts.recordByLogin(username);
  const device = known && devices.read(ctx, known);
  const tries = await guessing.before("form", username, known);
  const attempt = await limits.signIn({
    name: username,
    address: addressOf(ctx),
    device,
    guessed: tries.limited,
  });
  const failed = { ...callerOf(services, ctx, ANONYMOUS), action: ACTION, client: client_id } as const;
  if (!attempt.allowed) {
    events.emit("sign_in.failure", { reason: "limited", client_id });
    noteLimited(audit, { ...failed, ...(known && { subject: known.sub }) }, attempt);
    return { kind: "limited", retryAfter: attempt.retryAfter };
  }
  const { refusal, record } = await accounts
    .authenticateRecord(known, password)
    .catch(async (fault: unknown) => {
      await attempt.withdraw();
      throw fault;
    });
  if (refusal !== undefined || record === undefined) {
    await tries.failed();
    const reason = refusal ?? "credentials";
    events.emit("sign_in.failure", { reason, client_id });
    audit.note({ ...failed, ...(record && { subject: record.sub }), outcome: "failure", reason });
    return { kind: "invalid", problems: [{ code: "wrong", fields }] };
  }
  await Promise.all([attempt.succeed(), tries.succeeded()]);
  if (device === undefined) {
    await newBrowsers.note(record, { interaction: signIn.uid, userAgent: ctx.req.headers["user-agent"] });
  }
  const { sub, sessions_generation: generation, terms_version: accepted } = record;
  const { terms } = services.offers.registration ?? {};
  if (terms !== undefined && accepted !== terms.version)
    return {
      kind: "next",
      state: { step: "terms", proven: { sub, generation, at: seconds(services.configuration.clock) } },
    };
  return finishSignIn(entry, services, record);
}

/**
 * Signs this person in, whatever the proof was.
 * @param provenAt when it was shown, in seconds since the epoch. Default: now.
 */
export async function finishSignIn(
  { ctx, signIn }: Entry,
  services: StepServices,
  record: AccountRecord,
  provenAt: number = seconds(services.configuration.clock),
): Promise<Outcome> {
  const { units, events, audit, devices, protocol } = services;
  const { client_id } = signIn.client;
  const location = await protocol.signedIn(ctx, signIn, record, provenAt);
  const success = { sub: record.sub, client_id, deployment: ctx.state.deployment.kind };
  const caller = callerOf(services, ctx, { kind: "account", id: record.sub });
  units.current()?.whenCommitted(() => {
    devices.write(ctx, record);
    events.emit("sign_in.success", success);
    audit.note({ ...caller, action: ACTION, client: client_id, subject: record.sub });
  });
  return { kind: "done", location };
}
