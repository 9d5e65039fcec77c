/**
 * Mail during development: without a mail server, the last messages are kept in memory and shown at `/dev/mail`, on the
 * same machine only. The bundled server has one outside production.
 */
import { BlockList, isIP } from "node:net";
import type { Context, Middleware } from "koa";
import type { SignInServiceConfig } from "../config/input.ts";
import type { Configuration } from "../config/configuration.ts";
import { Html, html } from "../core/html.ts";

/** The host object that the configuration takes as `mailer`. */
type Mailer = NonNullable<SignInServiceConfig["mailer"]>;
type Message = Parameters<Mailer["send"]>[0];

/** A message with its number, which counts from 1. */
interface Received extends Message {
  readonly number: number;
  readonly at: Date;
}

/** The page of the mailbox. */
export const MAILBOX_PATH = "/dev/mail";
/** Older messages are forgotten. */
const MAX_MESSAGES = 50;

const LOOPBACK = loopback();

function loopback(): BlockList {
  const list = new BlockList();
  list.addSubnet("127.0.0.0", 8, "ipv4");
  list.addAddress("::1", "ipv6");
  return list;
}

/** Messages are HTML from templates of the service, but the page doesn't rely on that: no scripts, nothing from outside. */
const POLICY =
  "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";
const PAGE_POLICY = `${POLICY}; frame-src 'self'; frame-ancestors 'none'`;
const MESSAGE_POLICY = `${POLICY}; frame-ancestors 'self'; sandbox allow-popups allow-popups-to-escape-sandbox`;

const STYLE = new Html(`<style>
:root { color-scheme: light dark; --line: light-dark(#d5d8dd, #3a3d43); --muted: light-dark(#5b6069, #a9adb5) }
* { box-sizing: border-box }
body { max-width: 46rem; margin: 0 auto; padding: 2rem 1rem; font: 1rem/1.5 system-ui, sans-serif; color: light-dark(#1a1d23, #e9ebee); background: light-dark(#fff, #101318) }
a { color: light-dark(#1d4ed8, #8ab4ff) } h1 { font-size: 1.5rem; line-height: 1.25; overflow-wrap: anywhere } h2 { font-size: 1.125rem; margin: 2rem 0 .5rem }
p { color: var(--muted) } ul { list-style: none; margin: 0; padding: 0; border-top: 1px solid var(--line) }
li a { display: block; padding: .75rem 0; border-bottom: 1px solid var(--line); text-decoration: none; overflow-wrap: anywhere }
li strong { display: block; font-weight: 600 } li span { color: var(--muted); font-size: .875rem }
dl { display: grid; grid-template-columns: auto 1fr; gap: .25rem 1rem; margin: 0; font-size: .875rem } dt { color: var(--muted) } dd { margin: 0; overflow-wrap: anywhere }
pre { margin: 0; padding: 1rem; border: 1px solid var(--line); border-radius: 8px; white-space: pre-wrap; overflow-wrap: anywhere; font: .875rem/1.5 ui-monospace, monospace }
iframe { display: block; width: 100%; height: 46rem; border: 1px solid var(--line); border-radius: 8px }
</style>`);

/**
 * A `mailer` that sends nothing. Mount {@link Mailbox.routes} in your application to read the mails with their codes and
 * links. Not for production.
 *
 * ```ts
 * const mailbox = new Mailbox();
 * const service = await createSignInService({ ...config, mailer: mailbox });
 * app.use(mailbox.routes());
 * ```
 */
export class Mailbox implements Mailer {
  readonly #messages: Received[] = [];
  #count = 0;

  send(message: Message): Promise<void> {
    this.#count += 1;
    this.#messages.unshift({ ...message, number: this.#count, at: new Date() });
    this.#messages.length = Math.min(this.#messages.length, MAX_MESSAGES);
    return Promise.resolve();
  }

  /** Handles `/dev/mail`. For other machines, it does nothing. */
  routes(): Middleware {
    return async (ctx, next) => {
      const path = ctx.path.replace(/\/$/, "");
      const isMailbox = path === MAILBOX_PATH || path.startsWith(`${MAILBOX_PATH}/`);
      const isRead = ctx.method === "GET" || ctx.method === "HEAD";
      if (isMailbox && isRead && isLocal(ctx)) this.#answer(ctx, path.slice(MAILBOX_PATH.length));
      else await next();
    };
  }

