/** What the pages of clients add to their rows: what is wrong with one, the four kinds as cards, and the settings of an application. */
import { randomBytes } from "node:crypto";
import { CLIENT_ROWS, hasSetting } from "../../../accounts/clients/client-settings.ts";
import { type Client, clients } from "../../../accounts/operations/clients.ts";
import type { AnyRow, Page } from "../../../accounts/operations/operation.ts";
import { allows } from "../../../config/operators.ts";
import { endpointsOf } from "../../../config/deployments.ts";
import { CLIENT_KINDS } from "../../../core/events.ts";
import type { Translator } from "../../../core/texts.ts";
import { receivers } from "../../../notifier/receiver-operations.ts";
import type { AuditRecord } from "../../../records/audit/audit-event.ts";
import { actionCell, originCell, resultCell, subjectCell } from "../audit/words.ts";
import { addressOf } from "../derived/act.ts";
import { commandOf, type ConsoleField, fieldsOf, FOLLOWING, optionOf } from "../derived/fields.ts";
import type { Item } from "../derived/list.ts";
import type { Look } from "../derived/pages.ts";
import type { RecordParts } from "../derived/record.ts";
import { memberLabel } from "../derived/values.ts";
import { verbLabel } from "../derived/words.ts";
import { all, link, linked, namesOf, receiverOf } from "./references.ts";
import { type ConsoleRequest, segmentOf } from "../request.ts";
import { deploymentOf } from "../sign-in.ts";
import { type Cell, clip, nothing, type Section, type Table, text, time, type Verdict } from "../tables.ts";

/** The members that everybody fills in, by the question that they answer, in order. The others fold away. */
const QUESTIONS: Readonly<Record<string, string>> = {
  service: "whose",
  client_id: "whose",
  name: "whose",
  redirect_uris: "where",
  native: "where",
  jwks: "proof",
};

const questionOf = (name: string): string => QUESTIONS[name.split(".")[0] ?? name] ?? "more";

/** The kinds that have a member. */
const kindsOf = (member: string): string => {
  const kinds = CLIENT_KINDS.filter((kind) => hasSetting(CLIENT_ROWS, kind, member));
  // Only clients that prove who they are have keys.
  const having = member === "jwks" ? kinds.filter((kind) => CLIENT_ROWS.kinds[kind].confidential) : kinds;
  return having.length === CLIENT_KINDS.length ? "" : having.join(" ");
};

const DAY_SECONDS = 86_400;

/** How long the old secrets can work, in seconds. */
const KEEP_OLD = [
  ["3600", "hour"],
  ["86400", "day"],
  ["604800", "week"],
] as const;

const { rows } = clients;

/** How a client proves who it is. */
function proofOf({ kind, jwks }: Pick<Client, "kind" | "jwks">): "keys" | "secret" | "nothing" {
  if (!CLIENT_ROWS.kinds[kind].confidential) return "nothing";
  return jwks === null ? "secret" : "keys";
}

/** A record of the table as its row describes it. */
const clientIn = (record: Item): Client => record as unknown as Client;

