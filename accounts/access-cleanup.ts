/**
 * Removes, in the background, what has ended: sessions, grants with their codes and tokens, and what else names a deleted
 * account. Generations and epochs decide at once, so no request waits for this, however much there is.
 */
import type { Clock } from "../core/clock.ts";
import { withoutFailing } from "../core/events.ts";
import { FairQueue } from "../core/fair-queue.ts";
import { KeyedBatches } from "../core/keyed-batches.ts";
import { Running } from "../core/running.ts";
import type { RecordData } from "../adapters/record-store.ts";
import type { Beside } from "../records/artifacts/artifact-store.ts";
import type { ArtifactQuery, StoredArtifact } from "../records/artifacts/artifact.ts";
import { type AuditEvent, type ClientThen, SYSTEM } from "../records/audit/audit-event.ts";
import type { AccountRecord } from "../records/directory/directory.ts";
import {
  ACCOUNT,
  BY_REMOVAL_DUE,
  CLIENT,
  REMOVAL,
  type StoredRemoval,
} from "../records/directory/directory-kinds.ts";
import { DOCUMENT, isDocumentId } from "../records/directory/document-kinds.ts";
import { CONFIRMATION, CONFIRMATION_PURPOSES } from "../records/people/confirmation-kinds.ts";
import type { Transaction } from "../records/records.ts";
import type { StorageServices } from "../records/services.ts";
import { generationAt } from "./generations.ts";

/** What a change of an account has ended. */
export interface EndedAccess {
  readonly sub: string;
  /** The account afterwards; `undefined` if it was deleted. */
  readonly account: AccountRecord | undefined;
  /** Whether its sessions have ended, but for the one with the `uid` in `keepSession`. */
  readonly sessions: boolean;
  readonly keepSession?: string | undefined;
  /** Whether all its grants have ended, or those of the clients of these services and of these clients. */
  readonly grants: "all" | { readonly services: readonly string[]; readonly clients: readonly string[] };
}

/** Called with sessions that have ended, before they are removed. */
export type OnSessions = (sub: string, sessions: readonly StoredArtifact[]) => Promise<void>;

type Services = Pick<StorageServices, "configuration" | "storage" | "clock" | "events" | "audit"> & {
  /** Stores account events in the commit of what ended. */
  readonly webhooks: { readonly beside: (tx: Transaction, ended: AuditEvent) => Promise<void> };
};

/** A list of artifacts, some of which have ended. */
interface EndedList {
  readonly query: ArtifactQuery;
  /** Called once for each, in the order of the list. */
  readonly isOver: (artifact: StoredArtifact) => boolean;
  /** Called with those of a page before they are removed. */
  readonly before?: (over: readonly StoredArtifact[]) => Promise<void>;
  /** Puts other records into the commit that removes the ones that `before` was called with last. */
  readonly beside?: Beside;
}

const isNamed = (): boolean => true;

/** The work in events about faults. */
const WORK = "clear artifacts";
/** Longer than any request takes that began before a deletion: what it still writes is removed then. */
const REQUESTS_END_MS = 10_000;
/** How many removals run at once. */
const AT_ONCE = { capacity: 4, maxWaiting: 0, maxWaitMs: 0, refusal: "" };
/** Removals that one pass looks at. */
const DUE_AT_A_TIME = 100;

/** Stores with the end of an account or a client that it has to be cleaned up, whatever happens to this process. */
export function putRemoval(tx: Transaction, of: StoredRemoval["of"], id: string, clock: Clock): void {
  tx.overwrite(REMOVAL.record({ of, id, due: Math.floor(clock.now()) + REQUESTS_END_MS }));
}

/** The confirmations that wait for the person of an account, as far as their keys name it. */
function confirmationsOf(sub: string): Pick<RecordData, "kind" | "key">[] {
  return CONFIRMATION_PURPOSES.map((purpose) => CONFIRMATION.ref([purpose, sub]));
}

/** The generations that a session or grant carries. One that carries none has ended. */
interface Carried {
  readonly generation?: number;
  readonly generations?: {
    readonly tokens?: number;
    readonly service?: number;
    readonly client?: number;
    readonly epoch?: string;
  };
}

const carriedBy = ({ payload }: StoredArtifact): Carried => payload;

