/** The operations that are measured: sign-ins and refreshes over HTTP, and calls of the service and its storage. */
import { createSealer } from "../../core/sealing.ts";
import { createUnitsOfWork } from "../../provider/unit-of-work.ts";
import type { Artifact } from "../../records/artifacts/artifact.ts";
import { CLIENT, PERSON } from "../servers/people.ts";
import { artifactMaker, finishWaiting, keyOf, type MakeArtifact, put, subOf } from "./fill.ts";
import type { Work } from "./sizes.ts";
import { type GrowingStorage, refreshed, SERVICES, signedIn, type SignedInPerson } from "./storage.ts";

/** Parallel calls, which share commits. */
const PARALLEL = 16;
/** Parallel sign-ins: more hashes than that wait until they are refused. */
const BROWSERS = 4;
/** Other calls for one sign-in, which takes the time of a password hash. */
const PER_SIGN_IN = 15;
/** Records that the service deletes in one sweep. */
const SWEPT = 500;
/** Deliveries that the console requests: one more than it shows. */
const PAGE = 51;

/** The cost of one call. */
export interface Cost extends Work {
  readonly milliseconds: number;
  /** Milliseconds of CPU of this process, which is where SQLite works. */
  readonly cpu: number;
}

/** Each operation, by its name. */
export type Costs = Readonly<Record<string, Cost>>;

/** @param call returns of how many calls this is the cost. */
async function costOf(place: GrowingStorage, call: () => Promise<number>): Promise<Cost> {
  const [before, cpu, began] = [await place.work(), process.cpuUsage(), performance.now()];
  const count = await call();
  const [milliseconds, { user, system }] = [performance.now() - began, process.cpuUsage(cpu)];
  const after = await place.work();
  return {
    milliseconds: milliseconds / count,
    cpu: (user + system) / 1_000 / count,
    used: (after.used - before.used) / count,
    reads: (after.reads - before.reads) / count,
    written: (after.written - before.written) / count,
    serverCpu: (after.serverCpu - before.serverCpu) / count,
  };
}

/** Runs a few in parallel. */
async function together(
  count: number,
  call: (index: number) => Promise<unknown>,
  parallel: number = PARALLEL,
): Promise<number> {
  const left = Array.from({ length: count }, (_each, index) => index).values();
  const one = async (): Promise<void> => {
    for (const index of left) await call(index);
  };
  await Promise.all(Array.from({ length: parallel }, one));
  return count;
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

/** The cost of a sweep per record. It deletes expired access tokens, which are children of grants. */
async function sweeping(
  place: GrowingStorage,
  token: MakeArtifact,
  accountAt: (at: number) => number,
  round: number,
): Promise<Cost> {
  const expiresAt = Date.now() - 1;
  const expired = Array.from({ length: SWEPT }, (_each, index) =>
    token(accountAt(index), { round: -(round * SWEPT + index), expiresAt }),
  );
  await put(place, expired);
  return costOf(place, async () => {
    let swept = 0;
    for (let more = SWEPT; more === SWEPT; swept += more) more = await place.store.sweep(SWEPT, Date.now());
    return swept;
  });
}

/** Measures a storage of one size. @param count calls of each operation. */
export type Measured = (count: number) => Promise<Costs>;

/** @param size number of accounts. */
export async function preparedOperations(place: GrowingStorage, size: number): Promise<Measured> {
  const { service, storage } = place;
  const { accounts, notifications } = service;
  // The code of the first use has expired if it took long to fill the storage.
  await signedIn(place.base, PERSON);
  const code = await artifactMaker(place, "AuthorizationCode");
  const token = await artifactMaker(place, "AccessToken");
  const page = (filter: object): Promise<unknown> =>
    Promise.all([notifications.list({ ...filter, limit: PAGE }), notifications.receivers()]);
  // Unlike those of earlier runs on this storage.
  let round = Date.now();
  return async (count) => {
    round += 1;
    // Spread over all accounts, and other ones for each operation: what one has read is in memory.
    const step = size / count;
    const some = (): ((at: number) => number) => {
      const indexes = Array.from(
        { length: count },
        (_each, at) => Math.floor(at * step) + Math.floor(Math.random() * Math.floor(step)),
      );
      return (at) => indexes[at % count] ?? 0;
    };
    const [exchanged, read, changed, swept, signingIn] = [some(), some(), some(), some(), some()];
    const signIns = Math.ceil(count / PER_SIGN_IN);
    const people: SignedInPerson[] = [];
    const person = (index: number): SignedInPerson => people[index] as SignedInPerson;
    await put(
      place,
      Array.from({ length: count }, (_each, at) => code(exchanged(at), { round })),
    );
    const exchange = exchanging(place, round);
    const each = (calls: number, call: (index: number) => Promise<unknown>): Promise<Cost> =>
      costOf(place, () => together(calls, call));
    const byBrowsers = (call: (index: number) => Promise<unknown>): Promise<Cost> =>
      costOf(place, () => together(signIns, call, BROWSERS));
    const console = { receiver: `service:${SERVICES[0]}`, state: "delivered" };
    return {
      "sign-in with a password": await byBrowsers(async (index) => {
        const username = `person-${signingIn(index * PER_SIGN_IN)}`;
        people.push(await signedIn(place.base, { username, password: PERSON.password }));
      }),
      "sign-in with a session": await byBrowsers((index) =>
        signedIn(place.base, { cookie: person(index).cookie }),
      ),
      refresh: await byBrowsers((index) => refreshed(place.base, person(index))),
      exchange: await each(count, (index) => exchange(exchanged(index))),
      userinfo: await each(count, (index) => userinfo(place, read(index))),
      "account change, two receivers": await each(count, (index) =>
        accounts.update(subOf(changed(index)), { name: `Ada ${round}` }),
      ),
      "due receivers": await each(count, async () => {
        if ((await storage.deliveries.dueReceivers()).length < SERVICES.length)
          throw new Error("nothing is due");
      }),
      "claim and finish": await costOf(place, () => finishWaiting(place)),
      "a page of the console": await each(PARALLEL, () => page(console)),
      "a page, no match": await each(1, () => page({ ...console, type: "UNASSINGED_FROM_SERVICE" })),
      "sweep, one record": await sweeping(place, token, swept, round),
    };
  };
}
