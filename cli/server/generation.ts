/** A service that answers requests until it is closed, or until another one takes its place. */
import type { RequestListener } from "node:http";
import type { Logger } from "pino";
import { applySeed, createSignInService, type SignInService } from "../../lib/index.ts";
import { createApplication } from "./application.ts";
import type { ConfigFile } from "./config-file.ts";
import { refuseDemoAccounts } from "./demo-secrets.ts";
import type { Mailbox } from "./dev-mail.ts";
import { monitoringListener } from "./monitoring.ts";
import { listenerOf, PATIENCE } from "./opened.ts";

export class Generation {
  readonly service: SignInService;
  /** Answers requests to the public port. */
  readonly answer: RequestListener;
  /** Answers requests to the metrics port. */
  readonly monitor: RequestListener;
  #running = 0;
  #onIdle: (() => void) | undefined;

  private constructor(service: SignInService, logger: Logger, mailbox: Mailbox | undefined) {
    this.service = service;
    this.answer = this.#counted(listenerOf(createApplication(service, logger, mailbox)));
    this.monitor = this.#counted(monitoringListener(service, service.configuration.metrics?.token));
  }

  /**
   * Opens the service and applies the seed.
   * @param mailbox receives all mail. Default: mail is sent as configured.
   */
  static async open({ config, seed }: ConfigFile, logger: Logger, mailbox?: Mailbox): Promise<Generation> {
    const service = await createSignInService({ ...config, ...(mailbox && { mailer: mailbox }), logger });
    try {
      await applySeed(service, seed);
      await refuseDemoAccounts(service);
      return new Generation(service, logger, mailbox);
    } catch (error) {
      await service.close();
      throw error;
    }
  }

  /** Finishes the running requests and deliveries, and closes the service. */
  async close(): Promise<void> {
    await this.#idle();
    await this.service.close();
  }

  async #idle(): Promise<void> {
    if (this.#running === 0) return;
    const idle = Promise.withResolvers<void>();
    const timer = setTimeout(idle.resolve, PATIENCE);
    this.#onIdle = idle.resolve;
    await idle.promise;
    clearTimeout(timer);
  }

  #counted(answer: RequestListener): RequestListener {
    return (request, response) => {
      this.#running += 1;
      response.once("close", () => {
        this.#running -= 1;
        if (this.#running === 0) this.#onIdle?.();
      });
      answer(request, response);
    };
  }
}
