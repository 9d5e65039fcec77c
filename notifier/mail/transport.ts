/** Hands a message to the mail server, or to the configured `send`, and says why one was not accepted. */
import type { Configuration } from "../../config/configuration.ts";
import { isClearSmtp } from "../../config/value-forms.ts";
import { emailProblem } from "../../accounts/names.ts";
import type { MailFailure } from "../../core/events.ts";
import type { Mailer, MailMessage, SmtpSettings } from "../../config/mail.ts";
import { withTimeout } from "../../core/with-timeout.ts";

/** A message was not accepted. It has no message, because the server's may contain the address. */
export class MailRefused extends Error {
  override readonly name = "MailRefused";
  readonly code: MailFailure;
  /** Whether another attempt is pointless. */
  readonly final: boolean;
  /** For the log, as errors of stores have it. */
  readonly reason: MailFailure;
  readonly call = { store: "mail", operation: "send" } as const;

  constructor(code: MailFailure) {
    super();
    this.code = code;
    this.reason = code;
    this.final = code === "refused" || code === "address";
  }
}

/** Sends one message. @throws MailRefused */
export type SendMail = (message: MailMessage) => Promise<void>;

/** For one attempt. */
export const ATTEMPT_TIMEOUT_MS = 60_000;

/**
 * Time-outs for connecting, the greeting and silence, with the names that nodemailer reads from the query of the URL.
 */
const TIMEOUTS_MS = {
  dnsTimeout: 10_000,
  connectionTimeout: 10_000,
  greetingTimeout: 10_000,
  socketTimeout: 30_000,
};

/** What sends the mail of this configuration; `undefined` if nothing does. */
export function configuredMailer({
  mail,
  mailer,
}: Pick<Configuration, "mail" | "mailer">): SmtpSettings | Mailer | undefined {
  return mailer ?? mail;
}

/** @param timeoutMs for one attempt. */
export function createMailTransport(
  mailer: SmtpSettings | Mailer,
  timeoutMs: number = ATTEMPT_TIMEOUT_MS,
): SendMail {
  let smtp: Promise<Mailer> | undefined;
  return async (message) => {
    // Stored mail may be older than the rule. A line break in an address would begin another command.
    if (emailProblem(message.to) !== undefined) throw new MailRefused("address");
    try {
      const to = "send" in mailer ? mailer : await (smtp ??= openSmtp(mailer));
      await withTimeout(timeoutMs, Promise.resolve(to.send(message)), () => new MailRefused("timeout"));
    } catch (error) {
      throw error instanceof MailRefused ? error : new MailRefused(failureOf(error));
    }
  };
}

/** nodemailer is loaded for the first message: most processes never send one. */
async function openSmtp({ url, allowClearText = false }: SmtpSettings): Promise<Mailer> {
  const { createTransport } = await import("nodemailer");
  const address = new URL(url);
  for (const [name, milliseconds] of Object.entries(TIMEOUTS_MS)) {
    if (!address.searchParams.has(name)) address.searchParams.set(name, String(milliseconds));
  }
  if (!allowClearText && isClearSmtp(url)) {
    // Overrides the URL, in which `ignoreTLS` would win.
    address.searchParams.set("requireTLS", "true");
    address.searchParams.set("ignoreTLS", "false");
  }
  const transport = createTransport(address.href);
  return {
    async send({ messageId, from, to, subject, text, html, attachments = [] }) {
      await transport.sendMail({
        messageId,
        from,
        // An object, because a string could be a list of addresses.
        to: { name: "", address: to },
        subject,
        text,
        html,
        attachments: attachments.map(({ content, ...attachment }) => ({
          ...attachment,
          content: Buffer.from(content),
          contentDisposition: "inline" as const,
        })),
        // RFC 3834: asks for no automatic replies.
        headers: { "Auto-Submitted": "auto-generated" },
        disableFileAccess: true,
        disableUrlAccess: true,
      });
    },
  };
}

const CONNECTION: ReadonlySet<unknown> = new Set(["ESOCKET", "ECONNECTION", "EDNS", "ETLS", "EPROTOCOL"]);

/** The reason of a failure, from the members that nodemailer's errors have. */
function failureOf(error: unknown): MailFailure {
  const {
    code,
    command,
    responseCode: status = 0,
  } = Object(error) as {
    readonly code?: unknown;
    readonly command?: unknown;
    readonly responseCode?: number;
  };
  if (code === "EAUTH") return "authentication";
  if (status >= 500) return command === "RCPT TO" || command === "DATA" ? "refused" : "server";
  if (status >= 400) return "delayed";
  if (code === "ETIMEDOUT") return "timeout";
  if (CONNECTION.has(code) || String(code).startsWith("ECONN")) return "connection";
  return "unexpected";
}
