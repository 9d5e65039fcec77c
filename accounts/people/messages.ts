/** What people read: the text and HTML of each mail, in the language of its recipient. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import ejs from "ejs";
import type { Configuration } from "../../config/configuration.ts";
import { labelIn } from "../../config/labels.ts";
import { isLoopback } from "../../config/value-forms.ts";
import { ConfigurationError } from "../../core/errors.ts";
import { palettes } from "../../core/palette.ts";
import { MAX_BYTES, readPicture } from "../../core/pictures.ts";
import { closestLocale, readTexts, type Translator } from "../../core/texts.ts";
import type { MailKind, NewMail } from "../../records/people/mail-kinds.ts";
import type { MailAttachment, MailMessage } from "../../config/mail.ts";
import type { InteractionSettings } from "../../config/pages.ts";
import { attributeTexts } from "../field-texts.ts";

/** Renders a mail. @param id the id of its record. */
export type RenderMail = (id: string, mail: NewMail) => MailMessage;

/** A paragraph; a code, which stands on a line of its own; or a link. */
type Block = string | { readonly code: string } | { readonly label: string; readonly url: string };

/** The contents of a mail before the layout. */
interface Content {
  readonly subject: string;
  /** What it leads to, such as "to continue to News". */
  readonly reason?: string | undefined;
  readonly blocks: readonly Block[];
  /** Why the person gets it. */
  readonly footer: string;
}

/** What the text of a mail is made of. */
interface Values {
  readonly t: Translator;
  readonly params: NewMail["params"];
  /** When it happened. */
  readonly time: string;
  /** How long its code and link work, if that is not as usual: it is the last one for a while, or an invitation. */
  readonly until?: string | undefined;
  /** The name of the provider that the mail is about. */
  readonly name: string;
  /** The name of the service. */
  readonly service: string;
  /** The pages that the mail leads to. */
  readonly links: { readonly account: string; readonly confirm: string };
}

/** Mail about something that happened. */
const notice = ({ t }: Values, subject: string, blocks: readonly Block[]): Content => ({
  subject,
  blocks,
  footer: t("mail.footer"),
});

/** A notice that says what to do next, and links to the account page. */
const noticeWithLink = (
  values: Values,
  name: string,
  { text, advice }: { readonly text: string; readonly advice: "notYou" | "what" },
): Content =>
  notice(values, values.t(`mail.${name}.subject`), [
    text,
    values.t(`mail.${name}.${advice}`),
    { label: values.t("account.link"), url: values.links.account },
  ]);

/** What to do about a change of somebody else: open the link that undoes it, if there is one. @param undo what it does. */
const wasNotMe = ({ t, params, links }: Values, undo: string): readonly Block[] =>
  params["link"] === undefined
    ? [t("mail.factors.notYou"), { label: t("account.link"), url: links.account }]
    : [undo, { label: t("mail.factors.undo.label"), url: links.confirm }];

/** Mail with a code and a link. The person who asked for it may not be its recipient. */
const confirmation = ({ t, params, links, until }: Values, name: string): Content => ({
  subject: t(`mail.${name}.subject`),
  reason: params["client"] === undefined ? undefined : t("mail.continue", { client: params["client"] }),
  blocks: [
    t(`mail.${name}.text`),
    { code: params["code"] ?? "" },
    t(`mail.${name}.link`),
    { label: t(`mail.${name}.label`), url: links.confirm },
    until === undefined ? t("mail.code.once") : t("mail.reset.last", { until }),
    t(`mail.${name}.notYou`),
  ],
  footer: t("mail.footer.asked"),
});

/**
 * Every mail. None contains text that a person typed, not even a name, so nobody can use them to send their own words to
 * a stranger. The name of a client is text of whoever registered it.
 */
