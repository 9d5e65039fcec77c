/** The sign-in sessions of an account: what is stored of their use, and ending them while they are in use. */
import { EventEmitter } from "node:events";
import { beforeEach, describe, expect, it } from "@jest/globals";
import type { Provider } from "oidc-provider";
import { ANONYMOUS, type AuditEvent } from "../../../records/audit/audit-event.ts";
import { systemFamily } from "../../../records/audit/origin.ts";
import type { AccountRecord } from "../../../records/directory/directory.ts";
import { artifactRecord } from "../../../records/artifacts/artifact-kinds.ts";
import { createEvents } from "../../../core/events.ts";
import {
  createSignInSessions,
  storeSessionUse,
  type SignInSessions,
} from "../../../provider/sessions/sessions.ts";
import { Changes } from "../../../records/records.ts";
import { openStorage, type Storage } from "../../../records/storage.ts";
import { TestClock } from "../../../testing/test-clock.ts";
import { NO_WEBHOOKS, watchedAudit, watchedLogout } from "../../watched-parts.ts";
import { newStorage } from "../../servers/storage.ts";
import { readConfiguration } from "../../../config/read.ts";
import { closing } from "../../closing.ts";

const SUB = "5b8a2c0e-1111-4222-8333-444455556666";
const account = { sub: SUB, sessions_generation: 3 } as AccountRecord;
const SESSION_MAX = 7_776_000;
const BY = { caller: { actor: ANONYMOUS }, reason: "ended" } as const;

let storage: Storage;
let clock: TestClock;
let sessions: SignInSessions;
let notified: string[];
let audited: AuditEvent[];

beforeEach(async () => {
  clock = new TestClock();
  const configuration = readConfiguration({
    ...(await newStorage()),
    deployments: { openid: { url: "http://127.0.0.1:1" } },
    proxy: false,
    clock,
  });
  storage = closing(await openStorage(configuration));
  const events = createEvents(() => undefined);
  const [audit, backchannel] = [watchedAudit(), watchedLogout()];
  [notified, audited] = [backchannel.ended, audit.noted];
  sessions = createSignInSessions({
    configuration,
    storage,
    events,
    audit,
    backchannel,
    webhooks: NO_WEBHOOKS,
  });
});

const now = (): number => Math.floor(clock.now() / 1000);

/** Stores a session, or changes it. */
async function store(uid: string, payload: object = {}, accountId = SUB): Promise<void> {
  const changes = new Changes();
  const whole = { uid, iat: now(), loginTs: now(), generation: 3, accountId, ...payload };
  const expiresAt = clock.now() + 3_600_000;
  changes.add(
    artifactRecord({ model: "Session", key: `key-${uid}`, uid, accountId, payload: whole, expiresAt }),
  );
  await storage.artifacts.commit(changes, clock.now() + 5_000);
}

const uids = async (): Promise<string[]> => (await sessions.list(account)).sessions.map(({ uid }) => uid);

describe("the list", () => {
  it("has the valid sessions, the most recently used first [D-SELF-4]", async () => {
    await store("old use", {
      use: { at: now() - 500, browser: "Firefox", system: "Linux", address: "192.0.2.0/24" },
    });
    await store("no use");
    await store("of an earlier generation", { generation: 2 });
    await store("too old", { loginTs: now() - SESSION_MAX });
    await store("without the time of a sign-in", { loginTs: undefined });
    await store("of another account", {}, "6b8a2c0e-1111-4222-8333-444455556666");
    expect(await sessions.list(account)).toEqual({
      sessions: [
        { uid: "no use", firstUse: now(), lastUse: now() },
        {
          uid: "old use",
          firstUse: now(),
          lastUse: now() - 500,
          browser: "Firefox",
          system: "Linux",
          address: "192.0.2.0/24",
        },
      ],
    });
  });

  it("has pages, and one session is found without them [D-OWN-4]", async () => {
    for (let count = 0; count < 120; count += 1) await store(`s${count}`, { use: { at: now() - count } });
    const first = await sessions.list(account);
    const second = await sessions.list(account, first.next);
    const third = await sessions.list(account, second.next);
    expect([first, second, third].map((page) => page.sessions.length)).toEqual([50, 50, 20]);
    expect(third.next).toBeUndefined();
    const all = [first, second, third].flatMap((page) => page.sessions.map(({ uid }) => uid));
    expect(all).toEqual(Array.from({ length: 120 }, (_, count) => `s${count}`));
    expect(await sessions.find(account, "s119")).toMatchObject({ uid: "s119", lastUse: now() - 119 });
    expect(await sessions.find({ ...account, sub: "another" }, "s119")).toBeUndefined();
    expect(await sessions.find(account, "missing")).toBeUndefined();
  });
});

