/** The files that the address of a store names in its parameters: passwords, certificates and keys. */
import { readFile } from "node:fs/promises";
import { createSecureContext } from "node:tls";
import type { AddressKey } from "../config/storage-address.ts";
import { ConfigurationError } from "../core/errors.ts";

/** Editors and `echo` end a file with one. */
export function withoutLineBreak(text: string): string {
  return text.replace(/\r?\n$/u, "");
}

/** The text of a file, without a line break at its end. */
export async function textOf(path: string): Promise<string> {
  return withoutLineBreak(await readFile(path, "utf8"));
}

/** @throws ConfigurationError if the file of a parameter can't be read. */
export async function readNamed(setting: AddressKey, parameter: string, path: string): Promise<string> {
  try {
    return await textOf(path);
  } catch (error) {
    const code = String(Reflect.get(Object(error), "code"));
    throw new ConfigurationError([
      `config.${setting}: the file of ${parameter}, ${path}, can't be read (${code})`,
    ]);
  }
}

/** PEM files, by what they are for TLS. */
type TlsFiles = Readonly<Record<"ca" | "cert" | "key", string | undefined>>;

/**
 * @param names of the parameters.
 * @throws ConfigurationError for files that can't be read, or that contain neither a certificate nor a key.
 */
export async function readTlsFiles(
  setting: AddressKey,
  { ca, cert, key }: TlsFiles,
  names: Readonly<Record<keyof TlsFiles, string>>,
): Promise<{ readonly ca?: string; readonly cert?: string; readonly key?: string }> {
  const options = {
    ...(ca !== undefined && { ca: await readNamed(setting, names.ca, ca) }),
    ...(cert !== undefined && { cert: await readNamed(setting, names.cert, cert) }),
    ...(key !== undefined && { key: await readNamed(setting, names.key, key) }),
  };
  try {
    createSecureContext(options);
  } catch (error) {
    // The message may be about the contents of the key.
    const code = String(Reflect.get(Object(error), "code"));
    throw new ConfigurationError([
      `config.${setting}: the files of ${names.ca}, ${names.cert} and ${names.key} can't be used for TLS (${code})`,
    ]);
  }
  return options;
}
