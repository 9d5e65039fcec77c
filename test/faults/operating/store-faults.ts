/** Faults of the stores: the database, the Redis with sessions and tokens, and their clocks. */
import { Client } from "pg";
import { type OwnPostgres, openOwnPostgres } from "../../servers/postgresql.ts";
import { openOwnRedis } from "../../servers/redis.ts";
import { Deployment } from "./deployment.ts";
import { type ExpectedLine, failing, type Fault, type Lane } from "./fault.ts";

const line = (reason: string): ExpectedLine => ({
  level: "error",
  msg: "request failed",
  reason,
  store: "storage",
});

/** Faults of the database. */
export async function databaseLane(): Promise<Lane> {
  const postgres = await openOwnPostgres();
  const redis = await openOwnRedis();
  const url = await postgres.newDatabase();
  const own = new Client({ connectionString: url });
  await own.connect();
  // PostgreSQL limits the connections of a role only if it is not a superuser.
  await own.query("CREATE ROLE service LOGIN; GRANT CREATE, USAGE ON SCHEMA public TO service");
  await own.end();
  const ask = async (sql: string): Promise<void> => {
    const client = new Client({ connectionString: url });
    await client.connect();
    await client.query(sql);
    await client.end();
  };
  const cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'service'";
  const storage = url.replace("postgres@127.0.0.1", "service@database.internal");
  const deployment = await Deployment.open({
    storage,
    artifacts: redis,
    hasOwnHosts: true,
    worker: true,
  });
  const lost = {
    health: 503,
    worker: 503,
    part: ["storage", /./u],
    metric: failing("storage"),
    alerts: ["SignInStorageFailing", "SignInFaults"],
    again: "work in the background works again",
  } as const;
  const faults: Fault[] = [
    {
      ...lost,
      name: "PostgreSQL is stopped",
      begin: () => postgres.kill(),
      end: () => postgres.start(),
      line: line("ECONNREFUSED"),
      runbook: [["doctor", /Nothing listens there/u]],
    },
    {
      ...lost,
      name: "PostgreSQL has no connection left",
      begin: () => ask(`ALTER ROLE service CONNECTION LIMIT 0; ${cut}`),
      end: () => ask("ALTER ROLE service CONNECTION LIMIT -1"),
      line: line("53300"),
      runbook: [["doctor", /max_connections/u]],
    },
    {
      ...lost,
      name: "The host name of PostgreSQL is unknown",
      async begin() {
        deployment.forgetHost();
        await ask(cut);
      },
      end: () => deployment.rememberHost(),
      line: line("ENOTFOUND"),
      runbook: [["doctor", /The host name is unknown/u]],
    },
    {
      ...lost,
      name: "PostgreSQL hangs",
      begin: () => postgres.pause(),
      end: () => postgres.resume(),
      line: line("timeout"),
      runbook: [["doctor", /no answer comes|does not answer/u]],
    },
  ];
  return {
    deployment,
    faults,
    async close() {
      await postgres.close();
      await redis.close();
    },
  };
}

/** Faults of the Redis with sessions and tokens, which keeps them on disk. */
export async function artifactsLane(postgres: OwnPostgres): Promise<Lane> {
  const redis = await openOwnRedis(["--appendonly", "yes"]);
  const deployment = await Deployment.open({ storage: await postgres.newDatabase(), artifacts: redis });
  const lost = {
    health: 503,
    part: ["artifacts", /./u],
    metric: failing("artifacts"),
    alerts: ["SignInStorageFailing", "SignInFaults"],
  } as const;
  const faults: Fault[] = [
    {
      ...lost,
      name: "Redis of `artifacts` is full",
      begin: () => redis.client.config("SET", "maxmemory", "1mb"),
      end: () => redis.client.config("SET", "maxmemory", "0"),
      line: { level: "error", msg: "request failed", reason: "OOM", store: "artifacts" },
      runbook: [["doctor", /raise maxmemory/u]],
    },
    {
      ...lost,
      name: "Redis of `artifacts` is stopped",
      begin: () => redis.stop(),
      end: () => redis.start(),
      line: { level: "error", msg: "request failed", reason: "ECONNREFUSED", store: "artifacts" },
      runbook: [["doctor", /Nothing listens there/u]],
    },
    {
      name: "Redis of `artifacts` is emptied",
      begin: () => redis.client.flushall(),
      end: () => undefined,
      health: 200,
      part: ["sessions", /artifacts was found empty/u],
      line: {
        level: "error",
        msg: "the Redis of config.artifacts has lost everything, or is another one",
      },
      metric: "sign_in_artifacts_lost_timestamp_seconds{$on} > 0",
      alerts: ["SignInArtifactsLost"],
      runbook: [["doctor", /The Redis of config\.artifacts was found empty/u]],
      isOnce: true,
      losesSessions: true,
    },
  ];
  return { deployment, faults, close: () => redis.close() };
}

/** A server with a wrong clock beside one with the right one. */
export async function clockLane(postgres: OwnPostgres): Promise<Lane> {
  const deployment = await Deployment.open({ storage: await postgres.newDatabase() });
  const other = await deployment.addServerWithOwnClock();
  const wrong = (name: string, by: string): Fault => ({
    name,
    at: () => other,
    begin: () => deployment.moveClock(by),
    end: () => deployment.moveClock("+0"),
    health: 503,
    part: ["storage", /its clock is \d+ seconds behind that of this process/u],
    line: { level: "warn", msg: "behind that of this process; it serves no requests until they agree" },
    metric: "abs(sign_in_clock_difference_seconds{$on}) > 60",
    alerts: ["SignInClockWrong", "SignInClockDrifts"],
    runbook: [],
  });
  const faults: Fault[] = [
    wrong("A clock is two hours ahead", "+2h"),
    {
      ...wrong("A clock is 500 days ahead", "+500d"),
      async begin() {
        // One that starts like this ends; the other one runs already.
        const { code, output } = await deployment.refusedWithClock("+500d");
        if (code !== 3 || !output.includes("43200000 seconds behind")) throw new Error(`${code}: ${output}`);
      },
    },
    {
      ...wrong("A clock is ten seconds behind", "-10s"),
      health: 200,
      part: ["storage", /its clock is 10 seconds ahead of that of this process/u],
      line: { level: "warn", msg: "Clients refuse ID tokens of a wrong clock" },
      metric: "abs(sign_in_clock_difference_seconds{$on}) > 5",
      alerts: ["SignInClockDrifts"],
      within: 420,
    },
  ];
  return { deployment, faults, close: async () => undefined };
}
