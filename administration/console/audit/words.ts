/** The audit in words: what happened, by whom, and how it ended. */
import { ACCOUNT_CLIENT, ADMINISTRATION_CLIENT, CONSOLE_CLIENT } from "../../../accounts/clients/client.ts";
import { fullName } from "../../../accounts/names.ts";
import { type Way, WAYS } from "../../../accounts/ways/ways.ts";
import { roleOf } from "../../../config/operators.ts";
import type { Translator } from "../../../core/texts.ts";
import { ownValue } from "../../../core/untrusted-keys.ts";
import type { PageServices } from "../../../interactions/services.ts";
import {
  DOCUMENT,
  documentId,
  isDocumentId,
  type StoredDocument,
} from "../../../records/directory/document-kinds.ts";
import { AUDIT_ACTIONS, subjectOf } from "../../../records/audit/actions.ts";
import type { Actor, AuditDetail, AuditRecord } from "../../../records/audit/audit-event.ts";
import { choiceLabel, memberLabel, recordHref, shortened } from "../derived/values.ts";
import type { ConsoleRequest } from "../request.ts";
import { type Cell, nothing, text } from "../tables.ts";

/** Characters of the id of a client that nobody has registered. */
const SHOWN_ID = 20;

/** Who is behind an actor, for operators: colleagues have names, other people only an identifier. */
export interface Names {
  /** As a part of a sentence. */
  inline(actor: Actor): string;
  /** With what they are below. */
  cell(actor: Actor): Cell;
  /** What a client is known by: its id, or the host of one that nobody has registered. */
  client(client_id: string): string;
}

/** The names of the operators among these actors, and of the clients among these that nobody has registered. */
export async function namesOf(
  t: Translator,
  { storage: { directory, records }, configuration }: Pick<PageServices, "configuration" | "storage">,
  actors: readonly Actor[],
  clients: readonly (string | null)[] = [],
): Promise<Names> {
  const ids = [...new Set(clients)].filter((id) => id !== null && isDocumentId(id)) as string[];
  const documents = await records.get<StoredDocument[]>(ids.map((id) => DOCUMENT.ref(id)));
  const hosts = new Map(
    documents.flatMap((each) =>
      each?.value.first_grant_at === undefined
        ? []
        : [[documentId(each.value.url), new URL(each.value.url).host] as const],
    ),
  );
  const subs = new Set(
    actors.flatMap(({ kind, id }) => (kind === "operator" && id !== undefined ? [id] : [])),
  );
  const names = new Map<string, string>();
  for (const sub of subs) {
    const account = await directory.findAccount(sub);
    if (account !== undefined) names.set(sub, shortened(fullName(account) || account.email));
  }
  const named = ({ kind, id = "" }: Actor): string =>
    names.get(id) ?? (kind === "account" ? "" : shortened(id));
  const inline = (actor: Actor): string =>
    [t(`admin.actor.${actor.kind}`), named(actor)].filter((each) => each !== "").join(" ");
  return {
    inline,
    // Of one whose copy is gone, enough of its id to search for it.
    client: (id) => shortened(hosts.get(id) ?? (isDocumentId(id) ? `${id.slice(0, SHOWN_ID)}…` : id)),
    cell(actor) {
      const { kind, id = "" } = actor;
      const name = named(actor);
      if (name === "" || !["operator", "command_line"].includes(kind)) return text(inline(actor));
      const role = kind === "operator" ? roleOf(configuration, id) : undefined;
      return { ...text(name), note: t(role === undefined ? `admin.actor.${kind}` : `admin.role.${role}`) };
    },
  };
}

/** What happened, in words; of one that a later version has recorded, its code. */
export function actionText(t: Translator, action: string): string {
  const [noun = "", what] = action.split(".");
  const key = what === undefined ? `admin.action.${noun}` : `admin.action.${noun}.${what}`;
  return t.has(key) ? t(key) : action;
}

/** What happened, with its code. */
export function actionCell(t: Translator, { action, detail }: Pick<AuditRecord, "action" | "detail">): Cell {
  const { fields } = detail;
  const members = typeof fields === "string" && fields !== "" ? fields.split(/[\s,]+/u) : [];
  const words = actionText(t, action);
  const what = new Intl.ListFormat(t.locale).format(members.map((name) => memberLabel(t, name)));
  const cell = text(what === "" ? words : `${words}: ${what}`);
  return words === action ? cell : { ...cell, note: action };
}

/** The first words of the actions of a group, and its heading. The others are about the service. */
const GROUPS: readonly (readonly [label: string, nouns: readonly string[]])[] = [
  [
    "admin.audit.group.signingIn",
    [
      "sign_in",
      "password_grant",
      "second_factor",
      "session",
      "interaction",
      "password_reset",
      "device",
    ].concat(["grant", "code", "refresh_token", "family"]),
  ],
  ["admin.audit.group.accounts", ["account", "invitation", "operator"]],
  ["admin.entry.clients", ["client", "document"]],
  ["admin.section.directory", ["service", "group", "portal", "api"]],
  ["admin.section.notifications", ["delivery", "receiver"]],
  ["admin.section.service", []],
];

