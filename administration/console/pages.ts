/** The pages that are made by hand, and what kinds of records add to the pages that their rows make. To add a page, add a row. */
import { timeZones } from "../../interactions/look/time-zone.ts";
import { CLIENTS } from "./applications/clients.ts";
import { DOCUMENTS } from "./applications/documents.ts";
import type { Look } from "./derived/pages.ts";
import { APIS, GROUPS, PORTALS, SERVICES } from "./applications/directory.ts";
import { SECTIONS } from "./entries.ts";
import { isEnough } from "./frame.ts";
import { type HealthParts, healthPage } from "./health.ts";
import { createAuditList, createAuditRecord, exporting } from "./audit/audit.ts";
import type { NotificationParts } from "./notifications/actions.ts";
import { deliveriesLook } from "./notifications/deliveries.ts";
import { receiversLook } from "./notifications/receivers.ts";
import { KEYS } from "./applications/keys.ts";
import { peopleLook, type PeopleParts } from "./people/person.ts";
import { createSearchList, searchPage } from "./people/search.ts";
import type { ConsolePage } from "./request.ts";

/** Where an operator begins: what they need first. */
const homePage: ConsolePage = {
  path: "/",
  role: "deliveries",
  async get({ operator, opens, t }) {
    const { role } = operator.who;
    const wanted = isEnough(role, "administrator") ? ["health", "clients"] : ["people", "deliveries"];
    const all = SECTIONS.flatMap(({ entries }) => entries.map(({ name }) => name));
    const first = [...wanted, ...all].find(opens);
    if (first !== undefined) return { kind: "go", to: `/${first}` };
    return {
      kind: "page",
      view: "console-text",
      heading: t("admin.home"),
      locals: { texts: [t(`admin.may.${role}`)], next: undefined },
    };
  },
};

/** What an operator has chosen for this browser. */
const mePage: ConsolePage = {
  path: "/me",
  role: "deliveries",
  async get({ t }) {
    return { kind: "page", view: "console-me", heading: t("admin.me.title"), locals: { zones: timeZones() } };
  },
};

export const ownPages = (parts: HealthParts): readonly ConsolePage[] => [
  homePage,
  mePage,
  healthPage(parts),
  searchPage,
];

export const LOOKS: Readonly<Record<string, Look>> = {
  clients: CLIENTS,
  apis: APIS,
  documents: DOCUMENTS,
  services: SERVICES,
  groups: GROUPS,
  portals: PORTALS,
  keys: KEYS,
};

/** The pages of support: people, the audit, and notifications. */
export const supportLooks = (parts: PeopleParts & NotificationParts): Readonly<Record<string, Look>> => ({
  deliveries: deliveriesLook(parts),
  receivers: receiversLook(parts),
  accounts: peopleLook(parts, createSearchList(parts)),
  audit: {
    list: createAuditList(parts),
    record: createAuditRecord(parts),
    acting: { export: exporting },
  },
});
