/** The signing keys of processes that share a storage: an SQLite file, opened once for each of them. */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it, jest } from "@jest/globals";
import type { RecordStore } from "../../../adapters/record-store.ts";
import { openSqlite } from "../../../adapters/sqlite/record-store.ts";
import { KINDS } from "../../../records/all-kinds.ts";
import { LaneAccess } from "../../../records/deliveries/lanes.ts";
import type { AuditStore } from "../../../records/audit/audit-event.ts";
import { createAuditStore } from "../../../records/audit/audit-store.ts";
import {
  createDirectoryRecords,
  type DirectoryRecords,
} from "../../../records/directory/directory-records.ts";
import { createPositions } from "../../../records/deliveries/lanes.ts";
import { createKeys } from "../../../accounts/keys/service-keys.ts";
import { openSigningKeys, type SigningKeys } from "../../../accounts/keys/signing-keys.ts";
import { StorageUnavailable } from "../../../core/errors.ts";
import { createSigningKeyStore } from "../../../records/signing-key-store.ts";
import { createSealer } from "../../../core/sealing.ts";
import { TestClock } from "../../../testing/test-clock.ts";
import { chainOf, kept, type KeyChain, published, states, untilPublished } from "./key-chain.ts";
import { withCalls } from "../../servers/storage.ts";
import { newFolder } from "../../closing.ts";

const HOUR = 3_600;
const DAY = 24 * HOUR;
const USABLE = 90 * DAY;
const [SECRET = "", NEWER = "", OTHER = ""] = [1, 2, 3].map((byte) =>
  Buffer.alloc(32, byte).toString("base64"),
);

interface OpenOptions {
  readonly secrets?: readonly string[];
  readonly every?: number;
}

/** One process: its store, keys, directory and audit log. */
interface Process {
  readonly store: RecordStore;
  readonly directory: DirectoryRecords;
  readonly audit: AuditStore;
  readonly open: (options?: OpenOptions) => Promise<KeyChain>;
  readonly openAll: (options?: OpenOptions) => Promise<SigningKeys>;
}

let folder: string;
let clock: TestClock;
let start: number;
let processes: Process[];
beforeEach(async () => {
  folder = newFolder();
  clock = new TestClock(1_800_000_000_000);
  start = 1_800_000_000;
  processes = [];
});
afterEach(async () => {
  await Promise.all(processes.map(({ store }) => store.close()));
});

/** @param around wraps the store, for faults. */
async function newProcess(around: (store: RecordStore) => RecordStore = (store) => store): Promise<Process> {
  const opened = await openSqlite({ path: join(folder, "sign-in.db"), clock });
  const store = around(opened);
  const records = new LaneAccess(store, clock, KINDS);
  const positions = createPositions(records);
  const log = createAuditStore(records, positions, { retention: 400 * DAY, signIns: 90 * DAY });
  const found: Process = {
    store,
    directory: createDirectoryRecords(records),
    audit: log,
    open: async (options) => chainOf("RS256", await found.openAll(options)),
    openAll: ({ secrets = [SECRET], every } = {}) =>
      openSigningKeys({
        store: createSigningKeyStore(records, log),
        sealer: createSealer(secrets),
        clock,
        usable: USABLE,
        every,
      }),
  };
  processes.push(found);
  return found;
}

const opened = async (options?: Parameters<Process["open"]>[0]): Promise<KeyChain> =>
  (await newProcess()).open(options);

async function audit(actions = /^signing_key\./): Promise<object[]> {
  const [first] = processes;
  const { items: records = [] } = (await first?.audit.list({ limit: 100 })) ?? {};
  const ofChain = records.filter(({ detail }) => detail["alg"] === "RS256");
  return ofChain.filter(({ action }) => actions.test(action)).toReversed();
}

describe("the first start", () => {
  it("makes one key, which signs immediately, however many processes start together", async () => {
    const stores = await Promise.all(Array.from({ length: 4 }, () => newProcess()));
    const all = await Promise.all(stores.map((each) => each.open()));
    const [first] = all;
    expect(first?.inForce()).toEqual([
      expect.objectContaining({ kty: "RSA", alg: "RS256", use: "sig", d: expect.any(String) }),
    ]);
    for (const keys of all) expect(published(keys)).toEqual(published(first!));
    const again = await opened();
    expect(again.inForce()).toEqual(first?.inForce());
    await expect(again.list()).resolves.toEqual([
      {
        kid: published(again)[0],
        alg: "RS256",
        state: "signing",
        published_at: start,
        signs_from: start,
        retires_at: null,
        published_until: null,
      },
    ]);
  });

  it("stores nothing in plain text", async () => {
    const { store, open } = await newProcess();
    const keys = await open();
    await keys.rotate();
    const text = await kept(store);
    const files = await Promise.all((await readdir(folder)).map((name) => readFile(join(folder, name))));
    const bytes = Buffer.concat(files).toString("latin1");
    for (const { kid = "", d = "", p = "", q = "", n = "" } of keys.inForce()) {
      expect(text).toContain(kid);
      for (const secret of [d, p, q, n]) {
        expect(text).not.toContain(secret);
        expect(bytes.includes(secret)).toBe(false);
      }
    }
    expect(keys.inForce()).toHaveLength(2);
  });

  it("fails with other secrets, and makes no key", async () => {
    const keys = await opened();
    await expect(opened({ secrets: [OTHER] })).rejects.toMatchObject({ code: "unusable_secrets" });
    await expect(states(keys)).resolves.toEqual(["signing"]);
  });
});

