/** What people read: the text and HTML of each mail, in the language of its recipient. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import ejs from "ejs";
import type { Configuration, MailMessage } from "../../config/configuration.ts";
import { isLoopback } from "../../config/value-forms.ts";
import { ConfigurationError } from "../errors.ts";
import { closestLocale, readTexts, type Translator } from "../texts/texts.ts";
import type { MailKind, NewMail } from "./records.ts";

/** Renders a mail. @param id the id of its record. */
export type RenderMail = (id: string, mail: NewMail) => MailMessage;

/** The contents of a mail before the layout. */
interface Content {
  readonly subject: string;
  readonly paragraphs: readonly string[];
  /** The label of the link to the account. */
  readonly link?: string;
}

type Params = Readonly<Record<string, string>>;

/**
 * Every mail. Notices tell what happened and when. They contain no text that a person typed, so nobody can use them to
 * send their own words to a stranger.
 */
const MAILS: Readonly<Record<MailKind, (t: Translator, params: Params, time: string) => Content>> = {
  "password-changed": (t, _params, time) => ({
    subject: t("mail.password.subject"),
    paragraphs: [t("mail.password.text", { time }), t("mail.password.notYou")],
    link: t("account.link"),
  }),
  "address-changed": (t, { address }, time) =>
    address === "new"
      ? {
          subject: t("mail.address.subject"),
          paragraphs: [t("mail.address.new", { time }), t("mail.address.notYours")],
          link: t("account.link"),
        }
      : {
          subject: t("mail.address.subject"),
          paragraphs: [t("mail.address.old", { time }), t("mail.address.notYou")],
        },
};

const LAYOUT = join(import.meta.dirname, "views/mail.ejs");

/** @throws ConfigurationError naming missing texts. */
export function createMessages({
  deployments,
  interactions: { locales, copy, theme },
  mail: settings,
}: Pick<Configuration, "deployments" | "interactions" | "mail">): RenderMail {
  const texts = readTexts(locales, copy);
  if (texts.problems.length > 0) throw new ConfigurationError(texts.problems);
  const layout = ejs.compile(readFileSync(LAYOUT, "utf8"), { filename: LAYOUT });
  const sender = settings !== undefined && "url" in settings ? settings.from : undefined;

  return (id, { kind, to, locale: wanted, deployment, params }) => {
    // The configuration may have changed since the mail was stored.
    const locale = closestLocale(locales, wanted === undefined ? [] : [wanted]) ?? locales[0] ?? "en";
    const t = texts.translators.get(locale) as Translator;
    const { url } = (deployments[deployment] ?? deployments.openid ?? deployments.oauth2) as { url: string };
    const host = mailHost(new URL(url).hostname);
    const content = MAILS[kind](t, params, timeIn(locale, Number(params["at"])));
    const service = theme.name ?? t("service.name");
    const account = content.link === undefined ? undefined : `${url}/account`;
    const locals = { ...content, t, locale, service, account };
    return {
      messageId: `<${id}@${host}>`,
      from: sender ?? `no-reply@${host}`,
      to,
      subject: oneLine(content.subject),
      text: plain([...content.paragraphs, account, t("mail.footer"), service]),
      html: layout(locals),
    };
  };
}

/** The right-hand side of the Message-ID and of the default sender. An IP address is a machine of a developer. */
function mailHost(host: string): string {
  return isLoopback(host) || /^[\d.]+$|:/.test(host) ? "localhost" : host;
}

/** With its time zone, because the service does not know that of the recipient. */
function timeIn(locale: string, at: number): string {
  const zone = { timeZone: "UTC", timeZoneName: "short" } as const;
  const parts = {
    year: "numeric",
    month: "long",
    day: "numeric",
    hour: "numeric",
    minute: "2-digit",
  } as const;
  return new Intl.DateTimeFormat(locale, { ...parts, ...zone }).format(at);
}

/** Texts can be replaced in the configuration, and a line break would end the header. */
function oneLine(text: string): string {
  return text.replaceAll(/[\p{Cc}\s]+/gu, " ");
}

function plain(parts: readonly (string | undefined)[]): string {
  return `${parts.filter((part) => part !== undefined).join("\n\n")}\n`;
}
