/** What becomes of the records of each kind when their storage has gone back to an earlier state, and so what ends each of them. */
import { beforeAll, describe, expect, it } from "@jest/globals";
import type { AccountWays } from "../../records/directory/directory.ts";
import { createSystemClock } from "../../core/clock.ts";
import { KINDS } from "../../records/all-kinds.ts";
import { ARTIFACTS } from "../../records/artifacts/artifact-kinds.ts";
import { openStorage, type Storage } from "../../records/storage.ts";
import { BACKENDS, type Ground } from "../adapters/backends.ts";
import { fillWith } from "../cli/samples.ts";
import { type Everything, everythingIn, type Kept, lostEntries, withStores } from "../cli/stage.ts";
import { closing } from "../closing.ts";
import { rounds } from "../rounds.ts";

/** How a value changes, by its members. */
type Change = (before: never, after: never, now: number) => void;

type Values = Readonly<Record<string, never>>;

const HIGHER = 1_000_000;
const isHigher = (before: Values, after: Values, names: readonly string[]): void => {
  for (const name of names) expect(after[name]! - (before[name] ?? 0)).toBeGreaterThanOrEqual(HIGHER);
};

const newEpoch: Change = (before: Values, after: Values) => {
  expect(after).toEqual({ ...before, tokens_epoch: expect.stringMatching(/^[\w-]{12}$/u) });
  expect(after["tokens_epoch"]).not.toBe(before["tokens_epoch"]);
};

/** Of every kind. A new kind is decided about here. */
const AFTER_RESTORE: Readonly<Record<string, "kept" | "removed" | Change>> = {
  group: "kept",
  service: "kept",
  portal: "kept",
  client: newEpoch,
  api: newEpoch,
  "client-logo": "kept",
  account(before: Values, after: Values) {
    if (!("sub" in before)) return expect(after).toEqual(before);
    const passwords = [before, after].map(
      ({ ways }: { readonly ways?: AccountWays }) => ways?.password?.generation ?? 0,
    );
    expect(passwords[1]! - passwords[0]!).toBeGreaterThanOrEqual(HIGHER);
    return isHigher(before, after, ["sessions_generation", "tokens_generation"]);
  },
  identifier: "kept",
  "sign-in-name": "kept",
  "user-id": "kept",
  "search-words": "kept",
  "search-index": "kept",
  "removed-client": "kept",
  removal: "kept",
  // Grants end as well, and the next request fetches it again.
  document: "removed",
  "document-block": "kept",
  "service-key": "kept",
  "signing-key"({ retires_at }: Values, after: Values, now: number) {
    if (retires_at !== null) return expect(after["retires_at"]).toBe(retires_at);
    return expect(after["retires_at"]).toBeGreaterThanOrEqual(Math.floor(now / 1000));
  },
  "signing-key-set": (before: Values, after: Values) =>
    expect(after).toEqual({ kids: [...(before["kids"] ?? []), "fresh RS256"] }),
  audit: "kept",
  delivery: "kept",
  payload: "kept",
  lane: "kept",
  receiver: (_before: Values, after: Values) =>
    expect(after).toMatchObject({
      paused: true,
      reason: "held since the storage was restored or promoted, until deliveries resume",
    }),
  mail: (before: Values, after: Values) => expect(after).toEqual({ ...before, due: Number.MAX_SAFE_INTEGER }),
  "refused-mail": "kept",
  "failed-sign-ins": "kept",
  "notice-count": "kept",
  "account-events": "kept",
  "signed-in-before": "kept",
  // Those that undo a change are kept; the samples have none.
  confirmation: "removed",
  invitation: (before: Values, after: Values) => expect(after).toEqual({ ...before, state: "void" }),
  "authenticator-app": (_before: Values, after: Values, now: number) =>
    expect(after["last_step"]).toBeGreaterThanOrEqual(Math.floor(now / 30_000) + 1),
  passkey: "kept",
  identity: "kept",
  "recovery-codes": ({ sub }: Values, after: Values) => expect(after).toEqual({ sub, codes: [] }),
  "remembered-browser": "removed",
  "used-challenge": "kept",
  trip: "removed",
  // What it made may be gone.
  idempotency: "removed",
  "administration-token": "removed",
  "operator-confirmation": "removed",
  "passkey-domain": "kept",
  // Codes and tokens end with the generations of the account and the epochs of client and API as well, wherever they are.
  grant: "removed",
  "authorization-code": "removed",
  "access-token": "removed",
  "refresh-token": "removed",
  // With the epochs of client and API.
  "client-credentials": "removed",
  // With the epoch of the client.
  "device-code": "removed",
  // With a generation of the account.
  session: "removed",
  // These authorize nothing by themselves.
  interaction: "removed",
  "pushed-authorization-request": "removed",
  // What was used stays used.
  "replay-detection": "kept",
  "rate-limit": "kept",
  "storage-format": "kept",
  "storage-identity": (before: Values, after: Values) => expect(after["id"]).not.toBe(before["id"]),
  "unfinished-copy": "kept",
  "write-probe": "kept",
  process: "removed",
  seeded: "kept",
  "sealing-secrets": "kept",
};