  /** @param path below {@link MAILBOX_PATH}. */
  #answer(ctx: Context, path: string): void {
    const [, number, part] = /^\/(\d{1,9})(\/html)?$/.exec(path) ?? [];
    const message = this.#messages.find((each) => String(each.number) === number);
    ctx.set("Cache-Control", "no-store");
    ctx.set("X-Content-Type-Options", "nosniff");
    ctx.set("Referrer-Policy", "no-referrer");
    ctx.set("Content-Security-Policy", part === undefined ? PAGE_POLICY : MESSAGE_POLICY);
    ctx.type = "html";
    if (path === "") ctx.body = listPage(this.#messages);
    else if (message === undefined) [ctx.body, ctx.status] = [missingPage(), 404];
    else ctx.body = part === undefined ? messagePage(message) : withPictures(message);
  }
}

/**
 * A mailbox for a configuration that sends no mail, outside production. A separate worker would not see it, so there is
 * none if this process doesn't deliver.
 */
export function mailboxFor({ production, mail, mailer, notifications }: Configuration): Mailbox | undefined {
  const isNeeded = mail === undefined && mailer === undefined && notifications.worker;
  return isNeeded && !production ? new Mailbox() : undefined;
}

/** Whether the request comes from this machine, and that no other host name led its browser here (DNS rebinding). */
function isLocal({ req }: Context): boolean {
  const address = (req.socket.remoteAddress ?? "").replace(/^::ffff:(?=[\d.]+$)/, "");
  const version = isIP(address);
  if (version === 0 || !LOOPBACK.check(address, version === 4 ? "ipv4" : "ipv6")) return false;
  return /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d+)?$/i.test(req.headers.host ?? "");
}

function page(title: string, content: Html): string {
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <title>${title}</title>
        ${STYLE}
      </head>
      <body>
        <h1>${title}</h1>
        ${content}
      </body>
    </html>`.text;
}

function listPage(messages: readonly Received[]): string {
  if (messages.length === 0)
    return page("Sent mail", html`<p>No mail was sent since the server started.</p>`);
  return page(
    "Sent mail",
    html`<p>
        The last ${MAX_MESSAGES} messages, newest first. They are kept in memory until the server stops.
      </p>
      <ul>
        ${messages.map(
          ({ number, at, to, subject }) =>
            html`<li>
              <a href="${MAILBOX_PATH}/${number}"
                ><strong>${subject}</strong><span>${at.toLocaleTimeString("en-GB")} · ${to}</span></a
              >
            </li>`,
        )}
      </ul>`,
  );
}

/** The HTML of a message with its attached pictures, as a mail program shows it. */
function withPictures({ html: content, attachments = [] }: Received): string {
  const urls = new Map(
    attachments.map(({ cid, contentType, content: bytes }) => [
      `cid:${cid}`,
      `data:${contentType};base64,${Buffer.from(bytes).toString("base64")}`,
    ]),
  );
  return content.replaceAll(/\bcid:[\w.@-]+/g, (address) => urls.get(address) ?? address);
}

function messagePage({ number, from, to, messageId, subject, text }: Received): string {
  const headers = { From: from, To: to, "Message-ID": messageId };
  return page(
    subject,
    html`<p><a href="${MAILBOX_PATH}">All messages</a></p>
      <dl>
        ${Object.entries(headers).map(
          ([name, value]) =>
            html`<dt>${name}</dt>
              <dd>${value}</dd>`,
        )}
      </dl>
      <h2>HTML</h2>
      <iframe
        title="HTML"
        sandbox="allow-popups allow-popups-to-escape-sandbox"
        src="${MAILBOX_PATH}/${number}/html"
      ></iframe>
      <h2>Text</h2>
      ${new Html(`<pre>${linked(text)}</pre>`)}`,
  );
}

/** Escapes the text, and makes links of the addresses in it. */
function linked(text: string): string {
  const parts = text.split(/(https?:\/\/[^\s<>"']+)/);
  return parts
    .map((part, i) => (i % 2 === 1 ? html`<a href="${part}">${part}</a>` : html`${part}`).text)
    .join("");
}

function missingPage(): string {
  return page(
    "No such message",
    html`<p>The server has forgotten it. <a href="${MAILBOX_PATH}">All messages</a></p>`,
  );
}
