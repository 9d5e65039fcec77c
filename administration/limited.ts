/**
 * Tokens that are limited to a service (decisions.md, Tokens limited to services): which targets are their own, what they may set, and
 * what they see. What belongs to others looks like what does not exist.
 */
import type { Account } from "../accounts/operations/accounts.ts";
import type { AnyRow, Page } from "../accounts/operations/operation.ts";
import { checked } from "../accounts/arguments.ts";
import { givenValue, holding } from "../accounts/profile-fields.ts";
import type { AccountServices } from "../accounts/services.ts";
import { isUuid } from "../config/value-forms.ts";
import { InvalidArgument, NotFound, SignInError } from "../core/errors.ts";
import { pagesOf } from "../core/pages.ts";
import type { ShownDelivery } from "../notifier/operations.ts";
import { ownValue } from "../core/untrusted-keys.ts";
import { subjectOf } from "../records/audit/actions.ts";
import type { AuditFilter, AuditRecord } from "../records/audit/audit-event.ts";
import { accountsOf } from "../records/audit/audit-kinds.ts";
import type { AccountRecord } from "../records/directory/directory.ts";
import { ACCOUNT } from "../records/directory/directory-kinds.ts";
import type { Calls, Noun } from "./tables.ts";

/** What is asked for, not checked yet. */
interface Asked {
  readonly noun: Noun;
  readonly verb: string;
  readonly row: AnyRow;
  readonly target: readonly string[];
  readonly input: Readonly<Record<string, unknown>>;
}

/** Which page of a list. */
interface Window {
  readonly limit: number;
  readonly after?: string | undefined;
}

/** The view of one service. */
export interface Limited {
  /**
   * @throws NotFound for a target, or something that the input names, that is not the service's.
   * @throws SignInError `role_required` for members of the input that only others set; InvalidArgument for looks that could deceive.
   */
  check(service: string, asked: Asked): Promise<void>;
  /** A page of what is the service's. @throws SignInError `search_required` for accounts that are not named exactly. */
  list(service: string, asked: Asked, window: Window): Promise<Page<object>>;
  /** What the service may see of records. */
  views(service: string, noun: Noun, records: readonly object[]): Promise<readonly object[]>;
}

/** How many items a list reads at a time. */
const PAGE = 200;

const foreign = (): NotFound => new NotFound("this");
const EMPTY: Page<object> = { items: [], next: null };

/** Members of clients that are addresses of pages, which people are led to. */
const PAGES = ["policy_uri", "tos_uri"] as const;

/** Of a list that is read completely anyway: pages are full, so that their length says nothing of others. */
async function ownOf<Item extends object>(
  read: (page: Window) => Promise<Page<Item>>,
  isOwn: (item: Item) => boolean,
  idOf: (item: Item) => string,
  { limit, after }: Window,
): Promise<Page<object>> {
  const own: Item[] = [];
  const pages = pagesOf((next = after) => read({ limit: PAGE, after: next }));
  for await (const { items } of pages) {
    own.push(...items.filter(isOwn));
    if (own.length > limit) break;
  }
  const items = own.slice(0, limit);
  const last = items.at(-1);
  return { items, next: own.length > limit && last !== undefined ? idOf(last) : null };
}

/** A list of one, or of none. */
async function justOne(found: Promise<object | undefined>): Promise<Page<object>> {
  const one = await found;
  return one === undefined ? EMPTY : { items: [one], next: null };
}

const receiverOf = (service: string): string => `service:${service}`;

