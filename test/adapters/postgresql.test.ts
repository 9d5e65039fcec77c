import * as runner from "@jest/globals";
import { openPostgres } from "../../adapters/postgresql/store.ts";
import { describeRateLimits } from "../lib/rules/rate-limits.ts";
import { ManualClock, type Stage as RateStage } from "../lib/rules/stage.ts";
import { openOwnPostgres, type OwnPostgres } from "../servers/postgresql.ts";

const { afterAll, afterEach, beforeAll, beforeEach, describe } = runner;
let server: OwnPostgres;

beforeAll(async () => {
  server = await openOwnPostgres();
});
afterAll(() => server.close());

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
