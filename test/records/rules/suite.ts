/** The rules of what a service keeps, as tests that run over any record store. */
import { removeEntry } from "../../../records/directory/directory-records.ts";
import { CONFIRMATION } from "../../../records/people/confirmation-kinds.ts";
import { SYSTEM } from "../../../records/audit/audit-event.ts";
import * as jestRunner from "@jest/globals";
import type { Clock } from "../../../core/clock.ts";
import type { Storage } from "../../../records/storage.ts";
import { describeAccounts } from "./accounts.ts";
import { describeArtifacts } from "./artifacts.ts";
import { describeLanes } from "./deliveries-lanes.ts";
import { describeReceivers } from "./deliveries-receivers.ts";
import { describeUpkeep } from "./deliveries-upkeep.ts";
import { everyLaneCall } from "./deliveries.ts";
import { describeAudit } from "./audit.ts";
import { describeMail, waitingMail } from "./mail.ts";
import { describeDirectory } from "./directory.ts";
import { describeRateLimits } from "./rate-limits.ts";
import type { TestRunner } from "../../../testing/storage/runner.ts";
import {
  account,
  artifact,
  client,
  putAccount,
  putClient,
  putEntry,
  delivery,
  entry,
  ManualClock,
  put,
  type Stage,
} from "./stage.ts";

/** Reads one record of each kind. */
async function readEverything({
  directory,
  artifacts,
  deliveries,
  outbox,
  audit,
}: Storage): Promise<unknown[]> {
  return Promise.all([
    artifacts.find("Session", "s"),
    artifacts.findByUid("Session", "u"),
    directory.findAccount("sub-1"),
    directory.findAccountByName(account(1).email),
    directory.listClients(),
    directory.listEntries("service"),
    directory.findServiceKey("cookie-keys"),
    audit.list({ limit: 9 }),
    deliveries.list({ limit: 9 }),
    outbox.waiting(),
  ]);
}

async function writeEverything(stage: Stage): Promise<void> {
  const { directory } = stage.storage;
  await put(stage, artifact(stage.clock, "Session", "s", { uid: "u", accountId: "a" }));
  await putEntry(stage.storage, "service", entry("1"));
  const ada = account(1, { services: { "1": 5 } });
  await putAccount(stage.storage, ada, {
    deliveries: [delivery("d", ada.sub)],
    mails: [waitingMail(stage, "m")],
    audit: { ...SYSTEM, action: "account.created", subject: ada.sub },
  });
  await putClient(stage.storage, client("news", { service: "1" }));
  await directory.ensureServiceKey("cookie-keys", "value");
}

function everyCall(storage: Storage, stage: Stage): (() => Promise<unknown>)[] {
  const { directory, artifacts, deliveries, outbox, records, signIns, audit } = storage;
  return [
    ...storage.parts.map((part) => () => part.takesWrites()),
    () => artifacts.find("Session", "s"),
    () => artifacts.findByUid("Session", "u"),
    () => artifacts.page({ model: "Session", account: "a" }),
    () => artifacts.count({ model: "Grant", client: "c" }, 9),
    () => artifacts.remove([{ model: "Session", key: "s" }]),
    () => artifacts.clock(),
    () => storage.sweep(1),
    () => put(stage, artifact(stage.clock, "Session", "k")),
    () => directory.findAccount("a"),
    () => directory.findAccountByName("a"),
    () => directory.listAccounts({ limit: 1 }),
    () => directory.nextUserId(),
    () => directory.passUserId(1),
    () => putAccount(storage, account(9)),
    () => directory.findClient("c"),
    () => directory.listClients(),
    () => putClient(storage, client("c")),
    () => directory.findEntry("service", "1"),
    () => directory.listEntries("service"),
    () => putEntry(storage, "service", entry("1")),
    () => removeEntry(storage, "service", "1", { ...SYSTEM, action: "service.removed", subject: "1" }),
    () => directory.ensureServiceKey("cookie-keys", "v"),
    () => directory.findServiceKey("cookie-keys"),
    () => audit.append({ ...SYSTEM, action: "receiver.test_requested", subject: "s" }),
    () => audit.appendCollected([{ event: { ...SYSTEM, action: "sign_in" }, order: 1, count: 1 }]),
    () => audit.list({ limit: 1 }),
    () => deliveries.find("d"),
    () => deliveries.list({ limit: 1 }),
    () => outbox.add(waitingMail(stage, "m")),
    () => outbox.claim(1, 1000),
    () => outbox.nextDue(),
    () => outbox.waiting(),
    () => records.transact((tx) => tx.get(CONFIRMATION.ref(["registration", "i"]))),
    () => records.transact((tx) => tx.list([{ ...CONFIRMATION.where("link", "l"), limit: 1 }])),
    () => records.transact((tx) => tx.remove(CONFIRMATION.ref(["registration", "i"]))),
    () => signIns.failures("form", "s"),
    () => signIns.addFailure("form", "s"),
    () => signIns.clearFailures("form", "s"),
    () => records.transact((tx) => signIns.noteNewBrowser(tx, "s", "i")),
    ...everyLaneCall(storage),
  ];
}

