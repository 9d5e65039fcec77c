/** The outbox: what is stored with an account change, claims, leases and expiry. */
import type { StoredMail } from "../../../records/people/mail-kinds.ts";
import { account, putAccount, type Stage } from "./stage.ts";
import type { TestRunner } from "../../../testing/storage/runner.ts";

const LEASE = 60_000;

/** A mail that is due now and expires after an hour. */
export function waitingMail({ clock }: Stage, id: string, parts: Partial<StoredMail> = {}): StoredMail {
  const now = clock.now();
  const times = { createdAt: now, due: now, expiresAt: now + 3_600_000 };
  return { id, kind: "password-changed", sealed: `sealed-${id}`, attempts: 0, ...times, ...parts };
}

export function describeMail(stage: Stage, { expect, it }: TestRunner): void {
  const ids = async (limit = 9): Promise<string[]> =>
    (await stage.storage.outbox.claim(limit, LEASE)).map(({ id }) => id);

  it("stores mail with an account change, or nothing of both", async () => {
    const { storage } = stage;
    const { outbox } = storage;
    const ada = account(1);
    await putAccount(storage, ada, { mails: [waitingMail(stage, "first")] });
    const never = { mails: [waitingMail(stage, "never")] };
    const taken = putAccount(storage, account(2, { email: ada.email }), never);
    await expect(taken).rejects.toMatchObject({ code: "name_taken" });
    const unknown = putAccount(storage, { ...ada, services: { none: null } }, never);
    await expect(unknown).rejects.toMatchObject({ code: "unknown_reference" });
    await expect(outbox.waiting()).resolves.toEqual({ count: 1, oldest: stage.clock.now() });
    await expect(ids()).resolves.toEqual(["first"]);
  });

  it("claims what is due, the longest due first, and knows when the next is", async () => {
    const { outbox } = stage.storage;
    const now = stage.clock.now();
    await expect(outbox.nextDue()).resolves.toBeUndefined();
    await outbox.add(waitingMail(stage, "later", { due: now + 5_000 }));
    await outbox.add(waitingMail(stage, "new", { due: now - 1 }));
    await outbox.add(waitingMail(stage, "old", { due: now - 2, createdAt: now - 9 }));
    await expect(outbox.waiting()).resolves.toEqual({ count: 3, oldest: now - 9 });
    await expect(ids(1)).resolves.toEqual(["old"]);
    await expect(ids()).resolves.toEqual(["new"]);
    await expect(outbox.nextDue()).resolves.toBe(now + 5_000);
    stage.clock.advance(5_000);
    await expect(ids()).resolves.toEqual(["later"]);
  });

  it("claims what somebody waits for first, and one for each recipient in turn [D-MAIL-6]", async () => {
    const { outbox } = stage.storage;
    const now = stage.clock.now();
    const add = async (id: string, kind: StoredMail["kind"], age: number): Promise<void> =>
      outbox.add(waitingMail(stage, id, { kind, due: now - age }));
    for (const number of [1, 2, 3, 4]) await add(`flood notice ${number}`, "new-browser", 90 - number);
    await add("ada notice", "password-changed", 50);
    for (const number of [1, 2, 3]) await add(`flood code ${number}`, "confirm-registration", 30 - number);
    await add("ada code", "reset-password", 10);
    const claimed = async (limit: number) =>
      (await outbox.claim(limit, LEASE, ({ id }) => id.slice(0, 3))).map(({ id }) => id);
    await expect(claimed(3)).resolves.toEqual(["flood code 1", "ada code", "flood code 2"]);
    await expect(claimed(3)).resolves.toEqual(["flood code 3", "flood notice 1", "ada notice"]);
    await expect(claimed(9)).resolves.toEqual(["flood notice 2", "flood notice 3", "flood notice 4"]);
  });

  it("gives each mail to one of many workers", async () => {
    const { outbox } = stage.storage;
    for (let number = 0; number < 12; number += 1) await outbox.add(waitingMail(stage, `m${number}`));
    const claims = await Promise.all(Array.from({ length: 6 }, () => outbox.claim(12, LEASE)));
    const claimed = [...claims.flat(), ...(await outbox.claim(12, LEASE))].map(({ id }) => id);
    expect(claimed).toHaveLength(12);
    expect(new Set(claimed).size).toBe(12);
  });

  it("hands a mail over when the lease of a claim ends, and ignores the result of the earlier claim", async () => {
    const { outbox } = stage.storage;
    await outbox.add(waitingMail(stage, "m"));
    const [first] = await outbox.claim(1, LEASE);
    expect(first).toMatchObject({ id: "m", attempts: 1, due: stage.clock.now() + LEASE });
    stage.clock.advance(LEASE - 1);
    await expect(ids()).resolves.toEqual([]);
    stage.clock.advance(1);
    const [second] = await outbox.claim(1, LEASE);
    expect(second).toMatchObject({ id: "m", attempts: 2 });
    await expect(outbox.remove(first!)).resolves.toBe(false);
    await expect(outbox.postpone(first!, stage.clock.now())).resolves.toBe(false);
    await expect(outbox.postpone(second!, stage.clock.now() + 10)).resolves.toBe(true);
    await expect(outbox.remove(second!)).resolves.toBe(false);
    stage.clock.advance(10);
    const [third] = await outbox.claim(1, LEASE);
    expect(third?.attempts).toBe(3);
    await expect(outbox.remove(third!)).resolves.toBe(true);
    await expect(outbox.waiting()).resolves.toEqual({ count: 0, oldest: undefined });
  });

  it("erases mail when it is out of date, claimed or not", async () => {
    const { outbox } = stage.storage;
    await outbox.add(waitingMail(stage, "claimed", { expiresAt: stage.clock.now() + 1_000 }));
    const [claim] = await outbox.claim(1, LEASE);
    await outbox.add(waitingMail(stage, "waiting", { expiresAt: stage.clock.now() + 1_000 }));
    stage.clock.advance(1_000);
    await expect(ids()).resolves.toEqual([]);
    await expect(outbox.nextDue()).resolves.toBeUndefined();
    await expect(outbox.remove(claim!)).resolves.toBe(false);
  });
}
