/** Parts that record what they are told, for tests that build the others with the composition root. */
import { createSecretKey } from "node:crypto";
import { type ServiceKeys } from "../accounts/keys/service-keys.ts";
import { fixedSigningKeys } from "../accounts/keys/signing-keys.ts";
import type { Sealer } from "../core/sealing.ts";
import type { StoredArtifact } from "../records/artifacts/artifact.ts";
import type { AuditCollector } from "../records/audit/collector.ts";
import type { AuditEvent } from "../records/audit/audit-event.ts";
import type { BackchannelLogout } from "../provider/sessions/backchannel-logout.ts";

/** An audit that stores nothing. */
export interface WatchedAudit extends AuditCollector {
  readonly noted: AuditEvent[];
  readonly refusals: AuditEvent[];
}

export function watchedAudit(): WatchedAudit {
  const noted: AuditEvent[] = [];
  const refusals: AuditEvent[] = [];
  return {
    noted,
    refusals,
    note: (event) => void noted.push(event),
    noteRefusal: (event) => void refusals.push(event),
    flush: async () => undefined,
    lost: () => 0,
    close: async () => undefined,
  };
}

/** No receivers of account events. */
export const NO_WEBHOOKS = { beside: async (): Promise<void> => undefined };

/** A back-channel logout that tells no client. */
export interface WatchedLogout extends BackchannelLogout {
  /** The `uid`s of sessions that have ended. */
  readonly ended: string[];
}

export function watchedLogout(): WatchedLogout {
  const ended: string[] = [];
  return {
    ended,
    add: () => undefined,
    sessionsEnded: async (_sub, sessions) =>
      void ended.push(...sessions.map((session) => (session as Partial<StoredArtifact>).uid ?? "")),
    settled: async () => true,
    stop: async () => undefined,
  };
}

/** Keys that cost no time to make. */
export function fixedKeys(sealer: Sealer): ServiceKeys {
  const key = createSecretKey(Buffer.alloc(32, 8));
  return {
    sealer,
    cookies: ["a key for the cookies of tests"],
    signing: fixedSigningKeys([{ kty: "RSA", kid: "of tests", alg: "RS256" }]),
    clientSecrets: createSecretKey(Buffer.alloc(32, 9)),
    forms: [key],
    rateLimits: key,
    networks: key,
    confirmations: key,
    seeds: key,
    userCodes: key,
    proofs: key,
    search: key,
    administration: key,
  };
}
