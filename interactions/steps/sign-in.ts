/** How a person is signed in: by a password, and then, if there are terms to accept, by accepting them. */
import { callerOf } from "../../provider/exchange.ts";
import { ANONYMOUS } from "../../records/audit/audit-event.ts";
import { seconds } from "../../core/clock.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import { noteLimited } from "../../accounts/limits/attempt-limits.ts";
import { type Entry, type Outcome, type StepServices } from "./step.ts";

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
  const { limits, passwordCheck, events, audit, devices, newBrowsers } = services;
  const { client_id } = signIn.client;
  const { address } = ctx.exchange;
  const checked = await passwordCheck.check({
    way: "form",
    name: username,
    password,
    limit: (guessed, known) => limits.signIn({ name: username, address, device: known, guessed }),
    ...(devices.has(ctx) && { device: (account) => devices.read(ctx, account) }),
  });
  const failed = { ...callerOf(ctx, ANONYMOUS), action: ACTION, client: client_id } as const;
  if (checked.kind === "limited") {
    events.emit("sign_in.failure", { reason: "limited", client_id });
    noteLimited(audit, failed, checked.attempt);
    return { kind: "limited", retryAfter: checked.attempt.retryAfter };
  }
  if (checked.kind === "refused") {
    const { reason, record } = checked;
    events.emit("sign_in.failure", { reason, client_id });
    audit.note({ ...failed, ...(record && { subject: record.sub }), outcome: "failure", reason });
    return { kind: "invalid", problems: [{ code: "wrong", fields }] };
  }
  const { record, device } = checked;
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
  const success = { sub: record.sub, client_id, deployment: ctx.exchange.deployment.kind };
  const caller = callerOf(ctx, { kind: "account", id: record.sub });
  units.current()?.whenCommitted(() => {
    devices.write(ctx, record);
    events.emit("sign_in.success", success);
    audit.note({ ...caller, action: ACTION, client: client_id, subject: record.sub });
  });
  return { kind: "done", location };
}
