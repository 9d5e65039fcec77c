/** The sections of a person's page: sign-ins, methods, services, consents, deliveries, history, profile. */
import { factorKey } from "../../../accounts/factors/factor.ts";
import type { RememberedBrowser } from "../../../accounts/factors/remembered-browsers.ts";
import type { Account } from "../../../accounts/operations/accounts.ts";
import type { Identity } from "../../../accounts/operations/identities.ts";
import type { AccountConsent, AccountSession } from "../../../accounts/operations/support.ts";
import { type Factors, methodsOf, wayOf } from "../../../accounts/ways/ways.ts";
import { labelIn } from "../../../config/labels.ts";
import type { Translator } from "../../../core/texts.ts";
import { ownValue } from "../../../core/untrusted-keys.ts";
import { browserName } from "../../../interactions/look/browsers.ts";
import { attributesOf, inWords } from "../../../interactions/look/person-fields.ts";
import type { ConnectedDevice } from "../../../provider/grants/device-codes.ts";
import type { PageServices } from "../../../interactions/services.ts";
import type { AccountRecord, AttributeValue } from "../../../records/directory/directory.ts";
import type { AuditRecord } from "../../../records/audit/audit-event.ts";
import type { ShownDelivery } from "../../../notifier/operations.ts";
import { actionCell, actionText, clientText, type Names, resultCell, shownWith } from "../audit/words.ts";
import { addressOf } from "../derived/act.ts";
import type { OfferedAction } from "../derived/record.ts";
import { memberLabel, shortened } from "../derived/values.ts";
import { type ConsoleRequest, segmentOf } from "../request.ts";
import { type Cell, type Fact, member, nothing, type Table, text, time } from "../tables.ts";

/** What is read about a person. */
export interface PersonData {
  readonly account: Account;
  /** What an account has that no operation shows. */
  readonly stored: Pick<AccountRecord, "services_since" | "ways"> | undefined;
  readonly sessions: readonly AccountSession[];
  readonly factors: Factors;
  readonly identities: readonly Identity[];
  readonly consents: readonly AccountConsent[];
  /** Those that are not delivered first. */
  readonly deliveries: readonly ShownDelivery[];
  /** How many there are, or at least are. */
  readonly deliveriesCount: string;
  /** Devices that were connected with a code. */
  readonly devices: readonly ConnectedDevice[];
  readonly remembered: readonly RememberedBrowser[];
  /** What a client may read and do, in words. */
  readonly reads: ReadonlyMap<string, string>;
  /** The last sign-ins and failures, more than are shown. */
  readonly tries: readonly AuditRecord[];
  readonly history: readonly AuditRecord[];
  readonly services: ReadonlyMap<string, DirectoryEntry>;
  readonly groups: ReadonlyMap<string, DirectoryEntry>;
  readonly names: Names;
}

/** A service or a group of services. */
export interface DirectoryEntry {
  readonly key: string;
  readonly name: string;
  /** Of a service: the key of its group. */
  readonly group?: string | null;
  readonly receiver: object | null;
}

export interface Section {
  readonly id: string;
  readonly title: string;
  readonly link?: { readonly href: string; readonly label: string };
  readonly tables: readonly Table[];
  readonly facts?: readonly Fact[];
}

type Services = Pick<PageServices, "configuration" | "fields">;

/** Tries to sign in that the page shows. */
const SHOWN_TRIES = 3;

/** @param offered what the operator may do: links stand where it can be done. */
export function sectionsOf(
  request: ConsoleRequest,
  services: Services,
  data: PersonData,
  offered: readonly OfferedAction[],
): readonly Section[] {
  const { t, zone } = request;
  const { sub } = data.account;
  const may = (verb: string): boolean => offered.some((each) => each.verb === verb && each.isAllowed);
  const audit = (action?: string): string =>
    `/audit?${new URLSearchParams({ account: sub, ...(action !== undefined && { action }) })}`;
  const when = (label: string): string => t("admin.zoned", { label: t(label), zone });
  return [
    {
      id: "sign-ins",
      title: t("admin.person.signIns"),
      link: { href: audit("sign_in"), label: t("admin.person.allSignIns") },
      tables: [
        sessionsTable(request, data, when),
        ...rememberedTables(request, data, when),
        triesTable(request, data, when),
      ],
    },
    {
      id: "methods",
      title: t("admin.person.methods"),
      tables: [
        methodsTable(request, services, data, when, {
          remove: may("removeFactors"),
          unlink: may("unlinkIdentity"),
        }),
      ],
    },
    { id: "services", title: t("admin.person.services"), tables: [servicesTable(request, data, when)] },
    { id: "consents", title: t("admin.person.consents"), tables: [consentsTable(request, data, when)] },
    {
      id: "deliveries",
      title: t("admin.person.deliveries"),
      ...(data.deliveries.length > 0 && {
        link: {
          href: `/deliveries?${new URLSearchParams({ account: sub })}`,
          label: t("admin.person.allOf", { count: data.deliveriesCount }),
        },
      }),
      tables: [deliveriesTable(request, data, when)],
    },
    {
      id: "history",
      title: t("admin.person.history"),
      link: { href: audit(), label: t("admin.person.inAudit") },
      tables: [historyTable(request, data, when)],
    },
    {
      id: "profile",
      title: t("admin.person.profile"),
      tables: [],
      facts: profileOf(request, services, data),
    },
  ];
}