export const CLIENTS: Look = {
  isSmall: true,
  columns: ["name", "client_id", "kind", "service", "authenticates", "disabled"],
  async cells(request) {
    const services = await namesOf(request, "services");
    return (item) => {
      const client = clientIn(item);
      return {
        service: serviceCell(request, client, services),
        authenticates: text(request.t(`admin.proof.${proofOf(client)}`)),
      };
    };
  },
  danger: ["revokeTokens", "disable", "remove"],
  possible(verb, record) {
    const client = clientIn(record);
    if (verb === "rotateSecret") return proofOf(client) === "secret";
    return verb !== "revokeTokens" || client.kind === "machine";
  },
  async parts(request, record) {
    const client = clientIn(record);
    const { t } = request;
    const [services, groups, apis, signIns, failures] = await Promise.all([
      all(request, "services"),
      all(request, "groups"),
      apisTable(request, client),
      recordsOf(request, client, { since: hoursAgo(request, 24), limit: RECORDS }),
      recordsOf(request, client, {
        action: "client.authentication",
        since: hoursAgo(request, 1),
        limit: RECORDS,
      }),
    ]);
    const service = services.find(({ key }) => key === client.service);
    const receiver = service && receiverOf(service, groups);
    const mayTest = allows(request.operator.who.role, receivers.rows.test);
    return {
      verdict: verdictOf(request, client, failures.items),
      facts: {
        service: linked("services", client.service, `${service?.name ?? ""} (${client.service})`),
        apis: undefined,
      },
      sections: [
        { id: "apis", title: memberLabel(t, "apis"), tables: [apis] },
        ...recentOf(request, client, signIns.items),
      ],
      links: [
        ...(receiver !== undefined && mayTest
          ? [{ href: addressOf(`/receivers/${segmentOf(receiver)}`, "test"), label: t("admin.client.test") }]
          : []),
        ...tryOf(request, client),
      ],
    };
  },
  acting: {
    async register({ t, configuration }) {
      return {
        view: "console-register",
        script: FOLLOWING,
        // The page makes a secret: a chosen one would travel once more.
        without: ["client_secret", "kind"],
        kindsOf,
        leaves: (form) => [
          "client_secret",
          ...(form.get("proof") === "keys" ? [] : ["jwks"]),
          ...foreignMembers(t, rows.register, form.get("kind") ?? ""),
        ],
        needs(form) {
          const kind = form.get("kind") ?? "";
          const mayHave = (member: string): boolean => kindsOf(member).split(" ").includes(kind);
          return [
            ...(mayHave("redirect_uris") ? ["redirect_uris"] : []),
            ...(mayHave("jwks") && form.get("proof") === "keys" ? ["jwks"] : []),
          ];
        },
        locals: {
          lead: t("admin.register.lead"),
          kinds: CLIENT_KINDS.map((kind) => ({
            kind,
            label: t(`admin.choice.kind.${kind}`),
            text: t(`admin.kind.${kind}`),
            gets: t(`admin.kind.${kind}.gets`),
          })),
          settings: settingsOf(configuration),
        },
        arrange(fields, filled) {
          const order = Object.keys(QUESTIONS);
          const rank = ({ name }: ConsoleField): number => order.indexOf(name.split(".")[0] ?? name);
          const asked = (question: string) =>
            fields
              .filter(({ name }) => questionOf(name) === question)
              .map((field) =>
                Object.assign({}, field, ALWAYS.has(field.name) && { required: true }, {
                  option: optionOf(field),
                }),
              )
              .toSorted((one, other) => rank(one) - rank(other));
          const more = asked("more");
          // In the order of the page, as the script has them.
          const inOrder = [...asked("whose"), ...asked("where"), ...asked("proof"), ...more];
          const chosenKind = filled?.get("kind") ?? "";
          return {
            chosenKind,
            chosenProof: filled?.get("proof") ?? "secret",
            questions: [
              { name: "whose", kinds: "", fields: asked("whose") },
              { name: "where", kinds: kindsOf("redirect_uris"), fields: asked("where") },
            ],
            proof: { kinds: kindsOf("jwks"), fields: asked("proof") },
            more,
            moreIsOpen: more.some(({ name }) => (filled?.get(name) ?? "") !== ""),
            command:
              filled === undefined ? COMMAND : commandOf("clients register", sentFields(inOrder, filled)),
          };
        },
      };
    },
    async update(request) {
      const { perform, params, t } = request;
      const { result } = await perform("clients", "find", { target: params, input: {} });
      const { kind = "" } = (result ?? {}) as { readonly kind?: string };
      const foreign = foreignMembers(t, rows.update, kind);
      // A new secret is another operation, which can keep the old ones for a while.
      const left = [...foreign, "client_secret"];
      return { without: left, leaves: () => left };
    },
    async rotateSecret({ t, configuration }) {
      const choices = KEEP_OLD.map(([value, key]) => ({ value, label: t(`admin.keep.${key}`) }));
      return {
        options: { keepOldFor: choices },
        record: { keepOldFor: DAY_SECONDS },
        locals: { settings: settingsOf(configuration), empty: t("admin.keep.none") },
      };
    },
  },
};

