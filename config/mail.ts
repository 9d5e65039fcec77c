/** The key `mail`: how e-mail is sent. */
import { z } from "zod";
import { described, flag, section, text, withMethods } from "./documented-schema.ts";
import { isSender, isSmtpAddress } from "./value-forms.ts";

/** An e-mail to one person. */
export interface MailMessage {
  /** `<ID@HOST>`, the same on every attempt, so that duplicates can be recognized. */
  readonly messageId: string;
  /** The sender, as an address or `Name <address>`. */
  readonly from: string;
  /** The recipient's e-mail address. */
  readonly to: string;
  readonly subject: string;
  readonly text: string;
  readonly html: string;
  /** Pictures in the HTML, if there are any. */
  readonly attachments?: readonly MailAttachment[];
}

/** A picture inside a mail. The members are those of nodemailer. */
export interface MailAttachment {
  /** The HTML shows it as `cid:` and this id (RFC 2392). */
  readonly cid: string;
  readonly filename: string;
  /** Its media type. */
  readonly contentType: string;
  readonly content: Uint8Array;
}

/** Sends messages in place of SMTP. A rejected promise means that the message was not accepted. */
export interface Mailer {
  send(message: MailMessage): Promise<void>;
}

const smtpUrl = text(2048, isSmtpAddress, "an `smtp://` or `smtps://` URL");

/** The mail server. */
const smtp = section({
  /** The mail server, with user and password if it requires them. */
  url: described(smtpUrl, { holds: "address" }),
  /** The sender. Default: `no-reply@` and the host of the deployment. */
  from: described(text(320, isSender, "an e-mail address or `Name <address>`").exactOptional(), {
    otherwise: "`no-reply@` and the host of the deployment",
  }),
  /**
   * Whether mail, and the password of the mail server, may go unencrypted to an `smtp://` server that is not on loopback
   * and offers no STARTTLS. Default `false`.
   */
  allowClearText: described(flag().exactOptional(), { otherwise: "`false`" }),
});

export interface SmtpSettings extends z.output<typeof smtp> {}

type Mail = string | SmtpSettings | Mailer | ((message: MailMessage) => Promise<void>);

/** Its type has a name, as that of `interactions`. */
export const mail: z.ZodType<Mail, Mail> = z.union([
  smtpUrl,
  smtp,
  withMethods<Mailer>("send"),
  z.custom<(message: MailMessage) => Promise<void>>((value) => typeof value === "function"),
]);
