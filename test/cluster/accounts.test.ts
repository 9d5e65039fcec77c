/** Changes of accounts that meet, asked of different processes on one MongoDB: one result, and nothing is lost. */
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { NOTIFICATION_TYPES } from "../../notifier/plan.ts";
import type { Change, Outcome } from "../faults/campaign/change.ts";
import { Cluster, describeCluster, PATIENCE } from "./cluster.ts";

const ROUNDS = 10;
const RECEIVER = {
  // Nothing is delivered here: nobody listens.
  url: "https://receiver.example/",
  client_id: "c",
  client_secret: "s",
  types: NOTIFICATION_TYPES,
};

const kinds = (outcomes: readonly Outcome[]): string[] => outcomes.map(({ kind }) => kind).toSorted();

describeCluster("two changes that meet in different processes", () => {
  let cluster: Cluster;

  beforeAll(async () => {
    cluster = await Cluster.open(["ada"]);
    await cluster.service.directory.services.put("told", { name: "Told", receiver: RECEIVER });
  }, PATIENCE);
  afterAll(() => cluster.close());

  /** Asks the first processes at once, one change each. */
  const meet = (changes: readonly Change[]): Promise<Outcome[]> =>
    Promise.all(changes.map((change, index) => cluster.apps[index]!.order(change)));

  it("on one account are both made", async () => {
    const ada = await cluster.service.accounts.findByLogin("ada");
    const sub = ada?.sub ?? "";
    for (let round = 0; round < ROUNDS; round += 1) {
      const [name, surname] = [`name ${round}`, `surname ${round}`];
      const outcomes = await meet([
        { kind: "update", sub, changes: { name } },
        { kind: "update", sub, changes: { surname } },
      ]);
      expect(kinds(outcomes)).toEqual(["done", "done"]);
      await expect(cluster.service.accounts.find(sub)).resolves.toMatchObject({ name, surname });
    }
  });

  it("on one sign-in name: one has it, whoever was first, and the other is refused", async () => {
    for (let round = 0; round < ROUNDS; round += 1) {
      const email = `wanted${round}@example.com`;
      const outcomes = await meet([
        { kind: "create", email, portal: null },
        { kind: "create", email, portal: null },
      ]);
      expect(kinds(outcomes)).toEqual(["done", "refused"]);
      const [made] = outcomes.flatMap((outcome) => (outcome.kind === "done" ? [outcome.account] : []));
      const holder = await cluster.service.accounts.findByLogin(email);
      expect(holder?.sub).toBe(made?.sub);
    }
  });

  it("on one lane: each has its notification, in one order without a gap", async () => {
    const { accounts, notifications } = cluster.service;
    const { sub } = await accounts.import({ email: "lane@example.com", services: { told: 7 } });
    for (let round = 0; round < ROUNDS; round += 1) {
      const outcomes = await meet(
        cluster.apps.map((_, index) => ({ kind: "update", sub, changes: { name: `${round} ${index}` } })),
      );
      expect(kinds(outcomes)).toEqual(cluster.apps.map(() => "done"));
    }
    const deliveries = await notifications.list({ sub, limit: 100 });
    const sequences = deliveries.map(({ sequence }) => sequence).toSorted((one, other) => one - other);
    expect(sequences).toEqual(Array.from({ length: ROUNDS * cluster.apps.length }, (_, index) => index + 1));
  });
});
