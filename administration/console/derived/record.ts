/** A record, from the output of the operation that reads it, and what can be done with it. */
import type { AnyRow } from "../../../accounts/operations/operation.ts";
import type { ConsoleAnswer, ConsoleRequest } from "../request.ts";
import { nameOf } from "../entries.ts";
import type { Section, Verdict } from "../tables.ts";
import { memberLabel, type Showing, shownValue, type ShownValue } from "./values.ts";
import { consequences, verbLabel } from "./words.ts";

/** An operation on the record, as the page offers it. */
export interface OfferedAction {
  readonly verb: string;
  readonly row: AnyRow;
  readonly href: string;
  /** Whether the operator may do it. */
  readonly isAllowed: boolean;
}

/** What the page of a record says besides its members. */
export interface RecordParts {
  readonly verdict?: Verdict | undefined;
  /** How members are shown, if not as every page of the console does. `undefined`: not here. */
  readonly facts?: Readonly<Record<string, ShownValue | undefined>>;
  readonly sections?: readonly Section[];
  /** What can be done on other pages. */
  readonly links?: readonly { readonly href: string; readonly label: string }[];
}

/** How the page of a record differs from what its row says. */
export interface RecordLook {
  readonly parts?: (
    request: ConsoleRequest,
    record: Readonly<Record<string, unknown>>,
  ) => Promise<RecordParts>;
  /** Operations that stand apart, because they do harm. Default: those that can't be undone. */
  readonly danger?: readonly string[];
  /** What the record is called, if that is not its `name`. */
  readonly called?: (record: Readonly<Record<string, unknown>>) => string;
  /** What is done twice to no end, or is not for every record, is not offered. */
  readonly possible?: (verb: string, record: Readonly<Record<string, unknown>>) => boolean;
}

/** Members that the head shows. */
const IN_HEAD: ReadonlySet<string> = new Set(["name", "disabled"]);

export async function recordAnswer(
  request: ConsoleRequest,
  { noun, entry }: { readonly noun: string; readonly entry: string },
  record: Readonly<Record<string, unknown>>,
  {
    actions,
    showing,
    look,
  }: {
    readonly actions: readonly OfferedAction[];
    readonly showing: Showing;
    readonly look: RecordLook;
  },
): Promise<ConsoleAnswer> {
  const { t, params } = request;
  const { verdict, facts: own = {}, sections = [], links = [] } = (await look.parts?.(request, record)) ?? {};
  const identifier = params[0] ?? "";
  const written = typeof record["name"] === "string" && record["name"] !== "" ? record["name"] : identifier;
  const name = look.called?.(record) ?? written;
  const members = Object.keys(record).filter(
    (each) => !IN_HEAD.has(each) || (each === "name" && name !== written),
  );
  const facts = members.flatMap((each) => {
    const value = Object.hasOwn(own, each) ? own[each] : shownValue(showing, each, record[each]);
    return value === undefined ? [] : [{ label: memberLabel(t, each), value, isSet: isSet(record[each]) }];
  });
  const allowed = actions.filter(({ isAllowed }) => isAllowed);
  const isDanger = ({ verb, row }: OfferedAction): boolean =>
    look.danger?.includes(verb) ?? (row.confirm === "typed" || row.confirm === "final");
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
      verdict,
      facts: facts.filter((each) => each.isSet),
      unset: facts
        .filter((each) => !each.isSet)
        .map(({ label }) => label)
        .join(", "),
      chapters: sections,
      links,
      doing: allowed.filter((each) => !isDanger(each)).map(shown),
      danger: allowed.filter(isDanger).map(shown),
      others: othersText(request, noun, actions),
    },
  };
}

/** Whether there is something to show of a member. */
const isSet = (value: unknown): boolean =>
  value !== null &&
  value !== "" &&
  (typeof value !== "object" || value === null || Object.keys(value).length > 0);

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