/**
 * A link that starts a sign-in to the application. The application did not start it, so it may refuse the response.
 * Nobody has the verifier of its challenge: a code that goes astray is of no use.
 */
function tryOf({ t, configuration }: ConsoleRequest, client: Client): NonNullable<RecordParts["links"]> {
  const { client_id, disabled, grant_types, profile, redirect_uris } = client;
  const redirect_uri = redirect_uris.find((each) => /^https?:/.test(each));
  // With FAPI 2.0, a request comes from the application itself.
  if (disabled || profile === "fapi2" || redirect_uri === undefined) return [];
  if (!grant_types.includes("authorization_code")) return [];
  const deployment = deploymentOf(configuration);
  const query = new URLSearchParams({
    client_id,
    redirect_uri,
    response_type: "code",
    ...(deployment.kind === "openid" && { scope: "openid" }),
    state: randomBytes(16).toString("base64url"),
    code_challenge: randomBytes(32).toString("base64url"),
    code_challenge_method: "S256",
  });
  const authorize = endpointsOf(deployment).find(({ name }) => name === "authorize")?.path ?? "";
  return [{ href: `${deployment.url}${authorize}?${query}`, label: t("admin.client.try") }];
}

/** Asked of everybody who sees the question, although other kinds have none. */
const ALWAYS: ReadonlySet<string> = new Set(["redirect_uris", "jwks"]);

const COMMAND = [
  "sign-in-service clients register \\",
  "  --client-id ID \\",
  "  --name NAME \\",
  "  --service KEY \\",
  "  --redirect-uri https://app.example.com/callback",
].join("\n");

/** What a form says, without what the chosen kind doesn't have. */
function sentFields(fields: readonly ConsoleField[], filled: ReadonlyMap<string, string>) {
  const kind = filled.get("kind") ?? "";
  const sent = fields.filter(
    ({ name, kinds = "" }) =>
      (kinds === "" || kinds.split(" ").includes(kind)) &&
      (name !== "jwks" || filled.get("proof") === "keys"),
  );
  return [{ name: "kind", kind: "choice", value: kind === "web" ? "" : kind } as const, ...sent];
}

/** Records of the audit of one page, at most. */
const RECORDS = 200;
const SIGN_INS = 10;
const OTHERS = 5;

/** What a sign-in through a client leaves in the audit. */
const OF_SIGN_INS: ReadonlySet<string> = new Set([
  "sign_in",
  "grant.created",
  "password_grant",
  "second_factor",
  "device.code_entered",
  "device.refused",
]);

const hoursAgo = ({ now }: ConsoleRequest, hours: number): number => Math.floor(now / 1000) - hours * 3_600;

async function recordsOf(
  { perform }: ConsoleRequest,
  { client_id }: Client,
  filter: Readonly<Record<string, unknown>>,
): Promise<Page<AuditRecord>> {
  const { result } = await perform("audit", "list", { input: { client: client_id, ...filter } });
  return result as Page<AuditRecord>;
}

/** What stops the client, before everything else. */
function verdictOf(
  request: ConsoleRequest,
  client: Client,
  failures: readonly AuditRecord[],
): Verdict | undefined {
  const { t, operator, path } = request;
  const may = (verb: "enable" | "rotateSecret") => allows(operator.who.role, rows[verb]);
  const help = (verb: "enable" | "rotateSecret") => ({
    help: {
      href: addressOf(path, verb),
      label: t("admin.verb.opens", { verb: verbLabel(t, "clients", verb) }),
    },
  });
  if (client.disabled)
    return {
      tone: "bad",
      title: t("admin.client.disabled"),
      texts: [t("admin.client.disabled.text")],
      ...(may("enable") && help("enable")),
    };
  const count = failures.reduce((sum, each) => sum + each.count, 0);
  if (count === 0) return undefined;
  const networks = Map.groupBy(failures, ({ address }) => address ?? "");
  const sums = [...networks].map(
    ([network, records]) => [network, records.reduce((sum, each) => sum + each.count, 0)] as const,
  );
  const [most = ""] = sums.toSorted(([, one], [, other]) => other - one)[0] ?? [];
  const proof = proofOf(client);
  return {
    tone: "warning",
    title: t(sums.length === 1 ? `admin.client.wrong.${proof}` : `admin.client.wrong.${proof}.many`, {
      count,
      network: most,
    }),
    texts: [t(`admin.client.wrong.${proof}.text`)],
    ...(proof === "secret" && may("rotateSecret") && help("rotateSecret")),
  };
}

