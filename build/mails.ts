/** Every mail that people get: its subject and what is in it come from rendering it, and when it is sent stands here. */
import { MAIL_KINDS, type MailKind } from "../records/people/mail-kinds.ts";
import { type Page, pageWithTables, table } from "./page.ts";
import { sampleMails } from "./screens/mails.ts";

/** Notices wait for three days; what somebody has asked for is of use as long as its code or link. */
const DAYS = "3 days";

/** To whom, when, and for how long it is tried. */
const SENT: Readonly<Record<MailKind, readonly [to: string, when: string, triedFor: string]>> = {
  "confirm-registration": ["the address that was entered", "Somebody registers", "1 hour"],
  "known-address": [
    "the address that was entered",
    "Somebody registers with it, or changes to it, but it belongs to an account",
    "1 hour",
  ],
  invitation: [
    "the invited address",
    "An operator invites a person, or sends the invitation again",
    "7 days",
  ],
  "reset-password": [
    "the account",
    "Somebody forgot the password, or an operator sends a link for a new one",
    "1 hour",
  ],
  "sign-in-code": [
    "the account, if its address is confirmed",
    "Somebody asks for a code to sign in. Where a code is not enough, it has none, and says so",
    "10 minutes",
  ],
  "confirm-address": ["the new address", "A person changes the address", "1 hour"],
  "confirm-factor": ["the account", "A person adds a first second factor during a sign-in", "1 hour"],
  "confirm-identity": ["the account", "A person links an account at a provider during a sign-in", "1 hour"],
  "password-changed": [
    "the account",
    "The password was changed or replaced, by the person or by an operator",
    DAYS,
  ],
  "address-changed": [
    "the old and the new address",
    "The address was changed, by the person or by an operator",
    DAYS,
  ],
  "factors-changed": [
    "the account",
    "A second factor was added or removed, recovery codes were made anew, or an identity was unlinked",
    DAYS,
  ],
  "identity-linked": ["the account", "An account at a provider was linked", DAYS],
  "recovery-code-used": ["the account", "Somebody signed in with a recovery code", DAYS],
  "app-stopped": ["the account", "The authenticator app is refused after too many wrong codes", DAYS],
  "many-failures": [
    "the account",
    "The hundredth failed sign-in in a row, counted for the form and the password grant separately",
    DAYS,
  ],
  "new-browser": [
    "the account",
    "A sign-in in a browser in which the account has not been used with its current password, except the first sign-in of an account",
    DAYS,
  ],
  "device-connected": ["the account", "A person has connected a device", DAYS],
  "document-allowed": [
    "the account",
    "A person has allowed something to a client that nobody has registered",
    DAYS,
  ],
  "operator-factor": ["every other operator", "An operator has added a first second factor", DAYS],
};

const CODE = /^\s*K7QM ?2XTV\s*$/mu;

/** What stands in the mails of one kind. */
function contentOf(texts: readonly string[]): string {
  const parts = [
    texts.some((text) => CODE.test(text)) ? "a code" : "",
    texts.some((text) => text.includes("/confirm?token=")) ? "a link" : "",
  ].filter((part) => part !== "");
  return parts.length === 0 ? "nothing" : parts.join(" and ");
}

/** @throws Error if a kind of mail has no sample. */
export const mailsPage: Page = pageWithTables("docs/reference/mail.md", () => {
  const samples = Map.groupBy(sampleMails(), ({ kind }) => kind);
  const rows = MAIL_KINDS.map((kind) => {
    const mails = (samples.get(kind) ?? []).map(({ render }) => render("en"));
    if (mails.length === 0) throw new Error(`${kind}: has no sample`);
    const subjects = [...new Set(mails.map(({ subject }) => `"${subject}"`))].join("<br>");
    const [to, when, triedFor] = SENT[kind];
    const content = contentOf(mails.map(({ text }) => text));
    return [`\`${kind}\`<br>${subjects}`, to, when, `${content}; tried for ${triedFor}`];
  });
  return { mails: table(["Mail and subject", "To", "Sent when", "Brings"], rows) };
});
