/** The audit in words: what happened, by whom, and how it ended. */
import { fullName } from "../../accounts/names.ts";
import type { Translator } from "../../core/texts.ts";
import { subjectOf } from "../../records/audit/actions.ts";
import type { Actor, AuditRecord } from "../../records/audit/audit-event.ts";
import type { Storage } from "../../records/storage.ts";
import { shortened } from "./derived/values.ts";
import type { ConsoleRequest } from "./request.ts";
import { segmentOf } from "./request.ts";
import { type Cell, nothing, text } from "./tables.ts";

/** Who is behind an actor, for operators: colleagues have names, other people only an identifier. */
export type NameOf = (actor: Actor) => string;

/** The names of the operators among these actors. */
export async function namesOf(
  t: Translator,
  { directory }: Pick<Storage, "directory">,
  actors: readonly Actor[],
): Promise<NameOf> {
  const subs = new Set(
    actors.flatMap(({ kind, id }) => (kind === "operator" && id !== undefined ? [id] : [])),
  );
  const names = new Map<string, string>();
  for (const sub of subs) {
    const account = await directory.findAccount(sub);
    if (account !== undefined) names.set(sub, fullName(account) || account.email);
  }
  return ({ kind, id = "" }) => {
    const word = t(`admin.actor.${kind}`);
    const name = names.get(id) ?? (kind === "account" ? "" : id);
    return name === "" ? word : `${word} ${shortened(name)}`;
  };
}

/** What happened. An action without words is its code. */
export function actionCell(t: Translator, { action }: Pick<AuditRecord, "action">): Cell {
  const [noun = "", what] = action.split(".");
  const key = what === undefined ? `admin.action.${noun}` : `admin.action.${noun}.${what}`;
  return t.has(key) ? { ...text(t(key)), note: action } : text(action);
}

/** What it is about, with a link where the operator can go. */
export function subjectCell({ opens }: ConsoleRequest, { action, subject }: AuditRecord): Cell {
  if (subject === null) return nothing;
  const entry = ENTRIES[subjectOf(action) ?? ""];
  const cell: Cell = { value: { kind: "id", text: shortened(subject) } };
  return entry !== undefined && opens(entry) ? { ...cell, href: `/${entry}/${segmentOf(subject)}` } : cell;
}

const ENTRIES: Readonly<Record<string, string>> = {
  account: "people",
  client: "clients",
  service: "services",
  group: "groups",
  portal: "portals",
  API: "apis",
  delivery: "deliveries",
  receiver: "receivers",
};

/** From where it came. */
export function originCell(t: Translator, { address, client, browser }: AuditRecord): Cell {
  const through = client === null ? [] : [t("admin.audit.through", { client: shortened(client) })];
  const note = [...through, ...(browser === null ? [] : [browser])].join(", ");
  if (address === null) return note === "" ? nothing : { ...nothing, note };
  return { ...text(address), ...(note !== "" && { note }) };
}

/** How it ended, how often, and why. */
export function resultCell(t: Translator, { outcome, count, reason, detail }: AuditRecord): Cell {
  const times = count === 1 ? "" : `×${count}`;
  const details = Object.entries(detail).map(([name, value]) => `${name}: ${String(value)}`);
  const note = [times, reason ?? "", ...details].filter((each) => each !== "").join(" · ");
  const cell: Cell =
    outcome === "failure"
      ? { value: { kind: "badge", text: t("admin.audit.refused"), tone: "bad" } }
      : { value: { kind: "quiet", text: t("admin.audit.done") } };
  return note === "" ? cell : { ...cell, note: shortened(note) };
}
