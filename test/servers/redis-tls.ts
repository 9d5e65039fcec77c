/** A Redis that speaks TLS beside plain text, with a certificate that nobody trusts yet. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePorts } from "../examples/processes.ts";
import { selfSigned } from "../notifier/peers.ts";

export interface RedisTls {
  /** For the start of `redis-server`. */
  readonly options: readonly string[];
  readonly port: number;
  /** For `localhost`. */
  readonly cert: string;
  readonly certFile: string;
  /** Removes the key and the certificate. */
  readonly remove: () => void;
}

export async function newRedisTls(): Promise<RedisTls> {
  const folder = mkdtempSync(join(tmpdir(), "sign-in-redis-tls-"));
  const { key, cert } = selfSigned("localhost");
  writeFileSync(join(folder, "key.pem"), key);
  writeFileSync(join(folder, "cert.pem"), cert);
  const port = await freePorts();
  const files = ["--tls-key-file", join(folder, "key.pem"), "--tls-cert-file", join(folder, "cert.pem")];
  return {
    options: ["--tls-port", String(port), ...files, "--tls-auth-clients", "no"],
    port,
    cert,
    certFile: join(folder, "cert.pem"),
    remove: () => rmSync(folder, { recursive: true }),
  };
}

/** Certificates for both sides of a connection, which trust each other and nobody else. */
export interface MutualTls {
  /** For the start of `redis-server`, which has no port without TLS then. */
  readonly options: (port: number) => readonly string[];
  /** For the address of the service. */
  readonly parameters: string;
  /** For connections of the test's own. */
  readonly client: { readonly ca: string; readonly cert: string; readonly key: string };
  /** The same for `redis-cli`. */
  readonly flags: readonly string[];
}

/**
 * Certificates of servers for `localhost` and `127.0.0.1`, and of their clients.
 * @param folder for the files.
 */
export function newMutualTls(folder: string): MutualTls {
  const server = selfSigned("localhost", "127.0.0.1");
  const client = selfSigned("client.example");
  const file = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  };
  const [ca, cert, key] = [
    file("ca.pem", server.cert),
    file("client.pem", client.cert),
    file("client-key.pem", client.key),
  ];
  // Servers connect to each other with their own certificate.
  const known = file("clients.pem", server.cert + client.cert);
  const own = {
    "cert-file": file("server.pem", server.cert),
    "key-file": file("server-key.pem", server.key),
    "ca-cert-file": known,
    "auth-clients": "yes",
    cluster: "yes",
    replication: "yes",
  };
  const options = Object.entries(own).flatMap(([name, value]) => [`--tls-${name}`, value]);
  return {
    options: (port) => ["--port", "0", "--tls-port", String(port), ...options],
    parameters: `ca_file=${ca}&cert_file=${cert}&key_file=${key}`,
    client: { ca: server.cert, ...client },
    flags: ["--tls", "--cacert", ca, "--cert", cert, "--key", key],
  };
}
