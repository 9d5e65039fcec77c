/** What the pages of APIs, services, groups and portals add to their rows: what belongs to each, who is told, and what keeps it. */
import type { Api } from "../../../accounts/operations/apis.ts";
import type { Client } from "../../../accounts/operations/clients.ts";
import type { Entry, ServiceEntry } from "../../../accounts/operations/directory.ts";
import { NOTIFICATION_TYPES } from "../../../receiver/notification.ts";
import {
  explainDeliveries,
  type PlannedAccount,
  type PlannedDirectory,
  type PlannedEntry,
} from "../../../accounts/plan.ts";
import type { Item } from "../derived/list.ts";
import type { Look } from "../derived/pages.ts";
import { memberLabel } from "../derived/values.ts";
import { oneOf } from "../derived/words.ts";
import { all, counted, link, linked, namesOf, receiverCell, receiverOf } from "./references.ts";
import type { ConsoleRequest } from "../request.ts";
import { clip, nothing, type Section, type Table, text } from "../tables.ts";

const apiIn = (item: Item): Api => item as unknown as Api;
const serviceIn = (item: Item): ServiceEntry => item as unknown as ServiceEntry;
const entryIn = (item: Item): Entry => item as unknown as Entry;

const mayAsk = ({ apis }: Client, { identifier }: Api): boolean => Object.hasOwn(apis, identifier);

/** Clients, each a link. */
function clientsTable({ t }: ConsoleRequest, clients: readonly Client[], empty: string): Table {
  return {
    caption: memberLabel(t, "of_clients"),
    columns: ["name", "client_id", "kind"].map((name) => ({ label: memberLabel(t, name) })),
    rows: clients.map(({ client_id, name, kind }) => ({
      cells: [
        link("clients", client_id, name),
        { value: { kind: "id", text: client_id } },
        text(t(`admin.choice.kind.${kind}`)),
      ],
    })),
    empty,
  };
}

/** Records with a key or identifier, each a link. */
function entriesTable(
  { t }: ConsoleRequest,
  noun: "apis" | "services",
  entries: readonly (readonly [id: string, name: string])[],
  empty: string,
): Table {
  return {
    caption: memberLabel(t, `of_${noun}`),
    columns: ["name", noun === "apis" ? "identifier" : "key"].map((name) => ({
      label: memberLabel(t, name),
    })),
    rows: entries.map(([id, name]) => ({
      cells: [link(noun, id, name), { value: { kind: "id", text: id } }],
    })),
    empty,
  };
}

/** Why something can't be removed now: what refers to it. Nothing if nothing is known to do so. */
function blockedBy(
  { t }: ConsoleRequest,
  ...references: readonly (readonly [noun: string, names: readonly string[]])[]
): { readonly blocked?: string } {
  const named = references.flatMap(([noun, names]) => names.map((name) => `${oneOf(t, noun)} ${name}`));
  if (named.length === 0) return {};
  const shown = named.length > MAX_NAMED ? [...named.slice(0, MAX_NAMED), "…"] : named;
  return { blocked: t("admin.blocked", { references: shown.join(", ") }) };
}

const MAX_NAMED = 20;

