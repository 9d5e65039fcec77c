/** The administration listener of the bundled server: where it listens, its certificate, and its application. */
import { readFile } from "node:fs/promises";
import { createSecureContext } from "node:tls";
import Koa from "koa";
import type { Logger } from "pino";
import { ConfigurationError } from "../../core/errors.ts";
import { securityHeaders } from "../../core/security-headers.ts";
import type { SignInService } from "../../lib/index.ts";
import { fileProblem } from "../program/json-file.ts";
import { logErrors } from "./application.ts";
import type { Certificate, PortWords } from "./listener.ts";
import { publicHealth } from "./monitoring.ts";

type Admin = NonNullable<SignInService["configuration"]["admin"]>;

/** For the error message if the port isn't available. */
export const ADMIN_PORT: PortWords = {
  choose: "choose another one with admin.port in the configuration",
  host: "admin.host in the configuration",
};

/** Where the listener is, or `undefined` if none is configured. */
export function adminPlace({
  admin,
}: SignInService["configuration"]): (Admin & { readonly port: number }) | undefined {
  return admin?.port === undefined ? undefined : { ...admin, port: admin.port };
}

/**
 * The certificate of `admin.tls`; `undefined` without one.
 * @throws ConfigurationError for files that can't be read or don't belong together. No message has a path.
 */
export async function certificateOf({
  admin,
}: SignInService["configuration"]): Promise<Certificate | undefined> {
  if (admin?.tls === undefined || admin.port === undefined) return undefined;
  const { tls } = admin;
  async function read(name: "cert" | "key"): Promise<string> {
    try {
      return await readFile(tls[name], "utf8");
    } catch (error) {
      const { code = "unknown" } = error as NodeJS.ErrnoException;
      throw new ConfigurationError([`config.admin.tls.${name}: the file ${fileProblem(code)}`]);
    }
  }
  const [cert, key] = await Promise.all([read("cert"), read("key")]);
  try {
    createSecureContext({ cert, key });
  } catch {
    throw new ConfigurationError([
      "config.admin.tls: the two files are not a PEM certificate and its private key",
    ]);
  }
  return { cert, key };
}

/** The console, `/v1`, and the health for what is in front of them. Without `admin` nothing. */
export function createAdminApplication(service: SignInService, logger: Logger): Koa {
  const { admin } = service.configuration;
  const app = new Koa();
  logErrors(app, logger);
  app.use(async function setPolicy(ctx, next) {
    securityHeaders(ctx, { secure: admin?.url.startsWith("https:") === true });
    await next();
  });
  app.use(publicHealth(service));
  if (admin !== undefined) app.use(service.administration());
  return app;
}
