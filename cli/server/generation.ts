/** A service that answers requests until it is closed, or until another one takes its place. */
import type { RequestListener } from "node:http";
import type { Logger } from "pino";
import { applySeed, type SignInService } from "../../lib/index.ts";
import { certificateOf, createAdminApplication } from "./administration.ts";
import { createApplication } from "./application.ts";
import type { ConfigFile } from "./config-file.ts";
import { type InternalService, startService } from "../../lib/service.ts";
import { Running } from "../../core/running.ts";
import { openStorage, type Storage } from "../../records/storage.ts";
import { refuseStoredDemoSecrets } from "./demo-secrets.ts";
import type { Mailbox } from "../../testing/mailbox.ts";
import type { Certificate } from "./listener.ts";
import { monitoringListener } from "./monitoring.ts";
import { DRAIN_MS, listenerOf } from "./opened.ts";

interface GenerationOptions {
  readonly logger: Logger;
  /** Receives all mail. Default: mail is sent as configured. */
  readonly mailbox?: Mailbox | undefined;
}

export class Generation {
  readonly service: SignInService;
  /** Answers requests to the public port. */
  readonly answer: RequestListener;
  /** Answers requests to the administration port. */
  readonly administer: RequestListener;
  /** Its certificate, if it speaks TLS. */
  readonly certificate: Certificate | undefined;
  /** Answers requests to the metrics port. */
  readonly monitor: RequestListener;
  readonly #running = new Running();

  private constructor(
    service: InternalService,
    { logger, mailbox }: GenerationOptions,
    certificate: Certificate | undefined,
  ) {
    this.service = service;
    this.certificate = certificate;
    this.answer = this.#counted(listenerOf(createApplication(service, logger, mailbox)));
    this.administer = this.#counted(listenerOf(createAdminApplication(service, logger)));
    this.monitor = this.#counted(monitoringListener(service, service.configuration.metrics?.token));
  }

  /**
   * Opens the service and applies the seed.
   * @throws ConfigurationError when a production storage has passwords or secrets of the examples.
   */
  static async open(
    { configuration: read, seed }: ConfigFile,
    options: GenerationOptions,
  ): Promise<Generation> {
    const { logger, mailbox } = options;
    const certificate = await certificateOf(read);
    const opened = Promise.withResolvers<Storage>();
    const service = await startService(
      { ...read, ...(mailbox && { mailer: mailbox }), logger },
      async (configuration, onWarning) => {
        const storage = await openStorage(configuration, onWarning);
        opened.resolve(storage);
        return storage;
      },
      { warmsUp: true },
    );
    try {
      await applySeed(service, seed);
      await refuseStoredDemoSecrets(service, await opened.promise);
      return new Generation(service, options, certificate);
    } catch (error) {
      await service.close();
      throw error;
    }
  }

  /** Finishes the running requests and deliveries, and closes the service. */
  async close(): Promise<void> {
    await this.#running.idle(DRAIN_MS);
    await this.service.close();
  }

  #counted(answer: RequestListener): RequestListener {
    return (request, response) => {
      response.once("close", this.#running.begin());
      answer(request, response);
    };
  }
}
