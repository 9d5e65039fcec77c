/** What is removed in the background: what has ended, what is too much, and what was written too late. */
import { beforeEach, describe, expect, it } from "@jest/globals";
import { artifactRecord } from "../../records/artifacts/artifact-kinds.ts";
import type { Artifact, ArtifactQuery } from "../../records/artifacts/artifact.ts";
import { KINDS } from "../../records/all-kinds.ts";
import { BY_REMOVAL_DUE } from "../../records/directory/directory-kinds.ts";
import { CONFIRMATION } from "../../records/people/confirmation-kinds.ts";
import { Changes } from "../../records/records.ts";
import { type Domain, openDomain, remainingArtifacts, seed } from "./open-domain.ts";
import { endsWithAccount, KEPT } from "./kept.ts";

let domain: Domain;
let sub: string;
beforeEach(async () => {
  domain = await openDomain();
  sub = await seed(domain);
});

async function put(...artifacts: readonly Partial<Artifact>[]): Promise<void> {
  const changes = new Changes();
  for (const { model = "", key = "", ...parts } of artifacts) {
    const expiresAt = domain.clock.now() + 3_600_000;
    changes.add(artifactRecord({ payload: {}, expiresAt, accountId: sub, ...parts, model, key }));
  }
  await domain.storage.artifacts.commit(changes, domain.clock.now() + 60_000);
}

async function keys(query: ArtifactQuery): Promise<string[]> {
  const { artifacts } = await domain.storage.artifacts.page(query, { limit: 1_000 });
  return artifacts.map(({ key }) => key);
}

const settled = (): Promise<boolean> => domain.cleanup.settled(10_000);
const removals = async (): Promise<number> =>
  (await domain.storage.records.found(BY_REMOVAL_DUE, 1_000)).length;

const session = (index: number, payload: object = {}): Partial<Artifact> => ({
  model: "Session",
  key: `session-${index}`,
  uid: `uid ${index}`,
  payload: { iat: 1, use: { at: index }, ...payload },
});
const grant = (index: number, clientId = "one"): Partial<Artifact> => ({
  model: "Grant",
  key: `grant-${index}`,
  clientId,
  grantKey: `grant-${index}`,
  usedAt: index,
});

describe("one account", () => {
  it("has 100 sessions: the least recently used end [D-OWN-3]", async () => {
    await put(...Array.from({ length: 103 }, (_, index) => session(100 + index)));
    domain.cleanup.sessionAdded(sub);
    await settled();
    const left = await keys({ model: "Session", account: sub });
    expect([left.length, left[0], left.at(-1)]).toEqual([100, "session-202", "session-103"]);
    // The session of the seed was never used.
    expect(domain.audited).toHaveLength(4);
    expect(domain.audited[0]).toMatchObject({ action: "session.ended", subject: sub, reason: "limit" });
    expect(domain.signedOut).toEqual([]);
  });

  it("has 100 grants of each client: the least recently used end [D-OWN-3]", async () => {
    await put(...Array.from({ length: 102 }, (_, index) => grant(index)));
    await put(...Array.from({ length: 90 }, (_, index) => grant(1_000 + index, "two")));
    // Its code was not exchanged yet.
    const { usedAt: _unused, ...waiting } = grant(5_000);
    await put(waiting);
    for (let count = 0; count < 5; count += 1)
      domain.cleanup.grantAdded(sub, { client_id: "one", services: ["1"] });
    domain.cleanup.grantAdded(sub, { client_id: "two", services: ["1"] });
    await settled();
    const left = await keys({ model: "Grant", holder: { account: sub, client: "one" } });
    expect([left.length, left[0], left.at(-1)]).toEqual([100, "grant-101", "grant-2"]);
    expect(await keys({ model: "Grant", holder: { account: sub, client: "two" } })).toHaveLength(90);
    expect(await keys({ model: "Grant", account: sub })).toContain("grant-5000");
    expect(domain.audited).toHaveLength(2);
    expect(domain.audited[0]).toMatchObject({
      action: "family.revoked",
      subject: sub,
      client: { client_id: "one" },
    });
  });

  it("has as many as the configuration says, or any number [D-OWN-3]", async () => {
    await put(...Array.from({ length: 300 }, (_, index) => session(index)));
    const open = domain.reopen({ limits: { sessions: false, grants: 1 } });
    open.cleanup.sessionAdded(sub);
    await put(grant(1), grant(2));
    open.cleanup.grantAdded(sub, { client_id: "one", services: ["1"] });
    await open.cleanup.settled(10_000);
    expect(await keys({ model: "Session", account: sub })).toHaveLength(301);
    expect(await keys({ model: "Grant", holder: { account: sub, client: "one" } })).toEqual(["grant-2"]);
  });
});