const MAILS: Readonly<Record<MailKind, (values: Values) => Content>> = {
  "password-changed": (values) =>
    noticeWithLink(values, "password", {
      text: values.t("mail.password.text", { time: values.time }),
      advice: "notYou",
    }),
  "address-changed": (values) =>
    values.params["address"] === "new"
      ? notice(values, values.t("mail.address.subject"), [
          values.t("mail.address.new", { time: values.time }),
          values.t("mail.address.notYours"),
          { label: values.t("account.link"), url: values.links.account },
        ])
      : notice(values, values.t("mail.address.subject"), [
          values.t("mail.address.old", { time: values.time }),
          ...(values.params["link"] === undefined
            ? [values.t("mail.address.notYou")]
            : [
                values.t("mail.address.undo"),
                { label: values.t("mail.address.undo.label"), url: values.links.confirm },
              ]),
        ]),
  "confirm-registration": (values) => confirmation(values, "registration"),
  "reset-password": (values) =>
    values.params["by"] === undefined ? confirmation(values, "reset") : sentByOperator(values),
  "confirm-address": (values) => confirmation(values, "newAddress"),
  "known-address": ({ t, links }) => ({
    subject: t("mail.known.subject"),
    blocks: [
      t("mail.known.text"),
      t("mail.known.signIn"),
      { label: t("mail.known.label"), url: links.account },
      t("mail.known.notYou"),
    ],
    footer: t("mail.footer.asked"),
  }),
  invitation: ({ t, service, until = "", links }) => ({
    subject: t("mail.invitation.subject", { service }),
    blocks: [
      t("mail.invitation.text", { service }),
      { label: t("mail.invitation.label"), url: links.confirm },
      t("mail.invitation.once", { until }),
      t("mail.invitation.notYou"),
    ],
    footer: t("mail.invitation.footer", { service }),
  }),
  "confirm-factor": ({ t, params }) => ({
    subject: t("mail.factor.subject"),
    reason: params["client"] === undefined ? undefined : t("mail.continue", { client: params["client"] }),
    blocks: [
      t("mail.factor.text"),
      { code: params["code"] ?? "" },
      t("mail.factor.once"),
      t("mail.factor.notYou"),
    ],
    footer: t("mail.footer.asked"),
  }),
  "sign-in-code": (values) => signInCode(values),
  "confirm-identity": ({ t, params, name }) => ({
    subject: t("mail.linking.subject", { name }),
    reason: params["client"] === undefined ? undefined : t("mail.continue", { client: params["client"] }),
    blocks: [
      t("mail.linking.text", { name }),
      { code: params["code"] ?? "" },
      t("mail.factor.once"),
      t("mail.linking.notYou"),
    ],
    footer: t("mail.footer.asked"),
  }),
  "factors-changed": (values) =>
    notice(values, values.t("mail.factors.subject"), [
      values.t(`mail.factors.${changeOf(values)}`, { time: values.time, name: values.name }),
      values.t("mail.factors.signedOut"),
      ...wasNotMe(values, values.t("mail.factors.undo")),
    ]),
  "identity-linked": (values) =>
    notice(values, values.t("mail.identity.subject", { name: values.name }), [
      values.params["address"] === undefined
        ? values.t("mail.identity.unnamed", { time: values.time, name: values.name })
        : values.t("mail.identity.text", {
            time: values.time,
            name: values.name,
            address: values.params["address"],
          }),
      ...wasNotMe(
        values,
        values.params["only"] === undefined
          ? values.t("mail.identity.undo", { name: values.name })
          : values.t("mail.identity.undo.only", { name: values.name }),
      ),
    ]),
  "recovery-code-used": (values) =>
    noticeWithLink(values, "recovery", {
      text: values.t("mail.recovery.text", { time: values.time, left: values.params["left"] ?? "" }),
      advice: "notYou",
    }),
  "app-stopped": (values) =>
    noticeWithLink(values, "stopped", {
      text: values.t("mail.stopped.text", { time: values.time, count: values.params["count"] ?? "" }),
      advice: "what",
    }),
  "many-failures": (values) =>
    noticeWithLink(values, "failures", {
      text: values.t("mail.failures.text", { time: values.time, count: values.params["failures"] ?? "" }),
      advice: "what",
    }),
  "new-browser": (values) =>
    noticeWithLink(values, "browser", { text: browserText(values), advice: "notYou" }),
  "device-connected": (values) =>
    noticeWithLink(values, "device", {
      text: values.t("mail.device.text", { client: values.params["client"] ?? "", time: values.time }),
      advice: "notYou",
    }),
  "document-allowed": (values) => {
    const { host = "", how, api = "", scopes = "" } = values.params;
    const { t, time, links } = values;
    const isProven = how === "https";
    const subject = isProven ? t("mail.document.subject", { host, api }) : t("mail.document.device", { api });
    return notice(values, subject, [
      ...(isProven ? [] : [t("unregistered.says.text", { host })]),
      t("mail.document.text", { scopes, time }),
      t("mail.document.notYou"),
      { label: t("account.link"), url: links.account },
    ]);
  },
  "operator-factor": (values) =>
    notice(values, values.t("mail.operator.subject"), [
      values.t("mail.operator.text", { operator: values.params["operator"] ?? "", time: values.time }),
      values.t("mail.operator.ask"),
    ]),
};

