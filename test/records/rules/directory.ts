/** The contract of the rest of the directory and of the deliveries. */
import { SYSTEM } from "../../../records/audit/audit-event.ts";
import type { EntryKind } from "../../../records/directory/directory.ts";
import { removeEntry } from "../../../records/directory/directory-records.ts";
import type { TestRunner } from "../../../testing/storage/runner.ts";
import {
  account,
  client,
  deleteAccount,
  delivery,
  entry,
  hostileKeys,
  outcomes,
  putAccount,
  putClient,
  putEntry,
  stored,
  whole,
  type Stage,
} from "./stage.ts";

function describeClients(stage: Stage, runner: TestRunner): void {
  const { expect, it } = runner;

  it("lists clients by client_id", async () => {
    const { storage } = stage;
    const news = client("news", { service: "1" });
    for (const each of [news, client("Zoo"), client("apps")]) await putClient(storage, each);
    await expect(storage.directory.findClient("news")).resolves.toEqual(news);
    await expect(storage.directory.findClient("none")).resolves.toBeUndefined();
    expect((await storage.directory.listClients()).map(({ client_id }) => client_id)).toEqual([
      "Zoo",
      "apps",
      "news",
    ]);
  });

  it("accepts any string as a client_id, and returns copies", async () => {
    const { directory } = stage.storage;
    const records = hostileKeys.map((key) => client(key, { name: key }));
    await Promise.all(records.map((record) => putClient(stage.storage, record)));
    await expect(Promise.all(hostileKeys.map((key) => directory.findClient(key)))).resolves.toEqual(records);
    await expect(directory.listClients()).resolves.toHaveLength(hostileKeys.length);
    const found = await directory.findClient("a");
    Reflect.set(Object(found?.redirect_uris), 0, "https://changed.example");
    Reflect.set(Object(found), "disabled", true);
    await expect(directory.findClient("a")).resolves.toEqual(client("a", { name: "a" }));
  });
}

function describeEntries(stage: Stage, runner: TestRunner): void {
  const { expect, it } = runner;
  const remove = (kind: EntryKind, key: string) =>
    removeEntry(stage.storage, kind, key, { ...SYSTEM, action: `${kind}.removed`, subject: key });
  const references = async (kind: EntryKind, key: string) => {
    const [error] = await Promise.allSettled([remove(kind, key)]);
    return error.status === "fulfilled" ? error.value : Reflect.get(Object(error.reason), "references");
  };

  it("separates services, groups and portals, ordered by key", async () => {
    const { storage } = stage;
    const { directory } = storage;
    const receiver = { url: "https://a.example/n", client_id: "c", types: ["DELETE_ACCOUNT"], sealed: "s" };
    await putEntry(storage, "group", entry("x", { name: "Group" }));
    await putEntry(storage, "service", entry("x", { name: "Service", group: "x", receiver }));
    await putEntry(storage, "portal", entry("x", { name: "Portal" }));
    await putEntry(storage, "service", entry("b"));
    await putEntry(storage, "service", entry("b", { name: "Replaced" }));
    await expect(directory.findEntry("service", "x")).resolves.toEqual(
      entry("x", { name: "Service", group: "x", receiver }),
    );
    await expect(directory.findEntry("portal", "b")).resolves.toBeUndefined();
    const names = async (kind: EntryKind) => (await directory.listEntries(kind)).map(({ name }) => name);
    await expect(names("service")).resolves.toEqual(["Replaced", "Service"]);
    await expect(names("group")).resolves.toEqual(["Group"]);
    await expect(names("portal")).resolves.toEqual(["Portal"]);
    await expect(remove("portal", "x")).resolves.toBe(true);
    await expect(remove("portal", "x")).resolves.toBe(false);
    await expect(names("service")).resolves.toEqual(["Replaced", "Service"]);
  });

  it("does not remove referenced entries, and names the references", async () => {
    const { storage } = stage;
    await putEntry(storage, "group", entry("g"));
    await putEntry(storage, "service", entry("1", { group: "g" }));
    await putEntry(storage, "portal", entry("p"));
    await putClient(storage, client("news", { service: "1" }));
    const ada = account(1, { services: { "1": null }, portal: "p" });
    await putAccount(storage, ada);
    await expect(references("service", "1")).resolves.toEqual(["client:news", "account:sub-1"]);
    await expect(references("group", "g")).resolves.toEqual(["service:1"]);
    await expect(references("portal", "p")).resolves.toEqual(["account:sub-1"]);
    await expect(storage.directory.findEntry("service", "1")).resolves.toBeDefined();

    await putAccount(storage, { ...ada, services: {}, portal: null });
    await expect(references("portal", "p")).resolves.toBe(true);
    await expect(references("service", "1")).resolves.toEqual(["client:news"]);
    await putClient(storage, client("news"));
    const bob = account(2, { services: { "1": 7 } });
    await putAccount(storage, bob);
    await expect(references("service", "1")).resolves.toEqual(["account:sub-2"]);
    await deleteAccount(storage, bob.sub);
    await putEntry(storage, "service", entry("1"));
    await expect(references("group", "g")).resolves.toBe(true);
    await expect(references("service", "1")).resolves.toBe(true);
  });

  it("names at most ten references", async () => {
    const { storage } = stage;
    await putEntry(storage, "service", entry("1"));
    for (let number = 1; number <= 8; number += 1) {
      await putClient(storage, client(`c${number}`, { service: "1" }));
      await putAccount(storage, account(number, { services: { "1": number } }));
    }
    const [result] = await Promise.allSettled([remove("service", "1")]);
    expect(Reflect.get(Object(Reflect.get(result, "reason")), "code")).toBe("still_referenced");
    expect(Reflect.get(Object(Reflect.get(result, "reason")), "references")).toHaveLength(10);
  });

  it("removes no entry that an account refers to, however the two meet", async () => {
    const { storage } = stage;
    for (let round = 1; round <= 20; round += 1) {
      const key = `s${round}`;
      await putEntry(storage, "service", entry(key));
      const [added, removed] = await outcomes([
        putAccount(storage, account(round, { services: { [key]: null } })),
        remove("service", key),
        putEntry(storage, "service", entry(key, { name: "Replaced" })),
      ]);
      const isThere = (await storage.directory.findEntry("service", key)) !== undefined;
      if (added === undefined) expect([round, isThere]).toEqual([round, true]);
      else expect(added).toBe("unknown_reference");
      expect([undefined, "still_referenced"]).toContain(removed);
    }
  });
}

