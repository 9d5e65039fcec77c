/** Checks at start-up whether this Redis can be used, and warns about its settings. */
import { setTimeout as pause } from "node:timers/promises";
import type { Redis } from "ioredis";
import type { RedisAddress } from "../../config/redis-address.ts";
import { ConfigurationError, StorageUnavailable } from "../../core/errors.ts";
import type { OnStoreWarning } from "../../core/store-warning.ts";
import { helloFields, UNKNOWN_PRIMARY } from "./driver.ts";
import { answerCode, reason } from "./faults.ts";

/** Reasons for which waiting does not help: refused credentials, missing rights, and a name that nobody knows. */
const REFUSALS: ReadonlySet<string> = new Set(["WRONGPASS", "NOAUTH", "NOPERM", UNKNOWN_PRIMARY]);

/** Redis's message for a database that does not exist. With too many clients it sends the same code. */
const NO_DATABASE = /\bDB index\b/u;

/** Pause between checks whether Redis is ready. */
const CHECK_INTERVAL_MS = 100;

/** What the service uses a Redis for. */
export interface Purpose {
  /** The key of the configuration that names it. */
  readonly key: "artifacts" | "queue";
  /** What happens when keys are evicted: the end of a sentence. */
  readonly harm: string;
}

function wrong({ key }: Purpose, text: string): ConfigurationError {
  return new ConfigurationError([`config.${key}: ${text}`]);
}

/** @param error of the driver, or of a call of the store. */
export function unusable({ key }: Purpose, error: unknown): StorageUnavailable {
  const [why, said] =
    error instanceof StorageUnavailable ? [error.message, error.reason] : [reason(error), reason(error)];
  return new StorageUnavailable(`the Redis of config.${key} can't be used (${why})`, {
    ...(said !== undefined && { reason: said }),
  });
}

/**
 * Waits for the first connection, and until Redis has loaded its data.
 * @throws ConfigurationError when the database does not exist.
 * @throws StorageUnavailable when it does not answer in time, or refuses.
 */
export async function firstConnection(client: Redis, purpose: Purpose, timeoutMs: number): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  let last: unknown;
  const timer = setTimeout(() => reject(unusable(purpose, last)), timeoutMs);
  const onError = (error: unknown): void => {
    last = error;
    // The driver would continue with the first database.
    if (answerCode(error) === "ERR" && NO_DATABASE.test(String(error)))
      reject(wrong(purpose, "this Redis has no database of this number"));
    if (REFUSALS.has(reason(error))) reject(unusable(purpose, error));
  };
  const over = new AbortController();
  const untilServing = async (): Promise<void> => {
    while (!over.signal.aborted) {
      try {
        await client.ping();
        return resolve();
      } catch (error) {
        last = error;
        const code = answerCode(error);
        // The following checks report other errors.
        if (code !== undefined && code !== "LOADING") return resolve();
      }
      await pause(CHECK_INTERVAL_MS);
    }
  };
  const onReady = (): void => void untilServing();
  client.on("error", onError);
  client.once("ready", onReady);
  try {
    await promise;
  } finally {
    over.abort();
    clearTimeout(timer);
    client.off("error", onError);
    client.off("ready", onReady);
  }
}

/** The eviction policy; `undefined` if the user may not read it. */
async function evictionPolicy(client: Redis): Promise<string | undefined> {
  try {
    return /^maxmemory_policy:(\S+)/mu.exec(await client.info("memory"))?.[1];
  } catch (error) {
    if (answerCode(error) === "NOPERM") return undefined;
    throw error;
  }
}

function evictionWarning({ key, harm }: Purpose, policy: string | undefined): string | undefined {
  if (policy === "noeviction") return undefined;
  return policy === undefined
    ? `the maxmemory-policy of the Redis of config.${key} can't be read (the user may not use INFO): make sure that it is noeviction`
    : `the Redis of config.${key} has maxmemory-policy ${policy}: set it to noeviction, or ${harm} when its memory is full`;
}

/** What a server is, by its own word, and the addresses that lead to it. */
const MODES: Readonly<Record<string, readonly RedisAddress["kind"][]>> = {
  standalone: ["server", "sentinel"],
  cluster: ["cluster"],
};

/** What is wrong with a server of this mode; `undefined` if nothing is. */
function modeProblem(mode: string, kind: RedisAddress["kind"]): string | undefined {
  if (MODES[mode]?.includes(kind) === true) return undefined;
  if (mode === "cluster") return "this is a Redis cluster: begin the address with redis+cluster://";
  if (mode === "sentinel")
    return "this is a sentinel: begin the address with redis+sentinel://, and name the primary in ?master=";
  return kind === "cluster"
    ? "this Redis is not part of a cluster: begin the address with redis://"
    : `this is a Redis ${mode}, which can't be used: name one server, a primary`;
}

/**
 * @param onWarning receives problems that an operator should fix.
 * @throws ConfigurationError with one sentence for a Redis that can't be used.
 * @throws StorageUnavailable when it does not answer.
 */
export async function checkServer(
  client: Redis,
  purpose: Purpose & Pick<RedisAddress, "kind">,
  onWarning: OnStoreWarning,
): Promise<void> {
  try {
    const self = await helloFields(client);
    const problem = modeProblem(String(self.get("mode")), purpose.kind);
    if (problem !== undefined) throw wrong(purpose, problem);
    if (self.get("role") !== "master") throw wrong(purpose, "this Redis is a replica: name the primary");
    const warning = evictionWarning(purpose, await evictionPolicy(client));
    if (warning !== undefined) onWarning(warning, "redis_evicts");
  } catch (error) {
    if (error instanceof ConfigurationError) throw error;
    if (answerCode(error) === "ERR")
      throw wrong(purpose, "this Redis is too old: version 6 or later is needed");
    throw unusable(purpose, error);
  }
}
