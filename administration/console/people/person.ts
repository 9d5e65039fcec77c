/** The page of a person: the verdict first, then everything that is known, and what can be done. */
import type { Account } from "../../../accounts/operations/accounts.ts";
import type { AccountConsent, AccountSession, Diagnosis } from "../../../accounts/operations/support.ts";
import type { Identity } from "../../../accounts/operations/identities.ts";
import { factorKey } from "../../../accounts/factors/factor.ts";
import { type Factors, methodsOf, wayOf } from "../../../accounts/ways/ways.ts";
import { fullName } from "../../../accounts/names.ts";
import { isOperator } from "../../../config/operators.ts";
import { NotFound } from "../../../core/errors.ts";
import { pagesOf } from "../../../core/pages.ts";
import type { PageServices } from "../../../interactions/services.ts";
import type { ShownDelivery } from "../../../notifier/operations.ts";
import { callerOf } from "../../../provider/exchange.ts";
import type { AuditRecord } from "../../../records/audit/audit-event.ts";
import type { Page } from "../../../accounts/operations/operation.ts";
import type { ClientRecord, Consent } from "../../../records/directory/directory.ts";
import { createConnectedDevices } from "../../../provider/grants/device-codes.ts";
import { consentFields } from "../../../interactions/protocol.ts";
import { fieldLabels } from "../../../interactions/steps/description.ts";
import type { Translator } from "../../../core/texts.ts";
import type { HourlyLimits } from "../../limits.ts";
import { namesOf } from "../audit/words.ts";
import { type OfferedAction, othersText } from "../derived/record.ts";
import type { FoundRecord, Look } from "../derived/pages.ts";
import { shortened } from "../derived/values.ts";
import { consequences, verbLabel } from "../derived/words.ts";
import { nameOf as entryName } from "../entries.ts";
import type { ConsoleAnswer, ConsoleRequest } from "../request.ts";
import { member } from "../tables.ts";
import { type DirectoryEntry, type PersonData, sectionsOf } from "./sections.ts";
import { verdictOf } from "./verdict.ts";

/** What the pages about people need of the service. */
export type PeopleParts = Pick<
  PageServices,
  "claims" | "clients" | "configuration" | "fields" | "secondFactors" | "storage"
> & {
  readonly hourly: Pick<HourlyLimits, "left">;
};

/** Records that a section shows. */
const SHOWN = { deliveries: 3, history: 5 };
/** Tries of one kind that are looked through for the last use of the password. */
const TRIED = 20;
/** Deliveries that are looked through for those that are not delivered. */
const LOOKED_AT = 100;
/** What the audit calls the tries to sign in. */
const TRIES = ["sign_in", "second_factor", "password_grant"] as const;

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

const isDanger = ({ verb }: OfferedAction): boolean => DANGER.has(verb);

const rank = ({ verb }: OfferedAction): number => (ORDER.includes(verb) ? ORDER.indexOf(verb) : ORDER.length);

/** What a person is called: the name, or the address. */
export const calledOf = (account: Pick<Account, "name" | "surname" | "email">): string =>
  fullName(account) || account.email;

