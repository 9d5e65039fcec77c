/** Opens the stores of a place for a command. */
import { openStores } from "../adapters/open.ts";
import { KINDS } from "../lib/all-kinds.ts";
import type { Clock } from "../lib/clock.ts";
import { SHARED_KINDS } from "../lib/directory/records.ts";
import { ConfigurationError, StorageUnavailable } from "../lib/errors.ts";
import { checkFormat } from "../lib/migration/format.ts";
import { Records } from "../lib/records.ts";
import type { Place } from "./addresses.ts";
import { CommandFailure } from "./command-failure.ts";
import type { Stores } from "../lib/kinds.ts";

export interface OpenPlace extends Stores {
  close(): Promise<void>;
}

export interface OpenOptions {
  /** How a sentence names the place. */
  readonly name: string;
  /** Whether a place where nothing was ever kept is a fault; else it is made ready. */
  readonly mustExist: boolean;
  /** Told what an operator should put right. */
  readonly onWarning: (text: string) => void;
}

/** @throws CommandFailure with a sentence for whoever typed the address. */
export async function openPlace(
  { storage, artifacts = storage }: Place,
  { name, mustExist, onWarning }: OpenOptions,
  clock: Clock,
): Promise<OpenPlace> {
  try {
    const configuration = {
      storage,
      artifacts,
      clock,
      mustExist,
      sharedKinds: SHARED_KINDS,
      watchedKinds: [],
    };
    const opened = await openStores(configuration, onWarning);
    const { main, artifacts: away = main } = opened;
    try {
      await checkFormat({ ...main, key: "storage" }, new Records(main.store, clock, KINDS));
      if (away !== main) {
        await checkFormat({ ...away, key: "artifacts" }, new Records(away.store, clock, KINDS));
      }
    } catch (error) {
      await opened.close();
      throw error;
    }
    return { storage: main.store, artifacts: away.store, close: () => opened.close() };
  } catch (error) {
    if (error instanceof ConfigurationError) {
      const problems = error.problems.map((problem) => problem.replace(/^config\.\w+: /, ""));
      throw new CommandFailure(`${name}: ${problems.join("; ")}.`, { cause: error });
    }
    if (error instanceof StorageUnavailable) {
      throw new CommandFailure(`${name}: ${error.message}.`, { cause: error });
    }
    throw error;
  }
}
