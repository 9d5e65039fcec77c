/** The configuration of an example: the file of `--config`, or its own. */
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { checkConfigFile, type ConfigFile, DEFAULT_PORT, readConfigFile } from "../cli/server/config-file.ts";
import { readEnvironment } from "../config/environment.ts";
import { parseArguments, toConfigFile } from "./arguments.ts";
import { requirePort } from "../cli/server/listener.ts";
import { refuseDemoSecrets } from "../cli/server/demo-secrets.ts";
import { BY_VARIABLE, endWith } from "./ending.ts";

/** Examples listen only on this machine by default. */
const HERE = "127.0.0.1";

export interface Example extends Omit<ConfigFile, "port" | "host"> {
  readonly port: number;
  readonly host: string;
}

/**
 * Returns the file of `--config`, or `undefined`. `--help` ends the process.
 * @param usage The text of `--help`.
 * @throws CommandFailure with exit code 2.
 */
export function chosenFile(usage: string): string | undefined {
  const { help = false, config } = parseArguments(process.argv.slice(2), {
    help: { type: "boolean", short: "h" },
    config: { type: "string" },
  });
  if (help) {
    console.log(usage);
    process.exit(0);
  }
  return toConfigFile(config);
}

/** Reads the file of the example, and changes its port. */
async function readOwn(file: URL, port: number): Promise<ConfigFile> {
  const text = await readFile(file, "utf8");
  const value: unknown = JSON.parse(
    // Browsers create no passkeys for IP addresses.
    text.replaceAll(`http://localhost:${DEFAULT_PORT}`, `http://localhost:${port}`),
  );
  return checkConfigFile(value, fileURLToPath(new URL(".", file)));
}

/**
 * Reads the command line, the environment and the file. If something is wrong, prints it and ends the process.
 * @param own The file to read without `--config`. `PORT` changes the port of its URLs.
 */
export async function readExample(usage: string, own: URL): Promise<Example> {
  try {
    const path = chosenFile(usage);
    const environment = readEnvironment();
    const { port: usual = DEFAULT_PORT } = environment;
    const file = path === undefined ? await readOwn(own, usual) : await readConfigFile(path);
    if (path !== undefined) refuseDemoSecrets(file);
    const port = path === undefined ? usual : (environment.port ?? file.port ?? DEFAULT_PORT);
    const host = environment.host ?? file.host ?? HERE;
    await requirePort(port, host, BY_VARIABLE);
    return { ...file, port, host };
  } catch (error) {
    return endWith(error);
  }
}
