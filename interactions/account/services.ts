/** The services that the account is connected to: what they may read and do, and disconnecting them. */
import { z } from "zod";
import { section } from "../../config/documented-schema.ts";
import type { AccountRecord, ClientRecord, Consent } from "../../records/directory/directory.ts";
import { ENTRIES } from "../../records/directory/directory-kinds.ts";
import type { DirectoryRecords } from "../../records/directory/directory-records.ts";
import { isDevice } from "../../accounts/clients/client-kinds.ts";
import { allowedDocuments, consentOf, hostOf } from "../../accounts/clients/consents.ts";
import { byCaller } from "../../accounts/arguments.ts";
import { allowedScopes, isShutOut, type RequestedApi } from "../../provider/apis.ts";
import type { ConnectedDevice, DevicePosition } from "../../provider/grants/device-codes.ts";
import type { Clock } from "../../core/clock.ts";
import type { Translator } from "../../core/texts.ts";
import { ownValue } from "../../core/untrusted-keys.ts";
import { moments } from "../look/moments.ts";
import { consentApi, consentFields } from "../protocol.ts";
import { fieldLabels } from "../steps/description.ts";
import type { ConsentApi } from "../steps/running-sign-in.ts";
import { DEVICE_PATH } from "./device.ts";
import type { PersonPage, PersonServices, PersonVisit } from "./person-pages.ts";
import {
  apisMember,
  apisOf,
  choiceOf,
  listLinks,
  type PersonLocals,
  type PersonView,
  personView,
} from "./person-view.ts";

const PATH = "/account/services";

/** Services of one page. */
const LISTED = 50;

/** Where a page begins: how many services are on the pages before, and then the device. */
type ListPosition = readonly [services: number, device?: DevicePosition];

/** A service that the account is connected to. */
export interface ShownService {
  readonly key: string;
  readonly name: string;
  /** Milliseconds since the epoch. */
  readonly since: number | undefined;
  /** The names of the fields that it may read. */
  readonly fields: readonly string[];
  /** What it may do in APIs. */
  readonly apis: readonly ConsentApi[];
}

/** A client that nobody has registered and that the person has allowed something. */
export interface ShownApplication {
  readonly id: string;
  readonly host: string;
  /** Seconds since the epoch. */
  readonly since: number;
  readonly apis: readonly ConsentApi[];
}

