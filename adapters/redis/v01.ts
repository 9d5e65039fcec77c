/**
 * Artifacts of version 0.1 in Redis: takes them out of the reach of that version, reads them, and finally deletes
 * them.
 *
 * An artifact was one hash, `PREFIXartifact:MODEL:KEY`. Its fields: `p` payload, `e` expiry, `c` time of consumption,
 * `r` replay, `t` expiry of a replay that has a key of its own (`PREFIXreplay:MODEL:KEY`), `n` when the request that
 * consumed it was answered, by Redis's clock, `g` family, `u` MODEL:uid, `a` account, `l` client, `m` the names as
 * JSON if they are encoded in the other fields.
 */
import { randomUUID } from "node:crypto";
import type { Redis } from "ioredis";
import { readRedisAddress } from "../../config/value-forms.ts";
import type { Clock } from "../clock.ts";
import { ConfigurationError } from "../errors.ts";
import type { JsonObject } from "../record-store.ts";
import type { V01Artifact, V01Items, V01Page, V01Part, V01Source } from "../v01.ts";
import { Connection, createClient } from "./connection.ts";
import { firstConnection, checkServer, type Purpose } from "./startup.ts";
import { type Script, script } from "./connection.ts";

const PURPOSE: Purpose = { key: "artifacts", harm: "people are signed out" };
const PREFIX = "sign-in:";
const PATIENCE = 10_000;
/** Keys that one step reads. */
const STEP = 500;
const BEGINNING = "0";

/**
 * Renames a hash and puts a text under its key. A script of version 0.1 that uses the artifact then fails, and the
 * request is answered with 503. ARGV: pairs of a key and its new name.
 */
const TAKE_AWAY: Script = script(`
for i = 1, #ARGV, 2 do
  if redis.call("TYPE", ARGV[i])["ok"] == "hash" then
    local left = redis.call("PTTL", ARGV[i])
    redis.call("RENAME", ARGV[i], ARGV[i + 1])
    redis.call("SET", ARGV[i], "moved")
    if left > 0 then redis.call("PEXPIRE", ARGV[i], left) end
  end
end`);

type Fields = Readonly<Record<string, string>>;

/** The text after the colon. Ids and uids have exactly one. */
const afterColon = (text: string): string => text.slice(text.indexOf(":") + 1);

/** Model, key, family, uid, account and client. */
function namesOf(id: string, { m, g, u, a, l }: Fields): readonly (string | null)[] {
  if (m) return JSON.parse(m) as (string | null)[];
  const model = id.slice(0, id.indexOf(":"));
  return [model, afterColon(id), g ?? null, u === undefined ? null : afterColon(u), a ?? null, l ?? null];
}

/** @param replay the value under the key of the replay. */
function toArtifact(id: string, fields: Fields, replay: string | null): V01Artifact | undefined {
  const { p, e, c, n, t } = fields;
  if (p === undefined || e === undefined) return undefined;
  const [model, key, grantKey, uid, accountId, clientId] = namesOf(id, fields);
  const sealed = replay ?? fields["r"];
  const optional = {
    consumedAt: c === undefined ? null : Number(c),
    answeredAt: n === undefined ? null : Number(n),
    replay: sealed === undefined ? null : String(JSON.parse(sealed)),
    replayUntil: t === undefined || replay === null ? null : Number(t),
    grantKey,
    uid,
    accountId,
    clientId,
  };
  const present = Object.entries(optional).filter(([, value]) => value !== null && value !== undefined);
  return {
    model: model ?? "",
    key: key ?? "",
    payload: JSON.parse(p) as JsonObject,
    expiresAt: Number(e),
    ...(Object.fromEntries(present) as Partial<V01Artifact>),
  };
}

/** Escapes the special characters of a SCAN pattern. */
const literal = (text: string): string => text.replaceAll(/[[\]*?\\^]/gu, String.raw`\$&`);

type Scan = (cursor: string, pattern: string, limit: number) => Promise<[next: string, keys: string[]]>;

function createScan(connection: Connection): Scan {
  return (cursor, pattern, limit) => {
    const match = `${literal(pattern)}*`;
    return connection.send((redis) => redis.scan(cursor, "MATCH", match, "COUNT", limit));
  };
}

/** Visits every key with this prefix at least once. `work` returns whether to continue. */
async function each(
  scan: Scan,
  pattern: string,
  work: (keys: readonly string[]) => Promise<boolean>,
): Promise<void> {
  let cursor = BEGINNING;
  do {
    const [next, keys] = await scan(cursor, pattern, STEP);
    if (!(await work(keys))) return;
    cursor = next;
  } while (cursor !== BEGINNING);
}

