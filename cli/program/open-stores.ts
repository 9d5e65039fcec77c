/** Opens the stores of a storage for a command. */
import type { Configuration } from "../../config/configuration.ts";
import { readConfiguration } from "../../config/read.ts";
import type { Clock } from "../../core/clock.ts";
import { SHARED_KINDS } from "../../records/directory/directory-kinds.ts";
import { ConfigurationError, StorageUnavailable } from "../../core/errors.ts";
import type { StorageAddress } from "./addresses.ts";
import type { Arguments } from "./arguments.ts";
import type { CommandContext } from "./command.ts";
import { CommandFailure } from "./command-failure.ts";
import { openChecked, openStorage, type Storage } from "../../records/storage.ts";
import type { Stores } from "../../records/kinds.ts";
import { readSettings, refuseMemory } from "./settings.ts";

export interface OpenStores extends Stores {
  close(): Promise<void>;
}

export interface OpenOptions {
  /** The name of the storage in messages. */
  readonly name: string;
  /** Whether the storage must exist; opening it then writes nothing. Otherwise it is created. */
  readonly mustExist: boolean;
  /** Whether it may need `storage migrate` before a service can use it. Default: no. */
  readonly isMigrating?: boolean;
  /** Receives problems that an operator should fix. */
  readonly onWarning: (text: string) => void;
}

/** @throws CommandFailure with a sentence for the operator. */
export async function openAddressed(
  { storage, artifacts = storage }: StorageAddress,
  { name, mustExist, isMigrating = false, onWarning }: OpenOptions,
  clock: Clock,
): Promise<OpenStores> {
  try {
    const configuration = {
      storage,
      artifacts,
      clock,
      mustExist,
      isMigrating,
      sharedKinds: SHARED_KINDS,
      watchedKinds: [],
    };
    const opened = await openChecked(configuration, onWarning);
    const { main, artifacts: away = main } = opened;
    return { storage: main, artifacts: away, close: () => opened.close() };
  } catch (error) {
    if (error instanceof ConfigurationError) {
      const problems = error.problems.map((problem) => problem.replace(/^config\.\w+: /, ""));
      throw new CommandFailure(`${name}: ${problems.join("; ")}.`, {
        code: "invalid_configuration",
        cause: error,
      });
    }
    if (error instanceof StorageUnavailable) {
      throw new CommandFailure(`${name}: ${error.message}.`, { code: "storage_unavailable", cause: error });
    }
    throw error;
  }
}

/** Runs `work` on the storage of the configuration, which must exist, without a service. */
export async function onStorage(
  args: Arguments,
  context: CommandContext,
  work: (configuration: Configuration, storage: Storage) => Promise<void>,
): Promise<void> {
  const { config, explain } = await readSettings(args, context);
  const configuration = await explain(async () => readConfiguration(config));
  refuseMemory(configuration.storage);
  const tell = (text: string): void => void context.err.write(`${text}\n`);
  await explain(async () => {
    const storage = await openStorage({ ...configuration, mustExist: true }, tell);
    try {
      await work(configuration, storage);
    } finally {
      await storage.close();
    }
  });
}