function describeKept(stage: Stage, runner: TestRunner): void {
  const { expect, it } = runner;
  it("keeps the first service key of a name, also of 50 concurrent ones", async () => {
    const { directory } = stage.storage;
    await expect(directory.findServiceKey("cookie-keys")).resolves.toBeUndefined();
    const values = await Promise.all(
      Array.from({ length: 50 }, (_, index) => directory.ensureServiceKey("cookie-keys", `value ${index}`)),
    );
    expect(new Set(values).size).toBe(1);
    await expect(directory.findServiceKey("cookie-keys")).resolves.toBe(values[0]);
    await expect(directory.ensureServiceKey("cookie-keys", "late")).resolves.toBe(values[0]);
  });
}

function describeDeliveries(stage: Stage, runner: TestRunner): void {
  const { expect, it } = runner;
  it("numbers the deliveries of each lane from 1 without gaps", async () => {
    const { deliveries } = stage.storage;
    const people = Array.from({ length: 10 }, (_, index) => account(index + 1));
    await Promise.all(people.map((person) => putAccount(stage.storage, person)));
    for (const round of [1, 2, 3]) {
      const results = await outcomes(
        people.map((person) => {
          const added = ["service:1", "group:1"].map((receiver) =>
            delivery(`${receiver}/${person.sub}/${round}`, person.sub, receiver),
          );
          // One change of each round fails: it must leave no gap in any lane.
          const services = round === 2 && person === people[3] ? { none: null } : {};
          return putAccount(stage.storage, { ...person, services }, { deliveries: added });
        }),
      );
      expect(results.filter((code) => code !== undefined)).toHaveLength(round === 2 ? 1 : 0);
    }
    for (const person of people) {
      const own = await deliveries.list({ limit: 100, sub: person.sub });
      const expected = person === people[3] ? [1, 1, 2, 2] : [1, 1, 2, 2, 3, 3];
      expect(own.map(({ sequence }) => sequence)).toEqual(expected);
      expect(own.every(({ sub }) => sub === person.sub)).toBe(true);
    }
  });

  it("lists deliveries in stored order, page by page", async () => {
    const { storage } = stage;
    const { deliveries } = storage;
    const [ada, bob] = [account(1), account(2)];
    await putAccount(storage, ada, { deliveries: ["d", "b"].map((id) => delivery(id, ada.sub)) });
    await putAccount(storage, bob, { deliveries: [delivery("c", bob.sub)] });
    await deleteAccount(storage, ada.sub, { deliveries: [delivery("a", ada.sub)] });
    const ids = async (page: Parameters<typeof deliveries.list>[0]) =>
      (await deliveries.list(page)).map(({ id }) => id);
    await expect(ids({ limit: 3 })).resolves.toEqual(["d", "b", "c"]);
    await expect(ids({ limit: 3, after: "c" })).resolves.toEqual(["a"]);
    await expect(ids({ limit: 3, sub: ada.sub })).resolves.toEqual(["d", "b", "a"]);
    await expect(ids({ limit: 1, sub: ada.sub, after: "d" })).resolves.toEqual(["b"]);
    await expect(ids({ limit: 3, after: "a" })).resolves.toEqual([]);
    await expect(ids({ limit: 3, after: "none" })).resolves.toEqual([]);
    await expect(ids({ limit: 0 })).resolves.toEqual([]);
    await expect(deliveries.find("a")).resolves.toEqual(whole(delivery("a", ada.sub), 3));
    await expect(deliveries.find("none")).resolves.toBeUndefined();
  });

  it("accepts any string in a delivery", async () => {
    const { deliveries } = stage.storage;
    const all = hostileKeys.map((key) => delivery(key, key, key, { type: key, payload: key }));
    await putAccount(stage.storage, account(1), { deliveries: all });
    const expected = all.map((one) => stored(one, 1));
    await expect(deliveries.list({ limit: 100 })).resolves.toEqual(expected);
    for (const one of expected) {
      await expect(deliveries.find(one.id)).resolves.toEqual({ ...one, payload: one.id });
      await expect(deliveries.list({ limit: 9, sub: one.sub })).resolves.toEqual([one]);
    }
  });
}

/** @param stage the store of the running case. */
export function describeDirectory(stage: Stage, runner: TestRunner): void {
  describeClients(stage, runner);
  describeEntries(stage, runner);
  describeKept(stage, runner);
  describeDeliveries(stage, runner);
}