export const APIS: Look = {
  isSmall: true,
  columns: ["name", "identifier", "service", "tokens", "of_scopes", "of_clients"],
  async cells(request) {
    const [clients, services] = await Promise.all([all(request, "clients"), namesOf(request, "services")]);
    return (item) => {
      const api = apiIn(item);
      const count = clients.filter((client) => mayAsk(client, api)).length;
      return {
        service: link("services", api.service, services.get(api.service)),
        of_scopes: text(String(Object.keys(api.scopes).length)),
        of_clients: count === 0 ? nothing : text(String(count)),
      };
    };
  },
  async parts(request, record) {
    const { t } = request;
    const api = apiIn(record);
    const [clients, services] = await Promise.all([all(request, "clients"), namesOf(request, "services")]);
    return {
      facts: {
        service: linked("services", api.service, `${services.get(api.service) ?? ""} (${api.service})`),
        scopes: undefined,
      },
      sections: [
        {
          id: "scopes",
          title: t("admin.api.scopes"),
          tables: [
            {
              caption: t("admin.api.scopes"),
              columns: [{ label: t("admin.api.scope") }, { label: t("admin.api.text") }],
              rows: Object.entries(api.scopes).map(([scope, words]) => ({
                cells: [{ value: { kind: "id", text: scope } }, text(words)],
              })),
              empty: "",
            },
          ],
        },
        {
          id: "clients",
          title: t("admin.api.clients"),
          tables: [
            clientsTable(
              request,
              clients.filter((client) => mayAsk(client, api)),
              t("admin.api.clients.none"),
            ),
          ],
        },
      ],
    };
  },
  acting: {
    async remove(request, { record = {} }) {
      const clients = await all(request, "clients");
      const asking = clients.filter((client) => mayAsk(client, apiIn(record)));
      return blockedBy(request, ["clients", asking.map(({ client_id }) => client_id)]);
    },
  },
};

/** The entries of the directory as the plan of notifications reads them. */
async function plannedIn(request: ConsoleRequest): Promise<PlannedDirectory> {
  const [services, groups, portals] = await Promise.all([
    all(request, "services"),
    all(request, "groups"),
    all(request, "portals"),
  ]);
  return { services: planned(services), groups: planned(groups), portals: planned(portals) };
}

const planned = (entries: readonly (Entry & Partial<Pick<ServiceEntry, "group">>)[]) =>
  new Map(
    entries.map(({ key, group = null, receiver }): [string, PlannedEntry] => [key, { group, receiver }]),
  );

/** Such as "group media". */
function receiverWords(t: ConsoleRequest["t"], receiver: string): string {
  const [kind = "", key = ""] = receiver.split(":");
  return `${oneOf(t, `${kind}s`)} ${key}`;
}

/** Who is told about an account that has what the page is about: a sentence for each type that anybody gets. */
async function toldOf(
  request: ConsoleRequest,
  belongs: Pick<PlannedAccount, "services" | "portal">,
  isHere: (receiver: string) => boolean,
): Promise<Section> {
  const { t } = request;
  const directory = await plannedIn(request);
  const account: PlannedAccount = { sub: "", user_id: 0, email: "", ...belongs };
  const after = {
    DELETE_ACCOUNT: undefined,
    UNASSINGED_FROM_SERVICE: { ...account, services: {} },
    PROFILE_CHANGED: account,
  };
  const texts = NOTIFICATION_TYPES.flatMap((type) => {
    const told = explainDeliveries({ type, at: 0 }, account, after[type], directory)
      .filter(({ receiver, reason }) => reason === "notified" && isHere(receiver))
      .map(({ receiver }) => receiverWords(t, receiver));
    const receivers = new Intl.ListFormat(t.locale).format(told);
    return told.length === 0 ? [] : [t(`admin.told.${type}`, { receivers })];
  });
  return { id: "told", title: t("admin.told"), texts: texts.length === 0 ? [t("admin.told.none")] : texts };
}

