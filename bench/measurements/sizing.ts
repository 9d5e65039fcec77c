/**
 * What a sign-in with its code exchange costs an operator: CPU time of the server, PostgreSQL and Redis, and what it leaves in both. The
 * figures of docs/internals/scale.md.
 */
import { Redis } from "ioredis";
import { Client } from "pg";
import { pino } from "pino";
import { createSignInService } from "../../lib/index.ts";
import { startPostgres } from "../postgres.ts";
import { startRedis } from "../redis.ts";
import type { Measurement, Row } from "../result.ts";
import { basic, CALLBACK, CLIENT, PERSON } from "../servers/people.ts";
import { filledForm, signInOver } from "../session.ts";
import { cpuTimeOf, type Side, startSide } from "../side.ts";
import { openWire } from "../wire.ts";

/** Sign-ins that compile the code of the server and fill its caches. */
const WARM_UP = 150;
/** Sign-ins that are measured, as a multiple of those of a round elsewhere. */
const ROUNDS = 3;
const BROWSERS = 4;
const DAY_SECONDS = 86_400;
const SECRETS = [Buffer.alloc(32, 1).toString("base64")];

const usernameOf = (index: number): string => `person-${index}`;

/** Everybody signs in once: an account that signs in all the time would share audit records, and end its oldest sessions. */
async function addPeople(base: string, storage: string, artifacts: string, count: number): Promise<void> {
  const service = await createSignInService({
    deployments: { oauth2: { url: base }, openid: { url: `${base}/openid` } },
    storage,
    artifacts,
    keys: { secrets: SECRETS },
    logger: pino({ level: "warn" }, pino.destination(2)),
  });
  const add = async (index: number): Promise<void> => {
    const username = usernameOf(index);
    const { password } = PERSON;
    await service.accounts.create({ username, email: `${username}@example.com`, password });
  };
  for (let first = 0; first < count; first += BROWSERS)
    await Promise.all(
      Array.from({ length: Math.min(BROWSERS, count - first) }, (_each, at) => add(first + at)),
    );
  await service.close();
}

/** Signs in with the form and exchanges the code, as one person after the other. */
async function signInAll(side: Side, from: number, to: number): Promise<void> {
  const base = side.ready["base"] ?? "";
  const query = { client_id: CLIENT.client_id, response_type: "code", redirect_uri: CALLBACK };
  const url = `${base}/oauth2/authorize?${new URLSearchParams(query).toString()}`;
  let next = from;
  const browser = async (): Promise<void> => {
    const wire = await openWire(Number(new URL(base).port));
    while (next < to) {
      const person = { username: usernameOf(next), password: PERSON.password };
      next += 1;
      const { code } = await signInOver(wire, url, (html) => filledForm(html, person));
      const fields = { grant_type: "authorization_code", code, redirect_uri: CALLBACK };
      const answer = await wire.ask({
        method: "POST",
        target: "/oauth2/token",
        headers: { "content-type": "application/x-www-form-urlencoded", authorization: basic() },
        body: new URLSearchParams(fields).toString(),
      });
      if (!answer.startsWith("HTTP/1.1 200")) throw new Error(`no tokens: ${answer.slice(9, 12)}`);
    }
    wire.close();
  };
  await Promise.all(Array.from({ length: BROWSERS }, browser));
}

/** Bytes of keys in Redis: all, and those that live longer than a day. */
async function redisBytes(redis: Redis): Promise<{ readonly all: number; readonly lasting: number }> {
  const [, all = ""] = /^used_memory:(\d+)/mu.exec(await redis.info("memory")) ?? [];
  let lasting = 0;
  for await (const keys of redis.scanStream({ count: 1_000 }) as AsyncIterable<string[]>) {
    const asked = redis.pipeline();
    for (const key of keys) asked.ttl(key).memory("USAGE", key);
    const answers = ((await asked.exec()) ?? []).map(([, value]) => Number(value));
    for (let at = 0; at < answers.length; at += 2)
      if ((answers[at] ?? 0) > DAY_SECONDS) lasting += answers[at + 1] ?? 0;
  }
  return { all: Number(all), lasting };
}

/** Bytes of the tables and of the write-ahead log. */
async function postgresBytes(client: Client): Promise<{ readonly tables: number; readonly log: number }> {
  const { rows } = await client.query<{ tables: string; log: string }>(
    `SELECT pg_total_relation_size('sign_in_records') + pg_total_relation_size('sign_in_entries') AS tables,
       pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') AS log`,
  );
  return { tables: Number(rows[0]?.tables), log: Number(rows[0]?.log) };
}

export const sizing: Measurement = {
  name: "sizing",
  async run(effort, folder) {
    const count = ROUNDS * effort.signIns;
    const [postgres, redis] = [await startPostgres(folder), await startRedis(folder, "any")];
    const storage = await postgres.newDatabase();
    const [client, memory] = [new Client({ connectionString: storage }), new Redis(redis.url)];
    let side: Side | undefined;
    try {
      await client.connect();
      side = await startSide("service", { options: { storage, redis: redis.url }, core: "any" });
      await addPeople(side.ready["base"] ?? "", storage, redis.url, WARM_UP + count);
      await signInAll(side, 0, WARM_UP);
      const read = async (running: Side) => ({
        cpu: [running.cpuTime(), postgres.cpuTime(), cpuTimeOf(redis.pid)] as const,
        ...(await redisBytes(memory)),
        ...(await postgresBytes(client)),
      });
      const before = await read(side);
      await signInAll(side, WARM_UP, WARM_UP + count);
      const after = await read(side);
      const against = `PostgreSQL and Redis, ${count} sign-ins`;
      const each = (one: number, other: number): number => (other - one) / count;
      const row = (work: string, unit: Row["unit"], value: number, raw: string): Row => ({
        work,
        against,
        value,
        unit,
        raw,
      });
      return [
        ...["the server", "PostgreSQL", "Redis"].map((who, at) => {
          const used = each(before.cpu[at] ?? 0, after.cpu[at] ?? 0);
          return row(`a sign-in, CPU of ${who}`, "ms", used, `${used.toFixed(2)} ms`);
        }),
        row("a sign-in, in Redis", "bytes", each(before.all, after.all), "memory that it uses more"),
        row("a sign-in, in Redis for more than a day", "bytes", each(before.lasting, after.lasting), "keys"),
        row("a sign-in, in PostgreSQL", "bytes", each(before.tables, after.tables), "with its index entries"),
        row("a sign-in, write-ahead log", "bytes", each(before.log, after.log), "for archives and replicas"),
      ];
    } finally {
      memory.disconnect();
      await client.end();
      await side?.stop();
      await redis.stop();
      await postgres.stop();
    }
  },
};