type When = (label: string) => string;

/** Browsers, and devices that were connected with a code. */
function sessionsTable(request: ConsoleRequest, { sessions, devices }: PersonData, when: When): Table {
  const { t } = request;
  return {
    caption: t("admin.person.sessions"),
    columns: [
      { label: t("admin.person.signedInOn") },
      { label: t("admin.audit.network") },
      { label: t("admin.person.with") },
      { label: when("admin.person.first") },
      { label: when("admin.person.lastUse") },
    ],
    rows: [
      ...sessions.map((session) => ({
        cells: [
          text(
            browserName(t, { browser: session.browser ?? undefined, system: session.system ?? undefined }),
          ),
          text(session.address ?? ""),
          text(shownWith(t, session.amr)),
          time(request, session.first_used_at, ""),
          time(request, session.last_used_at, ""),
        ],
      })),
      ...devices.map(({ client, since }) => ({
        cells: [
          { ...text(client.name), note: t("admin.person.device") },
          nothing,
          text(t("admin.person.deviceCode")),
          time(request, since, ""),
          nothing,
        ],
      })),
    ],
    empty: t("admin.person.sessions.none"),
  };
}

/** Where the second factor is not asked for; no table without one. */
function rememberedTables(request: ConsoleRequest, { remembered }: PersonData, when: When): readonly Table[] {
  const { t } = request;
  if (remembered.length === 0) return [];
  return [
    {
      heading: t("admin.person.remembered"),
      caption: t("admin.person.remembered"),
      columns: [
        { label: t("admin.person.signedInOn") },
        { label: when("admin.person.added") },
        { label: when("admin.person.until") },
      ],
      rows: remembered.map(({ browser, system, added_at, expires_at }) => ({
        cells: [
          text(browserName(t, { browser: browser ?? undefined, system: system ?? undefined })),
          time(request, added_at, ""),
          time(request, expires_at, ""),
        ],
      })),
      empty: "",
    },
  ];
}

function triesTable(request: ConsoleRequest, { tries: all, names }: PersonData, when: When): Table {
  const { t } = request;
  const tries = all.slice(0, SHOWN_TRIES);
  return {
    heading: t("admin.person.tries"),
    caption: t("admin.person.tries"),
    columns: [
      { label: when("admin.member.at") },
      { label: t("admin.audit.what") },
      { label: t("admin.person.through") },
      { label: t("admin.audit.from") },
    ],
    rows: tries.map((record) => ({
      cells: [
        { ...time(request, record.at, ""), href: `/audit/${segmentOf(record.id)}` },
        tryCell(t, record),
        text(clientText(t, record.client, names)),
        text([record.address, record.browser].filter((each) => each !== null).join(", ")),
      ],
    })),
    empty: t("admin.person.tries.none"),
  };
}

/** A try to sign in: how it ended, and what it was. */
function tryCell(t: Translator, record: AuditRecord): Cell {
  const { value, note = "" } = resultCell(t, record);
  const what = [actionText(t, record.action), note].filter((each) => each !== "").join(" · ");
  const isGood = record.outcome === "success";
  const signedIn = { kind: "badge", text: t("admin.person.signedIn"), tone: "good" } as const;
  return { value: isGood ? signedIn : value, note: what };
}

