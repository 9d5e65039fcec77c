import { beforeEach, expect, it, jest } from "@jest/globals";
import { hash } from "node:crypto";
import { startHashWrapping, wrapHashes } from "../../../accounts/passwords/hash-wrapping.ts";
import { ACCOUNT, BY_SALTED_SHA } from "../../../records/directory/directory-kinds.ts";
import { defaults } from "../../../config/schema.ts";
import type { Configuration } from "../../../config/configuration.ts";
import { openDomain, withCommit, type Domain } from "../open-domain.ts";

const PASSWORD = "correct horse";
const SALT = Buffer.from("0123456789abcdef");
const digest = hash("sha256", Buffer.concat([SALT, Buffer.from(PASSWORD)]), "base64");
const password_hash = `$salted-sha256$o=salt-password$${SALT.toString("base64")}$${digest}`;

let domain: Domain;
beforeEach(async () => {
  domain = await openDomain();
});

const wrap = (storage = domain.storage, signal = new AbortController().signal): Promise<void> =>
  wrapHashes({ storage, configuration: { passwords: defaults.passwords } as Configuration }, signal);

async function hashOf(sub: string): Promise<string> {
  return (await domain.accounts.record(sub))?.ways.password?.hash ?? "";
}

const left = async (): Promise<number> => (await domain.storage.records.found(BY_SALTED_SHA)).length;

it("salted SHA hashes are wrapped one after the other, and a process that dies forgets none [D-ADM-203]", async () => {
  const subs: string[] = [];
  for (const email of ["a@b", "c@d", "e@f"])
    subs.push((await domain.accounts.import({ email, password_hash })).sub);
  const other = await domain.accounts.import({ email: "g@h", password: PASSWORD });
  const untouched = await hashOf(other.sub);
  expect(await left()).toBe(3);
  let commits = 0;
  const dying = withCommit(domain.storage, async () => {
    commits += 1;
    if (commits === 2) throw new Error("the process has died");
  });
  await expect(wrap(dying)).rejects.toThrow("has died");
  expect(await left()).toBe(2);
  await wrap(domain.storage, AbortSignal.abort());
  expect(await left()).toBe(2);
  // Two workers at once do the same work, and no harm.
  await Promise.all([wrap(), wrap()]);
  expect(await left()).toBe(0);
  for (const sub of subs) expect(await hashOf(sub)).toMatch(/^\$wrapped-sha256\$/u);
  expect(await hashOf(other.sub)).toBe(untouched);
  const events = await domain.storage.audit.list({ action: "account.rehashed", limit: 10 });
  expect(new Set(events.items.map(({ subject }) => subject))).toEqual(new Set(subs));
  const [sub = ""] = subs;
  const before = await domain.accounts.record(sub);
  expect(await domain.accounts.verifyPassword(sub, "wrong horse")).toBe(false);
  expect(await domain.accounts.verifyPassword(sub, PASSWORD)).toBe(true);
  await domain.accounts.settled();
  // The sign-in has replaced it, and changed nothing else.
  const after = await domain.accounts.record(sub);
  expect(after?.ways.password?.hash).toMatch(/^\$argon2id\$/u);
  expect(after).toEqual({
    ...before,
    ways: { ...before?.ways, password: { ...before?.ways.password, hash: after?.ways.password?.hash } },
  });
});

it.each([
  [
    "a new password",
    (sub: string) => domain.accounts.setPassword(sub, "another password"),
    "another password",
  ],
  [
    "a sign-in",
    async (sub: string) => {
      expect(await domain.accounts.verifyPassword(sub, PASSWORD)).toBe(true);
      await domain.accounts.settled();
    },
    PASSWORD,
  ],
])("%s while a hash is being wrapped stays [D-ADM-203]", async (_name, meanwhile, password) => {
  const { sub } = await domain.accounts.import({ email: "a@b", password_hash });
  let isFirst = true;
  const racing = withCommit(domain.storage, async (change) => {
    if (isFirst && change.put?.some(({ kind }) => kind === ACCOUNT.name)) {
      isFirst = false;
      await meanwhile(sub);
    }
  });
  await wrap(racing);
  expect(isFirst).toBe(false);
  expect(await hashOf(sub)).toMatch(/^\$argon2id\$/u);
  expect(await domain.accounts.verifyPassword(sub, password)).toBe(true);
  expect(await left()).toBe(0);
});

it("a deleted account is not made again by its wrapped hash [D-ADM-203]", async () => {
  const { sub } = await domain.accounts.import({ email: "a@b", password_hash });
  const racing = withCommit(domain.storage, async () => {
    await domain.accounts.delete(sub);
  });
  await wrap(racing);
  expect(await domain.accounts.find(sub)).toBeUndefined();
});

it("the worker looks every minute for hashes to wrap, and tries again after a failure [D-ADM-203]", async () => {
  const { sub } = await domain.accounts.import({ email: "a@b", password_hash });
  const reported: unknown[] = [];
  let isDown = true;
  const storage = withCommit(domain.storage, async () => {
    if (isDown) throw new Error("the storage is down");
  });
  const configuration = { passwords: defaults.passwords } as Configuration;
  const outage = { worked: () => reported.push("worked"), failed: () => reported.push("failed") };
  jest.useFakeTimers({ doNotFake: ["nextTick", "setImmediate", "queueMicrotask", "performance"] });
  const wrapping = startHashWrapping({ storage, configuration, outages: () => outage });
  try {
    for (const outcome of ["failed", "worked"]) {
      await jest.advanceTimersByTimeAsync(60_000);
      while (reported.length === 0) await new Promise((resolve) => void setImmediate(resolve));
      expect(reported.splice(0)).toEqual([outcome]);
      isDown = false;
    }
  } finally {
    jest.useRealTimers();
    await wrapping.stop();
  }
  expect(await hashOf(sub)).toMatch(/^\$wrapped-sha256\$/u);
  expect(await domain.accounts.verifyPassword(sub, PASSWORD)).toBe(true);
});
