/** Second factors in a restored service: what was used before the backup or after it can't be used again. */
import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "@jest/globals";
import { TestClock } from "../../testing/test-clock.ts";
import { totpCode } from "../../testing/totp-code.ts";
import { addPhone } from "../../testing/add-passkey.ts";
import type { TestAuthenticator } from "../../testing/authenticator.ts";
import { clientAt } from "../flows/clients.ts";
import { ADA, NEWS, onLocalhost, type RunningService, startService } from "../flows/running-service.ts";
import { JsonVisitor, publicKeyOf, afterPassword } from "../interactions/json-visitor.ts";
import { configFile, newPlace } from "./backup-stage.ts";
import { runHere, Workshop } from "./stage.ts";

const SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP";
const workshop = new Workshop();

/** Signs ada in with a code. @returns `signed in`, or the problem of the step. */
async function show(running: RunningService, action: "submit" | "recovery", code: string): Promise<string> {
  const news = clientAt(running, "openid", NEWS);
  const { visitor, step } = await afterPassword(news, ADA, { scope: "openid" });
  expect(step.step).toBe("second-factor");
  const { body } = await visitor.act(step, action, { code });
  if (body.done === undefined) return body.problems.map((problem) => problem.code).join();
  await visitor.browser.get(body.location ?? "");
  return visitor.browser.location?.searchParams.has("code") === true ? "signed in" : "no code";
}

/** Signs in with a passkey. @param counter the signature counter that it sends. Default: its real one. */
async function use(running: RunningService, key: TestAuthenticator, counter?: number): Promise<string> {
  const visitor = new JsonVisitor(clientAt(running, "openid", NEWS).browser());
  const { body: login } = await visitor.open(
    clientAt(running, "openid", NEWS).authorizeUrl({ scope: "openid" }),
  );
  const { origin } = new URL(running.openid);
  const credential = key.get(publicKeyOf(login), { origin, ...(counter !== undefined && { counter }) });
  const { body } = await visitor.act(login, "passkey", { credential });
  return body.done === true ? "signed in" : (body.notice?.code ?? "");
}

it("a restored service accepts no code that may have been used, the next one of the app, and passkeys that have counted on [D-BACKUP-4]", async () => {
  const [from, to] = [newPlace(workshop), newPlace(workshop)];
  const clock = new TestClock();
  const first = await startService({ config: { storage: from.storage, clock }, deployments: onLocalhost });
  const { recovery_codes } = await first.service.accounts.addApp(first.ada.sub, { secret: SECRET });
  const [before = "", after = "", unused = ""] = recovery_codes;
  expect(await show(first, "submit", totpCode(SECRET, clock.now()))).toBe("signed in");
  expect(await show(first, "recovery", before)).toBe("signed in");

  const phone = await addPhone(first, first.bob.sub, clock);
  // Its counter is 1 when it is added, and 2 now.
  const key = await addPhone(first, first.bob.sub, clock, { counts: true, synced: false });
  expect(await use(first, key)).toBe("signed in");

  const file = join(from.folder, "one.backup");
  const keyFile = join(from.folder, "backup.key");
  const backup = [
    "backup",
    file,
    "--key-file",
    keyFile,
    "--config",
    configFile(from.folder, { storage: from.storage }),
  ];
  expect((await runHere(backup)).code).toBe(0);
  clock.advance(Math.max(0, (Date.now() - clock.now()) / 1000));
  const used = totpCode(SECRET, clock.now() + 30_000);
  expect(await show(first, "submit", used)).toBe("signed in");
  expect(await show(first, "recovery", after)).toBe("signed in");
  expect(await use(first, key)).toBe("signed in");
  await first.close();

  copyFileSync(`${from.database}.keys`, `${to.database}.keys`);
  const again = configFile(to.folder, { storage: to.storage });
  expect((await runHere(["restore", file, "--key-file", keyFile, "--config", again])).code).toBe(0);
  const second = await startService({ config: { storage: to.storage, clock }, deployments: onLocalhost });
  for (const counter of [0, 1, 2]) expect(await use(second, key, counter)).toBe("passkey-refused");
  expect(await use(second, key, 8)).toBe("signed in");
  for (const counter of [3, 8]) expect(await use(second, key, counter)).toBe("passkey-refused");
  for (const counter of [0, 0]) expect(await use(second, phone, counter)).toBe("signed in");
  expect(await show(second, "submit", used)).toBe("wrong-app-code");
  for (const code of [before, after, unused])
    expect(await show(second, "recovery", code)).toBe("wrong-recovery-code");
  expect(await second.service.accounts.factors(second.ada.sub)).toMatchObject({ recovery_codes_left: 0 });
  clock.advance(120);
  expect(await show(second, "submit", totpCode(SECRET, clock.now()))).toBe("signed in");
  const { recovery_codes: fresh } = await second.service.accounts.resetRecoveryCodes(second.ada.sub);
  expect(await show(second, "recovery", fresh[0] ?? "")).toBe("signed in");
}, 60_000);
