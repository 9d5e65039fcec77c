/** What a process of the example server has opened: a service and its listener, and listeners beside it. */
import type { RequestListener } from "node:http";
import type Koa from "koa";
import type { Logger } from "pino";
import { applySeed, createSignInService, type SignInService } from "../../lib/index.ts";
import type { ConfigFile } from "./config-file.ts";
import { printedSeed } from "./demo.ts";
import { refuseDemoAccounts } from "./demo-secrets.ts";
import { listen, type Listener } from "./listener.ts";
import { METRICS_PORT, type MetricsSettings } from "./monitoring.ts";

/** Milliseconds that running requests have when the process is told to stop. */
const PATIENCE = 30_000;

/** Milliseconds that a receiver of the demo has: what it has not answered then is sent again. */
const SHORT_PATIENCE = 1_000;

export class Opened {
  readonly #listeners: { readonly listener: Listener; readonly patience: number }[] = [];
  #service: SignInService | undefined;

  /** @throws StartFailure when the port can't be had. */
  async listen(port: number, host: string | undefined, patience: number = PATIENCE): Promise<Listener> {
    const listener = await listen(port, host);
    this.#listeners.push({ listener, patience });
    return listener;
  }

  /**
   * Opens the port of health and metrics; until it is given something to answer with, it says that it is starting.
   * @throws StartFailure when the port can't be had.
   */
  async listenForMonitoring({
    port,
    host,
  }: Required<Pick<MetricsSettings, "port" | "host">>): Promise<Listener> {
    const listener = await listen(port, host, METRICS_PORT);
    this.#listeners.push({ listener, patience: PATIENCE });
    return listener;
  }

  /** Opens a port for who receives from this very process. @throws StartFailure when the port can't be had. */
  listenBriefly(port: number, host: string): Promise<Listener> {
    return this.listen(port, host, SHORT_PATIENCE);
  }

  /** Opens the service and brings it to its seed. */
  async openService({ config, seed }: ConfigFile, logger: Logger): Promise<SignInService> {
    const service = await createSignInService({ ...config, logger });
    this.#service = service;
    await applySeed(service, seed);
    await refuseDemoAccounts(service, printedSeed());
    return service;
  }

  /** Finishes what is running, and closes everything. */
  async close(): Promise<void> {
    await Promise.all(this.#listeners.map(({ listener, patience }) => listener.stop(patience)));
    await this.#service?.close();
  }
}

/** Koa's handler answers its own faults, so nobody has to wait for it. */
export function listenerOf(app: Koa): RequestListener {
  const handle = app.callback();
  return (request, response) => void handle(request, response);
}
