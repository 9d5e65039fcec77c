/** The page of a person: the verdict first, then everything that is known, and what can be done. */
import type { Account } from "../../../accounts/operations/accounts.ts";
import type { AccountConsent, AccountSession, Diagnosis } from "../../../accounts/operations/support.ts";
import type { Identity } from "../../../accounts/operations/identities.ts";
import type { Factors } from "../../../accounts/ways/ways.ts";
import { fullName } from "../../../accounts/names.ts";
import { isOperator } from "../../../config/operators.ts";
import { pagesOf } from "../../../core/pages.ts";
import type { PageServices } from "../../../interactions/services.ts";
import type { ShownDelivery } from "../../../notifier/operations.ts";
import { callerOf } from "../../../provider/exchange.ts";
import type { AuditRecord } from "../../../records/audit/audit-event.ts";
import type { Page } from "../../../accounts/operations/operation.ts";
import { namesOf } from "../audit-words.ts";
import { type OfferedAction, othersText } from "../derived/record.ts";
import type { FoundRecord } from "../derived/pages.ts";
import { consequences, verbLabel } from "../derived/words.ts";
import { nameOf as entryName } from "../entries.ts";
import type { ConsoleAnswer, ConsoleRequest } from "../request.ts";
import { member } from "../tables.ts";
import { sectionsOf } from "./sections.ts";
import { verdictOf } from "./verdict.ts";

/** What the pages about people need of the service. */
export type PeopleParts = Pick<PageServices, "configuration" | "fields" | "storage">;

/** Records that a section shows. */
const SHOWN = { tries: 3, deliveries: 3, history: 5 };

/** The order of what can be done. What is not named follows. */
const ORDER: readonly string[] = [
  "enable",
  "sendReset",
  "endSessions",
  "revokeTokens",
  "removeFactors",
  "update",
  "assign",
  "unassign",
  "setRoles",
  "setPassword",
];
const DANGER: ReadonlySet<string> = new Set(["disable", "delete"]);

const rank = ({ verb }: OfferedAction): number => (ORDER.includes(verb) ? ORDER.indexOf(verb) : ORDER.length);

/** What a person is called: the name, or the address. */
export const calledOf = (account: Pick<Account, "name" | "surname" | "email">): string =>
  fullName(account) || account.email;

export function createPersonPage(parts: PeopleParts) {
  const { configuration, storage } = parts;

  return async (request: ConsoleRequest, { record, actions }: FoundRecord): Promise<ConsoleAnswer> => {
    const { ctx, operator, t, now, zone, moments, perform } = request;
    const account = record as unknown as Account;
    const { sub } = account;
    // Nobody looks at an account without a record of it.
    const caller = callerOf(ctx, operator.who.actor);
    await storage.audit.append({ ...caller, action: "account.viewed", subject: sub });
    async function read<T>(verb: string): Promise<T> {
      const { result } = await perform("accounts", verb, { target: [sub] });
      return result as T;
    }
    async function list<T>(noun: string, input: object): Promise<readonly T[]> {
      const { result } = await perform(noun, "list", { input: { ...input } });
      return (result as Page<T>).items;
    }
    const [diagnosis, sessions, factors, identities, consents, deliveries, tries, history, services] =
      await Promise.all([
        read<Diagnosis>("diagnose"),
        read<readonly AccountSession[]>("sessions"),
        read<Factors>("factors"),
        read<readonly Identity[]>("identities"),
        read<readonly AccountConsent[]>("consents"),
        list<ShownDelivery>("deliveries", { account: sub, limit: SHOWN.deliveries }),
        list<AuditRecord>("audit", { account: sub, action: "sign_in", limit: SHOWN.tries }),
        list<AuditRecord>("audit", { account: sub, limit: SHOWN.history }),
        serviceNames(request),
      ]);
    const causes = diagnosis.checks.flatMap(({ by }) =>
      by === null ? [] : [{ kind: by.kind as "operator", ...(by.id !== null && { id: by.id }) }],
    );
    const names = await namesOf(t, parts, [...causes, ...history.map(({ actor }) => actor)]);
    // Somebody's own account is changed on the account page, and that of an operator by administrators.
    const isOwn = sub === operator.account.sub;
    const isProtected = isOperator(configuration, sub) && operator.who.role !== "administrator";
    const offered = isOwn || isProtected ? [] : possible(actions, account);
    const data = { account, sessions, factors, identities, consents, deliveries, tries, history, services };
    const shown = ({ verb, href }: OfferedAction) => {
      const what = verbLabel(t, "accounts", verb);
      const text = consequences(t, "accounts", verb).join(" ");
      return { href, what, label: t("admin.verb.opens", { verb: what }), text };
    };
    const allowed = offered.filter(({ isAllowed }) => isAllowed);
    const host = new URL(
      configuration.deployments.openid?.url ?? configuration.deployments.oauth2?.url ?? "",
    );
    return {
      kind: "page",
      view: "console-person",
      heading: calledOf(account),
      tabTitle: t("admin.person.tab"),
      lead: [account.email, account.username, sub].filter(Boolean).join(" · "),
      crumbs: [{ label: entryName(t, "people"), href: "/people" }],
      badge: account.disabled
        ? { text: t("admin.flag.disabled"), tone: "bad" }
        : { text: t("admin.flag.active"), tone: "good" },
      locals: {
        printed: t("admin.print", {
          when: moments(now).text,
          by: calledOf(operator.account),
          host: host.host,
        }),
        verdict: verdictOf(request, sub, diagnosis, offered, names),
        chapters: sectionsOf(request, parts, Object.assign(data, { names }), offered),
        doing: allowed
          .filter(({ verb }) => !DANGER.has(verb))
          .toSorted((one, other) => rank(one) - rank(other))
          .map(shown),
        danger: allowed.filter(({ verb }) => DANGER.has(verb)).map(shown),
        own: isOwn,
        others: isOwn
          ? ""
          : isProtected
            ? t("admin.problem.operator_protected")
            : othersText(request, "accounts", offered),
        identifiers: (["sub", "user_id", "portal", "locale", "created_at", "updated_at"] as const).map(
          (name) => ({ label: t(`admin.member.${name}`), value: member(request, name, account[name]) }),
        ),
        zoneName: zone,
      },
    };
  };
}

/** What is done twice to no end, and what there is nothing to do for, is not offered. */
function possible(actions: readonly OfferedAction[], { services }: Account): readonly OfferedAction[] {
  const isAssigned = Object.keys(services).length > 0;
  return actions.filter(({ verb }) => isAssigned || !["unassign", "setRoles"].includes(verb));
}

async function serviceNames({ perform }: ConsoleRequest): Promise<ReadonlyMap<string, string>> {
  const names = new Map<string, string>();
  const pages = pagesOf(async (after) => {
    const { result } = await perform("services", "list", {
      input: { limit: 200, ...(after !== undefined && { after }) },
    });
    return result as Page<{ readonly key: string; readonly name: string }>;
  });
  for await (const { items } of pages) for (const { key, name } of items) names.set(key, name);
  return names;
}
