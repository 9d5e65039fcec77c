/** What a connection is opened with: files of the address, TLS, and a client that insists on channel binding. */
import type { EventEmitter } from "node:events";
import type { Socket } from "node:net";
import { checkServerIdentity } from "node:tls";
import type * as pg from "pg";
import type { Client, ClientConfig } from "pg";
import type { PostgresAddress, PostgresHost } from "../../config/postgresql-address.ts";
import { readNamed, readTlsFiles, textOf } from "../address-files.ts";

/** How long a connection is silent before the kernel probes the other side. */
const KEEP_ALIVE_DELAY_MS = 10_000;

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
  if (passwordFile !== undefined) await readNamed("storage", "password_file", passwordFile);
  const files =
    tls && (await readTlsFiles("storage", tls, { ca: "sslrootcert", cert: "sslcert", key: "sslkey" }));
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