describe("each algorithm", () => {
  it("has a key from the first start, and rotates with the others", async () => {
    const keys = await (await newProcess()).openAll();
    const algorithms = (): unknown[] => keys.inForce().map(({ alg }) => alg);
    expect(algorithms()).toEqual(expect.arrayContaining(["RS256", "PS256", "ES256", "EdDSA"]));
    expect(algorithms()).toHaveLength(4);
    const rotated = await keys.rotate();
    expect(rotated.map(({ alg, state }) => [alg, state])).toEqual([
      ["RS256", "published"],
      ["PS256", "published"],
      ["ES256", "published"],
      ["EdDSA", "published"],
    ]);
    // The first four sign: oidc-provider takes the first key of an algorithm.
    expect(new Set(algorithms().slice(0, 4)).size).toBe(4);
    clock.advance(HOUR);
    expect(
      keys
        .inForce()
        .slice(0, 4)
        .map(({ kid }) => kid),
    ).toEqual(expect.arrayContaining(rotated.map(({ kid }) => kid)));
    await keys.retire(rotated[1]?.kid ?? "");
    const list = await keys.list();
    expect(list.filter(({ state }) => state === "signing").map(({ alg }) => alg)).toHaveLength(4);
    expect(list.map(({ kid }) => kid)).not.toContain(rotated[1]?.kid);
  });

  it("gets a key in a storage that has only RS256", async () => {
    const { store, open, openAll } = await newProcess();
    await open();
    const { records } = await store.scan("signing-key", undefined, 10);
    const rsa = records.filter(({ value }) => value["alg"] === "RS256");
    await store.commit({
      id: "only-rs256",
      deadline: clock.now() + 4_000,
      put: [{ kind: "signing-key-set", key: "all", value: { kids: rsa.map(({ key }) => key) } }],
      remove: records.filter((record) => !rsa.includes(record)),
    });
    const starts = await Promise.all([openAll(), openAll()]);
    for (const keys of starts) {
      expect(keys.inForce().map(({ alg }) => alg)).toHaveLength(4);
      expect(keys.inForce()[0]?.kid).toBe(rsa[0]?.key);
    }
    expect(starts[0]?.inForce()).toEqual(starts[1]?.inForce());
  });
});

