/** One message to a mail server: who gets it, and why it was not accepted. */
import { afterEach, expect, it } from "@jest/globals";
import { createMailTransport } from "../../../notifier/mail/transport.ts";
import { header, openSmtp, type SmtpServer } from "../../servers/smtp.ts";
import type { MailMessage } from "../../../config/mail.ts";

const servers: SmtpServer[] = [];
afterEach(() => Promise.all(servers.splice(0).map((server) => server.close())));

async function opened(mode?: string): Promise<SmtpServer> {
  const server = await openSmtp(mode);
  servers.push(server);
  return server;
}

function message(more: Partial<MailMessage> = {}): MailMessage {
  return {
    messageId: "<1@login.example>",
    from: "no-reply@login.example",
    to: "ada@example.com",
    subject: "Subject",
    text: "Text",
    html: "<p>HTML</p>",
    ...more,
  };
}

it("never reaches the mail server with an address that is more than one plain address", async () => {
  const smtp = await opened();
  const send = createMailTransport({ url: smtp.url });
  for (const to of [
    "ada@example.com\r\nRCPT TO:<eve@example.com>",
    "ada@example.com\nBcc: eve@example.com",
    "ada@example.com, eve@example.com",
    "Ada <ada@example.com>",
    "<script>alert(1)</script>@example.com",
    `${"x".repeat(10_000)}@example.com`,
    "ada@example.com\0",
    "",
  ]) {
    await expect(send(message({ to }))).rejects.toMatchObject({ code: "address", final: true, message: "" });
  }
  await send(message());
  await smtp.until(1);
  expect(smtp.output().match(/^recipient/gm)).toHaveLength(1);
});

it("keeps line breaks and HTML of a hostile text out of the headers", async () => {
  const smtp = await opened();
  const text = "a\r\n.\r\nMAIL FROM:<eve@example.com>\r\n<script>";
  await createMailTransport({ url: smtp.url })(message({ subject: "One\r\nBcc: eve@example.com", text }));
  const [mail, ...more] = await smtp.until(1);
  expect(more).toEqual([]);
  expect(mail?.to).toEqual(["ada@example.com"]);
  expect(header(mail!, "Bcc")).toBeUndefined();
});

it("sends nothing in clear to another machine, unless that is allowed", async () => {
  const smtp = await opened();
  // This address leads here and is not a loopback address.
  const url = `smtp://user:password@0.0.0.0:${smtp.port}`;
  for (const query of ["", "?ignoreTLS=true", "?requireTLS=false&requireTLS=false&ignoreTLS=1"])
    await expect(createMailTransport({ url: url + query })(message())).rejects.toMatchObject({
      code: "server",
    });
  expect(smtp.output()).not.toMatch(/^recipient/m);
  await createMailTransport({ url: `smtp://0.0.0.0:${smtp.port}`, allowClearText: true })(message());
  await smtp.until(1);
});

it("sends no password before TLS, unless clear text is allowed", async () => {
  const smtp = await opened("password");
  const url = `smtp://user:password@0.0.0.0:${smtp.port}`;
  await expect(createMailTransport({ url })(message())).rejects.toMatchObject({ code: "server" });
  expect(smtp.output()).not.toMatch(/^auth/m);
  await createMailTransport({ url, allowClearText: true })(message());
  await smtp.until(1);
  expect(smtp.output()).toMatch(/^auth/m);
});

it("does not read files or addresses into a message", async () => {
  const smtp = await opened();
  const text = { path: import.meta.filename } as unknown as string;
  await expect(createMailTransport({ url: smtp.url })(message({ text }))).rejects.toMatchObject({
    code: "unexpected",
  });
});

it.each([
  ["refused", "refused", true],
  ["later", "delayed", false],
])("to %s is %s", async (name, code, final) => {
  const smtp = await opened();
  const sent = createMailTransport({ url: smtp.url })(message({ to: `${name}@example.com` }));
  await expect(sent).rejects.toMatchObject({ code, final, message: "" });
});

it("says that the connection broke in the middle of a message", async () => {
  const smtp = await opened("dies");
  const send = createMailTransport({ url: smtp.url });
  await expect(send(message())).rejects.toMatchObject({ code: "connection", final: false });
  await expect(send(message())).rejects.toMatchObject({ code: "connection", final: false });
});

it("gives up a mail server that never answers, and one that never confirms", async () => {
  const silent = await opened("silent");
  await expect(createMailTransport({ url: silent.url }, 200)(message())).rejects.toMatchObject({
    code: "timeout",
    final: false,
  });
  const slow = await opened("slow");
  await expect(createMailTransport({ url: slow.url }, 500)(message())).rejects.toMatchObject({
    code: "timeout",
  });
});

it("gives up a `send` that never ends", async () => {
  const send = createMailTransport({ send: () => new Promise(() => undefined) }, 50);
  await expect(send(message())).rejects.toMatchObject({ code: "timeout", final: false });
});

it("reads the reason from the errors of nodemailer, also of your own `send`", async () => {
  const reasons: readonly (readonly [object, string])[] = [
    [{ code: "EAUTH", responseCode: 535, command: "AUTH PLAIN" }, "authentication"],
    [{ code: "EENVELOPE", responseCode: 553, command: "MAIL FROM" }, "server"],
    [{ code: "EMESSAGE", responseCode: 554, command: "DATA" }, "refused"],
    [{ code: "EMESSAGE", responseCode: 452, command: "DATA" }, "delayed"],
    [{ code: "EDNS" }, "connection"],
    [{ code: "ECONNREFUSED" }, "connection"],
    [{}, "unexpected"],
  ];
  for (const [members, code] of reasons) {
    const send = createMailTransport({ send: () => Promise.reject(Object.assign(new Error("x"), members)) });
    await expect(send(message())).rejects.toMatchObject({ code });
  }
});
