/** The mails with realistic data. */
import { join } from "node:path";
import { createMessages } from "../../accounts/people/messages.ts";
import type { SignInServiceConfig } from "../../config/input.ts";
import type { MailMessage } from "../../config/mail.ts";
import { readConfiguration } from "../../config/read.ts";
import type { MailKind, NewMail } from "../../records/people/mail-kinds.ts";
import { ADA, NOW } from "../../interactions/samples/sample.ts";
import type { Visit } from "../../interactions/page.ts";

/** One page or mail in one state. */
export interface Screen {
  readonly name: string;
  html(visit: Visit): string;
}

const WITH_CODE = { code: "K7QM2XTV", link: "bGluayBvZiAzMiBieXRlcywgd2hpY2ggaXMgcmFuZG9t_-A" };

const DOCUMENT = {
  host: "assistant.example.net",
  how: "https",
  api: "Articles",
  scopes: "Read your articles",
};
const ASKED_FROM = { network: "203.0.113.0/24", browser: "Firefox", system: "Windows" };

const MAILS: readonly (readonly [name: string, kind: MailKind, params: NewMail["params"]])[] = [
  ["registration", "confirm-registration", { ...WITH_CODE, client: "News" }],
  ["reset", "reset-password", { ...WITH_CODE, client: "Wirtualna Czytelnia Naukowo-Techniczna" }],
  ["new-address", "confirm-address", WITH_CODE],
  ["known-address", "known-address", {}],
  ["password-changed", "password-changed", {}],
  ["address-old", "address-changed", { address: "old", link: WITH_CODE.link }],
  ["address-new", "address-changed", { address: "new" }],
  ["first-factor", "confirm-factor", { code: WITH_CODE.code, client: "News" }],
  ["sign-in-code", "sign-in-code", { code: WITH_CODE.code, client: "News", ...ASKED_FROM }],
  ["no-sign-in-code", "sign-in-code", { code: "", client: "News", network: ASKED_FROM.network }],
  ["first-identity", "confirm-identity", { code: WITH_CODE.code, client: "News", provider: "Google" }],
  ["invitation", "invitation", { link: WITH_CODE.link, until: String(NOW + 7 * 86_400_000) }],
  ["first-app-added", "factors-changed", { change: "app-added", link: WITH_CODE.link }],
  ["passkey-added", "factors-changed", { change: "passkey-added" }],
  ["linked", "identity-linked", { provider: "google", address: "ada@gmail.com", link: WITH_CODE.link }],
  ["unlinked", "factors-changed", { change: "provider-removed", provider: "google" }],
  ["factors-removed", "factors-changed", { change: "all-removed" }],
  ["recovery-code", "recovery-code-used", { left: "7" }],
  ["app-stopped", "app-stopped", { count: "100" }],
  ["many-failures", "many-failures", { failures: "100" }],
  ["device-connected", "device-connected", { client: "News on TV" }],
  ["document-allowed", "document-allowed", DOCUMENT],
  ["document-allowed-device", "document-allowed", { ...DOCUMENT, how: "loopback" }],
  ["operator-factor", "operator-factor", { operator: "3f0c7d1e-8f5b-4c39-9d4e-2a6b1c0d7e8f" }],
  ["new-browser", "new-browser", { browser: "Firefox", system: "Windows" }],
];

/** The look of a team. */
const THEME = {
  name: "Contoso Library",
  accent: "#0f766e",
  logo: join(import.meta.dirname, "../../examples/theme/library.png"),
};

/** Every mail, and one of them in the look of a team. */
export function mailScreens(interactions: SignInServiceConfig["interactions"]): readonly Screen[] {
  const [first] = shown({ ...interactions, theme: THEME });
  return [...shown(interactions), ...(first === undefined ? [] : [{ ...first, name: "mail-own-look" }])];
}

/** Each mail, as it is sent in a language. */
export function sampleMails(interactions: SignInServiceConfig["interactions"] = {}): readonly {
  readonly name: string;
  readonly kind: MailKind;
  readonly render: (locale: string) => MailMessage;
}[] {
  const render = createMessages(
    readConfiguration({
      deployments: { openid: { url: "http://127.0.0.1:3000" } },
      providers: { google: { client_id: "news", client_secret: "secret" } },
      interactions,
    }),
  );
  return MAILS.map(([name, kind, params]) => ({
    name,
    kind,
    render: (locale) =>
      render("1", {
        kind,
        to: ADA,
        locale,
        deployment: "openid",
        params: { at: String(NOW), ...params },
        expiresAt: NOW,
      }),
  }));
}

/** Mails with their pictures inside the HTML, as a mail program shows them. */
function shown(interactions: SignInServiceConfig["interactions"]): readonly Screen[] {
  return sampleMails(interactions).map(({ name, render }) => ({
    name: `mail-${name}`,
    html({ locale }) {
      const { html, attachments = [] } = render(locale);
      return attachments.reduce(
        (before, { cid, contentType, content }) =>
          before.replace(
            `cid:${cid}`,
            `data:${contentType};base64,${Buffer.from(content).toString("base64")}`,
          ),
        html,
      );
    },
  }));
}
