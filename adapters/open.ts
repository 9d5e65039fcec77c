/** Opens the storage that the configuration names; a backend's code is loaded when it is chosen. */
import type { Configuration } from "../config/configuration.ts";
import { ConfigurationError } from "../lib/errors.ts";
import type { Storage } from "./storage.ts";

const SQLITE = "sqlite:";

/** What is wrong with an address, or `undefined`. It may hold a password, so no answer repeats it. */
function problem(address: string): string | undefined {
  switch (/^[a-z+]+(?=:)/.exec(address)?.[0] ?? "") {
    case "sqlite":
      return address === SQLITE ? "the path after sqlite: is missing" : undefined;
    case "mongodb":
    case "mongodb+srv":
      return "this version has no MongoDB backend yet; use sqlite:PATH";
    case "redis":
    case "rediss":
      return "this version has no Redis backend yet; use sqlite:PATH";
    default:
      return "must be sqlite:PATH or sqlite::memory:";
  }
}

/**
 * @throws ConfigurationError when this version has no such backend.
 * @throws StorageUnavailable when the store can't be reached or opened.
 */
export async function openStorage(
  configuration: Pick<Configuration, "storage" | "artifacts" | "clock">,
): Promise<Storage> {
  const { storage, artifacts, clock } = configuration;
  const problems = (["storage", "artifacts"] as const).flatMap((option) => {
    const text = problem(configuration[option]);
    return text === undefined ? [] : [`config.${option}: ${text}`];
  });
  if (problems.length > 0) throw new ConfigurationError(problems);
  if (artifacts !== storage) {
    throw new ConfigurationError(["config.artifacts: a second SQLite file is not possible; leave it out"]);
  }
  const { openSqlite } = await import("./sqlite/index.ts");
  return openSqlite({ path: storage.slice(SQLITE.length), clock });
}
