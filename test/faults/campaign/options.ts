/** The options of `npm run test:faults`. */
import { randomInt } from "node:crypto";
import { parseArgs } from "node:util";
import { QUEUES, type QueueKind, VERSIONS, type VersionsKind } from "./round.ts";
import { STORAGES, type StorageKind } from "./storages.ts";

export interface CampaignOptions {
  readonly storage: StorageKind;
  readonly queues: readonly QueueKind[];
  readonly versions: VersionsKind;
  readonly seed: number;
  readonly users: number;
  /** For each queue. */
  readonly changes: number;
  /** For everything together. */
  readonly milliseconds: number;
  readonly json: boolean;
}

const USERS = 200;
const DEFAULT_MINUTES = 2;
const CHANGES_A_MINUTE = 1000;

export const USAGE: string = `npm run test:faults -- [--storage NAME] [--queue KIND] [--versions HOW] [--minutes M] [--changes N] [--seed S] [--json]

Changes accounts of ${USERS} users while the processes that change and deliver are killed, the servers of the storage
are killed and stand still, the Redis of the queue is restarted and emptied, and receivers hang, fail and close
connections. Meanwhile people sign in, and some of their tokens are revoked. Then all of them recover, and it is counted what
arrived. Ends with 0 when nothing was lost, repeated otherwise, out of order or sent to the wrong receiver, nothing that had
ended works, no user_id was given twice, and no connection was left behind. With postgresql+late-standby, the standby that is
promoted lacks two seconds: what was acknowledged in them may be lost.

--storage  ${STORAGES.join(", ")}; default ${STORAGES[0]}
--minutes  for everything together; from 1.5, default ${DEFAULT_MINUTES}
--changes  of accounts for each kind of queue; default ${CHANGES_A_MINUTE} a minute
--seed     of the random choices; default a new one, which is printed
--queue    ${QUEUES.join(", ")}; default embedded, and then Redis like that of the storage
--versions ${VERSIONS.join(" or ")}; with two, each process that is killed is replaced by one of the other version,
           whose storage format and functions in PostgreSQL differ; default ${VERSIONS[0]}
--json     the counts as JSON
--help     this text`;

/** @throws Error with one sentence for a person. */
export function readOptions(args: readonly string[]): CampaignOptions | "help" {
  const { values } = parseArgs({
    args: [...args],
    options: {
      storage: { type: "string", default: STORAGES[0] },
      minutes: { type: "string" },
      changes: { type: "string" },
      seed: { type: "string" },
      queue: { type: "string" },
      versions: { type: "string", default: VERSIONS[0] },
      json: { type: "boolean" },
      help: { type: "boolean" },
    },
  });
  if (values.help === true) return "help";
  const number = (
    name: "minutes" | "changes" | "seed",
    fallback: number,
    range: readonly [number, number],
  ) => {
    const given = values[name];
    const found = given === undefined ? fallback : Number(given);
    if (found >= range[0] && found <= range[1] && given !== "") return found;
    throw new Error(`--${name} must be a number from ${range[0]} to ${range[1]}`);
  };
  const minutes = number("minutes", DEFAULT_MINUTES, [1.5, 600]);
  const versions = VERSIONS.find((name) => name === values.versions);
  if (versions === undefined) throw new Error(`--versions must be ${VERSIONS.join(" or ")}`);
  const storage = STORAGES.find((name) => name === values.storage);
  if (storage === undefined) throw new Error(`--storage must be one of ${STORAGES.join(", ")}`);
  const beside = QUEUES.find((queue) => storage.endsWith(`+${queue}`)) ?? "redis";
  const chosen = values.queue === undefined ? ["embedded", beside] : [values.queue];
  const queues = QUEUES.filter((queue) => chosen.includes(queue));
  if (queues.length === 0) throw new Error(`--queue must be one of ${QUEUES.join(", ")}`);
  return {
    storage,
    queues,
    versions,
    seed: Math.floor(number("seed", randomInt(2 ** 31), [0, Number.MAX_SAFE_INTEGER])),
    users: USERS,
    changes: Math.round(number("changes", minutes * CHANGES_A_MINUTE, [1, 900_000])),
    milliseconds: minutes * 60_000,
    json: values.json === true,
  };
}