/** Whether there are artifacts in the reach of version 0.1. */
export async function hasV01(connection: Connection, prefix: string): Promise<boolean> {
  let isFound = false;
  await each(createScan(connection), `${prefix}artifact:`, async (keys) => {
    const types = await Promise.all(keys.map((key) => connection.send((redis) => redis.type(key))));
    isFound = types.includes("hash");
    return !isFound;
  });
  return isFound;
}

function createSource(client: Redis, prefix: string, clock: Clock): V01Source {
  const connection = new Connection(client);
  const artifact = `${prefix}artifact:`;
  const kept = `${prefix}v01:artifact:`;
  const during = <T>(work: () => Promise<T>): Promise<T> => connection.during(work);

  const scan = createScan(connection);

  async function readOne(id: string): Promise<V01Artifact | undefined> {
    const fields = await connection.send((redis) => redis.hgetall(kept + id));
    const replay =
      fields["t"] === undefined ? null : await connection.send((redis) => redis.get(`${prefix}replay:${id}`));
    return toArtifact(id, fields, replay);
  }

  /** A cursor is valid while the Redis process runs. Another process would accept it, so a new session starts again. */
  let session = randomUUID();
  client.on("close", () => {
    session = randomUUID();
  });

  async function read(
    pattern: string,
    after: string | undefined,
    limit: number,
  ): Promise<V01Page<V01Artifact>> {
    const [of, cursor = BEGINNING] = after?.split(" ") ?? [];
    const [next, keys] = await scan(of === session ? cursor : BEGINNING, pattern, limit);
    const found = await Promise.all(keys.map((key) => readOne(key.slice(kept.length))));
    const now = clock.now();
    const items = found.filter((one) => one !== undefined && one.expiresAt > now) as V01Artifact[];
    return next === BEGINNING ? { items } : { items, after: `${session} ${next}` };
  }

  return {
    parts: ["grants", "artifacts"],
    isThere: () => during(() => hasV01(connection, prefix)),
    takeAway: () =>
      during(() =>
        each(scan, artifact, async (keys) => {
          const pairs = keys.flatMap((key) => [key, kept + key.slice(artifact.length)]);
          if (pairs.length > 0) await connection.run(TAKE_AWAY, [], pairs);
          return true;
        }),
      ),
    async read<Part extends V01Part>(part: Part, after: string | undefined, limit: number) {
      const page = await during(() => read(part === "grants" ? `${kept}Grant:` : kept, after, limit));
      const items = page.items.filter(({ model }) => (model === "Grant") === (part === "grants"));
      return { ...page, items } as unknown as V01Page<V01Items[Part]>;
    },
    count: (part) =>
      during(async () => {
        let found = 0;
        await each(scan, part === "grants" ? `${kept}Grant:` : kept, async (keys) => {
          found += keys.length;
          return true;
        });
        return found;
      }),
    lastUserId: () => Promise.resolve(0),
    hasOld: () =>
      during(async () => {
        let isFound = false;
        await each(scan, `${prefix}v01:`, async (keys) => {
          isFound = keys.length > 0;
          return !isFound;
        });
        return isFound;
      }),
    removeOld: () =>
      during(async () => {
        let isRemoved = false;
        for (const name of [
          "v01:",
          "artifact:",
          "replay:",
          "by-grant:",
          "by-uid:",
          "by-account:",
          "by-client:",
        ]) {
          await each(scan, prefix + name, async (keys) => {
            if (keys.length > 0) await connection.send((redis) => redis.unlink(...keys));
            isRemoved ||= keys.length > 0;
            return true;
          });
        }
        return isRemoved;
      }),
    close: () => connection.close(),
  };
}

/**
 * Connects to a Redis in which version 0.1 may have stored artifacts.
 * @throws as `openRedis` does.
 */
export async function openRedisV01({
  url,
  clock,
}: {
  readonly url: string;
  readonly clock: Clock;
}): Promise<V01Source> {
  const address = readRedisAddress(url);
  if (typeof address === "string") throw new ConfigurationError([`config.artifacts: ${address}`]);
  const client = await createClient(address);
  try {
    await firstConnection(client, PURPOSE, PATIENCE);
    await checkServer(client, PURPOSE, () => undefined);
    return createSource(client, address.prefix ?? PREFIX, clock);
  } catch (error) {
    client.disconnect();
    throw error;
  }
}