function describeLife(stage: Stage, runner: TestRunner, backend: Backend): void {
  const { expect, it } = runner;
  it("knows whether each of its stores takes writes", async () => {
    const { parts } = stage.storage;
    expect(parts.map(({ name }) => name)).toContain("storage");
    await Promise.all(parts.map((part) => part.takesWrites()));
  });

  it("refuses every call after it is closed, and can be closed twice", async () => {
    const calls = everyCall(stage.storage, stage);
    await stage.storage.close();
    await stage.storage.close();
    for (const call of calls) {
      await expect(call()).rejects.toMatchObject({ code: "storage_unavailable" });
    }
  });

  it("finishes calls that started before it was closed", async () => {
    const written = put(stage, artifact(stage.clock, "Session", "s"));
    const closed = stage.storage.close();
    await expect(written).resolves.toBeUndefined();
    await closed;
  });

  it("keeps everything over a restart", async () => {
    await writeEverything(stage);
    const before = await readEverything(stage.storage);
    expect(before.every((one) => one !== undefined)).toBe(true);
    const userId = await stage.storage.directory.nextUserId();
    await stage.storage.close();
    stage.storage = await backend.reopen(stage.clock);
    await expect(readEverything(stage.storage)).resolves.toEqual(before);
    await expect(stage.storage.directory.nextUserId()).resolves.toBeGreaterThan(userId);
    const event = { ...SYSTEM, action: "service.removed", subject: "1" } as const;
    await expect(removeEntry(stage.storage, "service", "1", event)).rejects.toMatchObject({
      references: ["client:news", "account:sub-1"],
    });
  });
}

type Cases = (stage: Stage, runner: TestRunner, backend: Backend) => void;

const PARTS: Readonly<Record<string, Cases>> = {
  artifacts: describeArtifacts,
  accounts: describeAccounts,
  "the directory and deliveries": describeDirectory,
  "lanes of deliveries": describeLanes,
  "receivers of deliveries": describeReceivers,
  "upkeep of deliveries": describeUpkeep,
  mail: describeMail,
  audit: describeAudit,
  "rate limits": describeRateLimits,
  "from opening to closing": describeLife,
};

/** The backend of the rules. */
export interface Backend {
  /** Opens an empty storage that follows this clock. */
  open(clock: Clock): Promise<Storage>;
  /** Reopens the storage that was closed last. */
  reopen(clock: Clock): Promise<Storage>;
}

/** The promises of the storage over one backend. */
export function describeRules(name: string, backend: Backend): void {
  const { afterEach, beforeEach, describe } = jestRunner;
  describe(`the rules of the storage over ${name}`, () => {
    // Filled in before each case; the cases read it when they run.
    const stage = {} as Stage;

    beforeEach(async () => {
      stage.clock = new ManualClock();
      stage.storage = await backend.open(stage.clock);
    });
    afterEach(() => stage.storage.close());

    for (const [title, cases] of Object.entries(PARTS)) {
      describe(title, () => cases(stage, jestRunner, backend));
    }
  });
}
