/** The contract of the rest of the directory and of the deliveries. */
import { SYSTEM } from "../../../records/audit/audit-event.ts";
import type { ClientRecord } from "../../../records/directory/directory.ts";
import type { TestRunner } from "../../../testing/storage/runner.ts";
import {
  account,
  change,
  client,
  creation,
  deletion,
  delivery,
  entry,
  hostileKeys,
  outcomes,
  stored,
  type Stage,
} from "./stage.ts";

function describeClients(stage: Stage, runner: TestRunner): void {
  const { expect, it } = runner;
  const commit = (record: ClientRecord, expectedVersion?: number) =>
    stage.storage.directory.commitClient({ client_id: record.client_id, expectedVersion, record });

  it("stores clients by version, ordered by client_id", async () => {
    const { directory } = stage.storage;
    await directory.putEntry("service", entry("1"));
    const news = client("news", { service: "1" });
    await commit(news);
    await commit(client("Zoo"));
    await commit(client("apps"));
    await expect(directory.findClient("news")).resolves.toEqual(news);
    await expect(directory.findClient("none")).resolves.toBeUndefined();
    expect((await directory.listClients()).map(({ client_id }) => client_id)).toEqual([
      "Zoo",
      "apps",
      "news",
    ]);
    await expect(commit(news)).rejects.toMatchObject({ code: "already_exists" });
    const next = { ...news, disabled: true, version: 2 };
    const codes = await outcomes(Array.from({ length: 20 }, () => commit(next, 1)));
    expect(codes.filter((code) => code === undefined)).toHaveLength(1);
    expect(codes.filter((code) => code === "version_conflict")).toHaveLength(19);
    await expect(directory.findClient("news")).resolves.toEqual(next);
    const removal = { client_id: "news", record: undefined };
    await expect(directory.commitClient({ ...removal, expectedVersion: 1 })).rejects.toMatchObject({
      code: "version_conflict",
    });
    const audit = { ...SYSTEM, action: "client.removed", subject: "news" } as const;
    await directory.commitClient({ ...removal, expectedVersion: 2, audit });
    await expect(directory.findClient("news")).resolves.toBeUndefined();
    await expect(commit(next, 2)).rejects.toMatchObject({ code: "version_conflict" });
    await expect(stage.storage.audit.list({ limit: 5 })).resolves.toMatchObject({ records: [audit] });
  });

  it("refuses a client of an unknown service", async () => {
    await expect(commit(client("news", { service: "1" }))).rejects.toMatchObject({
      code: "unknown_reference",
    });
    await commit(client("news"));
    await expect(commit(client("news", { service: "1", version: 2 }), 1)).rejects.toMatchObject({
      code: "unknown_reference",
    });
    await expect(stage.storage.directory.findClient("news")).resolves.toEqual(client("news"));
  });

  it("gives an id to one of 50 concurrent new clients", async () => {
    const codes = await outcomes(
      Array.from({ length: 50 }, (_, index) => commit(client("news", { name: `News ${index}` }))),
    );
    expect(codes.filter((code) => code === "already_exists")).toHaveLength(49);
    await expect(stage.storage.directory.findClient("news")).resolves.toMatchObject({
      name: `News ${codes.indexOf(undefined)}`,
    });
  });

  it("never uses one identifier for a client and an account", async () => {
    const { directory } = stage.storage;
    const news = client("news");
    await commit(news);
    await directory.commitAccount(creation(account(1)));
    const code = "already_exists";
    await expect(commit(client("sub-1"))).rejects.toMatchObject({ code, name: "IdentifierTaken" });
    const taken = directory.commitAccount(creation(account(2, { sub: "news" })));
    await expect(taken).rejects.toMatchObject({ code, name: "IdentifierTaken" });
    await expect(directory.findClient("sub-1")).resolves.toBeUndefined();
    await expect(directory.findAccount("news")).resolves.toBeUndefined();
    // The owner of an identifier can still be changed, and frees it when it is removed.
    await commit({ ...news, name: "Changed", version: 2 }, 1);
    await directory.commitAccount(change(account(1), { name: "Changed" }));
    await directory.commitClient({ client_id: "news", expectedVersion: 2, record: undefined });
    await directory.commitAccount(creation(account(2, { sub: "news" })));
    await directory.commitAccount(deletion({ ...account(1), version: 2 }));
    await commit(client("sub-1"));
  });

  it("gives an identifier to a client or an account if both come at once", async () => {
    const { directory } = stage.storage;
    const ids = Array.from({ length: 40 }, (_, index) => `id-${index}`);
    const codes = await outcomes(
      ids.flatMap((id, index) => {
        const asAccount = () => directory.commitAccount(creation(account(index + 1, { sub: id })));
        const both = [() => commit(client(id)), asAccount];
        return (index % 2 === 0 ? both : both.toReversed()).map((begin) => begin());
      }),
    );
    for (const [index, id] of ids.entries()) {
      const [one, other] = codes.slice(2 * index, 2 * index + 2);
      expect([id, new Set([one, other])]).toEqual([id, new Set([undefined, "already_exists"])]);
      const found = await Promise.all([directory.findClient(id), directory.findAccount(id)]);
      expect(found.filter((each) => each !== undefined)).toHaveLength(1);
    }
  });

  it("accepts any string as a client_id, and returns copies", async () => {
    const { directory } = stage.storage;
    const records = hostileKeys.map((key) => client(key, { name: key }));
    await Promise.all(records.map((record) => commit(record)));
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
  it("separates services, groups and portals, ordered by key", async () => {
    const { directory } = stage.storage;
    const receiver = { url: "https://a.example/n", client_id: "c", types: ["DELETE_ACCOUNT"], sealed: "s" };
    await directory.putEntry("group", entry("x", { name: "Group" }));
    await directory.putEntry("service", entry("x", { name: "Service", group: "x", receiver }));
    await directory.putEntry("portal", entry("x", { name: "Portal" }));
    await directory.putEntry("service", entry("b"));
    await directory.putEntry("service", entry("b", { name: "Replaced" }));
    await expect(directory.findEntry("service", "x")).resolves.toEqual(
      entry("x", { name: "Service", group: "x", receiver }),
    );
    await expect(directory.findEntry("portal", "b")).resolves.toBeUndefined();
    const names = async (kind: "service" | "group" | "portal") =>
      (await directory.listEntries(kind)).map(({ name }) => name);
    await expect(names("service")).resolves.toEqual(["Replaced", "Service"]);
    await expect(names("group")).resolves.toEqual(["Group"]);
    await expect(names("portal")).resolves.toEqual(["Portal"]);
    await expect(directory.putEntry("service", entry("c", { group: "none" }))).rejects.toMatchObject({
      code: "unknown_reference",
    });
    await expect(directory.removeEntry("portal", "x")).resolves.toBe(true);
    await expect(directory.removeEntry("portal", "x")).resolves.toBe(false);
    await expect(names("service")).resolves.toEqual(["Replaced", "Service"]);
  });

  it("does not remove referenced entries, and names the references", async () => {
    const { directory } = stage.storage;
    await directory.putEntry("group", entry("g"));
    await directory.putEntry("service", entry("1", { group: "g" }));
    await directory.putEntry("portal", entry("p"));
    const news = client("news", { service: "1" });
    await directory.commitClient({ client_id: "news", expectedVersion: undefined, record: news });
    const ada = account(1, { services: { "1": null }, portal: "p" });
    await directory.commitAccount(creation(ada));
    const references = async (kind: "service" | "group" | "portal", key: string) => {
      const [error] = await Promise.allSettled([directory.removeEntry(kind, key)]);
      return error.status === "fulfilled" ? error.value : Reflect.get(Object(error.reason), "references");
    };
    await expect(references("service", "1")).resolves.toEqual(["client:news", "account:sub-1"]);
    await expect(references("group", "g")).resolves.toEqual(["service:1"]);
    await expect(references("portal", "p")).resolves.toEqual(["account:sub-1"]);
    await expect(directory.findEntry("service", "1")).resolves.toBeDefined();

    await directory.commitAccount(change(ada, { services: {}, portal: null }));
    await expect(references("portal", "p")).resolves.toBe(true);
    await expect(references("service", "1")).resolves.toEqual(["client:news"]);
    await directory.commitClient({ client_id: "news", expectedVersion: 1, record: undefined });
    const bob = account(2, { services: { "1": 7 } });
    await directory.commitAccount(creation(bob));
    await expect(references("service", "1")).resolves.toEqual(["account:sub-2"]);
    await directory.commitAccount(deletion(bob));
    await directory.putEntry("service", entry("1"));
    await expect(references("group", "g")).resolves.toBe(true);
    await expect(references("service", "1")).resolves.toBe(true);
  });

  it("names at most ten references", async () => {
    const { directory } = stage.storage;
    await directory.putEntry("service", entry("1"));
    for (let number = 1; number <= 8; number += 1) {
      const record = client(`c${number}`, { service: "1" });
      await directory.commitClient({ client_id: record.client_id, expectedVersion: undefined, record });
      await directory.commitAccount(creation(account(number, { services: { "1": number } })));
    }
    await expect(directory.removeEntry("service", "1")).rejects.toMatchObject({ code: "still_referenced" });
    const [result] = await Promise.allSettled([directory.removeEntry("service", "1")]);
    expect(Reflect.get(Object(Reflect.get(result, "reason")), "references")).toHaveLength(10);
  });
}

function describeKept(stage: Stage, runner: TestRunner): void {
  const { expect, it } = runner;
  it("keeps the first value of a name, also of 50 concurrent ones", async () => {
    const { directory } = stage.storage;
    await expect(directory.findSetting("key")).resolves.toBeUndefined();
    const values = await Promise.all(
      Array.from({ length: 50 }, (_, index) => directory.ensureSetting("key", `value ${index}`)),
    );
    expect(new Set(values).size).toBe(1);
    await expect(directory.findSetting("key")).resolves.toBe(values[0]);
    await expect(directory.ensureSetting("key", "late")).resolves.toBe(values[0]);
    await Promise.all(hostileKeys.map((key) => directory.ensureSetting(`n${key}`, key)));
    await expect(Promise.all(hostileKeys.map((key) => directory.findSetting(`n${key}`)))).resolves.toEqual(
      hostileKeys,
    );
  });
}

function describeDeliveries(stage: Stage, runner: TestRunner): void {
  const { expect, it } = runner;
  it("numbers the deliveries of each lane from 1 without gaps", async () => {
    const { directory, deliveries } = stage.storage;
    const people = Array.from({ length: 10 }, (_, index) => account(index + 1));
    await Promise.all(people.map((person) => directory.commitAccount(creation(person))));
    for (const round of [1, 2, 3]) {
      const results = await outcomes(
        people.map((person) =>
          directory.commitAccount(
            change(
              { ...person, version: round },
              {},
              {
                deliveries: ["service:1", "group:1"].map((receiver) =>
                  delivery(`${receiver}/${person.sub}/${round}`, person.sub, receiver),
                ),
                // One change of each round fails: it must leave no gap in any lane.
                requireServices: round === 2 && person === people[3] ? ["none"] : [],
              },
            ),
          ),
        ),
      );
      expect(results.filter((code) => code !== undefined)).toHaveLength(round === 1 ? 0 : 1);
    }
    for (const person of people) {
      const own = await deliveries.list({ limit: 100, sub: person.sub });
      const expected = person === people[3] ? [1, 1] : [1, 1, 2, 2, 3, 3];
      expect(own.map(({ sequence }) => sequence)).toEqual(expected);
      expect(own.every(({ sub }) => sub === person.sub)).toBe(true);
    }
  });

  it("lists deliveries in stored order, page by page", async () => {
    const { directory, deliveries } = stage.storage;
    const [ada, bob] = [account(1), account(2)];
    await directory.commitAccount(
      creation(ada, { deliveries: ["d", "b"].map((id) => delivery(id, ada.sub)) }),
    );
    await directory.commitAccount(creation(bob, { deliveries: [delivery("c", bob.sub)] }));
    await directory.commitAccount(deletion(ada, { deliveries: [delivery("a", ada.sub)] }));
    const ids = async (page: Parameters<typeof deliveries.list>[0]) =>
      (await deliveries.list(page)).map(({ id }) => id);
    await expect(ids({ limit: 3 })).resolves.toEqual(["d", "b", "c"]);
    await expect(ids({ limit: 3, after: "c" })).resolves.toEqual(["a"]);
    await expect(ids({ limit: 3, sub: ada.sub })).resolves.toEqual(["d", "b", "a"]);
    await expect(ids({ limit: 1, sub: ada.sub, after: "d" })).resolves.toEqual(["b"]);
    await expect(ids({ limit: 3, after: "a" })).resolves.toEqual([]);
    await expect(ids({ limit: 3, after: "none" })).resolves.toEqual([]);
    await expect(ids({ limit: 0 })).resolves.toEqual([]);
    await expect(deliveries.find("a")).resolves.toEqual(stored(delivery("a", ada.sub), 3));
    await expect(deliveries.find("none")).resolves.toBeUndefined();
  });

  it("accepts any string in a delivery", async () => {
    const { directory, deliveries } = stage.storage;
    const all = hostileKeys.map((key) => delivery(key, key, key, { type: key, payload: key }));
    await directory.commitAccount(creation(account(1), { deliveries: all }));
    const expected = all.map((one) => stored(one, 1));
    await expect(deliveries.list({ limit: 100 })).resolves.toEqual(expected);
    for (const one of expected) {
      await expect(deliveries.find(one.id)).resolves.toEqual(one);
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
