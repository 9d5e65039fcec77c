/** The step `login`: a name and a password. An unknown name and a wrong password get the same answer after the same time. */
import { ANONYMOUS } from "../../lib/audit/audit-event.ts";
import { noteLimited } from "../../lib/provider/attempt-limits.ts";
import { callerOf, type Entry, type Outcome, type Step, type StepServices } from "./step.ts";

export const login: Step = {
  isOpen: ({ prompt }) => prompt === "login",
  fields: ({ loginHint = "" }) => [
    { name: "username", type: "text", autocomplete: "username", required: true, value: loginHint },
    { name: "password", type: "password", autocomplete: "current-password", required: true },
  ],
  actions: ["submit"],
  submit: (entry, services) =>
    signIn(entry, services, {
      username: entry.values.get("username") ?? "",
      password: entry.values.get("password") ?? "",
    }),
};

/** Takes the rate-limit points, checks the password and, if it is right, finishes the sign-in. */
async function signIn(
  { ctx, signIn: { uid, client } }: Entry,
  services: StepServices,
  { username, password }: { readonly username: string; readonly password: string },
): Promise<Outcome> {
  const { units, accounts, limits, guessing, events, audit, devices, newBrowsers, addressOf, protocol } =
    services;
  const { client_id } = client;
  const known = await accounts.recordByLogin(username);
  const device = known && devices.read(ctx, known);
  const tries = await guessing.before("form", username, known);
  const attempt = await limits.signIn({
    name: username,
    address: addressOf(ctx),
    device,
    guessed: tries.limited,
  });
  const action = "sign_in";
  const failed = { ...callerOf(services, ctx, ANONYMOUS), action, client: client_id } as const;
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
    return { kind: "invalid", problems: [{ code: "wrong", fields: ["username", "password"] }] };
  }
  await Promise.all([attempt.succeed(), tries.succeeded()]);
  if (device === undefined) {
    await newBrowsers.note(record, { interaction: uid, userAgent: ctx.req.headers["user-agent"] });
  }
  const location = await protocol.signedIn(ctx, record);
  devices.write(ctx, record);
  const success = { sub: record.sub, client_id, deployment: ctx.state.deployment.kind };
  const caller = callerOf(services, ctx, { kind: "account", id: record.sub });
  units.current()?.whenCommitted(() => {
    events.emit("sign_in.success", success);
    audit.note({ ...caller, action, client: client_id, subject: record.sub });
  });
  return { kind: "done", location };
}
