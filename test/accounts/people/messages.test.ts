/** What people read in mail, and what is stored of it. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "@jest/globals";
import { readConfiguration } from "../../../config/read.ts";
import type { SignInServiceConfig } from "../../../config/input.ts";
import { createMessages, type RenderMail } from "../../../accounts/people/messages.ts";
import { type MailKind, type NewMail, openMail, sealMail } from "../../../records/people/mail-kinds.ts";
import { normalizeCode } from "../../../accounts/people/confirmations.ts";
import { contrast } from "../../../core/palette.ts";
import { createSealer } from "../../../core/sealing.ts";
import { newFolder } from "../../examples/processes.ts";

const AT = Date.parse("2026-11-22T23:10:00Z");
const sealer = createSealer([Buffer.alloc(32, 7).toString("base64")]);

function messagesWith(more: Partial<SignInServiceConfig> = {}): RenderMail {
  return createMessages(
    readConfiguration({
      deployments: {
        oauth2: { url: "https://login.example/a" },
        openid: { url: "https://login.example/b" },
      },
      proxy: false,
      storage: "sqlite:./sign-in.db",
      providers: { google: { client_id: "1", client_secret: "2" } },
      ...more,
      interactions: { ...more.interactions, theme: { name: "Example", ...more.interactions?.theme } },
    }),
  );
}

function mail(kind: MailKind, more: Partial<NewMail> = {}): NewMail {
  const params = { at: String(AT), address: "old" };
  return { kind, to: "ada@example.com", deployment: "openid", params, expiresAt: AT + 1, ...more };
}

const NOTICES: readonly NewMail[] = [
  mail("password-changed"),
  mail("address-changed"),
  mail("address-changed", { params: { at: String(AT), address: "new" } }),
  mail("many-failures", { params: { at: String(AT), failures: "100" } }),
  mail("new-browser", { params: { at: String(AT), browser: "Firefox", system: "Windows" } }),
  mail("new-browser", { params: { at: String(AT), system: "Android" } }),
  mail("new-browser", { params: { at: String(AT) } }),
  mail("identity-linked", { params: { at: String(AT), provider: "google", address: "ada@gmail.com" } }),
  mail("identity-linked", { params: { at: String(AT), provider: "gone" } }),
  mail("factors-changed", { params: { at: String(AT), change: "provider-removed", provider: "google" } }),
  mail("operator-factor", { params: { at: String(AT), operator: "3f0c7d1e-8f5b-4c39-9d4e-2a6b1c0d7e8f" } }),
];
const LINK = "bGluayBvZiAzMiBieXRlcywgd2hpY2ggaXMgcmFuZG9t_-A";
const WITH_CODE = (["confirm-registration", "reset-password", "confirm-address"] as const).map((kind) =>
  mail(kind, { params: { at: String(AT), code: "K7QM2XTV", link: LINK } }),
);
const LAST = mail("reset-password", {
  params: { at: String(AT), code: "K7QM2XTV", link: LINK, until: String(AT) },
});
const KNOWN = mail("known-address", { params: { at: String(AT), code: "", link: "" } });

it.each([
  ["en", "November 22, 2026 at 11:10 PM UTC"],
  ["pl", "22 listopada 2026 23:10 UTC"],
  ["de", "22. November 2026 um 23:10 UTC"],
  ["uk", "22 листопада 2026 р. о 23:10 UTC"],
])(
  "mail in %s is complete: a subject of one line, the time, and the same words in text and HTML [D-MAIL-2]",
  (locale, time) => {
    const render = messagesWith({ interactions: { locales: ["en", "pl", "de", "uk"] } });
    for (const variant of [...NOTICES, ...WITH_CODE, LAST, KNOWN]) {
      const { subject, text, html } = render("1", { ...variant, locale });
      expect(subject).toMatch(/^[^\r\n{}]{10,78}$/);
      expect(html).toContain(`<html lang="${locale}" dir="ltr">`);
      expect(html).toContain(`<title>${subject}</title>`);
      // A narrow no-break space may be before PM.
      if ([...NOTICES, LAST].includes(variant)) expect(text.replaceAll("\u202f", " ")).toContain(time);
      for (const line of text.trim().split(/\n+/)) {
        expect(html).toContain(line === "K7QM2XTV" ? "K7QM 2XTV" : line);
      }
      expect(`${text}${html}`).not.toMatch(/undefined|\{\w+\}|<script|<img|src=|url\(/i);
    }
  },
);

// Somebody may have come by a provider, a passkey or a code by mail.
it.each([
  ["en", "someone else can sign in to your account"],
  ["pl", "ktoś inny może logować się na Twoje konto"],
  ["de", "kann sich jemand anderes bei Ihrem Konto anmelden"],
  ["uk", "хтось інший може входити у ваш обліковий запис"],
])("about somebody else who has signed in does not say how, in %s", (locale, what) => {
  const render = messagesWith({ interactions: { locales: ["en", "pl", "de", "uk"] } });
  for (const kind of ["new-browser", "recovery-code-used", "confirm-factor"] as const) {
    const params = { at: String(AT), left: "3", code: "K7QM2XTV" };
    expect(render("1", mail(kind, { params, locale })).text).toContain(what);
  }
});

/** What a person sees of the HTML. */
const seen = (html: string): string =>
  html
    .replace(/<head>[^]*<\/head>/, "")
    .replaceAll(/<[^>]+>/g, "")
    .trim();

