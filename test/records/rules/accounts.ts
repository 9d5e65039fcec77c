/** The contract of accounts: one atomic change, with its names, numbers, deliveries and audit record. */
import { SYSTEM } from "../../../records/audit/audit-event.ts";
import type { AccountChange } from "../../../records/directory/directory.ts";
import type { TestRunner } from "../../../testing/storage/runner.ts";
import {
  account,
  change,
  creation,
  deletion,
  delivery,
  entry,
  hostileKeys,
  outcomes,
  type Stage,
  stored,
} from "./stage.ts";

const count = (codes: readonly unknown[], code: unknown): number =>
  codes.filter((one) => one === code).length;

const wanted = (services: string[], portal?: string): AccountChange =>
  creation(account(1), {
    requireServices: services,
    ...(portal === undefined ? {} : { requirePortal: portal }),
  });

/** @param stage the store of the running case. */
export function describeAccounts(stage: Stage, runner: TestRunner): void {
  const { expect, it } = runner;
  const commit = (each: AccountChange) => stage.storage.directory.commitAccount(each);

  it("finds an account by its sub and by each of its names", async () => {
    const ada = account(1, { services: { "1": 1102020202, "2": null }, service_generations: { "2": 3 } });
    await commit(creation(ada, { claimNames: ["ada", "ada@example.com"] }));
    const { directory } = stage.storage;
    await expect(directory.findAccount(ada.sub)).resolves.toEqual(ada);
    await expect(directory.findAccountByName("ada")).resolves.toEqual(ada);
    await expect(directory.findAccountByName("ada@example.com")).resolves.toEqual(ada);
    await expect(directory.findAccountByName("Ada")).resolves.toBeUndefined();
    await expect(directory.findAccount("none")).resolves.toBeUndefined();
    const next = { ...ada, name: "Augusta", version: 2 };
    await commit(change(ada, { name: "Augusta" }));
    await expect(directory.findAccount(ada.sub)).resolves.toEqual(next);
    await expect(directory.findAccountByName("ada")).resolves.toEqual(next);
    await commit(deletion(next, { releaseNames: ["ada", "ada@example.com"] }));
    await expect(directory.findAccount(ada.sub)).resolves.toBeUndefined();
    await expect(directory.findAccountByName("ada")).resolves.toBeUndefined();
  });

  it("gives a name to one of 50 concurrent new accounts", async () => {
    const codes = await outcomes(
      Array.from({ length: 50 }, (_, index) =>
        commit(creation(account(index + 1), { claimNames: [`own${index}`, "wanted"] })),
      ),
    );
    expect([count(codes, undefined), count(codes, "name_taken")]).toEqual([1, 49]);
    const owner = await stage.storage.directory.findAccountByName("wanted");
    expect(owner?.user_id).toBe(codes.indexOf(undefined) + 1);
    await expect(stage.storage.directory.listAccounts({ limit: 100 })).resolves.toEqual([owner]);
    // Other names of a refused change are free again.
    const loser = codes.indexOf("name_taken");
    await commit(creation(account(loser + 1), { claimNames: [`own${loser}`] }));
  });

  it("frees a name with the change that releases it, and never another account's", async () => {
    const [ada, bob] = [account(1), account(2)];
    await commit(creation(ada, { claimNames: ["ada"] }));
    await commit(creation(bob, { claimNames: ["bob"] }));
    await commit(change(bob, {}, { releaseNames: ["ada"] }));
    await expect(stage.storage.directory.findAccountByName("ada")).resolves.toMatchObject({ sub: ada.sub });
    await commit(change(ada, {}, { releaseNames: ["ada"], claimNames: ["countess"] }));
    await expect(stage.storage.directory.findAccountByName("ada")).resolves.toBeUndefined();
    const second = { ...bob, version: 2 };
    await commit(change(second, {}, { releaseNames: ["bob"], claimNames: ["ada", "bob"] }));
    await commit(change({ ...bob, version: 3 }, {}, { claimNames: ["ada"] }));
    await expect(stage.storage.directory.findAccountByName("bob")).resolves.toMatchObject({ sub: bob.sub });
    const taking = change({ ...ada, version: 2 }, {}, { claimNames: ["bob"] });
    await expect(commit(taking)).rejects.toMatchObject({ code: "name_taken" });
  });

  it("writes one of 50 changes based on the same version", async () => {
    const ada = account(1);
    await commit(creation(ada));
    const codes = await outcomes(
      Array.from({ length: 50 }, (_, index) => commit(change(ada, { name: `name ${index}` }))),
    );
    expect([count(codes, undefined), count(codes, "version_conflict")]).toEqual([1, 49]);
    await expect(stage.storage.directory.findAccount(ada.sub)).resolves.toMatchObject({
      name: `name ${codes.indexOf(undefined)}`,
      version: 2,
    });
  });

  it("refuses to create an existing account, and to change or delete a missing one", async () => {
    const ada = account(1);
    await expect(commit(change(ada, {}))).rejects.toMatchObject({ code: "version_conflict" });
    await expect(commit(deletion(ada))).rejects.toMatchObject({ code: "version_conflict" });
    await commit(creation(ada));
    await expect(commit(creation(ada))).rejects.toMatchObject({ code: "version_conflict" });
    const stale = { ...ada, version: 7 };
    await expect(commit(deletion(stale))).rejects.toMatchObject({ code: "version_conflict" });
    await expect(stage.storage.directory.findAccount(ada.sub)).resolves.toEqual(ada);
  });

  it("increments user_id, never reuses one, and continues after skipped ones", async () => {
    const { directory } = stage.storage;
    const first = await Promise.all(Array.from({ length: 50 }, () => directory.nextUserId()));
    expect(new Set(first).size).toBe(50);
    expect(first.every((number) => Number.isSafeInteger(number) && number > 0)).toBe(true);
    const last = Math.max(...first);
    await directory.passUserId(last + 1000);
    await directory.passUserId(5);
    const after = await directory.nextUserId();
    expect(after).toBeGreaterThan(last + 1000);
    await commit(creation(account(after)));
    const twin = creation(account(after, { sub: "twin", email: "twin@example.com" }));
    await expect(commit(twin)).rejects.toMatchObject({ code: "already_exists" });
    await expect(directory.findAccountByName("twin@example.com")).resolves.toBeUndefined();
    await commit(deletion(account(after)));
    await expect(directory.nextUserId()).resolves.toBeGreaterThan(after);
  });

  it("requires that the services and the portal of a change exist", async () => {
    const { directory } = stage.storage;
    await directory.putEntry("service", entry("1"));
    await directory.putEntry("portal", entry("main"));
    await expect(commit(wanted(["1", "2"]))).rejects.toMatchObject({ code: "unknown_reference" });
    await expect(commit(wanted(["main"]))).rejects.toMatchObject({ code: "unknown_reference" });
    await expect(commit(wanted([], "1"))).rejects.toMatchObject({ code: "unknown_reference" });
    await expect(directory.findAccountByName(account(1).email)).resolves.toBeUndefined();
    await commit(wanted(["1"], "main"));
  });

  it("stores deliveries and the audit record with the change, or none of them", async () => {
    const { directory, deliveries } = stage.storage;
    const ada = account(1);
    const audit = { ...SYSTEM, action: "account.created", subject: ada.sub, detail: { by: null } } as const;
    await commit(
      creation(ada, { deliveries: [delivery("d1", ada.sub), delivery("d2", ada.sub, "portal:main")], audit }),
    );
    const more = { deliveries: [delivery("d3", ada.sub)], audit: { ...audit, reason: "refused" } };
    const bob = creation(account(2, { user_id: 1 }), more);
    const refused = [
      change({ ...ada, version: 9 }, {}, more),
      change(ada, {}, { ...more, requireServices: ["none"] }),
      creation(account(2), { ...more, claimNames: ["free", ada.email] }),
      bob,
      // The deliveries of a change are distinct.
      change(ada, {}, { ...more, deliveries: [delivery("d3", ada.sub), delivery("d1", ada.sub)] }),
    ];
    const codes = await outcomes(refused.map(commit));
    expect(codes).toEqual([
      "version_conflict",
      "unknown_reference",
      "name_taken",
      "already_exists",
      "already_exists",
    ]);
    await expect(deliveries.find("d3")).resolves.toBeUndefined();
    await expect(stage.storage.audit.list({ limit: 10 })).resolves.toMatchObject({
      records: [{ ...audit, reason: null }],
    });
    await expect(directory.findAccountByName("free")).resolves.toBeUndefined();
    await expect(directory.findAccount(ada.sub)).resolves.toEqual(ada);
    await expect(deliveries.list({ limit: 10 })).resolves.toEqual([
      stored(delivery("d1", ada.sub), 1),
      stored(delivery("d2", ada.sub, "portal:main"), 1),
    ]);
  });

  it("lists accounts by user_id, page after page", async () => {
    const numbers = [5, 1, 9, 3, 7];
    await Promise.all(numbers.map((number) => commit(creation(account(number)))));
    const pages: number[][] = [];
    let after: string | undefined;
    for (;;) {
      const page = await stage.storage.directory.listAccounts({
        limit: 2,
        ...(after === undefined ? {} : { after }),
      });
      if (page.length === 0) break;
      pages.push(page.map(({ user_id }) => user_id));
      after = page.at(-1)?.sub;
    }
    expect(pages).toEqual([[1, 3], [5, 7], [9]]);
    await expect(stage.storage.directory.listAccounts({ limit: 0 })).resolves.toEqual([]);
    await expect(stage.storage.directory.listAccounts({ after: "none", limit: 9 })).resolves.toEqual([]);
  });

  it("accepts any string as a sub, a name and a service key", async () => {
    const { directory } = stage.storage;
    const records = hostileKeys.map((key, index) =>
      account(index + 1, {
        sub: key,
        name: key,
        services: Object.fromEntries([[key, index]]),
        service_generations: Object.fromEntries([[key, 1]]),
      }),
    );
    await Promise.all(hostileKeys.map((key) => directory.putEntry("service", entry(key))));
    await Promise.all(
      records.map((record) =>
        commit(creation(record, { claimNames: [record.sub], requireServices: [record.sub] })),
      ),
    );
    await expect(Promise.all(hostileKeys.map((key) => directory.findAccount(key)))).resolves.toEqual(records);
    await expect(Promise.all(hostileKeys.map((key) => directory.findAccountByName(key)))).resolves.toEqual(
      records,
    );
    for (const key of hostileKeys) {
      await expect(directory.removeEntry("service", key)).rejects.toMatchObject({
        references: [`account:${key}`],
      });
    }
  });

  it("stores copies: later changes by the caller have no effect", async () => {
    const { directory } = stage.storage;
    const services: Record<string, number | null> = { "1": 1 };
    const record = account(1, { services });
    const claimNames = ["ada"];
    const written = commit(creation(record, { claimNames }));
    services["1"] = 2;
    claimNames[0] = "changed";
    await written;
    const expected = account(1, { services: { "1": 1 } });
    const finds = [
      () => directory.findAccount(record.sub),
      () => directory.findAccountByName("ada"),
      async () => (await directory.listAccounts({ limit: 1 }))[0],
    ];
    for (const find of finds) {
      const found = await find();
      expect(found).toEqual(expected);
      Reflect.set(Object(found?.services), "1", "changed");
      Reflect.set(Object(found), "email", "changed");
      await expect(find()).resolves.toEqual(expected);
    }
  });
}