describe("a rotation", () => {
  it("publishes a key immediately, signs with it after an hour, and publishes the old one while its tokens are valid [D-KEYS-1]", async () => {
    const [one, two] = [await opened(), await opened()];
    const [old] = published(one);
    const next = await one.rotate();
    expect(next).toEqual({
      kid: expect.stringMatching(/^[0-9a-f]{24}$/),
      alg: "RS256",
      state: "published",
      published_at: start,
      signs_from: start + HOUR,
      retires_at: null,
      published_until: null,
    });
    const times: [seconds: number, jwks: unknown[], states: string[]][] = [
      [0, [old, next.kid], ["signing", "published"]],
      [HOUR - 1, [old, next.kid], ["signing", "published"]],
      [HOUR, [next.kid, old], ["retired", "signing"]],
      [HOUR + USABLE - 1, [next.kid, old], ["retired", "signing"]],
      [HOUR + USABLE, [next.kid], ["signing"]],
    ];
    await two.refresh();
    for (const [seconds, jwks, shown] of times) {
      clock.advance(start + seconds - clock.now() / 1_000);
      for (const keys of [one, two]) {
        expect(published(keys)).toEqual(jwks);
        await expect(states(keys)).resolves.toEqual(shown);
      }
    }
    await one.refresh();
    expect(await kept(processes[0]!.store)).not.toContain(`"key":"${String(old)}"`);
    await expect(audit()).resolves.toMatchObject([
      {
        at: start,
        action: "signing_key.rotated",
        subject: next.kid,
        detail: { by: "call", signs_from: start + HOUR },
      },
      { at: start + HOUR + USABLE, action: "signing_key.removed", subject: old },
    ]);
  });

  it("returns the same array while the keys are the same", async () => {
    const keys = await opened();
    const before = keys.inForce();
    clock.advance(10 * DAY);
    await keys.refresh();
    expect(keys.inForce()).toBe(before);
    await keys.rotate();
    const both = keys.inForce();
    clock.advance(HOUR - 1);
    await keys.refresh();
    expect(keys.inForce()).toBe(both);
  });

  it("by several processes at once makes one key, which all of them return [D-KEYS-1]", async () => {
    const all = await Promise.all(Array.from({ length: 4 }, () => opened()));
    const made = await Promise.all([...all, ...all].map((keys) => keys.rotate()));
    expect(new Set(made.map(({ kid }) => kid)).size).toBe(1);
    await expect(states(all[0]!)).resolves.toEqual(["signing", "published"]);
    clock.advance(HOUR);
    const { kid } = await all[1]!.rotate();
    expect(kid).not.toBe(made[0]?.kid);
    await expect(states(all[2]!)).resolves.toEqual(["retired", "signing", "published"]);
    await expect(audit()).resolves.toHaveLength(2);
  });

  it("by schedule happens in one process, as soon as the newest key is old enough [D-KEYS-2]", async () => {
    const every = 30 * DAY;
    const all = await Promise.all(Array.from({ length: 3 }, () => opened({ every })));
    const without = await opened();
    clock.advance(every - 1);
    await Promise.all(all.map((keys) => keys.refresh()));
    await expect(states(without)).resolves.toEqual(["signing"]);
    clock.advance(1);
    await without.refresh();
    await expect(states(without)).resolves.toEqual(["signing"]);
    await Promise.all([...all, ...all].map((keys) => keys.refresh()));
    await expect(states(without)).resolves.toEqual(["signing", "published"]);
    clock.advance(every);
    await Promise.all(all.map((keys) => keys.refresh()));
    await expect(states(without)).resolves.toEqual(["retired", "signing", "published"]);
    expect(await audit()).toEqual([
      expect.objectContaining({ detail: expect.objectContaining({ by: "schedule" }) }),
      expect.objectContaining({ detail: expect.objectContaining({ by: "schedule" }) }),
    ]);
  });

  it("that was missed happens at the start, together with the removal of old keys", async () => {
    const every = 30 * DAY;
    const keys = await opened({ every });
    const [first] = published(keys);
    await keys.rotate();
    clock.advance(HOUR + USABLE);
    const later = await opened({ every });
    expect(published(later)).toHaveLength(2);
    expect(published(later)).not.toContain(first);
    await expect(states(later)).resolves.toEqual(["signing", "published"]);
  });

  it("is complete or does not happen if the storage fails", async () => {
    let fail: "before" | "after" | undefined;
    const { open } = await newProcess((store) =>
      withCalls(store, {
        async commit(change) {
          if (fail === "before") throw new StorageUnavailable("planned");
          await store.commit(change);
          if (fail === "after") throw new StorageUnavailable("planned");
        },
      }),
    );
    const keys = await open();
    const other = await opened();
    fail = "before";
    await expect(keys.rotate()).rejects.toMatchObject({ code: "storage_unavailable" });
    await expect(states(other)).resolves.toEqual(["signing"]);
    expect(published(keys)).toHaveLength(1);
    fail = "after";
    await expect(keys.rotate()).rejects.toMatchObject({ code: "storage_unavailable" });
    await expect(states(other)).resolves.toEqual(["signing", "published"]);
    await keys.refresh();
    expect(published(keys)).toEqual(published(other));
    // Repeating it makes no third key.
    fail = undefined;
    await keys.rotate();
    await expect(states(other)).resolves.toEqual(["signing", "published"]);
  });

  it("is ignored by a process without the new secret, which keeps its keys", async () => {
    const late = await opened();
    const before = late.inForce();
    const early = await opened({ secrets: [NEWER, SECRET] });
    await early.rotate();
    await expect(late.refresh()).rejects.toMatchObject({ code: "unusable_secrets" });
    expect(late.inForce()).toEqual(before);
    clock.advance(HOUR);
    expect(late.inForce()[0]).toEqual(before[0]);
  });

  it("works if a clock is set back or behind that of another process", async () => {
    const keys = await opened();
    const { kid } = await keys.rotate();
    clock.advance(HOUR);
    expect(published(keys)[0]).toBe(kid);
    const behind = new TestClock((start - 10) * 1_000);
    clock = behind;
    const other = await opened();
    expect(published(other)).toHaveLength(2);
    expect(published(other)[0]).toBe(published(keys)[1]);
    const alone = await (await newProcess()).open();
    await alone.retire(String(published(alone)[0]));
    expect(published(alone)).toEqual([kid]);
  });
});

