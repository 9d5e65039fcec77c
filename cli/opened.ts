/** Opening a storage for a command. */
import { ConfigurationError, StorageUnavailable } from "../lib/errors.ts";
import { CommandFailure } from "./command-failure.ts";

/**
 * @param name how a sentence names the storage.
 * @throws CommandFailure with a sentence for whoever typed the address.
 */
export async function opened<T>(name: string, open: () => Promise<T>): Promise<T> {
  try {
    return await open();
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