export function createPersonPage(parts: PeopleParts) {
  const { configuration, secondFactors, storage } = parts;
  const connectedDevices = createConnectedDevices(storage.artifacts, parts.clients, configuration);

  /** What gets into the account: devices, browsers that are not asked for the second factor, and what clients may read. */
  async function accessOf(
    t: Translator,
    sub: string,
  ): Promise<Pick<PersonData, "devices" | "remembered" | "reads">> {
    const account = await storage.directory.findAccount(sub);
    if (account === undefined) return { devices: [], remembered: [], reads: new Map() };
    const clients = await storage.directory.listClients();
    const [{ devices }, remembered, reads] = await Promise.all([
      connectedDevices.list(account, clients),
      secondFactors.rememberedBrowsers.list(account),
      Promise.all(
        Object.entries(account.consents).map(async ([id, consent]) => {
          const client = clients.find(({ client_id }) => client_id === id);
          return [id, await mayRead(t, client, consent)] as const;
        }),
      ),
    ]);
    return { devices, remembered, reads: new Map(reads) };
  }

  /** What a client may read and do, as the page asked the person; of one that is gone, the scopes. */
  async function mayRead(
    t: Translator,
    client: ClientRecord | undefined,
    { scopes, claims, attributes = [], apis = {} }: Consent,
  ): Promise<string> {
    if (client === undefined)
      return [...new Set([...scopes, ...claims, ...Object.values(apis).flat()])].join(", ");
    const supported = { ...parts, claims: parts.claims.readBy(client) };
    const fields = consentFields(supported, scopes, claims, attributes).filter((field) => field !== "sub");
    const words = fields.length > 0 ? fieldLabels(t, fields) : [t("admin.person.readsId")];
    const found = await Promise.all(
      Object.entries(apis).map(async ([identifier, allowed]) => {
        const api = await storage.directory.findApi(identifier);
        const labels = api === undefined ? allowed : allowed.map((scope) => api.scopes[scope] ?? scope);
        return `${api?.name ?? identifier}: ${labels.join(", ")}`;
      }),
    );
    return [words.join(", "), ...found].join("; ");
  }

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
    async function list<T>(noun: string, input: object): Promise<Page<T>> {
      const { result } = await perform(noun, "list", { input: { ...input } });
      return result as Page<T>;
    }
    async function lastTries(): Promise<readonly AuditRecord[]> {
      const pages = await Promise.all(
        TRIES.map((action) => list<AuditRecord>("audit", { account: sub, action, limit: TRIED })),
      );
      return pages.flatMap(({ items }) => items).toSorted((one, other) => other.at - one.at);
    }
    const [
      stored,
      diagnosis,
      sessions,
      factors,
      identities,
      consents,
      deliveries,
      tries,
      history,
      directory,
      access,
    ] = await Promise.all([
      storage.directory.findAccount(sub),
      read<Diagnosis>("diagnose"),
      read<readonly AccountSession[]>("sessions"),
      read<Factors>("factors"),
      read<readonly Identity[]>("identities"),
      read<readonly AccountConsent[]>("consents"),
      list<ShownDelivery>("deliveries", { account: sub, limit: LOOKED_AT }),
      lastTries(),
      list<AuditRecord>("audit", { account: sub, limit: SHOWN.history }),
      directoryOf(request),
      accessOf(t, sub),
    ]);
    const causes = diagnosis.checks.flatMap(({ by }) =>
      by === null ? [] : [{ kind: by.kind as "operator", ...(by.id !== null && { id: by.id }) }],
    );
    const names = await namesOf(
      t,
      parts,
      [...causes, ...history.items.map(({ actor }) => actor)],
      tries.map(({ client }) => client),
    );
    // Somebody's own account is changed on the account page, and that of an operator by administrators.
    const isOwn = sub === operator.account.sub;
    const isProtected = isOperator(configuration, sub) && operator.who.role !== "administrator";
    const offered = isOwn || isProtected ? [] : possible(actions, account);
    const data = {
      account,
      stored,
      sessions,
      factors,
      identities,
      consents,
      ...access,
      tries,
      history: history.items,
      deliveries: deliveries.items
        .toSorted((one, other) => urgency(one) - urgency(other))
        .slice(0, SHOWN.deliveries),
      deliveriesCount: `${deliveries.items.length}${deliveries.next === null ? "" : "+"}`,
      ...directory,
      names,
    };
    const shown = ({ verb, href }: OfferedAction) => {
      const what = verbLabel(t, "accounts", verb);
      return { href, what, label: t("admin.verb.opens", { verb: what }) };
    };
    const inDanger = (action: OfferedAction) => {
      const { verb, row, isAllowed } = action;
      const told = Object.keys(account.services).length;
      const all = consequences(t, "accounts", verb);
      const texts = [
        // The second line says it without a number.
        ...(verb === "delete" ? all.slice(0, 1) : all),
        ...(verb === "delete" && told > 0 ? [t("admin.person.danger.services", { count: told })] : []),
        ...(isAllowed
          ? []
          : [t(`admin.person.only.${row.role === "administrator" ? "administrator" : "support"}`)]),
      ];
      return { ...shown(action), href: isAllowed ? action.href : "", text: texts.join(" ") };
    };
    const allowed = offered.filter((each) => each.isAllowed && !isDanger(each));
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
        verdict: verdictOf(request, diagnosis, offered, data),
        chapters: sectionsOf(request, parts, data, offered),
        doing: allowed.toSorted((one, other) => rank(one) - rank(other)).map(shown),
        danger: offered.filter(isDanger).map(inDanger),
        own: isOwn,
        others: isOwn
          ? ""
          : isProtected
            ? t("admin.problem.operator_protected")
            : othersText(
                request,
                "accounts",
                offered.filter((each) => !isDanger(each)),
              ),
        identifiers: (["sub", "user_id", "portal", "locale", "created_at", "updated_at"] as const).map(
          (name) => ({
            label: t(`admin.member.${name}`),
            // This is its page.
            value: name === "sub" ? { kind: "id", text: sub } : member(request, name, account[name]),
          }),
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

/** Those that somebody has to look at come first. */
const urgency = ({ state }: ShownDelivery): number => (state === "parked" ? 0 : state === "waiting" ? 1 : 2);

/** All services and groups, by key. */
async function directoryOf(request: ConsoleRequest): Promise<Pick<PersonData, "services" | "groups">> {
  const [services, groups] = await Promise.all([
    entriesOf(request, "services"),
    entriesOf(request, "groups"),
  ]);
  return { services, groups };
}

async function entriesOf(
  { perform }: ConsoleRequest,
  noun: string,
): Promise<ReadonlyMap<string, DirectoryEntry>> {
  const found = new Map<string, DirectoryEntry>();
  const pages = pagesOf(async (after) => {
    const { result } = await perform(noun, "list", {
      input: { limit: 200, ...(after !== undefined && { after }) },
    });
    return result as Page<DirectoryEntry>;
  });
  for await (const { items } of pages) for (const entry of items) found.set(entry.key, entry);
  return found;
}

/** Support says how it has checked who is asking. */
const CHECKED = ["verified_by"] as const;

/**
 * What the pages about people add to what their rows say: the search, the page of a person, and what is asked before something is
 * done.
 */
export const peopleLook = (parts: PeopleParts, list: NonNullable<Look["list"]>): Look => ({
  entry: "people",
  list,
  record: createPersonPage(parts),
  called: (record) => calledOf(record as unknown as Account),
  acting: {
    removeFactors: async () => ({ required: CHECKED }),
    async removeFactor({ params, query, perform, t }, { name = "" }) {
      const [sub = ""] = params;
      const { result } = await perform("accounts", "factors", { target: [sub] });
      const key = query.get("factor");
      const method = methodsOf(result as Factors).find(({ id }) => factorKey(id) === key);
      if (method === undefined) throw new NotFound("this second factor");
      const what = method.name ?? t(wayOf(method).texts.name);
      return { target: [sub, method.id], name: `${name} · ${what}`, required: CHECKED };
    },
    sendReset: async ({ t }, { record }) => {
      const { email } = record as unknown as Account;
      const more = consequences(t, "accounts", "sendReset");
      return { locals: { consequences: [t("admin.person.resetTo", { email: shortened(email) }), ...more] } };
    },
    async unlinkIdentity({ params, query }, { name = "" }) {
      const provider = query.get("provider") ?? "";
      return { target: [params[0] ?? "", provider], name: `${name} · ${provider}` };
    },
    delete: async (_request, { record }) => ({ typed: (record as unknown as Account).email }),
  },
});
