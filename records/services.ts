/** The parts that every floor above the records is built from. The composition root makes them first. */
import type { Logger } from "pino";
import type { Configuration } from "../config/configuration.ts";
import { type Clock, clockOfDurations } from "../core/clock.ts";
import { createEvents, type ServiceEmitter } from "../core/events.ts";
import { describeDefect } from "../core/logger.ts";
import { createOutages, type Outage } from "../core/outages.ts";
import type { Sealer } from "../core/sealing.ts";
import type { Telemetry } from "../core/telemetry.ts";
import { type AuditCollector, createAuditCollector } from "./audit/collector.ts";
import type { Storage } from "./storage.ts";

/**
 * Each floor adds its own parts in a file of this name, and a module takes what it needs:
 * `Pick<StorageServices, "clock" | "storage">`. See docs/decisions/0066.
 */
export interface StorageServices {
  readonly configuration: Configuration;
  /** That of the configuration. */
  readonly clock: Clock;
  readonly storage: Storage;
  /** Seals and opens what must be readable again. */
  readonly sealer: Sealer;
  readonly events: ServiceEmitter;
  /** Takes what happens, for the audit log. `storage.audit` has what is stored. */
  readonly audit: AuditCollector;
  readonly logger: Logger;
  /** Gets spans and metrics; `undefined` unless the configuration switches it on. */
  readonly telemetry: Telemetry | undefined;
  /** Opens the outage log of a background job, by its name. */
  readonly outages: (work: string) => Outage;
  /** Receives warnings for the operator, without secrets. */
  readonly onWarning: (text: string) => void;
  /** Receives unexpected errors, without request data. */
  readonly onDefect: (error: unknown) => void;
}

/** @param replaced parts that are not made here. */
export function createStorageServices(
  given: Pick<StorageServices, "configuration" | "storage" | "sealer" | "logger"> &
    Partial<Pick<StorageServices, "telemetry">>,
  replaced: Partial<StorageServices> = {},
): StorageServices {
  const { configuration, storage, logger } = given;
  const { clock } = configuration;
  const onDefect = (error: unknown): void =>
    logger.error({ defect: describeDefect(error) }, "unexpected error");
  const onWarning = (text: string): void => logger.warn(text);
  const outages = createOutages(logger, clockOfDurations(clock));
  return {
    telemetry: undefined,
    ...given,
    clock,
    outages,
    onWarning,
    onDefect,
    events: createEvents(onDefect),
    audit: createAuditCollector(storage.audit, outages("recording what happens"), onWarning),
    ...replaced,
  };
}