/** The actions to choose from, by what they are about. */
export function actionGroups(t: Translator) {
  const groupOf = (action: string): string => {
    const [noun = ""] = action.split(".");
    const found = GROUPS.find(([, nouns]) => nouns.includes(noun)) ?? GROUPS.at(-1);
    return t(found?.[0] ?? "admin.section.service");
  };
  const groups = Map.groupBy(Object.keys(AUDIT_ACTIONS), groupOf);
  return GROUPS.map(([key]) => {
    const label = t(key);
    const options = (groups.get(label) ?? []).map((value) => ({ value, label: actionText(t, value) }));
    return { label, options };
  });
}

/** What it is about, with a link where the operator can go. */
export function subjectCell(
  { opens }: ConsoleRequest,
  { action, subject: id, detail: { address } }: AuditRecord,
): Cell {
  // A document is known by a hash, which says nothing to people.
  const subject =
    subjectOf(action) === "document" && typeof address === "string" && URL.canParse(address) ? address : id;
  if (subject === null) return nothing;
  const entry = ENTRIES[subjectOf(action) ?? ""];
  const isAccount = subjectOf(action) === "account";
  const shown = subject === address ? new URL(subject).host : shortened(subject);
  const cell: Cell = { value: { kind: isAccount ? "short" : "text", text: shown } };
  const href = entry === undefined ? "" : recordHref(opens, entry, subject);
  return href === "" ? cell : { ...cell, href };
}

const ENTRIES: Readonly<Record<string, string>> = {
  account: "people",
  client: "clients",
  document: "documents",
  service: "services",
  group: "groups",
  portal: "portals",
  API: "apis",
  delivery: "deliveries",
  receiver: "receivers",
};

/** What the clients of our own pages are called. */
const PAGES: Readonly<Record<string, string>> = {
  [ADMINISTRATION_CLIENT]: "admin.audit.app.console",
  [CONSOLE_CLIENT]: "admin.audit.app.console",
  [ACCOUNT_CLIENT]: "admin.audit.app.account",
};

/** The client that a record came through. */
export function clientText(
  t: Translator,
  client: string | null,
  names: Pick<Names, "client">,
  isNote = false,
): string {
  if (client === null) return "";
  const page = ownValue(PAGES, client);
  if (page !== undefined) return t(page);
  const name = names.client(client);
  return isNote ? t("admin.audit.through", { client: name }) : name;
}

/** From where it came. */
export function originCell(
  t: Translator,
  { address, client, browser }: AuditRecord,
  names: Pick<Names, "client">,
): Cell {
  const note = [clientText(t, client, names, true), browser ?? ""].filter((each) => each !== "").join(", ");
  if (address === null) return note === "" ? nothing : { ...nothing, note };
  return { ...text(address), ...(note !== "" && { note }) };
}

/** What was shown at a sign-in (RFC 8176), by its kinds. */
export function shownWith(t: Translator, amr: readonly string[]): string {
  const kinds = Object.values(WAYS).filter((way) => way.amr.some((value) => amr.includes(value)));
  return new Intl.ListFormat(t.locale).format(kinds.map(({ texts }) => t(texts.name)));
}

/** The reason for the outcome, in words. A rare reason is shown as it is recorded. */
function reasonText(t: Translator, action: string, reason: string | null): string {
  if (reason === null) return "";
  const [noun = "", what] = action.split(".");
  const own =
    what === undefined ? `admin.reason.${noun}.${reason}` : `admin.reason.${noun}.${what}.${reason}`;
  const key = [own, `admin.reason.${reason}`].find((each) => t.has(each));
  return key === undefined ? reason : t(key);
}

/** What a record says besides, in words where there are some. */
function detailText(t: Translator, name: string, value: AuditDetail[string]): string {
  const what = String(value);
  if (name === "amr") return shownWith(t, what.split(" "));
  if (name === "verified_by") return choiceLabel(t, name, what);
  const way = name === "factor" ? ownValue(WAYS as Readonly<Record<string, Way>>, what) : undefined;
  return way === undefined ? `${name}: ${what}` : t(way.texts.name);
}

/** How it ended, how often, and why. */
export function resultCell(t: Translator, { action, outcome, count, reason, detail }: AuditRecord): Cell {
  const times = count === 1 ? "" : `×${new Intl.NumberFormat(t.locale).format(count)}`;
  const details = Object.entries(detail)
    .filter(([name]) => name !== "fields")
    .map(([name, value]) => detailText(t, name, value));
  const note = [times, reasonText(t, action, reason), ...details].filter((each) => each !== "").join(" · ");
  const cell: Cell =
    outcome === "failure"
      ? { value: { kind: "badge", text: t("admin.audit.refused"), tone: "bad" } }
      : { value: { kind: "quiet", text: t("admin.audit.done") } };
  return note === "" ? cell : { ...cell, note: shortened(note) };
}
