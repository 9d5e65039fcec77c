/** The last passkey of an account without a password, over a real storage. */
import { beforeEach, expect, it } from "@jest/globals";
import { NotApplicable } from "../../../core/errors.ts";
import { factorStateOf } from "../../../accounts/factors/factor.ts";
import type { AccountRecord } from "../../../records/directory/directory.ts";
import { AT, openPeople, PASSWORD, type PeopleStage } from "../people/stage.ts";

let stage: PeopleStage;
let sub: string;
beforeEach(async () => {
  stage = await openPeople();
  ({ sub } = await stage.accounts.create({ email: "ada@example.com", email_verified: true }));
  await addPasskey("phone");
});

async function addPasskey(id: string): Promise<void> {
  const passkey = {
    id,
    public_key: "key",
    algorithm: -7,
    counter: 0,
    transports: [],
    backup_eligible: false,
    backed_up: false,
    rp_id: "localhost",
    name: id,
  };
  const as = factorStateOf((await stage.accounts.record(sub)) as AccountRecord);
  const factor = { kind: "passkey", passkey, userHandle: "handle" } as const;
  await expect(stage.accounts.addFactor(sub, factor, as, {}, AT.caller)).resolves.toMatchObject({
    kind: "changed",
  });
}

async function remove(id: string) {
  const { sessions_generation: generation } = (await stage.accounts.record(sub)) as AccountRecord;
  return stage.accounts.removeOwnFactor(sub, id, { generation }, AT.caller);
}
const passkeys = async () => (await stage.accounts.factors(sub))?.passkeys.map(({ id }) => id);

it("stays, whoever removes it alone", async () => {
  await expect(remove("phone")).resolves.toEqual({ kind: "last_sign_in_method" });
  await expect(stage.accounts.removeFactor(sub, "phone")).rejects.toMatchObject({
    code: "last_sign_in_method",
  });
  await expect(passkeys()).resolves.toEqual(["phone"]);
});

it("stays beside an app, which signs nobody in without a password", async () => {
  await stage.accounts.addApp(sub, { secret: "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP" });
  await expect(remove("phone")).resolves.toEqual({ kind: "last_sign_in_method" });
  await expect(remove("app")).resolves.toMatchObject({ kind: "changed" });
});

it("is left when two are removed at the same moment", async () => {
  await addPasskey("key");
  const removals = ["phone", "key"].map((id) => stage.accounts.removeFactor(sub, id));
  const results = (await Promise.allSettled(removals)).map(({ status }) => status);
  expect(results.toSorted()).toEqual(["fulfilled", "rejected"]);
  await expect(passkeys()).resolves.toHaveLength(1);
});

it("goes once there is another passkey, or a password", async () => {
  await addPasskey("key");
  await expect(remove("phone")).resolves.toMatchObject({ kind: "changed" });
  await stage.accounts.setPassword(sub, PASSWORD);
  await expect(remove("key")).resolves.toMatchObject({ kind: "changed" });
});

it("needs a confirmed address beside it: an update without one is refused [D-FACTOR-42]", async () => {
  const { accounts } = stage;
  for (const changes of [{ email: "new@example.com" }, { email: "new@example.com", email_verified: false }])
    await expect(accounts.update(sub, changes)).rejects.toMatchObject({
      code: "not_applicable",
      message: expect.stringMatching(/^email_verified must be true/),
    });
  await expect(accounts.update(sub, { email_verified: false, name: "Ada" })).rejects.toThrow(NotApplicable);
  await expect(accounts.find(sub)).resolves.toMatchObject({ email: "ada@example.com", name: null });
  const moved = { email: "new@example.com", email_verified: true };
  await expect(accounts.update(sub, moved)).resolves.toMatchObject(moved);
  await accounts.setPassword(sub, PASSWORD);
  await expect(accounts.update(sub, { email: "ada@example.com" })).resolves.toMatchObject({
    email_verified: false,
  });
});

it("goes with all others when an operator removes them", async () => {
  await expect(stage.accounts.removeFactors(sub)).resolves.toBe(true);
  await expect(passkeys()).resolves.toEqual([]);
});
