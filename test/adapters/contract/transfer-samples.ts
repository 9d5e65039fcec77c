/** A storage with something of every kind in it, and all of it read back in two ways. */
import type { NewDelivery } from "../../../adapters/deliveries.ts";
import type { Storage } from "../../../adapters/storage.ts";
import {
  PARTS,
  type PartName,
  type StorageTransfer,
  type TransferPart,
  type TransferParts,
  type TransferRecords,
} from "../../../adapters/transfer.ts";
import { attempt, deliver, park, TERMS } from "../../../lib/testing/contract/deliveries.ts";
import {
  account,
  artifact,
  client,
  commit,
  creation,
  delivery,
  entry,
  hostileKeys,
  type Stage,
  START,
  store,
} from "../../../lib/testing/contract/stage.ts";

/** All records of a part, read by pages. */
export async function readAll<Name extends PartName>(
  parts: TransferParts,
  name: Name,
  limit = 1000,
): Promise<TransferRecords[Name][]> {
  const part: TransferPart<TransferRecords[Name]> = parts[name];
  const found: TransferRecords[Name][] = [];
  for (let after: string | undefined; ;) {
    const page = await part.read({ limit, ...(after !== undefined && { after }) });
    found.push(...page.records);
    if (page.after === undefined) return found;
    after = page.after;
  }
}

export type Everything = { readonly [Name in PartName]: TransferRecords[Name][] };

/** Parts that come in any order are put into one, without repeats. */
export async function readParts(parts: TransferParts, limit?: number): Promise<Everything> {
  const found = await Promise.all(
    PARTS.map(async (name) => {
      const records = await readAll(parts, name, limit);
      if (parts[name].repeats !== true) return [name, records];
      const byText = new Map(records.map((record) => [JSON.stringify(record), record]));
      return [name, [...byText.keys()].toSorted().map((text) => byText.get(text))];
    }),
  );
  return Object.fromEntries(found) as Everything;
}

/** Page by page; every page twice, as after a crash before the mark was written. */
async function copyPart(source: TransferPart<unknown>, target: TransferPart<unknown>): Promise<void> {
  let before = 0;
  for (let after: string | undefined; ;) {
    const page = await source.read({ limit: 3, ...(after !== undefined && { after }) });
    await target.write(page.records, before);
    await target.write(page.records, before);
    before += page.records.length;
    if (page.after === undefined) return;
    after = page.after;
  }
}

export async function copyAll(from: StorageTransfer, to: StorageTransfer): Promise<void> {
  for (const name of PARTS) await copyPart(from.parts[name], to.parts[name]);
}

/** Deliveries to one receiver, all in one lane. */
function lane(name: string, count: number): NewDelivery[] {
  return Array.from({ length: count }, (_, index) => delivery(`${name}${index}`, "ada", `service:${name}`));
}

