/** The contract of accounts: one atomic change, with its names, numbers, deliveries and audit record. */
import { SYSTEM } from "../../../records/audit/audit-event.ts";
import type { AccountRecord } from "../../../records/directory/directory.ts";
import { SIGN_IN_NAME } from "../../../records/directory/directory-kinds.ts";
import { removeEntry } from "../../../records/directory/directory-records.ts";
import type { TestRunner } from "../../../testing/storage/runner.ts";
import {
  account,
  changeAccount,
  deleteAccount,
  delivery,
  entry,
  hostileKeys,
  outcomes,
  putAccount,
  putEntry,
  type Stage,
  stored,
  type Together,
} from "./stage.ts";

const count = (codes: readonly unknown[], code: unknown): number =>
  codes.filter((one) => one === code).length;

/** @param stage the store of the running case. */
export function describeAccounts(stage: Stage, runner: TestRunner): void {
  const { expect, it } = runner;
  const put = (record: AccountRecord, together?: Together) => putAccount(stage.storage, record, together);

  it("finds an account by its sub and by each of its names", async () => {
    const ada = account(1, { username: "ada", service_generations: { "2": 3 } });
    await put(ada);
    const { directory } = stage.storage;
    await expect(directory.findAccount(ada.sub)).resolves.toEqual(ada);
    await expect(directory.findAccountByName("ada")).resolves.toEqual(ada);
    await expect(directory.findAccountByName(ada.email)).resolves.toEqual(ada);
    await expect(directory.findAccountByName("Ada")).resolves.toBeUndefined();
    await expect(directory.findAccount("none")).resolves.toBeUndefined();
    const next = { ...ada, name: "Augusta" };
    await put(next);
    await expect(directory.findAccount(ada.sub)).resolves.toEqual(next);
    await expect(directory.findAccountByName("ada")).resolves.toEqual(next);
    await deleteAccount(stage.storage, ada.sub);
    await expect(directory.findAccount(ada.sub)).resolves.toBeUndefined();
    await expect(directory.findAccountByName("ada")).resolves.toBeUndefined();
  });

  it("gives a name to one of 50 concurrent new accounts", async () => {
    const wanted = (index: number) => put(account(index + 1, { username: "wanted" }));
    const codes = await outcomes(Array.from({ length: 50 }, (_, index) => wanted(index)));
    expect([count(codes, undefined), count(codes, "name_taken")]).toEqual([1, 49]);
    const owner = await stage.storage.directory.findAccountByName("wanted");
    expect(owner?.user_id).toBe(codes.indexOf(undefined) + 1);
    await expect(stage.storage.directory.listAccounts({ limit: 100 })).resolves.toEqual([owner]);
    // Other names of a refused change are free again.
    const loser = codes.indexOf("name_taken");
    await put(account(loser + 1, { username: null }));
  });

  it("frees a name with the change that releases it", async () => {
    const [ada, bob] = [account(1, { username: "ada" }), account(2, { username: "bob" })];
    await put(ada);
    await put(bob);
    await put({ ...ada, username: "countess" });
    await expect(stage.storage.directory.findAccountByName("ada")).resolves.toBeUndefined();
    await put({ ...bob, username: "ada" });
    await expect(stage.storage.directory.findAccountByName("ada")).resolves.toMatchObject({ sub: bob.sub });
    const taking = put({ ...ada, username: "ada" });
    await expect(taking).rejects.toMatchObject({ code: "name_taken" });
    await expect(stage.storage.directory.findAccountByName("countess")).resolves.toMatchObject({
      sub: ada.sub,
    });
  });

  it("loses none of 50 concurrent changes of one account", async () => {
    const { sub } = account(1);
    await put(account(1, { sessions_generation: 0 }));
    await Promise.all(
      Array.from({ length: 50 }, () =>
        changeAccount(stage.storage, sub, (before) => ({
          ...before!,
          sessions_generation: before!.sessions_generation + 1,
        })),
      ),
    );
    await expect(stage.storage.directory.findAccount(sub)).resolves.toMatchObject({
      sessions_generation: 50,
    });
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
    await put(account(after));
    const twin = account(after, { sub: "twin", email: "twin@example.com", username: null });
    await expect(put(twin)).rejects.toMatchObject({ code: "already_exists" });
    await expect(directory.findAccountByName("twin@example.com")).resolves.toBeUndefined();
    await deleteAccount(stage.storage, account(after).sub);
    await expect(directory.nextUserId()).resolves.toBeGreaterThan(after);
  });

  it("requires that the services and the portal of a change exist", async () => {
    const { storage } = stage;
    await putEntry(storage, "service", entry("1"));
    await putEntry(storage, "portal", entry("main"));
    const code = "unknown_reference";
    await expect(put(account(1, { services: { "1": null, "2": null } }))).rejects.toMatchObject({ code });
    await expect(put(account(1, { services: { main: null } }))).rejects.toMatchObject({ code });
    await expect(put(account(1, { portal: "1" }))).rejects.toMatchObject({ code });
    await expect(storage.directory.findAccountByName(account(1).email)).resolves.toBeUndefined();
    await put(account(1, { services: { "1": null }, portal: "main" }));
  });

  it("stores deliveries and the audit record with the change, or none of them", async () => {
    const { directory, deliveries } = stage.storage;
    const ada = account(1);
    const audit = { ...SYSTEM, action: "account.created", subject: ada.sub, detail: { by: null } } as const;
    await put(ada, {
      deliveries: [delivery("d1", ada.sub), delivery("d2", ada.sub, "portal:main")],
      audit,
    });
    const more = { deliveries: [delivery("d3", ada.sub)], audit: { ...audit, reason: "refused" } };
    const refused = [
      put({ ...ada, services: { none: null } }, more),
      put(account(2, { username: "free", email: ada.email }), more),
      put(account(2, { user_id: 1 }), more),
      // The deliveries of a change are distinct.
      put(ada, { ...more, deliveries: [delivery("d3", ada.sub), delivery("d1", ada.sub)] }),
      put(ada, { ...more, deliveries: [delivery("d3", ada.sub), delivery("d3", ada.sub, "portal:x")] }),
    ];
    const codes = await outcomes(refused);
    expect(codes).toEqual([
      "unknown_reference",
      "name_taken",
      "already_exists",
      "already_exists",
      "already_exists",
    ]);
    await expect(deliveries.find("d3")).resolves.toBeUndefined();
    await expect(stage.storage.audit.list({ limit: 10 })).resolves.toMatchObject({
      items: [{ ...audit, reason: null }],
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
    await Promise.all(numbers.map((number) => put(account(number))));
    const pages: number[][] = [];
    let after: number | undefined;
    for (;;) {
      const page = await stage.storage.directory.listAccounts({ limit: 2, after });
      if (page.length === 0) break;
      pages.push(page.map(({ user_id }) => user_id));
      after = page.at(-1)?.user_id;
    }
    expect(pages).toEqual([[1, 3], [5, 7], [9]]);
    await expect(stage.storage.directory.listAccounts({ limit: 0 })).resolves.toEqual([]);
    await expect(stage.storage.directory.listAccounts({ after: 9, limit: 9 })).resolves.toEqual([]);
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
    await Promise.all(hostileKeys.map((key) => putEntry(stage.storage, "service", entry(key))));
    await Promise.all(records.map((record) => put(record)));
    await stage.storage.records.transact((tx) => {
      for (const key of hostileKeys) tx.overwrite(SIGN_IN_NAME.record({ sub: key }, { key: key }));
    });
    await expect(Promise.all(hostileKeys.map((key) => directory.findAccount(key)))).resolves.toEqual(records);
    await expect(Promise.all(hostileKeys.map((key) => directory.findAccountByName(key)))).resolves.toEqual(
      records,
    );
    for (const key of hostileKeys) {
      const audit = { ...SYSTEM, action: "service.removed", subject: key } as const;
      await expect(removeEntry(stage.storage, "service", key, audit)).rejects.toMatchObject({
        references: [`account:${key}`],
      });
    }
  });

  it("returns copies: changes by the caller have no effect", async () => {
    const { directory } = stage.storage;
    const record = account(1, { username: "ada", client_generations: { "1": 1 } });
    await put(record);
    const finds = [
      () => directory.findAccount(record.sub),
      () => directory.findAccountByName("ada"),
      async () => (await directory.listAccounts({ limit: 1 }))[0],
    ];
    for (const find of finds) {
      const found = await find();
      expect(found).toEqual(record);
      Reflect.set(Object(found?.client_generations), "1", "changed");
      Reflect.set(Object(found), "email", "changed");
      await expect(find()).resolves.toEqual(record);
    }
  });
}
