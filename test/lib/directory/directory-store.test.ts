import * as runner from "@jest/globals";
import { openSqliteRecords } from "../../../adapters/sqlite/record-store.ts";
import type { Storage } from "../../../adapters/storage.ts";
import { KINDS } from "../../../lib/all-kinds.ts";
import { createDeliveryStore } from "../../../lib/deliveries/delivery-store.ts";
import { LaneAccess } from "../../../lib/deliveries/lane-access.ts";
import { createDirectoryStore } from "../../../lib/directory/directory-store.ts";
import { describeAccounts } from "../../../lib/testing/contract/accounts.ts";
import { describeLanes } from "../../../lib/testing/contract/deliveries-lanes.ts";
import { describeReceivers } from "../../../lib/testing/contract/deliveries-receivers.ts";
import { describeUpkeep } from "../../../lib/testing/contract/deliveries-upkeep.ts";
import { describeDirectory } from "../../../lib/testing/contract/directory.ts";
import { ManualClock, type Stage } from "../../../lib/testing/contract/stage.ts";

const { afterEach, beforeEach, describe } = runner;
const stage = {} as Stage;

beforeEach(async () => {
  stage.clock = new ManualClock();
  const store = await openSqliteRecords({ path: ":memory:", clock: stage.clock });
  const records = new LaneAccess(store, stage.clock, KINDS);
  stage.storage = {
    deliveries: createDeliveryStore(records),
    directory: createDirectoryStore(records),
    close: () => store.close(),
  } as unknown as Storage;
});
afterEach(() => stage.storage.close());

describe("over records", () => {
  describe("accounts", () => describeAccounts(stage, runner));
  describe("the directory", () => describeDirectory(stage, runner));
  describe("lanes", () => describeLanes(stage, runner));
  describe("receivers", () => describeReceivers(stage, runner));
  describe("upkeep", () => describeUpkeep(stage, runner));
});
