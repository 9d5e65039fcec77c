import { StatementSync } from "node:sqlite";
import { beforeEach, describe, expect, it, jest } from "@jest/globals";
import { StorageUnavailable } from "../../core/errors.ts";
import {
  CLIENTS,
  codeOf,
  consent,
  remainingArtifacts,
  openDomain,
  seed,
  RECEIVER,
  START,
  withCommit,
  type Domain,
} from "./open-domain.ts";

const TEXT = { type: "text", label: "Label", scope: "org", notify: true } as const;
const ATTRIBUTES = { department: TEXT, desk: TEXT };

let domain: Domain;
let sub: string;
beforeEach(async () => {
  domain = await openDomain({ accounts: { attributes: ATTRIBUTES } });
  sub = await seed(domain);
});

function failing(): never {
  throw new StorageUnavailable("planted");
}

/** Makes one database statement fail, after the given number of others. */
function refuseStatement(after: number): {
  restore(): void;
  readonly refused: boolean;
  readonly left: number;
} {
  let left = after;
  const spies = (["run", "get", "all"] as const).map((name) => {
    const real = Reflect.get(StatementSync.prototype, name) as (...parameters: unknown[]) => unknown;
    return jest.spyOn(StatementSync.prototype, name).mockImplementation(function refuse(
      this: StatementSync,
      ...parameters: unknown[]
    ) {
      left -= 1;
      if (left !== -1) return Reflect.apply(real, this, parameters) as never;
      throw Object.assign(new Error("planted"), { code: "ERR_SQLITE_ERROR", errcode: 10, errstr: "I/O" });
    });
  });
  return {
    restore: () => spies.forEach((spy) => spy.mockRestore()),
    get refused() {
      return left < 0;
    },
    get left() {
      return left;
    },
  };
}

