/** Artifacts in Redis that are checked. */
import type { Check, StorageChecks } from "../check.ts";
import { ARTIFACT_FLAWS, INDEX_FLAWS } from "./check-scripts.ts";
import { type ConnectedRedis, connectRedis, type RedisOptions } from "./open.ts";
import type { Script } from "./script.ts";

/** Keys that one step looks at. */
const STEP = 500;

interface ScriptCheck {
  readonly problem: string;
  /** What the keys begin with, behind the prefix. */
  readonly front: string;
  /** What of a key the script is told: what comes behind this. */
  readonly cut: string;
  readonly script: Script;
}

const CHECKS: readonly ScriptCheck[] = [
  {
    problem: "artifacts that their indexes do not lead to",
    front: "artifact:",
    cut: "artifact:",
    script: ARTIFACT_FLAWS,
  },
  { problem: "indexes that lead to what is not there", front: "by-", cut: "", script: INDEX_FLAWS },
];

/** Model and kind without what names a person: keys are hashes or names of accounts. */
function kindOf(name: string): string {
  return `${name.slice(0, name.indexOf(":"))} …${name.slice(-6)}`;
}

function createScriptCheck(redis: ConnectedRedis, { clock }: RedisOptions, check: ScriptCheck): Check {
  const { connection, prefix } = redis;
  const run = async (names: readonly string[], repairs: boolean): Promise<string[]> => {
    if (names.length === 0) return [];
    const found = await connection.run(
      check.script,
      [],
      [prefix, String(clock.now()), repairs ? "1" : "", ...names],
    );
    return found as string[];
  };

  async function find(limit: number): Promise<string[]> {
    const wrong = new Set<string>();
    let cursor = "0";
    do {
      const [next, keys] = await connection.send((client) =>
        client.scan(cursor, "MATCH", `${prefix}${check.front}*`, "COUNT", STEP),
      );
      const names = keys.map((key) => key.slice(prefix.length + check.cut.length));
      for (const name of await run(names, false)) wrong.add(name);
      cursor = next;
    } while (cursor !== "0" && wrong.size < limit);
    return [...wrong].slice(0, limit);
  }

  return {
    part: "artifacts",
    problem: check.problem,
    find: (limit) =>
      connection.during(async () => (await find(limit)).map((id) => ({ id, shown: kindOf(id) }))),
    repair: (flaws) =>
      connection.during(async () => {
        for (let at = 0; at < flaws.length; at += STEP) {
          await run(
            flaws.slice(at, at + STEP).map(({ id }) => id),
            true,
          );
        }
      }),
  };
}

/** @throws ConfigurationError, StorageUnavailable as `openRedis` does. */
export async function openRedisChecks(options: RedisOptions): Promise<StorageChecks> {
  const warnings: string[] = [];
  const redis = await connectRedis({ ...options, onWarning: (text) => void warnings.push(text) });
  const settings: Check = {
    part: "artifacts",
    problem: "settings that are wrong",
    find: () => Promise.resolve(warnings.map((text) => ({ id: text, shown: text }))),
  };
  return {
    checks: [settings, ...CHECKS.map((check) => createScriptCheck(redis, options, check))],
    close: () => redis.connection.close(),
  };
}
