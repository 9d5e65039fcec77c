import * as runner from "@jest/globals";
import { openPostgres } from "../../adapters/postgresql/store.ts";
import type { RecordStore } from "../../adapters/record-store.ts";
import type { Clock } from "../../lib/clock.ts";
import { describeRateLimits } from "../lib/rules/rate-limits.ts";
import { ManualClock, type Stage as RateStage } from "../lib/rules/stage.ts";
import { describeStorage } from "../../lib/testing/storage/suite.ts";
import { openOwnPostgres, type OwnPostgres } from "../servers/postgresql.ts";

const { afterAll, afterEach, beforeAll, beforeEach, describe } = runner;
let server: OwnPostgres;
let url: string;

beforeAll(async () => {
  server = await openOwnPostgres();
});
afterAll(() => server.close());

const open = async (clock: Clock): Promise<RecordStore> =>
  (await openPostgres({ url, clock, announced: ["thing"] })).store;

describeStorage(
  "PostgreSQL",
  {
    async open(clock) {
      url = await server.newDatabase();
      return open(clock);
    },
    reopen: open,
  },
  runner,
);

describe("rate limits in PostgreSQL", () => {
  const stage = {} as RateStage;

  beforeEach(async () => {
    stage.clock = new ManualClock();
    const { store, rateLimits } = await openPostgres({ url: await server.newDatabase(), clock: stage.clock });
    stage.storage = { rateLimits, close: () => store.close() } as unknown as RateStage["storage"];
  });
  afterEach(() => stage.storage.close());

  describeRateLimits(stage, runner);
});