describe("what a change has ended", () => {
  it("is removed however much there is, and what began after it stays [D-OWN-4]", async () => {
    const { sessions_generation: generation = 0, tokens_generation: tokens = 0 } =
      (await domain.accounts.record(sub)) ?? {};
    await put(...Array.from({ length: 250 }, (_, index) => session(index, { generation })));
    await put(...Array.from({ length: 250 }, (_, index) => grant(index)));
    await put(session(1_000, { generation: generation + 1 }), {
      ...grant(1_000),
      payload: { generations: { tokens: tokens + 1, service: 0, client: 0 } },
    });
    await domain.accounts.setPassword(sub, "another password");
    await settled();
    expect(await keys({ model: "Session", account: sub })).toEqual(["session-1000"]);
    expect(await keys({ model: "Grant", account: sub })).toEqual(["grant-1000"]);
    expect(domain.signedOut).toHaveLength(251);
  });

  it("at one service or client is removed, and a later authorization stays [D-OWN-4]", async () => {
    await put(
      { ...grant(1), payload: { generations: { tokens: 1, service: 0, client: 0 } } },
      { ...grant(2), payload: { generations: { tokens: 1, service: 1, client: 0 } } },
      { ...grant(3, "two"), payload: { generations: { tokens: 1, service: 0, client: 0 } } },
      { ...grant(4, "two"), payload: { generations: { tokens: 1, service: 0, client: 1 } } },
    );
    const left = async (): Promise<string[]> => {
      await settled();
      return (await keys({ model: "Grant", account: sub }))
        .filter((key) => key.startsWith("grant"))
        .toSorted();
    };
    await domain.accounts.unassign(sub, "1");
    expect(await left()).toEqual(["grant-2", "grant-3", "grant-4"]);
    await domain.accounts.revokeTokens(sub, "two");
    expect(await left()).toEqual(["grant-2", "grant-4"]);
  });
});

/** What a request writes that was under way. */
const late = (): Promise<void> =>
  put(
    session(1, { use: { at: 1, address: "192.0.2.0/24" } }),
    grant(1),
    { model: "AccessToken", key: "token", clientId: "one", grantKey: "grant-1" },
    { model: "Interaction", key: "interaction", state: { proven: { sub } } },
  );
const named = async (): Promise<string[]> => {
  const models = ["Session", "Grant", "Interaction"] as const;
  return (await Promise.all(models.map((model) => keys({ model, account: sub })))).flat();
};

describe("what is written while its account is deleted", () => {
  it("ends with it, too: sessions, grants, sign-ins and confirmations [D-OWN-6]", async () => {
    await domain.accounts.delete(sub);
    await settled();
    expect([await named(), await removals()]).toEqual([[], 1]);
    await late();
    const changes = new Changes();
    const confirmation = { purpose: "password-reset", subject: sub } as const;
    changes.add(
      CONFIRMATION.record({
        ...confirmation,
        interaction: null,
        code: "",
        link: "",
        triesLeft: 5,
        confirmed: false,
        sealed: "",
        createdAt: domain.clock.now(),
        expiresAt: domain.clock.now() + 3_600_000,
      }),
    );
    await domain.storage.records.commit(changes);
    await domain.cleanup.removeDue();
    expect(await named()).toEqual(["session-1", "grant-1", "interaction"]);
    domain.clock.seconds += 10;
    // Any process does it, also when the one that deleted the account has died.
    await domain.reopen().cleanup.removeDue();
    expect([await named(), await removals()]).toEqual([[], 0]);
    expect(await domain.storage.artifacts.find("AccessToken", "token")).toBeUndefined();
    const { purpose, subject } = confirmation;
    expect(await domain.storage.records.find(CONFIRMATION.ref([purpose, subject]))).toBeUndefined();
  });

  it("stays until the storage works again [D-OWN-6]", async () => {
    const broken = domain.reopen({
      storage: (storage) => ({
        ...storage,
        artifacts: { ...storage.artifacts, page: () => Promise.reject(new Error("planted")) },
      }),
    });
    await broken.accounts.delete(sub);
    await broken.cleanup.settled(10_000);
    domain.clock.seconds += 10;
    await expect(broken.cleanup.removeDue()).rejects.toThrow("planted");
    expect([await named(), await removals()]).not.toEqual([[], 0]);
    await domain.cleanup.removeDue();
    expect([await named(), await removals()]).toEqual([[], 0]);
  });

  it("ends with its client in the same way, and a new client with that id keeps its own [D-OWN-6]", async () => {
    await domain.clients.remove("one");
    await settled();
    expect(await remainingArtifacts(domain, sub, ["one", "two"])).toEqual(["session", "two"]);
    await put(grant(1), grant(2, "two"));
    await domain.clients.register({
      client_id: "one",
      name: "one",
      service: "1",
      redirect_uris: ["https://c.example/cb"],
    });
    const { tokens_epoch: epoch = "" } = (await domain.storage.directory.findClient("one")) ?? {};
    await put({ ...grant(3), payload: { generations: { epoch } } });
    domain.clock.seconds += 10;
    await domain.cleanup.removeDue();
    const left = (await keys({ model: "Grant", account: sub })).filter((key) => key.startsWith("grant"));
    expect(left.toSorted()).toEqual(["grant-2", "grant-3"]);
  });
});

it("every kind that names an account ends with it, or is kept for a reason [D-OWN-6]", () => {
  const naming = KINDS.all.filter(({ declaration }) => declaration.personal?.includes("`sub`"));
  const unexplained = naming.filter((kind) => !endsWithAccount(kind) && !Object.hasOwn(KEPT, kind.name));
  expect(unexplained.map(({ name }) => name)).toEqual([]);
});
