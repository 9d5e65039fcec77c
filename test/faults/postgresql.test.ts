/** Faults of a PostgreSQL. */
import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe } from "@jest/globals";
import { openOwnPostgres, type OwnPostgres } from "../servers/postgresql.ts";
import { Wire as Line } from "../servers/wire.ts";
import { type Fault, itSurvives, PATIENCE, SLOW } from "./server-faults.ts";
import { openStage, type Stage } from "./stage.ts";

let postgres: OwnPostgres;
let line: Line;
let stage: Stage;

const FAULTS: readonly Fault[] = [
  {
    name: "a PostgreSQL that stands still",
    part: "storage",
    begin: () => postgres.pause(),
    end: () => postgres.resume(),
    at: [1, 4],
  },
  {
    name: "a PostgreSQL that is killed and started again",
    part: "storage",
    begin: () => postgres.kill(),
    end: () => postgres.start(),
    at: [2, 5],
  },
  {
    name: "a PostgreSQL that is slow",
    part: "storage",
    begin: () => (line.lag = SLOW),
    end() {
      line.lag = 0;
      line.cut();
    },
    at: [3],
  },
];

describe("on PostgreSQL", () => {
  beforeAll(async () => {
    postgres = await openOwnPostgres();
    const url = new URL(await postgres.newDatabase());
    line = await Line.to(Number(url.port));
    url.port = String(line.port);
    stage = await openStage({ storage: url.href, keys: { secrets: [randomBytes(32).toString("base64")] } });
  }, PATIENCE);
  afterAll(async () => {
    await stage.close();
    await line.close();
    await postgres.close();
  });

  itSurvives(FAULTS, () => stage);
});
