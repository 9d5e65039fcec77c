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
