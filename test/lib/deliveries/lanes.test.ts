import * as runner from "@jest/globals";
import type { AccountChange } from "../../../adapters/directory.ts";
import { openSqliteRecords } from "../../../adapters/sqlite/record-store.ts";
import type { Storage } from "../../../adapters/storage.ts";
import { createPositions, planAdding } from "../../../lib/deliveries/add.ts";
import { createDeliveryStore } from "../../../lib/deliveries/delivery-store.ts";
import { LaneAccess } from "../../../lib/deliveries/lane-access.ts";
import { describeLanes } from "../../../lib/testing/contract/deliveries-lanes.ts";
import { describeReceivers } from "../../../lib/testing/contract/deliveries-receivers.ts";
import { describeUpkeep } from "../../../lib/testing/contract/deliveries-upkeep.ts";
import { ManualClock, type Stage } from "../../../lib/testing/contract/stage.ts";

const { afterEach, beforeEach, describe } = runner;
const stage = {} as Stage;

beforeEach(async () => {
  stage.clock = new ManualClock();
  const store = await openSqliteRecords({ path: ":memory:", clock: stage.clock });
  const access = new LaneAccess(store, stage.clock);
  const positions = createPositions(access);
  stage.storage = {
    deliveries: createDeliveryStore(access),
    directory: {
      nextUserId: () => store.next("user"),
      commitAccount: ({ deliveries }: AccountChange) =>
        access.retry(async () => access.commit(await planAdding(access, positions, deliveries))),
    },
    close: () => store.close(),
  } as unknown as Storage;
});
afterEach(() => stage.storage.close());

describe("deliveries over records", () => {
  describe("lanes", () => describeLanes(stage, runner));
  describe("receivers", () => describeReceivers(stage, runner));
  describe("upkeep", () => describeUpkeep(stage, runner));
});