/** The APIs that the client may ask for. */
async function apisTable(request: ConsoleRequest, { apis }: Client): Promise<Table> {
  const { t } = request;
  const asked = Object.entries(apis);
  const known = asked.length === 0 ? new Map<string, string>() : await namesOf(request, "apis");
  return {
    caption: memberLabel(t, "apis"),
    columns: [
      { label: memberLabel(t, "name") },
      { label: memberLabel(t, "identifier") },
      { label: memberLabel(t, "scopes") },
    ],
    rows: asked.map(([identifier, scopes]) => ({
      cells: [
        link("apis", identifier, known.get(identifier) ?? identifier),
        { value: { kind: "id", text: identifier } },
        clip(scopes.join(", ")),
      ],
    })),
    empty: t("admin.client.apis.none"),
  };
}

/** What happened through the client and to it within a day. */
function recentOf(
  request: ConsoleRequest,
  { client_id }: Client,
  records: readonly AuditRecord[],
): readonly Section[] {
  const { t, zone } = request;
  const table = (caption: string, some: readonly AuditRecord[], empty: string): Table => ({
    caption,
    columns: [
      { label: t("admin.zoned", { label: memberLabel(t, "at"), zone }) },
      { label: t("admin.audit.what") },
      { label: t("admin.audit.about") },
      { label: t("admin.audit.from") },
      { label: t("admin.audit.result"), look: "state" },
    ],
    rows: some.map((record) => ({
      cells: [
        { ...time(request, record.at, ""), href: `/audit/${segmentOf(record.id)}` },
        { value: actionCell(t, record).value },
        record.subject === client_id ? nothing : subjectCell(request, record),
        // Through which client is clear here.
        originCell(t, { ...record, client: null }, { client: (id) => id }),
        resultCell(t, record),
      ],
    })),
    empty,
  });
  const [signIns, others] = [true, false].map((wanted) =>
    records.filter(({ action }) => OF_SIGN_INS.has(action) === wanted),
  );
  const inAudit = (more: Readonly<Record<string, string>>) => ({
    href: `/audit?${new URLSearchParams({ client: client_id, ...more })}`,
    label: t("admin.person.inAudit"),
  });
  return [
    {
      id: "sign-ins",
      title: t("admin.client.signIns"),
      link: inAudit({ since: "24h" }),
      tables: [
        table(t("admin.client.signIns"), signIns?.slice(0, SIGN_INS) ?? [], t("admin.client.signIns.none")),
      ],
    },
    {
      id: "audit",
      title: t("admin.client.audit"),
      link: inAudit({}),
      tables: [table(t("admin.client.audit"), others?.slice(0, OTHERS) ?? [], t("admin.client.audit.none"))],
    },
  ];
}

/** The service of a client, by its name. */
function serviceCell(
  { opens }: ConsoleRequest,
  { service }: Client,
  services: ReadonlyMap<string, string>,
): Cell {
  const name = services.get(service) ?? service;
  return opens("services") ? link("services", service, name) : text(name);
}

/** The members that clients of a kind don't have. */
const foreignMembers = (t: Translator, row: AnyRow, kind: string): readonly string[] =>
  fieldsOf(t, row, "", { kindsOf }).flatMap(({ name, kinds = "" }) =>
    kinds === "" || kinds.split(" ").includes(kind) ? [] : [name],
  );

/** What an application has to know of the service. */
function settingsOf(configuration: ConsoleRequest["configuration"]) {
  const deployment = deploymentOf(configuration);
  const named = new Map(endpointsOf(deployment).map(({ name, path }) => [name, deployment.url + path]));
  return [
    ...(deployment.kind === "openid" ? [{ label: "issuer", value: deployment.url }] : []),
    { label: "authorization_endpoint", value: named.get("authorize") ?? "" },
    { label: "token_endpoint", value: named.get("token") ?? "" },
  ];
}