describe("ending a session", () => {
  it("ends one of this account, once, with one logout token and one audit record", async () => {
    await store("one");
    await store("two");
    expect(await sessions.end("6b8a2c0e-1111-4222-8333-444455556666", "one", BY)).toBe(false);
    const ended = await Promise.all(Array.from({ length: 5 }, () => sessions.end(SUB, "one", BY)));
    expect(ended.filter(Boolean)).toEqual([true]);
    expect([await uids(), notified]).toEqual([["two"], ["one"]]);
    expect(audited).toEqual([{ actor: ANONYMOUS, action: "session.ended", subject: SUB, reason: "ended" }]);
  });

  it("ends it even if a request writes it at the same time", async () => {
    await store("one");
    const read = (await storage.artifacts.findByUid("Session", "one"))!;
    await store("one", { use: { at: now() } });
    expect(await sessions.end(SUB, "one", BY)).toBe(true);
    const changes = new Changes();
    changes.write(artifactRecord({ ...read, payload: { ...read.payload, state: {} } }), read);
    await expect(storage.artifacts.commit(changes, clock.now() + 5_000)).rejects.toThrow();
    expect(await uids()).toEqual([]);
  });
});

it("a session that is kept gets the new generation; one that is gone stays gone", async () => {
  await store("one");
  await sessions.keep("one", 4);
  await sessions.keep("gone", 4);
  expect(await uids()).toEqual([]);
  expect((await sessions.list({ ...account, sessions_generation: 4 })).sessions).toHaveLength(1);
});

/** A request of oidc-provider. */
const at = (address: string, agent: string, session: object) => ({
  exchange: { address },
  req: { headers: { "user-agent": agent } },
  oidc: { session },
});

describe("the use of a session", () => {
  const provider = new EventEmitter();
  it("is stored every five minutes at most, shortened, and not before somebody has signed in [D-SELF-4]", () => {
    storeSessionUse(provider as unknown as Provider, clock);
    const session: { accountId?: string; use?: object } = {};
    const linux = "Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/140.0";
    provider.emit("authorization.success", at("192.0.2.7", linux, session));
    expect(session.use).toBeUndefined();
    session.accountId = SUB;
    provider.emit("interaction.ended", at("192.0.2.7", linux, session));
    const first = { at: now(), address: "192.0.2.0/24", browser: "Firefox", system: "Linux" };
    expect(session.use).toEqual(first);
    const { use } = session;
    clock.advance(299);
    provider.emit("authorization.success", at("2001:db8:1:2::3", "curl/8", session));
    expect(session.use).toBe(use);
    clock.advance(1);
    provider.emit("authorization.success", at("2001:db8:1:2::3", "<script>", session));
    expect(session.use).toEqual({ at: now(), address: "2001:db8:1::/48", browser: "other" });
  });
});

it.each([
  ["Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) Safari/604.1", "iPhone"],
  ["Mozilla/5.0 (iPad; CPU OS 17_0 like Mac OS X)", "iPad"],
  ["Mozilla/5.0 (Linux; Android 14; Pixel 8) Chrome/130.0", "Android"],
  ["Mozilla/5.0 (Windows NT 10.0; Win64; x64) Edg/130.0", "Windows"],
  ["Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) Chrome/130.0", "ChromeOS"],
  ["Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) Safari/605.1", "macOS"],
  ["Mozilla/5.0 (X11; Linux x86_64; rv:140.0)", "Linux"],
  ["curl/8.5.0", undefined],
  ["", undefined],
  [undefined, undefined],
  [`${"x".repeat(600)} Windows`, undefined],
])("the system of %j is %s", (agent, system) => {
  expect(systemFamily(agent)).toBe(system);
});