const NEVER = -1;

export class AccessCleanup {
  readonly #services: Services;
  readonly #onSessions: OnSessions;
  readonly #queue = new FairQueue(AT_ONCE);
  readonly #running = new Running();
  /** One count at a time for each owner. */
  readonly #trims = new KeyedBatches<() => Promise<void>, void>(async (_key, [trim]) => {
    await this.#background("keep the limits of an account", trim);
    return [];
  });

  constructor(services: Services, onSessions: OnSessions) {
    this.#services = services;
    this.#onSessions = onSessions;
  }

  /**
   * Removes what a change of an account has ended. It returns after the first records, which are all that most accounts
   * have, so that a request that is under way finds nothing to continue with. The rest follows.
   */
  async accountChanged(ended: EndedAccess): Promise<void> {
    await this.#begin(() => this.#endedLists(ended));
  }

  /** Removes the grants of a client that have ended with its epoch, or with the client itself: in the same way. */
  async clientEnded(client_id: string): Promise<void> {
    await this.#begin(() => this.#endedListsOfClient(client_id));
  }

  /** The account is signed in in another browser: beyond `limits.sessions` the least recently used session ends. */
  sessionAdded(sub: string): void {
    const { sessions } = this.#services.configuration.limits;
    if (sessions === false) return;
    const query = { model: "Session", account: sub } as const;
    this.#keepLimit(["session", sub], query, sessions, () => {
      this.#services.events.emit("session.ended", { sub, reason: "limit" });
      return { ...SYSTEM, action: "session.ended", subject: sub, reason: "limit" };
    });
  }

  /** A client has exchanged a code of the account: beyond `limits.grants` the least recently used grant ends. */
  grantAdded(sub: string, then: ClientThen): void {
    const { client_id } = then;
    const { grants } = this.#services.configuration.limits;
    if (grants === false) return;
    const query = { model: "Grant", holder: { account: sub, client: client_id } } as const;
    this.#keepLimit(["grant", sub, client_id], query, grants, () => {
      this.#services.events.emit("family.revoked", { sub, client_id, reason: "limit" });
      return { ...SYSTEM, action: "family.revoked", subject: sub, client: then, reason: "limit" };
    });
  }

  /** Removes what was still written for the accounts and clients that ended a while ago. */
  async removeDue(): Promise<void> {
    const { records } = this.#services.storage;
    const due = await records.list<StoredRemoval>(
      { ...BY_REMOVAL_DUE, to: Math.floor(this.#services.clock.now()) },
      DUE_AT_A_TIME,
    );
    for (const { value } of due) {
      const lists =
        value.of === "client"
          ? await this.#endedListsOfClient(value.id)
          : await this.#listsOfDeleted(value.id);
      for (const list of lists) await this.#removeAll(list);
      await records.transact(async (tx) => {
        const ref = REMOVAL.ref([value.of, value.id]);
        // Another one may have begun since.
        if ((await tx.get(ref))?.due === value.due) tx.remove(ref);
      });
    }
  }

  /** Resolves when nothing is running, or after the time-out. @returns whether nothing is running. */
  settled(timeoutMs: number): Promise<boolean> {
    return this.#running.idle(timeoutMs);
  }

  async #background(where: string, work: (() => Promise<void>) | undefined): Promise<void> {
    const end = this.#running.begin();
    const leave = await this.#queue.enter(undefined);
    await withoutFailing(this.#services.events, where, async () => work?.());
    leave();
    end();
  }

  /** Removes the first page of each list now, and the other pages in the background. */
  #begin(listsOf: () => Promise<readonly EndedList[]>): Promise<void> {
    return withoutFailing(this.#services.events, WORK, async () => {
      for (const list of await listsOf()) {
        const next = await this.#removePage(list, undefined);
        if (next !== undefined) void this.#background(WORK, () => this.#removeAll(list, next));
      }
    });
  }

  /** @returns where the next page begins. */
  async #removePage(
    { query, isOver, before, beside }: EndedList,
    after: string | undefined,
  ): Promise<string | undefined> {
    const { artifacts } = this.#services.storage;
    const page = await artifacts.page(query, { after });
    const over = page.artifacts.filter(isOver);
    await before?.(over);
    await artifacts.remove(over, beside);
    return page.next;
  }

  async #removeAll(list: EndedList, from?: string): Promise<void> {
    let after = from;
    do after = await this.#removePage(list, after);
    while (after !== undefined);
  }

  async #endedLists(ended: EndedAccess): Promise<readonly EndedList[]> {
    const { sub, account, sessions, keepSession, grants } = ended;
    if (account === undefined) return this.#listsOfDeleted(sub);
    const isGrantOver = await this.#grantsOver(account, grants);
    return [
      ...(isGrantOver === undefined
        ? []
        : [{ query: { model: "Grant", account: sub }, isOver: isGrantOver } as const]),
      ...(sessions
        ? [
            this.#sessions(
              sub,
              (session) =>
                session.uid !== keepSession &&
                (carriedBy(session).generation ?? NEVER) < account.sessions_generation,
            ),
          ]
        : []),
    ];
  }

  /** Sessions, whose clients are told. */
  #sessions(sub: string, isOver: EndedList["isOver"]): EndedList {
    const before = (ended: readonly StoredArtifact[]): Promise<void> => this.#onSessions(sub, ended);
    return { query: { model: "Session", account: sub }, isOver, before };
  }

  /** Which grants have ended. A person may have authorized a client again since. `undefined`: none. */
  async #grantsOver(
    account: AccountRecord,
    grants: EndedAccess["grants"],
  ): Promise<((grant: StoredArtifact) => boolean) | undefined> {
    if (grants === "all")
      return (grant) => (carriedBy(grant).generations?.tokens ?? NEVER) < account.tokens_generation;
    const { services, clients } = grants;
    if (services.length + clients.length === 0) return undefined;
    const all = services.length === 0 ? [] : await this.#services.storage.directory.listClients();
    const serviceOf = new Map(all.map(({ client_id, service }) => [client_id, service]));
    return (grant) => {
      const { clientId = "" } = grant;
      const { service = NEVER, client = NEVER } = carriedBy(grant).generations ?? {};
      const key = serviceOf.get(clientId) ?? "";
      return (
        (services.includes(key) && service < generationAt(account.service_generations, key)) ||
        (clients.includes(clientId) && client < generationAt(account.client_generations, clientId))
      );
    };
  }

  /** Everything that names a deleted account. Its confirmations are removed at once. */
  async #listsOfDeleted(sub: string): Promise<readonly EndedList[]> {
    const { records } = this.#services.storage;
    // A restore has brought it back.
    if ((await records.find(ACCOUNT.ref(sub))) !== undefined) return [];
    await records.transact((tx) => {
      for (const ref of confirmationsOf(sub)) tx.remove(ref);
    });
    return [
      { query: { model: "Grant", account: sub }, isOver: isNamed },
      this.#sessions(sub, isNamed),
      { query: { model: "Interaction", account: sub }, isOver: isNamed },
    ];
  }

  async #endedListsOfClient(client_id: string): Promise<readonly EndedList[]> {
    const { records } = this.#services.storage;
    const found = isDocumentId(client_id)
      ? await records.find(DOCUMENT.ref(client_id))
      : await records.find(CLIENT.ref(client_id));
    const client = found?.value;
    const isOver = (grant: StoredArtifact): boolean =>
      client === undefined || carriedBy(grant).generations?.epoch !== client.tokens_epoch;
    return [{ query: { model: "Grant", client: client_id }, isOver }];
  }

  /** @param ended reports that something ended, and returns the event for the audit. */
  #keepLimit(owner: readonly string[], query: ArtifactQuery, most: number, ended: () => AuditEvent): void {
    const trim = async (): Promise<void> => {
      if ((await this.#services.storage.artifacts.count(query, most + 1)) <= most) return;
      let seen = 0;
      const isOver = (): boolean => (seen += 1) > most;
      let events: readonly AuditEvent[] = [];
      const before = async (over: readonly StoredArtifact[]): Promise<void> => {
        events = over.map(ended);
        for (const event of events) this.#services.audit.note(event);
      };
      const beside: Beside = async (tx) => {
        for (const event of events) await this.#services.webhooks.beside(tx, event);
      };
      await this.#removeAll({ query, isOver, before, beside });
    };
    void this.#trims.add(JSON.stringify(owner), trim).finally(this.#running.begin());
  }
}