/** `account-services`: the services and the devices, and a form for each. */
interface ServicesLocals extends PersonLocals {
  readonly services: readonly ShownService[];
  readonly devices: readonly (Pick<ConnectedDevice, "id" | "since"> & {
    readonly client: Pick<ClientRecord, "name">;
  })[];
  /** Applications that nobody has registered. */
  readonly applications: readonly ShownApplication[];
  /** The addresses of the first page, on the others, and of the next one. */
  readonly first?: string;
  readonly next?: string;
  /** Whether there are clients that are devices. */
  readonly offersDevices: boolean;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

const seconds = z.int().describe("Seconds since the epoch.");

/** `disconnect` disconnects a service, `end` a device, `end-application` an application that nobody has registered. */
export const servicesView: PersonView<ServicesLocals> = personView({
  name: "services",
  view: "account-services",
  takes: { disconnect: ["service"], end: ["device"], "end-application": ["application"] },
  members: {
    services: z
      .array(
        section({
          id: z.string(),
          label: z.string(),
          since: seconds.exactOptional(),
          reads: z.string().describe("What it may read, in words."),
          apis: apisMember,
        }),
      )
      .readonly(),
    devices: z.array(section({ id: z.string(), label: z.string(), since: seconds })).readonly(),
    applications: z
      .array(section({ id: z.string(), label: z.string(), since: seconds, apis: apisMember }))
      .readonly()
      .describe("Applications that nobody has registered. The label is the host."),
  },
  content(t, { base, services, devices, applications, offersDevices, ...locals }) {
    const options = services.map(({ key: value, name: label }) => ({ value, label }));
    const connected = devices.map(({ id: value, client: { name: label } }) => ({ value, label }));
    const others = applications.map(({ id: value, host: label }) => ({ value, label }));
    return {
      title: t("account.services"),
      texts:
        services.length > 0
          ? [t("services.text")]
          : locals.first === undefined && others.length === 0
            ? [t("services.none.text")]
            : [],
      fields: [
        ...choiceOf("service", t("account.services"), options),
        ...choiceOf("device", t("devices.title"), connected),
        ...choiceOf("application", t("services.documents.title"), others),
      ],
      actions: [
        ...(options.length === 0
          ? []
          : [{ name: "disconnect", label: t("services.disconnect"), look: "danger" } as const]),
        ...(connected.length === 0
          ? []
          : [{ name: "end", label: t("devices.end"), look: "second" } as const]),
        ...(others.length === 0
          ? []
          : [{ name: "end-application", label: t("services.documents.end"), look: "second" } as const]),
      ],
      links: [
        ...listLinks(t, locals),
        ...(offersDevices ? [{ name: "device", label: t("devices.connect"), href: base + DEVICE_PATH }] : []),
      ],
      members: {
        services: services.map(({ key, name, since, fields, apis }) => ({
          id: key,
          label: name,
          ...(since !== undefined && { since: since / 1000 }),
          reads: readsText(t, fields),
          apis: apisOf(apis),
        })),
        devices: devices.map(({ id, client, since }) => ({ id, label: client.name, since })),
        applications: applications.map(({ id, host, since, apis }) => ({
          id,
          label: host,
          since,
          apis: apisOf(apis),
        })),
      },
    };
  },
  locals(t, locals) {
    const moment = moments({ ...locals, locale: t.locale });
    return {
      services: locals.services.map(({ key, name, since, fields, apis }) => ({
        key,
        name,
        since: since === undefined ? undefined : moment(since),
        reads: readsText(t, fields),
        apis: listsOf(t, apis),
      })),
      applications: locals.applications.map(({ id, host, since, apis }) => ({
        id,
        host,
        since: moment(since * 1000),
        apis: listsOf(t, apis),
      })),
      devices: locals.devices.map(({ id, client, since }) => ({
        id,
        name: client.name,
        since: moment(since * 1000),
      })),
      first: locals.first ?? "",
      next: locals.next ?? "",
      connect: locals.offersDevices ? locals.base + DEVICE_PATH : "",
    };
  },
});

const listsOf = (t: Translator, apis: readonly ConsentApi[]) =>
  apis.map(({ name: api, scopes }) => ({
    heading: t("services.api", { api }),
    scopes: scopes.map(({ label }) => label),
  }));

/** The fields in words, without the identifier, which says nothing about the person. */
function readsText(t: Translator, fields: readonly string[]): string {
  const shown = fields.filter((field) => field !== "sub");
  if (shown.length === 0) return t("services.readsId");
  return new Intl.ListFormat(t.locale).format(fieldLabels(t, shown));
}

export const servicesPage: PersonPage = {
  path: PATH,
  navigation: "services",
  views: [servicesView],
  async show({ locals, person, after, nextPage, show }, parts) {
    const { storage, connectedDevices, clock } = parts;
    const { directory } = storage;
    const { account } = person;
    const clients = await directory.listClients();
    const [from = 0, device] = after === undefined ? [] : (JSON.parse(after) as ListPosition);
    const connected = await connectedServices(account, clients, directory);
    const services = await Promise.all(
      connected
        .slice(from, from + LISTED)
        .map((service) => shownService(service, { ...parts, account, clients })),
    );
    const isLast = from + LISTED >= connected.length;
    const devices = isLast ? await connectedDevices.list(account, clients, device) : { devices: [] };
    const next: ListPosition | undefined = isLast
      ? devices.next && [connected.length, devices.next]
      : [from + LISTED];
    return show(servicesView, {
      ...locals,
      services,
      devices: devices.devices,
      applications: isLast ? await allowedApplications(account, clock, directory) : [],
      ...(after !== undefined && { first: locals.base + PATH }),
      ...(next !== undefined && { next: nextPage(JSON.stringify(next)) }),
      offersDevices: clients.some((client) => isDevice(parts.clients.kindOf(client))),
      now: clock.now(),
    });
  },
  async submit(visit, { action, values }, services) {
    if (action === "end-application") {
      const { sub } = visit.person.account;
      await services.accounts.endDocument(sub, values.get("application") ?? "", visit.caller);
      return visit.done(PATH, "applicationEnded");
    }
    if (action === "end") {
      await endDevice(visit, services, values.get("device") ?? "");
      return visit.done(PATH, "deviceEnded");
    }
    const {
      accounts,
      storage: { directory },
    } = services;
    const { account } = visit.person;
    const key = values.get("service") ?? "";
    const options = byCaller(visit.caller);
    if (Object.hasOwn(account.services, key)) {
      await accounts.unassign(account.sub, key, options);
    } else {
      // Consent was given, but the sign-in was not finished, so there is no assignment to end.
      for (const { client_id } of consentedClients(account, await directory.listClients(), key))
        await accounts.revokeTokens(account.sub, client_id, options);
    }
    return visit.done(PATH, "service");
  },
};

async function endDevice(
  { person: { account }, caller }: PersonVisit,
  { connectedDevices, storage: { directory }, events, audit }: PersonServices,
  id: string,
): Promise<void> {
  if (!(await connectedDevices.end(account, id, await directory.listClients()))) return;
  events.emit("family.revoked", { sub: account.sub, reason: "ended" });
  audit.note({ ...caller, action: "device.ended", subject: account.sub });
}

/** Services that the account is assigned to, or to whose clients the person gave consent, ordered by name. */
export async function connectedServices(
  account: AccountRecord,
  clients: readonly ClientRecord[],
  { findEntries }: Pick<DirectoryRecords, "findEntries">,
): Promise<readonly Pick<ShownService, "key" | "name">[]> {
  const consented = Object.keys(account.consents)
    .map((id) => clients.find(({ client_id }) => client_id === id)?.service)
    .filter((key) => key !== undefined && key !== null);
  const keys = [...new Set([...Object.keys(account.services), ...consented])];
  const entries = await findEntries(keys.map((key) => ENTRIES.service.ref(key)));
  return keys
    .map((key, index) => ({ key, name: entries[index]?.name ?? key }))
    .toSorted((one, other) => one.name.localeCompare(other.name));
}

/** Applications that nobody has registered, the last allowed first, with what their APIs still give to such clients. */
async function allowedApplications(
  account: AccountRecord,
  clock: Clock,
  { findApi }: Pick<DirectoryRecords, "findApi">,
): Promise<readonly ShownApplication[]> {
  const allowed = allowedDocuments(account, clock).toSorted(
    (one, other) => other.document.since - one.document.since,
  );
  return Promise.all(
    allowed.map(async ({ id, document, apis }) => {
      const found = await Promise.all(Object.keys(apis).map((identifier) => findApi(identifier)));
      const usable = found.flatMap((api): readonly RequestedApi[] => {
        const scopes = api?.unregistered.filter((scope) => ownValue(apis, api.identifier)?.includes(scope));
        return api === undefined || !scopes?.length ? [] : [{ api, scopes }];
      });
      return { id, host: hostOf(document), since: document.since, apis: usable.map(consentApi) };
    }),
  );
}

async function shownService(
  { key, name }: Pick<ShownService, "key" | "name">,
  {
    account,
    clients,
    ...services
  }: Pick<PersonServices, "storage" | "fields" | "claims"> & {
    readonly account: AccountRecord;
    readonly clients: readonly ClientRecord[];
  },
): Promise<ShownService> {
  const since = ownValue(account.services_since ?? {}, key);
  return {
    key,
    name,
    since: since === undefined ? undefined : since * 1000,
    fields: readableFields(account, clients, key, services),
    apis: await usableApis(account, clients, key, services.storage.directory),
  };
}

function consentedClients(
  account: AccountRecord,
  clients: readonly ClientRecord[],
  key: string,
): readonly ClientRecord[] {
  return clients.filter(
    ({ client_id, service }) => service === key && Object.hasOwn(account.consents, client_id),
  );
}

/** What the clients of a service may read. Those of the organization itself may ask for everything without consent. */
function readableFields(
  account: AccountRecord,
  clients: readonly ClientRecord[],
  key: string,
  services: Pick<PersonServices, "fields" | "claims">,
): readonly string[] {
  const own = clients.filter(({ service }) => service === key);
  const first_party = own.some((client) => client.first_party);
  const claims = services.claims.readBy({ service: key, first_party });
  const consents: readonly Consent[] = first_party
    ? [claims.grantable]
    : own.map(({ client_id }) => consentOf(account, client_id));
  return consentFields(
    { ...services, claims },
    consents.flatMap(({ scopes }) => scopes),
    consents.flatMap((each) => each.claims),
    first_party ? undefined : consents.flatMap(({ attributes = [] }) => attributes),
  );
}

/**
 * What the clients of a service may do in APIs: a third party only what the person allowed and it may still ask for.
 */
async function usableApis(
  account: AccountRecord,
  clients: readonly ClientRecord[],
  key: string,
  { findApi }: Pick<DirectoryRecords, "findApi">,
): Promise<readonly ConsentApi[]> {
  const usable = new Map<string, RequestedApi>();
  for (const client of clients.filter(({ service }) => service === key)) {
    const consented = consentOf(account, client.client_id).apis ?? {};
    for (const identifier of Object.keys(client.apis ?? {})) {
      const api = await findApi(identifier);
      if (api === undefined || isShutOut(account, client, api)) continue;
      const allowed = client.first_party ? undefined : new Set(ownValue(consented, identifier));
      const scopes = allowedScopes(client, api).filter((scope) => allowed?.has(scope) ?? true);
      const known = usable.get(identifier)?.scopes ?? [];
      if (scopes.length > 0) usable.set(identifier, { api, scopes: [...new Set([...known, ...scopes])] });
    }
  }
  return [...usable.values()].map(consentApi);
}