export const SERVICES: Look = {
  isSmall: true,
  columns: ["name", "key", "group", "told", "of_clients", "of_apis"],
  async cells(request) {
    const [clients, apis, groups, reports] = await Promise.all([
      all(request, "clients"),
      all(request, "apis"),
      all(request, "groups"),
      all(request, "receivers"),
    ]);
    const names = new Map(groups.map(({ key, name }) => [key, name]));
    return (item) => {
      const service = serviceIn(item);
      const { key, group } = service;
      const receiver = receiverOf(service, groups);
      const isOwn = receiver === undefined || receiver === `service:${key}`;
      const ofIt = (some: readonly { readonly service: string }[]): number =>
        some.filter((each) => each.service === key).length;
      return {
        group: group === null ? nothing : link("groups", group, names.get(group)),
        told: { ...receiverCell(request, receiver, reports), ...(!isOwn && { note: receiver }) },
        of_clients: counted(ofIt(clients), `/clients?${new URLSearchParams({ service: key })}`),
        of_apis: ofIt(apis) === 0 ? nothing : text(String(ofIt(apis))),
      };
    };
  },
  async parts(request, record) {
    const { t } = request;
    const { key, group } = serviceIn(record);
    const [clients, apis, groups, told] = await Promise.all([
      all(request, "clients", { service: key }),
      all(request, "apis"),
      namesOf(request, "groups"),
      toldOf(request, { services: { [key]: null }, portal: null }, () => true),
    ]);
    const own = apis.filter(({ service }) => service === key);
    return {
      facts: group === null ? {} : { group: linked("groups", group, groups.get(group) ?? group) },
      sections: [
        {
          id: "clients",
          title: memberLabel(t, "of_clients"),
          tables: [clientsTable(request, clients, t("admin.directory.clients.none"))],
        },
        {
          id: "apis",
          title: memberLabel(t, "of_apis"),
          tables: [
            entriesTable(
              request,
              "apis",
              own.map(({ identifier, name }) => [identifier, name]),
              t("admin.directory.apis.none"),
            ),
          ],
        },
        told,
      ],
    };
  },
  acting: {
    async remove(request, { record = {} }) {
      const { key } = serviceIn(record);
      const [clients, apis] = await Promise.all([
        all(request, "clients", { service: key }),
        all(request, "apis"),
      ]);
      return blockedBy(
        request,
        ["clients", clients.map(({ client_id }) => client_id)],
        ["apis", apis.filter(({ service }) => service === key).map(({ identifier }) => identifier)],
      );
    },
  },
};

export const GROUPS: Look = {
  isSmall: true,
  columns: ["name", "key", "told", "of_services"],
  async cells(request) {
    const [services, reports] = await Promise.all([all(request, "services"), all(request, "receivers")]);
    return (item) => {
      const { key, receiver } = entryIn(item);
      return {
        told: receiverCell(request, receiver === null ? undefined : `group:${key}`, reports),
        of_services: clip(
          services
            .filter(({ group }) => group === key)
            .map(({ name }) => name)
            .join(", "),
        ),
      };
    };
  },
  async parts(request, record) {
    const { t } = request;
    const { key } = entryIn(record);
    const services = (await all(request, "services")).filter(({ group }) => group === key);
    // A group without services would tell nobody: what it would do with one is shown.
    const assigned = Object.fromEntries(services.map((service) => [service.key, null]));
    return {
      sections: [
        {
          id: "services",
          title: memberLabel(t, "of_services"),
          tables: [
            entriesTable(
              request,
              "services",
              services.map((service) => [service.key, service.name]),
              t("admin.directory.services.none"),
            ),
          ],
        },
        await toldOf(
          request,
          { services: assigned, portal: null },
          (receiver) => receiver === `group:${key}`,
        ),
      ],
    };
  },
  acting: {
    async remove(request, { record = {} }) {
      const { key } = entryIn(record);
      const services = (await all(request, "services")).filter(({ group }) => group === key);
      return blockedBy(request, ["services", services.map((service) => service.key)]);
    },
  },
};

/** The accounts of a portal are found, never counted. */
const peopleOf = (key: string): string => `/people?${new URLSearchParams({ portal: key })}`;

export const PORTALS: Look = {
  isSmall: true,
  columns: ["name", "key", "told", "people"],
  async cells(request) {
    const reports = await all(request, "receivers");
    return (item) => {
      const { key, receiver } = entryIn(item);
      return {
        told: receiverCell(request, receiver === null ? undefined : `portal:${key}`, reports),
        people: { ...text(request.t("admin.directory.people")), href: peopleOf(key) },
      };
    };
  },
  async parts(request, record) {
    const { t } = request;
    const { key } = entryIn(record);
    return {
      sections: [await toldOf(request, { services: {}, portal: key }, (told) => told === `portal:${key}`)],
      links: [{ href: peopleOf(key), label: t("admin.directory.people") }],
    };
  },
};