/** A link to a new password that an operator sends. Nobody waits for its code, so it has none. */
const sentByOperator = ({ t, links, service }: Values): Content => ({
  subject: t("mail.reset.subject"),
  blocks: [
    t("mail.reset.sent", { service }),
    { label: t("mail.reset.label"), url: links.confirm },
    t("mail.reset.once"),
    t("mail.reset.notYou"),
  ],
  footer: t("mail.footer"),
});

/** A code to sign in, or why there is none. The code is never in the subject: locked screens show that. */
function signInCode(values: Values): Content {
  const { t, params, time, service } = values;
  const { code = "", client, network = "" } = params;
  const asked = t(`mail.signIn.asked.${familiesOf(values)}`, {
    ...params,
    one: oneFamily(params),
    time,
    network,
  });
  const blocks =
    code === ""
      ? [t("mail.signIn.none"), t("mail.signIn.noneText"), asked, t("mail.signIn.noneNotYou")]
      : [t("mail.signIn.text"), { code }, t("mail.signIn.once"), asked, t("mail.signIn.notYou", { service })];
  return {
    subject: t(code === "" ? "mail.signIn.noneSubject" : "mail.signIn.subject"),
    reason: client === undefined ? undefined : t("mail.continue", { client }),
    blocks,
    footer: t("mail.footer.asked"),
  };
}

/** The last notice for a while. Most end with a link to the account. */
const withMore = (content: Content, more: string): Content => {
  const at = content.blocks.findLastIndex((block) => typeof block === "string") + 1;
  return { ...content, blocks: [...content.blocks.slice(0, at), more, ...content.blocks.slice(at)] };
};

const FACTOR_CHANGES = [
  "app-added",
  "passkey-added",
  "app-removed",
  "passkey-removed",
  "provider-removed",
  "all-removed",
  "recovery-codes",
] as const;

/** The change of the second factors that a mail is about. */
function changeOf({ params }: Values): (typeof FACTOR_CHANGES)[number] {
  return FACTOR_CHANGES.find((change) => change === params["change"]) ?? "all-removed";
}

/** What is known of the families of browser and system: the end of the key of a text about them. */
function familiesOf({ params: { browser, system } }: Values): "both" | "one" | "unknown" {
  if (browser !== undefined && system !== undefined) return "both";
  return browser === undefined && system === undefined ? "unknown" : "one";
}

/** The one that is known. */
const oneFamily = ({ browser, system }: Values["params"]): string => browser ?? system ?? "";

const browserText = (values: Values): string =>
  values.t(`mail.browser.${familiesOf(values)}`, {
    ...values.params,
    one: oneFamily(values.params),
    time: values.time,
  });

const LAYOUT = join(import.meta.dirname, "views/mail.ejs");