/** Something of every kind, in every state that the service's own calls bring about. */
export async function fill(stage: Stage): Promise<void> {
  const { storage, clock } = stage;
  const { directory, deliveries } = storage;
  for (const kind of ["portal", "group"] as const) await directory.putEntry(kind, entry(kind));
  const receiver = { url: "https://x", client_id: "x", types: ["DELETE_ACCOUNT"], sealed: "s\0" };
  await directory.putEntry("service", entry("1", { group: "group", receiver }));
  for (const key of hostileKeys) {
    await directory.putEntry("service", entry(`h${key}`));
    await directory.keep(`kept ${key}`, key);
    await directory.commitClient({
      client_id: `client ${key}`,
      expectedVersion: undefined,
      record: client(`client ${key}`, { name: key, service: "1" }),
    });
    const user_id = await directory.nextUserId();
    const names = { username: key, services: { [`h${key}`]: 1, "1": null }, portal: "portal" };
    await directory.commitAccount(
      creation(account(user_id, { sub: `sub ${key}`, ...names }), {
        claimNames: [`name ${key}`, `person${user_id}@example.com`],
        deliveries: [delivery(`delivery ${key}`, `sub ${key}`), delivery(`2 ${key}`, key, `service:${key}`)],
        audit: { at: user_id, action: "account.created", subject: key, detail: { n: 1.5, text: key } },
      }),
    );
    await commit(stage, {
      kind: "put",
      artifact: artifact(clock, "AccessToken", key, {
        accountId: key,
        clientId: key,
        grantKey: key,
        uid: key,
      }),
    });
  }
  await commit(
    stage,
    { kind: "put", artifact: artifact(clock, "Session", "s", { uid: "u" }) },
    { kind: "put", artifact: artifact(clock, "RefreshToken", "r", { grantKey: "g" }) },
    {
      kind: "consume",
      model: "RefreshToken",
      key: "r",
      at: START,
      replay: "answer\ud800",
      replayUntil: START + 30_000,
    },
    { kind: "put", artifact: artifact(clock, "AuthorizationCode", "c", { expiresAt: START + 59_000.25 }) },
    { kind: "consume", model: "AuthorizationCode", key: "c", at: START - 0.5 },
    { kind: "put", artifact: artifact(clock, "Session", "gone", { expiresAt: START }) },
  );
  await store(stage, ...lane("done", 3), ...lane("parked", 2), ...lane("held", 2), ...lane("failed", 1));
  await deliver(stage, "service:done");
  await deliver(stage, "service:done");
  await park(stage, "service:parked");
  await deliveries.discard("parked1", "by_hand");
  const [failed] = await deliveries.claimDue("service:failed", 1, TERMS);
  await deliveries.finish(failed!, { kind: "retry", after: 5000 }, { attempt });
  await deliveries.claimDue("service:held", 1, TERMS);
  await deliveries.changeReceiver("service:failed", (state) => ({
    ...state,
    paused: true,
    reason: "by\0hand",
    failures: 7,
    heldUntil: START + 60_000.5,
    holdSpan: 120_000,
    releaseUntil: START,
  }));
}

/** What the service sees of a storage, in the shapes of its own calls. */
export async function seen({ directory, artifacts, deliveries }: Storage): Promise<unknown> {
  const listed = await deliveries.list({ limit: 1000 });
  return {
    accounts: await directory.listAccounts({ limit: 1000 }),
    byName: await Promise.all(hostileKeys.map((key) => directory.findAccountByName(`name ${key}`))),
    clients: await Promise.all(hostileKeys.map((key) => directory.findClient(`client ${key}`))),
    services: await directory.listEntries("service"),
    groups: await directory.listEntries("group"),
    portals: await directory.listEntries("portal"),
    kept: await Promise.all(hostileKeys.map((key) => directory.kept(`kept ${key}`))),
    audit: await directory.listAudit({ limit: 1000 }),
    deliveries: listed,
    attempts: await Promise.all(listed.map(({ id }) => deliveries.attempts(id))),
    counts: await deliveries.counts(),
    receivers: await deliveries.receivers(),
    due: await Promise.all(
      (await deliveries.dueReceivers()).map(async ({ receiver }) => {
        const lanes = await deliveries.dueLanes(receiver, { ahead: 1e9, limit: 1000 });
        // Those that are due at one time have no order.
        return lanes.toSorted((one, other) => (one.id < other.id ? -1 : 1));
      }),
    ),
    tokens: await Promise.all(hostileKeys.map((key) => artifacts.find("AccessToken", key))),
    byUid: await Promise.all(hostileKeys.map((key) => artifacts.findByUid("AccessToken", key))),
    byAccount: await Promise.all(hostileKeys.map((accountId) => artifacts.listByAccount({ accountId }))),
    session: await artifacts.findByUid("Session", "u"),
    refresh: await artifacts.find("RefreshToken", "r"),
    code: await artifacts.find("AuthorizationCode", "c"),
  };
}
