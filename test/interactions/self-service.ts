/** A service in which people help themselves: registration, password resets, and the mail that they get. */
import type { SignInServiceConfig } from "../../config/input.ts";
import {
  type RunningOptions,
  type RunningService,
  startService,
  UNLIMITED,
} from "../flows/running-service.ts";
import type { MailMessage } from "../../config/mail.ts";
import type { RegistrationSettings } from "../../config/pages.ts";

export const TERMS: NonNullable<RegistrationSettings["terms"]> = {
  url: "https://example.org/{locale}/terms",
  version: "2026-01",
};

/** What the service asks for at registration. */
export const ASKS: RegistrationSettings = {
  fields: {
    username: "optional",
    name: "required",
    surname: "optional",
    date_of_birth: "optional",
    gender: "optional",
  },
};

export interface SelfService extends RunningService {
  /** The newest message to an address; waits for it. */
  mailTo(address: string): Promise<MailMessage>;
  readonly sent: readonly MailMessage[];
}

/** The code in a message, on a line of its own. */
export function codeIn({ text }: MailMessage): string {
  return /^([0-9A-Z]{8})$/m.exec(text)?.[1] ?? "";
}

/** The link to confirm in a message. */
export function linkIn({ text }: MailMessage): string {
  return /https?:\S+\/confirm\?token=\S+/.exec(text)?.[0] ?? "";
}

const MAIL_TIMEOUT_MS = 30_000;

export async function startSelfService(
  interactions: SignInServiceConfig["interactions"] = { registration: ASKS },
  { config, ...options }: RunningOptions = {},
): Promise<SelfService> {
  const sent: MailMessage[] = [];
  const running = await startService({
    ...options,
    config: {
      rateLimits: UNLIMITED,
      mail: { send: async (message) => void sent.push(message) },
      interactions,
      ...config,
    },
  });
  const used = new Set<MailMessage>();
  return {
    ...running,
    sent,
    async mailTo(address) {
      const end = Date.now() + MAIL_TIMEOUT_MS;
      for (;;) {
        const found = sent.findLast((message) => message.to === address && !used.has(message));
        if (found !== undefined) {
          used.add(found);
          return found;
        }
        if (Date.now() > end) throw new Error(`no mail to ${address}`);
        await new Promise((resolve) => void setTimeout(resolve, 10));
      }
    },
  };
}
