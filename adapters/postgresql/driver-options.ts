/** What a connection is opened with: files of the address, TLS, and a client that insists on channel binding. */
import type { EventEmitter } from "node:events";
import { readFile } from "node:fs/promises";
import type { Socket } from "node:net";
import { checkServerIdentity, type ConnectionOptions, createSecureContext } from "node:tls";
import type * as pg from "pg";
import type { Client, ClientConfig } from "pg";
import type { PostgresAddress, PostgresHost } from "../../config/postgresql-address.ts";
import { ConfigurationError } from "../../core/errors.ts";

/** How long a connection is silent before the kernel probes the other side. */
const KEEP_ALIVE_DELAY_MS = 10_000;

/** The text of a file, without a line break at its end. */
async function textOf(path: string): Promise<string> {
  return (await readFile(path, "utf8")).replace(/\r?\n$/u, "");
}

/** A file that the address names in a parameter. @throws ConfigurationError if it can't be read. */
async function readNamed(parameter: string, path: string): Promise<string> {
  try {
    return await textOf(path);
  } catch (error) {
    const code = String(Reflect.get(Object(error), "code"));
    throw new ConfigurationError([
      `config.storage: the file of ${parameter}, ${path}, can't be read (${code})`,
    ]);
  }
}

/** @throws ConfigurationError for files that can't be read, or that contain neither a certificate nor a key. */
async function tlsFiles({ ca, cert, key }: NonNullable<PostgresAddress["tls"]>): Promise<ConnectionOptions> {
  const options = {
    ...(ca !== undefined && { ca: await readNamed("sslrootcert", ca) }),
    ...(cert !== undefined && { cert: await readNamed("sslcert", cert) }),
    ...(key !== undefined && { key: await readNamed("sslkey", key) }),
  };
  try {
    createSecureContext(options);
  } catch (error) {
    // The message may be about the contents of the key.
    const code = String(Reflect.get(Object(error), "code"));
    throw new ConfigurationError([
      `config.storage: the files of sslrootcert, sslcert and sslkey can't be used for TLS (${code})`,
    ]);
  }
  return options;
}

/** The code of a connection whose server does not bind the password to it. */
export const UNBOUND = "CHANNEL_BINDING";

/**
 * A client that only connects with SCRAM-SHA-256-PLUS. The driver itself would also take a weaker way that the server, or somebody in
 * between, asks for.
 */
export function boundClient({ Client: Plain }: typeof pg): typeof Client {
  return class BoundClient extends Plain {
    constructor(config?: ClientConfig | string) {
      super(config);
      const { connection } = this as unknown as {
        readonly connection: EventEmitter & { readonly stream: Socket };
      };
      let isBound = false;
      const refuse = (): void =>
        void connection.stream.destroy(Object.assign(new Error("no channel binding"), { code: UNBOUND }));
      connection.on("authenticationSASL", ({ mechanisms }: { readonly mechanisms: readonly string[] }) => {
        if (!mechanisms.includes("SCRAM-SHA-256-PLUS")) refuse();
      });
      for (const way of ["authenticationCleartextPassword", "authenticationMD5Password"])
        connection.on(way, refuse);
      connection.on("authenticationSASLFinal", () => (isBound = true));
      connection.on("authenticationOk", () => {
        if (!isBound) refuse();
      });
    }
  };
}

/** The options of the driver for each host of an address. */
export type OptionsOf = (host: PostgresHost, timeoutMs: number) => ClientConfig;

/**
 * Reads the files of an address.
 * @throws ConfigurationError for a file that can't be used.
 */
export async function driverOptions(address: PostgresAddress): Promise<OptionsOf> {
  const { user, password, passwordFile, database, applicationName, channelBinding, tls } = address;
  const { connectTimeoutSeconds = Infinity } = address;
  if (passwordFile !== undefined) await readNamed("password_file", passwordFile);
  const files = tls && (await tlsFiles(tls));
  return ({ host, port }, timeoutMs) => ({
    host,
    port,
    user,
    database,
    // Each connection reads the file again, so that the password can change while the service runs.
    password: passwordFile === undefined ? password : () => textOf(passwordFile),
    application_name: applicationName,
    ssl: tls && {
      ...files,
      rejectUnauthorized: tls.mode !== "no-verify",
      // The driver passes no name for a host that is an IP address.
      checkServerIdentity: (_name, certificate) =>
        tls.mode === "verify-full" ? checkServerIdentity(host, certificate) : undefined,
    },
    enableChannelBinding: channelBinding !== "disable" && tls !== undefined,
    connectionTimeoutMillis: Math.min(timeoutMs, connectTimeoutSeconds * 1000),
    query_timeout: timeoutMs,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_DELAY_MS,
  });
}
