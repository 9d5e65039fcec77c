/** Mail during development: `/dev/mail` of the bundled server. */
import { randomUUID } from "node:crypto";
import { request } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, it } from "@jest/globals";
import Koa from "koa";
import { pino } from "pino";
import { readConfiguration } from "../../config/read.ts";
import { Mailbox, mailboxFor } from "../../testing/mailbox.ts";
import { createSignInService } from "../../lib/index.ts";
import { freePorts, type Running } from "../examples/processes.ts";
import { configuration, Servers } from "../examples/servers.ts";

const servers = new Servers();
const closing: (() => void)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) close();
});

/** What `send` gets. */
const MESSAGE = {
  messageId: "<1@localhost>",
  from: "no-reply@localhost",
  to: "ada@example.com",
  subject: "<b>Subject</b>",
  text: "Go to http://127.0.0.1/account?a=1&b=2 <now>",
  html: "<!doctype html><p onclick=alert(1)>Hello</p><script>alert(1)</script>",
};

interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: string;
}

/** With any `Host`, which `fetch` does not allow. */
function get(url: string, headers: Readonly<Record<string, string>> = {}, method = "GET"): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const sent = request(url, { headers, method }, (response) => {
      let body = "";
      response.setEncoding("utf8").on("data", (part: string) => {
        body += part;
      });
      response.on("end", () =>
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body }),
      );
    });
    sent.on("error", reject).end();
  });
}