describe("retiring a key", () => {
  it("that signs makes the next one sign immediately [D-KEYS-3]", async () => {
    const [one, two] = [await opened(), await opened()];
    const [leaked] = published(one);
    const { kid } = await one.rotate();
    await two.retire(String(leaked));
    await one.refresh();
    for (const keys of [one, two]) expect(published(keys)).toEqual([kid]);
    expect(await kept(processes[0]!.store)).not.toContain(`"key":"${String(leaked)}"`);
    await expect(one.list()).resolves.toEqual([
      expect.objectContaining({ kid, state: "signing", signs_from: start, retires_at: null }),
    ]);
    expect((await audit()).at(-1)).toMatchObject({
      at: start,
      action: "signing_key.retired",
      subject: leaked,
      detail: { state: "signing" },
    });
  });

  it("that is the only one makes a new one, which signs immediately [D-KEYS-3]", async () => {
    const keys = await opened();
    const [leaked] = published(keys);
    await keys.retire(String(leaked));
    expect(published(keys)).toHaveLength(1);
    expect(published(keys)).not.toContain(leaked);
    await expect(states(keys)).resolves.toEqual(["signing"]);
  });

  it("that does not sign yet keeps the old one signing; the next rotation makes another", async () => {
    const keys = await opened();
    const [old] = published(keys);
    const { kid } = await keys.rotate();
    await keys.retire(kid);
    clock.advance(2 * HOUR);
    expect(published(keys)).toEqual([old]);
    await expect(keys.list()).resolves.toEqual([
      expect.objectContaining({ kid: old, state: "signing", retires_at: null }),
    ]);
    expect((await keys.rotate()).kid).not.toBe(kid);
  });

  it("that is retired removes it from the JWKS", async () => {
    const keys = await opened();
    const [old] = published(keys);
    const { kid } = await keys.rotate();
    clock.advance(HOUR);
    await keys.retire(String(old));
    expect(published(keys)).toEqual([kid]);
  });

  it("by two processes at once succeeds for one, and leaves one signing key", async () => {
    const [one, two] = [await opened(), await opened()];
    const kid = String(published(one)[0]);
    const results = await Promise.allSettled([one.retire(kid), two.retire(kid)]);
    expect(results.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected"]);
    await expect(states(one)).resolves.toEqual(["signing"]);
  });

  it.each([
    ["empty", ""],
    ["unknown", "no-such-key"],
    ["a name of every object", "__proto__"],
    ["no visible ASCII", "a\0b \ud800"],
    ["long", "x".repeat(10_000)],
    ["the key of the record of all", "all"],
  ])("that does not exist is an error without the name: %s", async (_what, kid) => {
    const keys = await opened();
    const before = published(keys);
    const error = await keys.retire(kid).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: "not_found", message: "the signing key does not exist" });
    expect(published(keys)).toEqual(before);
  });

  it.each([undefined, null, 1, {}, ["a"], Symbol("a")])("accepts only a string: %p", async (kid) => {
    const { openAll } = await newProcess();
    const calls = createKeys({ signing: await openAll(), sealer: createSealer([SECRET]) }, async () => []);
    await expect(calls.retire(kid as string)).rejects.toThrow(TypeError);
  });
});

describe("a process", () => {
  afterEach(() => void jest.useRealTimers());

  it("reads the keys once a minute, and reports failures [D-KEYS-5]", async () => {
    let isBroken = false;
    const looking = await newProcess((store) =>
      withCalls(store, {
        async get(refs, options) {
          if (isBroken) throw new StorageUnavailable("planned");
          return store.get(refs, options);
        },
        watch: () => () => undefined,
      }),
    );
    const [one, two] = [await opened(), await looking.open()];
    const reports: string[] = [];
    jest.useFakeTimers({
      doNotFake: ["setTimeout", "clearTimeout", "setImmediate", "nextTick", "performance", "queueMicrotask"],
    });
    two.start({ worked: () => void reports.push("worked"), failed: () => void reports.push("failed") });
    await one.rotate();
    jest.advanceTimersByTime(59_999);
    await pause(100);
    expect(published(two)).toHaveLength(1);
    isBroken = true;
    jest.advanceTimersByTime(1);
    while (reports.length === 0) await pause(20);
    expect([reports, published(two).length]).toEqual([["failed"], 1]);
    isBroken = false;
    jest.advanceTimersByTime(60_000);
    await expect(untilPublished(two, 2)).resolves.toBe(2);
    await two.stop();
    await one.retire(String(published(one)[1]));
    jest.advanceTimersByTime(600_000);
    await pause(100);
    expect([reports, published(two).length]).toEqual([["failed", "worked"], 2]);
  });

  it("is notified by the storage about changes of another process [D-KEYS-5]", async () => {
    const [one, two] = [await opened(), await opened()];
    two.start({ worked: () => undefined, failed: () => undefined });
    // It compares later states of the file with this one.
    await pause(200);
    await one.rotate();
    await expect(untilPublished(two, 2)).resolves.toBe(2);
    await two.stop();
  });
});