export function createLimited(
  calls: Calls,
  { fields, storage, audit }: Pick<AccountServices, "fields" | "storage" | "audit">,
): Limited {
  /** What clients of the service may read of an account. */
  function accountIn(service: string, account: Account): object {
    // Without `updated_at`: it would say when something changed at another service.
    const { sub, user_id, email, email_verified, services, roles } = account;
    const read = fields.rows.filter(
      ({ claim, readers, isHidden }) =>
        claim !== undefined && isHidden !== true && readers?.includes(service) !== false,
    );
    return {
      sub,
      user_id,
      email,
      email_verified,
      ...holding(read.map((row) => [row, givenValue(row, account)] as const)),
      services: entryOf(services, service),
      roles: entryOf(roles, service),
    };
  }

  async function isOwnClient(service: string, client_id: unknown): Promise<boolean> {
    return typeof client_id === "string" && (await calls.clients.find(client_id))?.service === service;
  }

  /** Whether the target is the service's, by the noun. A row whose noun is missing here has no target of a service. */
  const OWN: { readonly [N in Noun]?: (service: string, target: string) => Promise<boolean> } = {
    accounts: async (service, sub) => isAssigned(service, await calls.accounts.find(sub)),
    clients: isOwnClient,
    services: async (service, key) => key === service,
    apis: async (service, identifier) => (await calls.directory.apis.find(identifier))?.service === service,
    receivers: async (service, receiver) => receiver === receiverOf(service),
    deliveries: async (service, id) => (await calls.notifications.find(id))?.receiver === receiverOf(service),
    async audit(service, id) {
      await audit.flush();
      return (await storage.audit.find(id, service)) !== undefined;
    },
  };

  /** The members of the input that name a service or a client, by the operation. */
  const NAMED: Readonly<Record<string, (service: string, input: Asked["input"]) => Promise<void>>> = {
    async "accounts.setRoles"(service, input) {
      if (input["service"] !== service) throw foreign();
    },
    async "accounts.unassign"(service, input) {
      const { services } = input;
      const all: readonly unknown[] = Array.isArray(services) ? services : [services];
      if (all.some((each) => each !== service)) throw foreign();
    },
    async "accounts.revokeTokens"(service, input) {
      if (input["client"] === undefined)
        throw new InvalidArgument({ path: "account.client", message: "is required" });
      if (!(await isOwnClient(service, input["client"]))) throw foreign();
    },
    async "deliveries.redriveAll"(service, input) {
      if (input["receiver"] === undefined)
        throw new InvalidArgument({ path: "delivery.receiver", message: "is required" });
      if (input["receiver"] !== receiverOf(service)) throw foreign();
      if (!(await isOpen(service, input["account"]))) throw foreign();
    },
  };

  /** A page of a policy stays where the client is: somebody who may only change its looks must not lead people elsewhere. */
  async function checkLooks(client_id: string, input: Asked["input"]): Promise<void> {
    const origins = new Set((await calls.clients.find(client_id))?.redirect_uris.map(originOf));
    const wrong = PAGES.filter((member) => typeof input[member] === "string").filter(
      (member) =>
        !origins.has(originOf(input[member] as string)) || originOf(input[member] as string) === null,
    );
    if (wrong.length > 0)
      throw new InvalidArgument(
        ...wrong.map((member) => ({
          path: `client.${member}`,
          message: "must have the origin of a redirect address",
        })),
      );
  }

  /** The one account that is named exactly. */
  async function search(service: string, { search: text, ...others }: Asked["input"]): Promise<Page<object>> {
    const [unknown] = Object.keys(others);
    if (typeof text !== "string" || unknown !== undefined) throw searchRequired();
    const found = await byName(text);
    return found !== undefined && isAssigned(service, found) ? { items: [found], next: null } : EMPTY;
  }

  async function byName(text: string): Promise<Account | undefined> {
    // No username has an `@`.
    if (text.includes("@")) return calls.accounts.findByLogin(text);
    if (isUuid(text)) return calls.accounts.find(text);
    if (!/^[1-9]\d{0,14}$/u.test(text)) throw searchRequired();
    return calls.accounts.findByUserId(Number(text));
  }

  /** Whether the service may ask about an account: what happened to others says who was there once. */
  async function isOpen(service: string, account: unknown): Promise<boolean> {
    return typeof account !== "string" || isAssigned(service, await calls.accounts.find(account));
  }

  /** What happened through clients of the service and to them while they were its own, to it, and to its receiver. */
  async function auditOf(service: string, { row, input }: Asked, window: Window): Promise<Page<object>> {
    const filter = checked("filter", row.input, input) as AuditFilter;
    if (!(await isOpen(service, filter.account))) return EMPTY;
    await audit.flush();
    return storage.audit.list({ ...filter, ...window, service });
  }

  async function deliveriesOf(service: string, asked: Asked, window: Window): Promise<Page<object>> {
    const { receiver = receiverOf(service), ...others } = asked.input;
    if (receiver !== receiverOf(service) || !(await isOpen(service, others["account"]))) return EMPTY;
    return calls.notifications.list({ ...others, ...window, receiver });
  }

  /** Those of the accounts that are assigned to the service. Nobody else is known to it, also not who has left. */
  async function assignedOf(
    service: string,
    subs: readonly (string | undefined)[],
  ): Promise<ReadonlySet<string>> {
    const distinct = [...new Set(subs.filter((sub) => sub !== undefined))];
    const found = await storage.records.get<readonly AccountRecord[]>(
      distinct.map((sub) => ACCOUNT.ref(sub)),
    );
    return new Set(found.flatMap((each) => (isAssigned(service, each?.value) ? [each!.value.sub] : [])));
  }

  async function auditIn(service: string, records: readonly AuditRecord[]): Promise<readonly object[]> {
    const assigned = await assignedOf(service, records.flatMap(peopleIn));
    return records.map((record) => {
      const hidden = new Set(peopleIn(record).filter((sub) => !assigned.has(sub)));
      const { actor, subject, action, detail } = record;
      const { sub } = detail;
      return {
        ...record,
        actor: actor.id !== undefined && hidden.has(actor.id) ? { kind: actor.kind } : actor,
        subject: subjectOf(action) === "account" && hidden.has(subject ?? "") ? null : subject,
        detail: typeof sub === "string" && hidden.has(sub) ? { ...detail, sub: null } : detail,
        // Where people are, and what they use, is not what clients read of them.
        address: null,
        browser: null,
      };
    });
  }

  async function deliveriesIn(
    service: string,
    records: readonly Pick<ShownDelivery, "sub">[],
  ): Promise<readonly object[]> {
    const assigned = await assignedOf(
      service,
      records.map(({ sub }) => sub),
    );
    return records.map((each) => (assigned.has(each.sub) ? each : { ...each, sub: "unassigned" }));
  }

  /** The lists, by the noun: each is made of what is the service's. */
  const LISTS: {
    readonly [N in Noun]?: (service: string, asked: Asked, window: Window) => Promise<Page<object>>;
  } = {
    accounts: (service, { input }) => search(service, input),
    clients: (service, { input }, window) =>
      ownOf(
        (page) => calls.clients.list({ ...input, ...page }),
        (client) => client.service === service,
        ({ client_id }) => client_id,
        window,
      ),
    apis: (service, { input }, window) =>
      ownOf(
        (page) => calls.directory.apis.list({ ...input, ...page }),
        (api) => api.service === service,
        ({ identifier }) => identifier,
        window,
      ),
    services: (service) => justOne(calls.directory.services.find(service)),
    receivers: (service) => justOne(calls.notifications.receiver(receiverOf(service))),
    deliveries: deliveriesOf,
    audit: auditOf,
  };

  return {
    async check(service, asked) {
      const { noun, verb, row, target, input } = asked;
      const only: readonly string[] | undefined = row.limited === false ? [] : row.limited.only;
      const [first] = target;
      if (first !== undefined && (await OWN[noun]?.(service, first)) !== true) throw foreign();
      if (only !== undefined && Object.keys(input).some((member) => !only.includes(member)))
        throw new SignInError("role_required", "this needs a token that is not limited to a service");
      const named = NAMED[`${noun}.${verb}`];
      if (first === undefined && row.effect !== "list" && named === undefined) throw foreign();
      await named?.(service, input);
      if (noun === "clients" && first !== undefined && verb === "update") await checkLooks(first, input);
    },
    async list(service, asked, window) {
      const list = LISTS[asked.noun];
      if (list === undefined || asked.verb !== "list") throw foreign();
      // An account that is searched for has a rule of its own.
      if (asked.noun !== "accounts") checked("filter", asked.row.input, asked.input);
      return list(service, asked, window);
    },
    async views(service, noun, records) {
      if (noun === "accounts") return records.map((each) => accountIn(service, each as Account));
      if (noun === "audit") return auditIn(service, records as readonly AuditRecord[]);
      return noun === "deliveries" ? deliveriesIn(service, records as readonly ShownDelivery[]) : records;
    },
  };
}

function searchRequired(): SignInError {
  return new SignInError("search_required", "search for a whole e-mail address, a sub or a user_id");
}

function isAssigned(service: string, account: Pick<Account, "services"> | undefined): boolean {
  return account !== undefined && Object.hasOwn(account.services, service);
}

/** The accounts that a record of the audit names. */
function peopleIn(record: AuditRecord): string[] {
  const { sub } = record.detail;
  return [...accountsOf(record), ...(typeof sub === "string" ? [sub] : [])];
}

/** The entry of a map that the service has, if there is one. */
function entryOf<Value>(map: Readonly<Record<string, Value>>, key: string): Readonly<Record<string, Value>> {
  const value = ownValue(map, key);
  return value === undefined ? {} : { [key]: value };
}

/** The origin of an address; `null` for one that has none, as those of native applications. */
function originOf(address: string): string | null {
  const url = URL.parse(address);
  return url === null || url.origin === "null" ? null : url.origin;
}
