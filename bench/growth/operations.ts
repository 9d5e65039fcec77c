/** The operations that are measured: calls of the service and its storage, without HTTP. */
import { createSealer } from "../../core/sealing.ts";
import { createUnitsOfWork } from "../../provider/unit-of-work.ts";
import type { Artifact } from "../../records/artifacts/artifact.ts";
import { CLIENT } from "../servers/people.ts";
import { artifactMaker, finishWaiting, keyOf, type MakeArtifact, put, subOf } from "./fill.ts";
import { type GrowingStorage, SERVICES } from "./storage.ts";

/** Parallel calls, which share commits. */
const PARALLEL = 16;
/** Records that the service deletes in one sweep. */
const SWEPT = 500;
/** Deliveries that the console requests: one more than it shows. */
const PAGE = 51;

/** Milliseconds of each operation, by its name. */
export type Costs = Readonly<Record<string, number>>;

/** Milliseconds of one call, with a few in parallel. */
async function costOf(count: number, call: (index: number) => Promise<unknown>): Promise<number> {
  const left = Array.from({ length: count }, (_each, index) => index).values();
  const one = async (): Promise<void> => {
    for (const index of left) await call(index);
  };
  const began = performance.now();
  await Promise.all(Array.from({ length: PARALLEL }, one));
  return (performance.now() - began) / count;
}

/** Milliseconds of one item of a batch. */
async function costOfAll(call: () => Promise<number>): Promise<number> {
  const began = performance.now();
  const count = await call();
  return (performance.now() - began) / count;
}

/**
 * The storage work of a code exchange: reads the code and its relations, and writes the code and tokens in one
 * commit.
 */
function exchanging({ storage }: GrowingStorage, round: number): (index: number) => Promise<void> {
  const { directory } = storage;
  const clock = { now: Date.now };
  const units = createUnitsOfWork(storage, createSealer([Buffer.alloc(32).toString("base64")]), clock);
  return (index) =>
    units.run({ receivedAt: performance.now(), deadline: clock.now() + 4_500 }, async (unit) => {
      const code = await unit.find("AuthorizationCode", keyOf("AuthorizationCode", index, round));
      if (code === undefined) throw new Error("the code was not found");
      await Promise.all([directory.findClient(CLIENT.client_id), directory.findAccount(subOf(index))]);
      await unit.consume("AuthorizationCode", code.key);
      for (const model of ["AccessToken", "RefreshToken"]) {
        const token: Artifact = {
          ...code,
          model,
          key: keyOf(model, index, round),
          expiresAt: clock.now() + 3_600_000,
        };
        unit.save(token);
      }
      await unit.commit();
    });
}

async function userinfo({ storage }: GrowingStorage, index: number): Promise<void> {
  const { artifacts, directory } = storage;
  const found = await artifacts.find("AccessToken", keyOf("AccessToken", index));
  const [, account] = await Promise.all([
    directory.findClient(CLIENT.client_id),
    directory.findAccount(found?.artifact.accountId ?? ""),
  ]);
  if (found?.grant === undefined || account === undefined) throw new Error("the token opens nothing");
}

/** Milliseconds of a sweep per record. It deletes expired access tokens, which are children of grants. */
async function sweeping(
  place: GrowingStorage,
  token: MakeArtifact,
  indexes: readonly number[],
  round: number,
): Promise<number> {
  const expiresAt = Date.now() - 1;
  const expired = Array.from({ length: SWEPT }, (_each, index) =>
    token(indexes[index % indexes.length] ?? 0, { round: -(round * SWEPT + index) - 1, expiresAt }),
  );
  await put(place, expired);
  return costOfAll(async () => {
    let swept = 0;
    for (let more = SWEPT; more === SWEPT; swept += more) more = await place.store.sweep(SWEPT, Date.now());
    return swept;
  });
}

/** Measures a storage of one size. `round` starts at 1 and is different in each call. */
export type Measured = (round: number) => Promise<Costs>;

/**
 * @param size number of accounts.
 * @param count calls of each operation in one round.
 */
export async function preparedOperations(
  place: GrowingStorage,
  size: number,
  count: number,
): Promise<Measured> {
  const { service, storage } = place;
  const { accounts, notifications } = service;
  const code = await artifactMaker(place, "AuthorizationCode");
  const token = await artifactMaker(place, "AccessToken");
  const page = (filter: object): Promise<unknown> =>
    Promise.all([notifications.list({ ...filter, limit: PAGE }), notifications.receivers()]);
  return async (round) => {
    // Spread over all accounts, each once, and different ones in every round.
    const step = size / count;
    const indexes = Array.from(
      { length: count },
      (_each, at) => Math.floor(at * step) + Math.floor(Math.random() * Math.floor(step)),
    );
    const at = (each: number): number => indexes[each] ?? 0;
    await put(
      place,
      indexes.map((index) => code(index, { round })),
    );
    const exchange = exchanging(place, round);
    const costs: Record<string, number> = {
      exchange: await costOf(count, (each) => exchange(at(each))),
      userinfo: await costOf(count, (each) => userinfo(place, at(each))),
      "account change, two receivers": await costOf(count, (each) =>
        accounts.update(subOf(at(each)), { name: `Ada ${round}` }),
      ),
      "due receivers": await costOf(count, async () => {
        if ((await storage.deliveries.dueReceivers()).length < SERVICES.length)
          throw new Error("nothing is due");
      }),
      "claim and finish": await costOfAll(() => finishWaiting(place)),
    };
    const console = { receiver: `service:${SERVICES[0]}`, state: "delivered" };
    costs["a page of the console"] = await costOf(PARALLEL, () => page(console));
    costs["a page, no match"] = await costOf(1, () => page({ ...console, type: "UNASSINGED_FROM_SERVICE" }));
    costs["sweep, one record"] = await sweeping(place, token, indexes, round);
    return costs;
  };
}
