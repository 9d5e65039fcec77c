/** A record, from the output of the operation that reads it, and what can be done with it. */
import type { AnyRow } from "../../../accounts/operations/operation.ts";
import type { ConsoleAnswer, ConsoleRequest } from "../request.ts";
import { nameOf } from "../entries.ts";
import { memberLabel, type Showing, shownValue } from "./values.ts";
import { consequences, verbLabel } from "./words.ts";

/** An operation on the record, as the page offers it. */
export interface OfferedAction {
  readonly verb: string;
  readonly row: AnyRow;
  readonly href: string;
  /** Whether the operator may do it. */
  readonly isAllowed: boolean;
}

/** Members that the head shows. */
const IN_HEAD: ReadonlySet<string> = new Set(["name", "disabled"]);

export function recordAnswer(
  request: ConsoleRequest,
  { noun, entry }: { readonly noun: string; readonly entry: string },
  record: Readonly<Record<string, unknown>>,
  { actions, showing }: { readonly actions: readonly OfferedAction[]; readonly showing: Showing },
): ConsoleAnswer {
  const { t, params } = request;
  const identifier = params[0] ?? "";
  const name = typeof record["name"] === "string" && record["name"] !== "" ? record["name"] : identifier;
  const members = Object.keys(record).filter((each) => !IN_HEAD.has(each));
  const allowed = actions.filter(({ isAllowed }) => isAllowed);
  const isDanger = ({ row }: OfferedAction): boolean => row.confirm === "typed" || row.confirm === "final";
  const shown = ({ href, verb }: OfferedAction) => {
    const what = verbLabel(t, noun, verb);
    return {
      href,
      what,
      label: t("admin.verb.opens", { verb: what }),
      text: consequences(t, noun, verb).join(" "),
    };
  };
  return {
    kind: "page",
    view: "console-record",
    heading: name,
    lead: name === identifier ? "" : identifier,
    crumbs: [{ label: nameOf(t, entry), href: `/${entry}` }],
    ...(record["disabled"] === true && { badge: { text: t("admin.flag.disabled"), tone: "bad" } }),
    locals: {
      facts: members.map((each) => ({
        label: memberLabel(t, each),
        value: shownValue(showing, each, record[each]),
      })),
      doing: allowed.filter((each) => !isDanger(each)).map(shown),
      danger: allowed.filter(isDanger).map(shown),
      others: othersText(request, noun, actions),
    },
  };
}

/** Who can do what the operator can't: nothing is drawn that does nothing. */
export function othersText(
  { t, operator }: ConsoleRequest,
  noun: string,
  actions: readonly OfferedAction[],
): string {
  const others = actions.filter(({ isAllowed }) => !isAllowed);
  if (others.length === 0) return "";
  const needed = others.some(({ row }) => row.role === "administrator") ? "administrator" : "support";
  const verbs = new Intl.ListFormat(t.locale).format(others.map(({ verb }) => verbLabel(t, noun, verb)));
  return t(`admin.only.${needed}`, { verbs, role: t(`admin.role.${operator.who.role}`) });
}