describe("a storage that has gone back", () => {
  it("decides about every kind of record, and removes every kind of artifact but what was used [D-BACKUP-6]", () => {
    expect(Object.keys(AFTER_RESTORE).toSorted()).toEqual(KINDS.all.map(({ name }) => name).toSorted());
    const kept = ARTIFACTS.filter(({ name }) => AFTER_RESTORE[name] !== "removed").map(({ name }) => name);
    expect(kept).toEqual(["replay-detection"]);
  });

  it("and, when keys.secrets are lost, about every kind that is sealed [D-SECRETS-8]", () => {
    const sealed = KINDS.all.filter(({ declaration }) => declaration.sealed !== undefined);
    const undecided = sealed.filter(({ declaration }) => declaration.afterReset === undefined);
    // Artifacts, which are all removed.
    expect(undecided.map(({ name }) => [name, AFTER_RESTORE[name]])).toEqual(
      undecided.map(({ name }) => [name, "removed"]),
    );
  });
});

const ACCOUNTS = rounds(30, 90);

describe.each(BACKENDS.filter(({ name }) => name !== "Redis"))("a renewed storage in $name", (backend) => {
  const clock = createSystemClock();
  let ground: Ground;
  let before: Everything;
  let after: Everything;
  let userId: number;
  let now: number;

  async function renew(storage: Storage): Promise<void> {
    await storage.renewals.renew({
      event: { actor: { kind: "system" }, action: "storage.restored" },
      makeKeys: async (algorithms, at) =>
        algorithms.map((alg) => ({
          kid: `fresh ${alg}`,
          alg,
          sealed: "",
          published_at: at,
          signs_from: at,
          retires_at: null,
        })),
      signal: new AbortController().signal,
      onProgress: () => undefined,
    });
    userId = await storage.directory.nextUserId();
  }

  beforeAll(async () => {
    ground = closing(await backend.start());
    const address = await ground.newAddress();
    await withStores({ storage: address }, (stores) => fillWith(stores, ACCOUNTS, Date.now()));
    before = await everythingIn({ storage: address });
    const storage = await openStorage({ storage: address, artifacts: address, clock, mustExist: true });
    now = clock.now();
    await renew(storage);
    await storage.close();
    after = await everythingIn({ storage: address });
    expect(await lostEntries({ storage: address })).toEqual([]);
  }, 120_000);

  it.each(Object.entries(AFTER_RESTORE))("holds of the kind %s what was decided", (kind, rule) => {
    const [was, is] = [before[kind] ?? [], after[kind] ?? []];
    if (rule === "removed") return expect(is).toEqual([]);
    const found = new Map(is.map((record) => [record.key, record]));
    for (const record of was) {
      const renewed = found.get(record.key);
      expect(renewed).toBeDefined();
      if (rule === "kept") expect(withoutParent(renewed!)).toEqual(withoutParent(record));
      else rule(record.value as never, renewed!.value as never, now);
    }
    return undefined;
  });

  it("gives out no user_id of the last million again", () => {
    expect(userId).toBeGreaterThan(2 * ACCOUNTS + 1 + HIGHER);
  });
});

/** The parent may have changed. */
const withoutParent = ({ parent: _parent, ...record }: Kept): Omit<Kept, "parent"> => record;