function methodsTable(
  request: ConsoleRequest,
  { configuration }: Services,
  { account, stored, factors, identities, tries }: PersonData,
  when: When,
  may: { readonly remove: boolean; readonly unlink: boolean },
): Table {
  const { t, path } = request;
  const remove = (href: string, about: string): Cell => ({ ...text(t("admin.person.remove")), href, about });
  const { password } = stored?.ways ?? {};
  const lastUse = tries.find(({ action, outcome, detail }) => {
    const withPassword =
      action === "password_grant" || (typeof detail["amr"] === "string" && detail["amr"].includes("pwd"));
    return outcome === "success" && withPassword;
  });
  const passwords =
    password === undefined || password.hash === null
      ? []
      : [
          {
            cells: [
              text(t("admin.person.password")),
              time(request, password.changed_at ?? account.created_at, ""),
              time(request, lastUse?.at ?? null, ""),
              nothing,
            ],
          },
        ];
  const rows = methodsOf(factors).map((method) => {
    const kind = t(wayOf(method).texts.name);
    const state =
      method.state === "stopped"
        ? t("admin.person.stopped")
        : method.state === "copied"
          ? t("admin.person.backedUp")
          : "";
    const note = [...(method.name === null ? [] : [kind]), ...(state === "" ? [] : [state])].join(" · ");
    const name = method.name ?? kind;
    return {
      cells: [
        { ...text(name), ...(note !== "" && { note, isBad: method.state === "stopped" }) },
        time(request, method.added_at, ""),
        time(request, method.last_used_at, t("admin.person.neverUsed")),
        may.remove
          ? remove(
              addressOf(path, "removeFactor", { factor: factorKey(method.id) }),
              t("admin.person.remove.about", { name }),
            )
          : nothing,
      ],
    };
  });
  const codes = {
    cells: [
      {
        ...text(t("admin.person.codes")),
        note: t("admin.person.codes.of", { left: factors.recovery_codes_left }),
      },
      nothing,
      nothing,
      nothing,
    ],
  };
  const nameOfProvider = (key: string): string => {
    const provider = configuration.providers.find((each) => each.key === key);
    return provider === undefined ? key : labelIn(provider.name, t.locale);
  };
  const linked = identities.map((identity) => ({
    cells: [
      {
        ...text(nameOfProvider(identity.provider)),
        note: `${t("admin.person.identity")}, ${shortened(identity.subject)}`,
      },
      time(request, identity.linked_at, ""),
      time(request, identity.last_used_at, t("admin.person.neverUsed")),
      may.unlink
        ? {
            ...text(t("admin.verb.opens", { verb: t("admin.verb.unlinkIdentity") })),
            href: addressOf(path, "unlinkIdentity", { provider: identity.provider }),
            about: t("admin.person.unlink.about", { name: nameOfProvider(identity.provider) }),
          }
        : { value: { kind: "quiet" as const, text: t("admin.person.unlinkers") } },
    ],
  }));
  return {
    caption: t("admin.person.methods"),
    columns: [
      { label: t("admin.person.method") },
      { label: when("admin.person.added") },
      { label: when("admin.person.lastUse") },
      { label: t("admin.doing"), isUnseen: true },
    ],
    rows: [...passwords, ...rows, ...(rows.length > 0 ? [codes] : []), ...linked],
    empty: t("admin.person.methods.none", { email: account.email }),
  };
}

function servicesTable(request: ConsoleRequest, data: PersonData, when: When): Table {
  const { account, stored, services } = data;
  const { t, opens } = request;
  return {
    caption: t("admin.person.services"),
    columns: [
      { label: t("admin.member.service") },
      { label: t("admin.member.roles") },
      { label: t("admin.member.user_id_in_service"), look: "number" },
      { label: t("admin.member.receiver") },
      { label: when("admin.person.assigned") },
    ],
    rows: Object.entries(account.services).map(([key, number]) => ({
      cells: [
        {
          ...text(services.get(key)?.name ?? key),
          note: key,
          ...(opens("services") && { href: `/services/${segmentOf(key)}` }),
        },
        text((ownValue(account.roles, key) ?? []).join(", ")),
        number === null
          ? { value: { kind: "quiet" as const, text: t("admin.person.notTold") } }
          : text(String(number)),
        receiverCell(request, key, data),
        time(request, ownValue(stored?.services_since ?? {}, key) ?? null, t("admin.person.unknown")),
      ],
    })),
    empty: t("admin.person.services.none"),
  };
}

