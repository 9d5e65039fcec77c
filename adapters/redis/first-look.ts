/** What is looked at when the service starts: whether this Redis can be used, and what an operator should know. */
import { setTimeout as pause } from "node:timers/promises";
import type { Redis } from "ioredis";
import { ConfigurationError, StorageUnavailable } from "../errors.ts";
import { answerCode, reason } from "./connection.ts";

/** Codes that say who asks is not let in; waiting does not help. */
const REFUSALS: ReadonlySet<string> = new Set(["WRONGPASS", "NOAUTH", "NOPERM"]);

/** What Redis says of a database that it has not. With the same code it says that it has too many clients. */
const NO_DATABASE = /\bDB index\b/u;

/** Milliseconds between two looks whether a Redis that has just started serves by now. */
const LOOK = 100;

/** What a Redis is for. */
export interface Purpose {
  /** The key of the configuration that names it. */
  readonly key: "artifacts" | "queue";
  /** What may happen when it forgets keys: the end of a sentence. */
  readonly harm: string;
}

function wrong({ key }: Purpose, text: string): ConfigurationError {
  return new ConfigurationError([`config.${key}: ${text}`]);
}

/** @param error what came of the driver, or of a call of the store. */
export function unusable({ key }: Purpose, error: unknown): StorageUnavailable {
  const why = error instanceof StorageUnavailable ? error.message : reason(error);
  return new StorageUnavailable(`the Redis of config.${key} can't be used (${why})`);
}

/**
 * Waits for the first connection, and until what Redis has kept is loaded: before that it refuses every command.
 * @param patience milliseconds after which a Redis that does not serve is given up.
 * @throws ConfigurationError when it has no such database.
 * @throws StorageUnavailable when it does not answer in time, or refuses.
 */
export async function firstConnection(client: Redis, purpose: Purpose, patience: number): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  let last: unknown;
  const timer = setTimeout(() => reject(unusable(purpose, last)), patience);
  const onError = (error: unknown): void => {
    last = error;
    // The driver would go on with the first database.
    if (answerCode(error) === "ERR" && NO_DATABASE.test(String(error)))
      reject(wrong(purpose, "this Redis has no database of this number"));
    if (REFUSALS.has(answerCode(error) ?? "")) reject(unusable(purpose, error));
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
        // What else it refuses is told by what is asked next.
        if (code !== undefined && code !== "LOADING") return resolve();
      }
      await pause(LOOK);
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

/** `mode`, `role` and what else Redis says of itself; it answers this to everybody. */
async function said(client: Redis): Promise<ReadonlyMap<string, unknown>> {
  const flat = (await client.call("HELLO")) as unknown[];
  return new Map(flat.flatMap((name, at) => (at % 2 === 0 ? [[String(name), flat[at + 1]] as const] : [])));
}

/** How this Redis forgets keys when its memory is full; `undefined` when the user may not know. */
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

/**
 * @param onWarning told what an operator should put right.
 * @throws ConfigurationError with one sentence for a Redis that can't serve.
 * @throws StorageUnavailable when it does not answer.
 */
export async function lookAt(
  client: Redis,
  purpose: Purpose,
  onWarning: (text: string) => void,
): Promise<void> {
  try {
    const self = await said(client);
    const mode = self.get("mode");
    if (mode !== "standalone") {
      throw wrong(
        purpose,
        `this is a Redis ${String(mode)}, which can't be used: name one server, a primary`,
      );
    }
    if (self.get("role") !== "master") throw wrong(purpose, "this Redis is a replica: name the primary");
    const warning = evictionWarning(purpose, await evictionPolicy(client));
    if (warning !== undefined) onWarning(warning);
  } catch (error) {
    if (error instanceof ConfigurationError) throw error;
    if (answerCode(error) === "ERR")
      throw wrong(purpose, "this Redis is too old: version 6 or later is needed");
    throw unusable(purpose, error);
  }
}