it("with a code shows it in two groups in HTML, and copying it from there gives the code", () => {
  for (const variant of WITH_CODE) {
    const { html } = messagesWith()("1", variant);
    const [copied = ""] = /^K7QM.*$/m.exec(seen(html)) ?? [];
    expect(copied).toBe("K7QM 2XTV");
    expect(normalizeCode(copied)).toBe("K7QM2XTV");
    // The first line that a mail program shows beside the subject, also on a locked screen.
    expect(seen(html).split("\n")[0]).not.toContain("K7QM");
  }
});

it("with a code says which client it leads to, whatever its name is", () => {
  const client = 'News</h1><img src=x onerror="alert(1)">\r\nBcc: eve@example.com\n\nK0000000\n\n{time}';
  for (const variant of WITH_CODE) {
    const render = messagesWith();
    const { subject, text, html } = render("1", { ...variant, params: { ...variant.params, client } });
    expect(render("1", variant).subject).toBe(subject);
    expect(html).toContain("to continue to News&lt;/h1&gt;&lt;img src=x");
    expect(html).not.toMatch(/<img|<\/h1><img/);
    expect(text).toMatch(/^[^\n]+\nto continue to News[^\n]*Bcc: eve@example\.com K0000000 \{time\}\n\n/);
    expect(text.match(/^[0-9A-Z]{8}$/gm)).toEqual(["K7QM2XTV"]);
  }
  for (const variant of [...NOTICES, KNOWN]) {
    const { text, html } = messagesWith()("1", { ...variant, params: { ...variant.params, client } });
    expect(text + html).not.toContain("News");
  }
});