/** Who is told what happens to the account there: the service, its group, or both. */
function receiverCell({ opens }: ConsoleRequest, key: string, { services, groups }: PersonData): Cell {
  const service = services.get(key);
  const group = groups.get(service?.group ?? "");
  const receivers = [
    ...(service !== undefined && service.receiver !== null
      ? [{ ...service, receiver: `service:${key}` }]
      : []),
    ...(group !== undefined && group.receiver !== null ? [{ ...group, receiver: `group:${group.key}` }] : []),
  ];
  const names = receivers.map(({ name }) => name).join(", ");
  const [only, ...others] = receivers;
  const href =
    only && others.length === 0 && opens("receivers") ? `/receivers/${segmentOf(only.receiver)}` : "";
  return { ...text(names), ...(href !== "" && { href }) };
}

function consentsTable(request: ConsoleRequest, { consents, reads }: PersonData, when: When): Table {
  const { t, opens } = request;
  return {
    caption: t("admin.person.consents"),
    columns: [
      { label: t("admin.member.client") },
      { label: t("admin.person.mayRead") },
      { label: when("admin.person.allowed") },
      { label: when("admin.person.lastUse") },
    ],
    rows: consents.map((consent) => ({
      cells: [
        {
          ...text(consent.name ?? consent.client),
          ...(consent.name !== null && opens("clients") && { href: `/clients/${segmentOf(consent.client)}` }),
        },
        text(reads.get(consent.client) ?? ""),
        time(request, consent.allowed_at, t("admin.person.unknown")),
        time(request, consent.last_used_at, t("admin.person.noTokens")),
      ],
    })),
    empty: t("admin.person.consents.none"),
  };
}

function deliveriesTable(request: ConsoleRequest, { deliveries }: PersonData, when: When): Table {
  const { t } = request;
  return {
    caption: t("admin.person.deliveries"),
    columns: [
      { label: when("admin.member.stored_at") },
      { label: t("admin.member.type") },
      { label: t("admin.member.receiver") },
      { label: t("admin.member.state"), look: "state" },
    ],
    rows: deliveries.map((delivery) => ({
      cells: [
        { ...time(request, delivery.stored_at, ""), href: `/deliveries/${segmentOf(delivery.id)}` },
        text(delivery.type),
        text(delivery.receiver),
        {
          value: member(request, "state", delivery.state),
          ...(delivery.reason !== null && { note: reasonText(t, delivery.reason) }),
        },
      ],
    })),
    empty: t("admin.person.deliveries.none"),
  };
}

const reasonText = (t: Translator, reason: string): string =>
  t.has(`console.reason.${reason}`) ? t(`console.reason.${reason}`) : reason;

function historyTable(request: ConsoleRequest, { history, names, account }: PersonData, when: When): Table {
  const { t } = request;
  return {
    caption: t("admin.person.history"),
    columns: [
      { label: when("admin.member.at") },
      { label: t("admin.audit.what") },
      { label: t("admin.audit.by") },
    ],
    rows: history.map((record) => ({
      cells: [
        { ...time(request, record.at, ""), href: `/audit/${segmentOf(record.id)}` },
        actionCell(t, record),
        record.actor.id === account.sub ? text(t("admin.actor.account")) : names.cell(record.actor),
      ],
    })),
    empty: t("admin.person.history.none"),
  };
}

/** Every field, and what operators have set. */
function profileOf(request: ConsoleRequest, { fields }: Services, { account }: PersonData): readonly Fact[] {
  const { t } = request;
  const shown = ["name", "surname", "email", "username", "date_of_birth", "gender"] as const;
  return [
    ...shown.map((name) => ({
      label: memberLabel(t, name),
      value: member(request, name, account[name]),
      note:
        name === "email" ? t(account.email_verified ? "admin.flag.confirmed" : "admin.flag.unconfirmed") : "",
    })),
    ...attributesOf(fields.rows, { attributes: givenAttributes(account) }).map((attribute) => {
      const { label, value } = inWords(t, attribute);
      const isUnverified =
        attribute.row.name === "phone_number" && account.attributes?.["phone_number_verified"] !== true;
      const note = isUnverified
        ? t("admin.flag.unverified")
        : attribute.row.edit === "operator"
          ? t("admin.person.setByOperators")
          : "";
      return { label, value: { kind: "text" as const, text: value }, note };
    }),
  ];
}

/** Those that have a value. */
const givenAttributes = ({ attributes = {} }: Account): Readonly<Record<string, AttributeValue>> =>
  Object.fromEntries(
    Object.entries(attributes).flatMap(([name, value]) => (value === null ? [] : [[name, value] as const])),
  );
