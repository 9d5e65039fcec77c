/** Everything a process of the bundled server has opened, so that it can close it: the service and its listeners. */
import type { RequestListener } from "node:http";
import type Koa from "koa";
import type { Logger } from "pino";
import { applySeed, createSignInService, type SignInService } from "../../lib/index.ts";
import type { ConfigFile } from "./config-file.ts";
import type { Mailbox } from "./dev-mail.ts";
import { printedSeed } from "../demo/demo.ts";
import { refuseDemoAccounts } from "./demo-secrets.ts";
import { listen, type Listener } from "./listener.ts";
import { METRICS_PORT, type MetricsSettings } from "./monitoring.ts";

/** Milliseconds that running requests have when the process stops. */
const PATIENCE = 30_000;

/** The same for the demo receiver. Notifications without a response are sent again. */
const SHORT_PATIENCE = 1_000;

export class Opened {
  readonly #listeners: { readonly listener: Listener; readonly patience: number }[] = [];
  #service: SignInService | undefined;

  /** @throws StartFailure if the port isn't available. */
  async listen(port: number, host: string | undefined, patience: number = PATIENCE): Promise<Listener> {
    const listener = await listen(port, host);
    this.#listeners.push({ listener, patience });
    return listener;
  }

  /**
   * Opens the metrics port. It responds with 503 until `serve` is called.
   * @throws StartFailure if the port isn't available.
   */
  async listenForMonitoring({
    port,
    host,
  }: Required<Pick<MetricsSettings, "port" | "host">>): Promise<Listener> {
    const listener = await listen(port, host, METRICS_PORT);
    this.#listeners.push({ listener, patience: PATIENCE });
    return listener;
  }

  /** Opens a port for the demo receiver. @throws StartFailure if the port isn't available. */
  listenBriefly(port: number, host: string): Promise<Listener> {
    return this.listen(port, host, SHORT_PATIENCE);
  }

  /**
   * Opens the service and applies the seed.
   * @param mailbox gets the mail. Default: it is sent as the configuration says.
   */
  async openService({ config, seed }: ConfigFile, logger: Logger, mailbox?: Mailbox): Promise<SignInService> {
    const mail = mailbox && { mailer: mailbox };
    const service = await createSignInService({ ...config, ...mail, logger });
    this.#service = service;
    await applySeed(service, seed);
    await refuseDemoAccounts(service, printedSeed());
    return service;
  }

  /** Finishes running requests and closes everything. */
  async close(): Promise<void> {
    await Promise.all(this.#listeners.map(({ listener, patience }) => listener.stop(patience)));
    await this.#service?.close();
  }
}

/** Koa handles its own errors, so the promise of the handler can be ignored. */
export function listenerOf(app: Koa): RequestListener {
  const handle = app.callback();
  return (request, response) => void handle(request, response);
}