it("has the colours of the theme, light and dark, and its text can be read on each", () => {
  for (const accent of [undefined, "#0f766e", "#ffff00", "#000000"]) {
    const theme = accent === undefined ? {} : { accent };
    const { html } = messagesWith({ interactions: { theme } })("1", WITH_CODE[0]!);
    expect(html).toContain('<meta name="color-scheme" content="light dark">');
    const dark = new Map(
      [...html.matchAll(/^\.(\w+) \{ (?:background-)?color: (#\w+)/gm)].map(([, name, value]) => [
        name,
        value,
      ]),
    );
    for (const name of ["text", "muted"])
      for (const on of ["paper", "card", "code"])
        expect(contrast(dark.get(name) ?? "", dark.get(on) ?? "")).toBeGreaterThanOrEqual(
          on === "code" && name === "muted" ? 1 : 4.5,
        );
    expect(contrast(dark.get("label") ?? "", dark.get("button") ?? "")).toBeGreaterThanOrEqual(4.5);
    if (accent !== undefined) expect(html).toContain(`bgcolor="${accent}"`);
    // Every element with a colour has a class: a mail program in dark mode changes it together with its background.
    for (const [tag] of html.matchAll(/<[a-z]+ [^>]*[;"]color:#[^>]*>/g))
      expect(tag).toMatch(/class=|hidden/);
  }
  const one = messagesWith({ interactions: { theme: { background: "#222222" } } })("1", WITH_CODE[0]!).html;
  expect(one).toContain('<meta name="color-scheme" content="dark">');
  expect(one).not.toContain("prefers-color-scheme");
});

const withLogo = (logo: string, more: object = {}): RenderMail =>
  messagesWith({ interactions: { theme: { name: "A & B", logo, ...more } } });

it("attaches the logo if mail programs show its format, and names the service otherwise", () => {
  const folder = newFolder();
  const png = join(folder, "logo.png");
  const svg = join(folder, "logo.svg");
  writeFileSync(png, Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 1]));
  writeFileSync(svg, '<svg xmlns="http://www.w3.org/2000/svg"/>');
  const { html, attachments } = withLogo(png)("1", KNOWN);
  expect(html).toMatch(/<img class="logo text" src="cid:logo" alt="A &amp; B"/);
  expect(attachments).toMatchObject([{ cid: "logo", contentType: "image/png", filename: "logo.png" }]);
  expect(html.match(/src=|url\(|<link/g)).toEqual(["src="]);
  const plain = withLogo(svg)("1", KNOWN);
  expect(plain.attachments).toBeUndefined();
  expect(plain.html).not.toContain("<img");
  expect(plain.html).toMatch(/>A &amp; B<\/p>/);
  expect(() => withLogo(join(folder, "none.png"))).toThrow("config.interactions.theme.logo");
});

it("shows the dark logo in dark mode, and attaches it only where it can be seen", () => {
  const folder = newFolder();
  const [png, dark, svg] = ["logo.png", "dark.png", "dark.svg"].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  const bytes = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a];
  writeFileSync(png, Buffer.from([...bytes, 1]));
  writeFileSync(dark, Buffer.from([...bytes, 2]));
  writeFileSync(svg, '<svg xmlns="http://www.w3.org/2000/svg"/>');
  const { html, attachments } = withLogo(png, { logoDark: dark })("1", KNOWN);
  expect(attachments).toMatchObject([
    { cid: "logo", filename: "logo.png", content: Buffer.from([...bytes, 1]) },
    { cid: "dark-logo", filename: "dark-logo.png", content: Buffer.from([...bytes, 2]) },
  ]);
  expect(html).toMatch(/<img class="logo-dark text" src="cid:dark-logo" alt="A &amp; B"[^>]*display:none/);
  expect(html).toContain(".logo { display: none !important }");
  for (const render of [
    withLogo(png, { logoDark: svg }),
    withLogo(png, { logoDark: dark, background: "#ffffff" }),
  ])
    expect(render("1", KNOWN).attachments).toMatchObject([{ cid: "logo" }]);
  expect(withLogo(svg, { logoDark: dark })("1", KNOWN).attachments).toBeUndefined();
  expect(() => withLogo(png, { logoDark: join(folder, "none.png") })).toThrow(
    "config.interactions.theme.logoDark",
  );
});

it("ends with the help of the service, in the language of the mail", () => {
  const render = messagesWith({
    interactions: { links: { help: "https://example.org/{locale}/help?a=1&b=2" } },
  });
  const { text, html } = render("1", mail("password-changed", { locale: "pl" }));
  expect(text).toMatch(/\nExample\nPomoc: https:\/\/example\.org\/pl\/help\?a=1&b=2\n$/);
  expect(html).toContain('href="https://example.org/pl/help?a=1&amp;b=2"');
  const mailbox = messagesWith({ interactions: { links: { help: "mailto:help@example.org" } } });
  expect(mailbox("1", KNOWN).text).toMatch(/\nHelp: help@example\.org\n$/);
});

it("with a code has it on a line of its own, and a link to the deployment that was asked [D-REGISTER-6]", () => {
  const render = messagesWith();
  for (const variant of WITH_CODE) {
    const { subject, text, html } = render("1", variant);
    expect(text).toMatch(/\n\nK7QM2XTV\n\n/);
    expect(text).toContain(`\n\nhttps://login.example/b/confirm?token=${LINK}\n\n`);
    expect(html).toContain(`href="https://login.example/b/confirm?token=${LINK}"`);
    expect(subject).not.toContain("K7QM");
    const other = render("1", { ...variant, deployment: "oauth2" });
    expect(other.text).toContain(`https://login.example/a/confirm?token=${LINK}\n`);
  }
  const { text, html } = render("1", KNOWN);
  expect(`${text}${html}`).not.toContain("/confirm");
  expect(text).toContain("\n\nhttps://login.example/b/account\n\n");
});

it("is in the first configured language if that of the mail is unknown or not configured any more", () => {
  const render = messagesWith({ interactions: { locales: ["pl", "en"] } });
  expect(render("1", mail("password-changed")).subject).toBe("Twoje hasło zostało zmienione");
  expect(render("1", mail("password-changed", { locale: "de" })).subject).toBe(
    "Twoje hasło zostało zmienione",
  );
  for (const locale of ["en", "en-GB"])
    expect(render("1", mail("password-changed", { locale })).subject).toBe("Your password was changed");
});

it("links to the deployment of the mail, comes from its host, and has an id that does not change", () => {
  const render = messagesWith();
  const first = render("an-id", mail("password-changed"));
  expect(first).toEqual(render("an-id", mail("password-changed")));
  expect(first).toMatchObject({
    messageId: "<an-id@login.example>",
    from: '"Example" <no-reply@login.example>',
  });
  expect(first.text).toContain("\n\nhttps://login.example/b/account\n\n");
  expect(render("1", mail("password-changed", { deployment: "oauth2" })).text).toContain(
    "https://login.example/a/account",
  );
  const named = messagesWith({ interactions: { theme: { name: 'A "B" \\, C' } } });
  expect(named("1", KNOWN).from).toBe('"A \\"B\\" \\\\, C" <no-reply@login.example>');
  const own = messagesWith({ mail: { url: "smtp://mail.example", from: "Help <help@example.org>" } });
  expect(own("1", mail("password-changed")).from).toBe("Help <help@example.org>");
});

it("escapes texts of the configuration, and keeps a subject on one line", () => {
  const copy = {
    en: { "mail.password.subject": "One\r\nBcc: eve@example.com\u2028<b>", "mail.footer": "<i>" },
  };
  const { subject, html } = messagesWith({
    interactions: { copy, theme: { name: "<img src=x>" } },
  })("1", mail("password-changed"));
  expect(subject).toBe("One Bcc: eve@example.com <b>");
  expect(html).not.toMatch(/<img|<b>|<i>/);
});

it.each([
  "a@example.com\r\nBcc: eve@example.com",
  "Eve <eve@example.com>\r\nBcc: b@example.com",
  "a@b.example, c@d.example",
  "x".repeat(10_000),
])("a sender such as %j stops the start", (from) => {
  expect(() => messagesWith({ mail: { url: "smtp://mail.example", from } })).toThrow("config.mail");
});

it("is stored without its recipient and parameters in plain text [D-MAIL-4]", () => {
  const written = mail("password-changed", { locale: "pl", params: { at: "1", code: "SECRET-CODE" } });
  const stored = sealMail(sealer, written, AT);
  expect(JSON.stringify(stored)).not.toMatch(/@|SECRET|"pl"/);
  expect(openMail(sealer, stored)).toEqual(written);
  // The contents of one mail can't be put into another one.
  expect(() => openMail(sealer, { ...stored, id: "other" })).toThrow();
});