/** A mailbox on a port. @param address of the callers; default: their own. */
async function openMailbox(address?: string): Promise<{ readonly url: string; readonly mailbox: Mailbox }> {
  const mailbox = new Mailbox();
  const app = new Koa();
  app.use(async (ctx, next) => {
    if (address !== undefined) Object.defineProperty(ctx.req.socket, "remoteAddress", { value: address });
    await next();
  });
  app.use(mailbox.routes());
  const server = app.listen(0);
  closing.push(() => server.close());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/dev/mail`, mailbox };
}

it("shows the last 50 messages, each as text and as HTML that can't do anything [D-MAIL-5]", async () => {
  const { url, mailbox } = await openMailbox();
  expect((await get(url)).body).toContain("No mail was sent");
  for (let number = 1; number <= 60; number += 1)
    await mailbox.send({ ...MESSAGE, subject: `<b>${number}</b>` });
  const list = await get(`${url}/`);
  expect(list.body.match(/href="\/dev\/mail\/\d+"/g)).toHaveLength(50);
  expect(list.body).toMatch(/&lt;b&gt;60&lt;\/b&gt;[^]*&lt;b&gt;11&lt;/);
  const one = await get(`${url}/60`);
  expect(one.body).toContain("ada@example.com");
  expect(one.body).toContain('<a href="http://127.0.0.1/account?a=1&amp;b=2">');
  expect(one.body).toContain("&lt;now&gt;");
  expect(one.body).toMatch(/<iframe\s[^>]*sandbox="allow-popups allow-popups-to-escape-sandbox"/);
  const html = await get(`${url}/60/html`);
  expect(html.body).toBe(MESSAGE.html);
  expect(html.headers["content-security-policy"]).toMatch(/default-src 'none'.*; sandbox(?! allow-scripts)/);
  for (const { headers, body } of [list, one, html]) {
    expect(headers).toMatchObject({ "cache-control": "no-store", "x-content-type-options": "nosniff" });
    expect(headers["content-security-policy"]).toMatch(
      /default-src 'none'; img-src data:; style-src 'unsafe-inline'/,
    );
    if (body !== html.body) expect(body).not.toMatch(/<script|onclick|<b>/);
  }
  for (const path of ["/10", "/61", "/x", "/60/other", "/60/html/x", "/../x"]) {
    expect((await get(`${url}${path}`)).status).toBe(404);
  }
});

it("shows the pictures that a message brings along, and no others", async () => {
  const { url, mailbox } = await openMailbox();
  const content = Buffer.from([1, 2, 3]);
  await mailbox.send({
    ...MESSAGE,
    html: '<img src="cid:logo"><img src="cid:other"><p>cid:logo.x</p>',
    attachments: [{ cid: "logo", filename: "logo.png", contentType: "image/png", content }],
  });
  const { headers, body } = await get(`${url}/1/html`);
  expect(body).toBe('<img src="data:image/png;base64,AQID"><img src="cid:other"><p>cid:logo.x</p>');
  expect(headers["content-security-policy"]).toContain("img-src data:;");
});

it("is not there for other machines and other host names, nor for other methods", async () => {
  const { url, mailbox } = await openMailbox();
  await mailbox.send(MESSAGE);
  for (const host of ["localhost", "localhost:3000", "127.0.0.1", "127.9.9.9:80", "[::1]:3000"])
    expect((await get(url, { host })).status).toBe(200);
  for (const host of [
    "login.example",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "10.0.0.1",
    "[::2]",
    "a@127.0.0.1",
  ])
    expect([host, (await get(url, { host })).status]).toEqual([host, 404]);
  expect((await get(url, { host: "evil.example", "x-forwarded-host": "localhost" })).status).toBe(404);
  expect((await get(url, {}, "POST")).status).toBe(404);
  for (const address of ["10.0.0.1", "::ffff:192.0.2.1", "2001:db8::1", ""]) {
    const other = await openMailbox(address);
    expect((await get(other.url, { "x-forwarded-for": "127.0.0.1" })).status).toBe(404);
  }
  for (const address of ["::1", "::ffff:127.0.0.1"]) {
    const other = await openMailbox(address);
    expect((await get(other.url)).status).toBe(200);
  }
});

it("is only for a server that sends no mail, outside production, and delivers [D-RUN-1]", () => {
  const here = { deployments: { oauth2: { url: "http://127.0.0.1:3000" } } };
  const production = {
    deployments: { oauth2: { url: "https://login.example" } },
    storage: "sqlite:./x.db",
    interactions: { theme: { name: "Example" } },
    proxy: false,
  } as const;
  expect(mailboxFor(readConfiguration(here))).toBeInstanceOf(Mailbox);
  expect(mailboxFor(readConfiguration(production))).toBeUndefined();
  expect(mailboxFor(readConfiguration({ ...here, mail: "smtp://mail.example" }))).toBeUndefined();
  expect(
    mailboxFor(readConfiguration({ ...here, mailer: { send: () => Promise.resolve() } })),
  ).toBeUndefined();
  expect(mailboxFor(readConfiguration({ ...here, notifications: { worker: false } }))).toBeUndefined();
});

it("gets what the service sends", async () => {
  const { url, mailbox } = await openMailbox();
  const service = await createSignInService({
    deployments: { oauth2: { url: "http://127.0.0.1:3000" } },
    storage: "sqlite::memory:",
    mailer: mailbox,
    logger: pino({ level: "silent" }),
  });
  const sent = new Promise((resolve) => void service.events.on("mail.sent", resolve));
  const { sub } = await service.accounts.create({ email: "ada@example.com", password: "the first password" });
  await service.accounts.setPassword(sub, "the second password");
  await sent;
  expect((await get(url)).body).toContain("Your password was changed");
  expect((await get(`${url}/1`)).body).toContain("http://127.0.0.1:3000/account");
  await service.close();
});

it("is at the address of the bundled server, which logs nothing of it [D-MAIL-5]", async () => {
  const port = await freePorts();
  const url = `http://127.0.0.1:${port}`;
  const file = servers.write({ ...configuration(url), storage: `sqlite:./${randomUUID()}.db`, port });
  const running: Running = servers.run(["--config", file], { env: { HOST: "127.0.0.1" } });
  await running.until(/listening on/);
  expect((await get(`${url}/dev/mail`)).body).toContain("No mail was sent");
  expect((await get(`${url}/dev/mail`, { host: "login.example" })).status).toBe(404);
  expect(running.output()).not.toMatch(/ada@example/);
});