describe("notifications of a change", () => {
  it("are stored with it, sealed, and then passed to the worker [D-NOTIFY-10]", async () => {
    domain.clock.seconds += 5;
    await domain.accounts.update(sub, { name: "Ada", email: "new@example.com" });
    const listed = await domain.storage.deliveries.list({ limit: 10 });
    const stored = await Promise.all(listed.map(({ id }) => domain.storage.deliveries.find(id)));
    expect(stored).toMatchObject(domain.notified.map((delivery) => ({ ...delivery, sequence: 1 })));
    const [one = "", other = ""] = listed.map(({ id }) => id);
    for (const id of [one, other]) expect(id).toMatch(/^msg_[0-9a-f]{32}$/);
    // Ids start with the time, so that an index keeps simultaneous ones together.
    const time = (START + 5).toString(16).padStart(10, "0");
    expect([one.slice(4, 14), other.slice(4, 14)]).toEqual([time, time]);
    expect(one).not.toBe(other);
    expect(JSON.stringify(stored)).not.toContain("new@example.com");
    expect((await domain.bodies())[0]).toEqual({
      receiver: "service:1",
      body: {
        notification_type: "PROFILE_CHANGED",
        data: {
          user_id: 1,
          user_uuid: sub,
          user_email: "new@example.com",
          timestamp: START + 5,
          services: { "1": 11 },
        },
      },
    });
    expect(domain.changed.at(-1)).toEqual({ sub, action: "account.updated", deliveries: 2 });
  });

  it("go to the receivers that exist at the change, whoever changed the directory since the last one", async () => {
    const receivers = async (name: string): Promise<string[]> => {
      const before = domain.notified.length;
      await domain.accounts.update(sub, { name });
      return domain.notified.slice(before).map(({ receiver }) => receiver);
    };
    const { directory } = domain.reopen();
    expect(await receivers("one")).toEqual(["service:1", "service:2"]);
    await directory.groups.put("g", { name: "G", receiver: RECEIVER });
    await directory.services.put("1", { name: "one", group: "g", receiver: RECEIVER });
    expect(await receivers("two")).toEqual(["group:g", "service:2"]);
    await directory.groups.put("g", { name: "G" });
    await directory.services.put("2", { name: "two" });
    expect(await receivers("three")).toEqual(["service:1"]);
    await directory.groups.put("g", { name: "G", receiver: RECEIVER });
    await directory.services.put("2", { name: "two", group: "g" });
    expect(await receivers("four")).toEqual(["group:g"]);
  });

  it("are neither stored nor sent if the change is not committed [D-NOTIFY-10]", async () => {
    await domain.accounts.create({ email: "taken@example.com" });
    const changes = domain.changed.length;
    expect(await codeOf(domain.accounts.update(sub, { name: "Ada", email: "taken@example.com" }))).toBe(
      "name_taken",
    );
    expect(await codeOf(domain.accounts.update(sub, { name: "Ada", portal: "gone" }))).toBe(
      "unknown_reference",
    );
    const broken = domain.reopen({
      storage: (storage) =>
        withCommit(storage, async () => {
          throw new StorageUnavailable("planted");
        }),
    });
    expect(await codeOf(broken.accounts.delete(sub))).toBe("storage_unavailable");
    expect(await domain.bodies()).toEqual([]);
    expect([domain.notified, broken.notified, broken.changed, broken.ended]).toEqual([[], [], [], []]);
    expect(domain.changed).toHaveLength(changes);
    expect(await remainingArtifacts(domain, sub, CLIENTS)).toEqual(["session", ...CLIENTS]);
    expect((await domain.accounts.find(sub))?.name).toBeNull();
  });

  const kinds: [name: string, change: () => Promise<unknown>][] = [
    ["update", () => domain.accounts.update(sub, { name: "Ada" })],
    [
      "change of attributes",
      () => domain.accounts.update(sub, { attributes: { department: "Engines", desk: "7" } }),
    ],
    ["unassignment", () => domain.accounts.unassign(sub, ["1", "2"])],
    ["deletion", () => domain.accounts.delete(sub)],
  ];
  it.each(kinds)(
    "leave nothing behind at whichever database statement the %s fails [D-NOTIFY-10]",
    async (_, change) => {
      const before = await domain.accounts.find(sub);
      let steps = 0;
      for (; ; steps += 1) {
        const statements = refuseStatement(steps);
        const code = await change().then(
          () => undefined,
          (error: unknown) => Reflect.get(Object(error), "code"),
        );
        statements.restore();
        if (!statements.refused) {
          expect(code).toBeUndefined();
          break;
        }
        // Later statements do not fail the change.
        if (code === undefined) continue;
        expect(code).toBe("storage_unavailable");
        expect(domain.notified).toEqual([]);
        await expect(domain.bodies()).resolves.toEqual([]);
        await expect(domain.storage.deliveries.dueReceivers()).resolves.toEqual([]);
        await expect(domain.accounts.find(sub)).resolves.toEqual(before);
      }
      expect(steps).toBeGreaterThan(12);
      const stored = await domain.storage.deliveries.list({ limit: 9 });
      expect(stored.map(({ receiver, sequence }) => [receiver, sequence])).toEqual([
        ["service:1", 1],
        ["service:2", 1],
      ]);
    },
  );

  it("take the same statements for attributes as for another change", async () => {
    const counted = async (change: Parameters<Domain["accounts"]["update"]>[1]): Promise<number> => {
      const never = 1_000;
      const statements = refuseStatement(never);
      await domain.accounts.update(sub, change);
      statements.restore();
      return never - statements.left;
    };
    // The first change reads what the others find in the cache.
    await counted({ name: "Augusta" });
    const name = await counted({ name: "Ada" });
    expect(name).toBeGreaterThan(5);
    expect(await counted({ attributes: { department: "Engines", desk: "7" } })).toBe(name);
    expect(domain.notified).toHaveLength(6);
  });

  it("cover all keys of one unassignment, and skip unassigned keys [D-ACCOUNT-5]", async () => {
    await domain.directory.groups.put("g", { name: "G", receiver: RECEIVER });
    for (const key of ["1", "2"]) await domain.directory.services.put(key, { name: key, group: "g" });
    await domain.directory.services.put("3", { name: "3", receiver: RECEIVER });
    expect(await domain.accounts.unassign(sub, ["3", "nowhere"])).toBe(false);
    expect(await domain.accounts.unassign(sub, [])).toBe(false);
    expect(await domain.bodies()).toEqual([]);
    expect(await domain.accounts.unassign(sub, ["1", "3", "2"])).toBe(true);
    expect(await domain.accounts.unassign(sub, ["1", "2"])).toBe(false);
    const [only, ...others] = await domain.bodies();
    expect([only?.receiver, only?.body.data.services, others]).toEqual([
      "group:g",
      { "1": 11, "2": null },
      [],
    ]);
  });

  it("are not sent for passwords, sessions, tokens, consents, portals and assignments [D-NOTIFY-3]", async () => {
    await domain.directory.portals.put("p", { name: "P", receiver: RECEIVER });
    await domain.accounts.setPassword(sub, "correct horse");
    await domain.accounts.endSessions(sub);
    await domain.accounts.revokeTokens(sub);
    await domain.accounts.update(sub, { portal: "p", email_verified: true });
    await domain.accounts.assign(sub, "1", 12);
    await consent(domain, sub, "one", ["email"]);
    expect(await domain.bodies()).toEqual([]);
  });
});

describe("after the commit", () => {
  it("no failure fails the call: it is reported as a fault, and the generations already count", async () => {
    const broken = domain.reopen({
      notify: failing,
      storage: (storage) => ({
        ...storage,
        artifacts: { ...storage.artifacts, page: async () => failing() },
      }),
    });
    expect(await broken.accounts.delete(sub)).toBe(true);
    expect(await domain.accounts.find(sub)).toBeUndefined();
    await broken.cleanup.settled(5_000);
    expect(broken.faults).toEqual([
      { where: "notify", code: "storage_unavailable" },
      { where: "clear artifacts", code: "storage_unavailable" },
    ]);
    expect(broken.changed).toEqual([{ sub, action: "account.deleted", deliveries: 2 }]);
  });

  it("the clients of ended sessions are told, and their records are removed", async () => {
    await domain.accounts.endSessions(sub);
    expect(await remainingArtifacts(domain, sub, CLIENTS)).toEqual(CLIENTS);
    expect(domain.signedOut).toEqual(["uid"]);
  });

  it("every change has an audit record without personal data", async () => {
    await domain.accounts.update(sub, { name: "Secret Name" });
    await domain.accounts.delete(sub);
    const { items: audit } = await domain.storage.audit.list({ account: sub, limit: 10 });
    const own = audit.map(({ action, detail }) => ({ action, detail }));
    expect(own.slice(0, 2)).toEqual([
      { action: "account.deleted", detail: {} },
      { action: "account.updated", detail: { fields: "name" } },
    ]);
    expect(JSON.stringify(audit)).not.toContain("Secret");
  });
});
