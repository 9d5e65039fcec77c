/**
 * Mail during development: without a mail server, the last messages are kept in memory and shown at `/dev/mail`, on the
 * same machine only. The bundled server has one outside production.
 */
import { BlockList, isIP } from "node:net";
import type { Context, Middleware } from "koa";
import type { SignInServiceConfig } from "../config/input.ts";
import { readConfiguration } from "../config/read.ts";
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
const KEPT = 50;

const LOOPBACK = loopback();

function loopback(): BlockList {
  const list = new BlockList();
  list.addSubnet("127.0.0.0", 8, "ipv4");
  list.addAddress("::1", "ipv6");
  return list;
}

/** Messages are HTML from templates of the service, but the page doesn't rely on that: no scripts, nothing from outside. */
const POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";
const PAGE_POLICY = `${POLICY}; frame-src 'self'; frame-ancestors 'none'`;
const MESSAGE_POLICY = `${POLICY}; frame-ancestors 'self'; sandbox allow-popups allow-popups-to-escape-sandbox`;

const STYLE = new Html(`<style>
body { max-width: 46rem; margin: 2rem auto; padding: 0 1rem; font: 1rem/1.5 system-ui, sans-serif; color-scheme: light dark }
pre { white-space: pre-wrap; overflow-wrap: anywhere } iframe { width: 100%; height: 30rem; border: 1px solid; background: #fff }
td, th { padding: .25rem 1rem .25rem 0; text-align: start; overflow-wrap: anywhere }
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
    this.#messages.length = Math.min(this.#messages.length, KEPT);
    return Promise.resolve();
  }

  /** Handles `/dev/mail`. Other machines get what they would get without it. */
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
    else ctx.body = part === undefined ? messagePage(message) : message.html;
  }
}

/**
 * A mailbox for a configuration that sends no mail, outside production. A separate worker would not see it, so there is
 * none if this process doesn't deliver.
 */
export function mailboxFor(config: SignInServiceConfig): Mailbox | undefined {
  const { production, mail, mailer, notifications } = readConfiguration(config);
  const isNeeded = mail === undefined && mailer === undefined && notifications.worker;
  return isNeeded && !production ? new Mailbox() : undefined;
}

/** Whether the request comes from this machine, and its browser was sent here by no other host name (DNS rebinding). */
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
    html`<p>The last ${KEPT} messages, newest first. They are kept in memory until the server stops.</p>
      <table>
        <thead>
          <tr>
            <th scope="col">Time</th>
            <th scope="col">To</th>
            <th scope="col">Subject</th>
          </tr>
        </thead>
        <tbody>
          ${messages.map(
            ({ number, at, to, subject }) =>
              html`<tr>
                <td>${at.toLocaleTimeString("en-GB")}</td>
                <td>${to}</td>
                <td><a href="${MAILBOX_PATH}/${number}">${subject}</a></td>
              </tr>`,
          )}
        </tbody>
      </table>`,
  );
}

function messagePage({ number, from, to, messageId, subject, text }: Received): string {
  const headers = { From: from, To: to, "Message-ID": messageId };
  return page(
    subject,
    html`<p><a href="${MAILBOX_PATH}">All messages</a></p>
      <table>
        <tbody>
          ${Object.entries(headers).map(
            ([name, value]) =>
              html`<tr>
                <th scope="row">${name}</th>
                <td>${value}</td>
              </tr>`,
          )}
        </tbody>
      </table>
      <h2>Text</h2>
      ${new Html(`<pre>${linked(text)}</pre>`)}
      <h2>HTML</h2>
      <iframe
        title="HTML"
        sandbox="allow-popups allow-popups-to-escape-sandbox"
        src="${MAILBOX_PATH}/${number}/html"
      ></iframe>`,
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