/** @throws ConfigurationError naming missing texts, and what is wrong with the theme. */
export function createMessages({
  deployments,
  interactions: { locales, copy, theme, links: pages },
  mail: settings,
  accounts,
  providers,
}: Pick<Configuration, "accounts" | "deployments" | "interactions" | "mail" | "providers">): RenderMail {
  const texts = readTexts(locales, copy, attributeTexts(accounts));
  const look = readLook(theme);
  const problems = [...texts.problems, ...look.problems];
  if (problems.length > 0) throw new ConfigurationError(problems);
  const layout = ejs.compile(readFileSync(LAYOUT, "utf8"), { filename: LAYOUT });
  const configuredSender = settings !== undefined && "url" in settings ? settings.from : undefined;

  return (id, { kind, to, locale: wanted, deployment, params }) => {
    // The configuration may have changed since the mail was stored.
    const locale = closestLocale(locales, wanted === undefined ? [] : [wanted]) ?? locales[0] ?? "en";
    const t = texts.translators.get(locale) as Translator;
    const { url } = (deployments[deployment] ?? deployments.openid ?? deployments.oauth2) as { url: string };
    const host = mailHost(new URL(url).hostname);
    const links = {
      account: `${url}/account`,
      confirm: `${url}/confirm?token=${encodeURIComponent(params["link"] ?? "")}`,
    };
    const service = theme.name ?? t("service.name");
    const time = timeIn(locale, Number(params["at"]));
    const until = params["until"] === undefined ? undefined : timeIn(locale, Number(params["until"]));
    // It may not be configured any more.
    const provider = providers.find(({ key }) => key === params["provider"])?.name ?? params["provider"];
    const name = labelIn(provider ?? "", locale);
    const about = MAILS[kind]({ t, params, time, until, name, service, links });
    const content = params["last"] === undefined ? about : withMore(about, t("mail.more"));
    const help = pages.help?.replaceAll("{locale}", locale);
    const { logo, logoDark, main, dark, radius } = look;
    const attachments = [logo, logoDark].filter((each) => each !== undefined);
    return {
      messageId: `<${id}@${host}>`,
      from: configuredSender ?? sender(theme.name, `no-reply@${host}`),
      to,
      subject: oneLine(content.subject),
      text: plain(content, [
        service,
        ...(help === undefined ? [] : [`${t("link.help")}: ${addressOf(help)}`]),
      ]),
      html: layout({
        reason: undefined,
        ...content,
        preheader: content.blocks[0],
        t,
        locale,
        service,
        help,
        logo: logo?.cid,
        logoDark: logoDark?.cid,
        main,
        dark,
        radius,
      }),
      ...(attachments.length > 0 && { attachments }),
    };
  };
}

/** Many mail programs show no other formats. */
const MAIL_PICTURES: ReadonlyMap<string, string> = new Map([
  ["image/png", "png"],
  ["image/jpeg", "jpg"],
]);
/** Pixels, as on the pages. */
const DEFAULT_RADIUS = 10;

/** The parts of the theme that mail uses, or the problems with it. */
function readLook(theme: InteractionSettings["theme"]) {
  const colors = palettes(theme);
  const problems: string[] = [];
  const attached = (key: "logo" | "logoDark", cid: string): MailAttachment | undefined => {
    const path = theme[key];
    const picture = path === undefined ? undefined : readPicture(path, MAX_BYTES[key]);
    if (picture === undefined || "url" in picture) return picture && attachmentOf(picture.url, cid);
    problems.push(`config.interactions.theme.${key}: ${picture.problem}`);
    return undefined;
  };
  if ("ratio" in colors) problems.push("config.interactions.theme.text: can't be read on the background");
  const { main, dark } = "main" in colors ? colors : { main: undefined, dark: undefined };
  const logo = attached("logo", "logo");
  const inTheDark = attached("logoDark", "dark-logo");
  // It would never be seen without a dark look, or beside a name in letters.
  const logoDark = logo === undefined || dark === undefined ? undefined : inTheDark;
  return { main, dark, logo, logoDark, radius: theme.radius ?? DEFAULT_RADIUS, problems };
}

function attachmentOf(dataUrl: string, cid: string): MailAttachment | undefined {
  const [, contentType = "", base64 = ""] = /^data:([^;]+);base64,(.*)$/.exec(dataUrl) ?? [];
  const ending = MAIL_PICTURES.get(contentType);
  if (ending === undefined) return undefined;
  return { cid, filename: `${cid}.${ending}`, contentType, content: Buffer.from(base64, "base64") };
}

/** With the name of the service, as a quoted string of RFC 5322: it may contain every printable character. */
function sender(name: string | undefined, address: string): string {
  return name === undefined ? address : `"${name.replaceAll(/["\\]/g, String.raw`\$&`)}" <${address}>`;
}

const addressOf = (link: string): string => link.replace(/^mailto:/, "");

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

/** @param signature the last lines. */
function plain({ subject, reason, blocks, footer }: Content, signature: readonly string[]): string {
  const parts = blocks.map((block) => {
    if (typeof block === "string") return block;
    return "code" in block ? block.code : block.url;
  });
  const heading = [subject, ...(reason === undefined ? [] : [reason])].map(oneLine).join("\n");
  return `${[heading, ...parts, footer, signature.join("\n")].join("\n\n")}\n`;
}
