/** What the protocol side is built from; the composition root fills it in. */
import type { ParameterizedContext } from "koa";
import type { ArtifactStore } from "../artifacts/artifact-store.ts";
import type { UnitsOfWork } from "../../adapters/oidc/unit-of-work.ts";
import type { Configuration, Deployment } from "../../config/configuration.ts";
import type { AuditCollector } from "../audit/collector.ts";
import type { AccountInternals, Accounts } from "../domain/account.ts";
import type { ClientInternals, Clients } from "../domain/client.ts";
import type { ServiceEmitter } from "../events.ts";
import type { Backchannel } from "./backchannel.ts";
import type { AttemptLimits } from "./limits.ts";

/** Pages that the library's own endpoints show; what they get from it is told, not how they look. */
export interface ProtocolPages {
  /** RP-initiated logout asks first: a form to `action` with the hidden field `xsrf` and the choice `logout`. */
  confirmLogout(
    ctx: ParameterizedContext,
    form: { readonly action: string; readonly xsrf: string },
  ): Promise<void>;
  /** After the question without an address to go back to: signed out, or still signed in. */
  loggedOut(ctx: ParameterizedContext, answer: { readonly stayed: boolean }): Promise<void>;
}

export interface ProtocolDependencies {
  readonly configuration: Configuration;
  readonly artifacts: ArtifactStore;
  readonly units: UnitsOfWork;
  readonly accounts: Accounts & AccountInternals;
  readonly clients: Clients & ClientInternals;
  readonly limits: AttemptLimits;
  readonly events: ServiceEmitter;
  readonly audit: Pick<AuditCollector, "note" | "noteRefusal">;
  readonly pages: ProtocolPages;
  readonly backchannel: Backchannel;
  /** The cookie keys that are in force. */
  readonly keys: { readonly cookies: readonly string[] };
}

/** What the HTTP layer puts in the state of a context before it runs oidc-provider. */
export interface ProtocolState {
  deployment: Deployment;
  /** The address from which the request came, as far as proxies are trusted. */
  address: string;
  /** Set while it is not known yet whether the client may try secrets; the answer waits for it. */
  verdict?: Promise<Verdict>;
  /** Set when the library has an error to show: the HTTP layer renders it as page or JSON. */
  problem?: Problem;
}

/** Whether a client whose secret is right may go on, or not for so many seconds. */
export interface Verdict {
  readonly allowed: boolean;
  readonly retryAfter: number;
}

export interface Problem {
  readonly error: string;
  readonly error_description?: string;
}
