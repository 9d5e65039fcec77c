/**
 * Removes, in the background, what has ended: sessions, grants with their codes and tokens, and what else names a deleted
 * account. Generations and epochs decide at once, so no request waits for this, however much there is.
 */
import type { OwnershipLimits } from "../config/configuration.ts";
import type { Clock } from "../core/clock.ts";
import { type ServiceEmitter, withoutFailing } from "../core/events.ts";
import { FairQueue } from "../core/fair-queue.ts";
import { KeyedBatches } from "../core/keyed-batches.ts";
import { Running } from "../core/running.ts";
import type { RecordData } from "../adapters/record-store.ts";
import type { ArtifactQuery, StoredArtifact } from "../records/artifacts/artifact.ts";
import { type AuditEvent, SYSTEM } from "../records/audit/audit-event.ts";
import type { AccountRecord } from "../records/directory/directory.ts";
import {
  ACCOUNT,
  BY_REMOVAL_DUE,
  CLIENT,
  REMOVAL,
  type StoredRemoval,
} from "../records/directory/directory-kinds.ts";
import { CONFIRMATION, CONFIRMATION_PURPOSES } from "../records/people/confirmation-kinds.ts";
import type { Transaction } from "../records/records.ts";
import type { Storage } from "../records/storage.ts";
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

interface CleanupOptions {
  readonly storage: Pick<Storage, "records" | "artifacts" | "directory">;
  readonly clock: Clock;
  readonly limits: OwnershipLimits;
  readonly events: ServiceEmitter;
  /** Records what ended because an account had too much. */
  readonly onAudit: (event: AuditEvent) => void;
  readonly onSessions: OnSessions;
}

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
  readonly #options: CleanupOptions;
  readonly #queue = new FairQueue(AT_ONCE);
  readonly #running = new Running();
  /** One count at a time for each owner. */
  readonly #trims = new KeyedBatches<() => Promise<void>, void>(async (_key, [trim]) => {
    await this.#background("keep the limits of an account", trim);
    return [];
  });

  constructor(options: CleanupOptions) {
    this.#options = options;
  }

  /** Begins to remove what a change of an account has ended. */
  accountChanged(ended: EndedAccess): void {
    void this.#background("clear artifacts", () => this.#clear(ended));
  }

  /** Begins to remove the grants of a client that have ended with its epoch, or with the client itself. */
  clientEnded(client_id: string): void {
    void this.#background("clear artifacts", () => this.#clearClient(client_id));
  }

  /** The account is signed in in another browser: beyond `limits.sessions` the least recently used session ends. */
  sessionAdded(sub: string): void {
    const { sessions } = this.#options.limits;
    if (sessions === false) return;
    const query = { model: "Session", account: sub } as const;
    this.#keepLimit(["session", sub], query, sessions, () => {
      this.#options.events.emit("session.ended", { sub, reason: "limit" });
      return { ...SYSTEM, action: "session.ended", subject: sub, reason: "limit" };
    });
  }

  /** A client has exchanged a code of the account: beyond `limits.grants` the least recently used grant ends. */
  grantAdded(sub: string, client_id: string): void {
    const { grants } = this.#options.limits;
    if (grants === false) return;
    const query = { model: "Grant", holder: { account: sub, client: client_id } } as const;
    this.#keepLimit(["grant", sub, client_id], query, grants, () => {
      this.#options.events.emit("family.revoked", { sub, client_id, reason: "limit" });
      return { ...SYSTEM, action: "family.revoked", subject: sub, client: client_id, reason: "limit" };
    });
  }

  /** Removes what was still written for the accounts and clients that ended a while ago. */
  async removeDue(): Promise<void> {
    const { records } = this.#options.storage;
    const due = await records.list<StoredRemoval>(
      { ...BY_REMOVAL_DUE, to: Math.floor(this.#options.clock.now()) },
      DUE_AT_A_TIME,
    );
    for (const { value } of due) {
      if (value.of === "client") await this.#clearClient(value.id);
      else await this.#clearDeleted(value.id);
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
    await withoutFailing(this.#options.events, where, async () => work?.());
    leave();
    end();
  }

  /**
   * Removes the artifacts of a list that `choose` returns, page by page.
   * @param before is called with them.
   */
  async #each(
    query: ArtifactQuery,
    choose: (page: readonly StoredArtifact[]) => readonly StoredArtifact[],
    before?: (chosen: readonly StoredArtifact[]) => Promise<void>,
  ): Promise<void> {
    const { artifacts } = this.#options.storage;
    for (let after: string | undefined; ;) {
      const page = await artifacts.page(query, { after });
      const chosen = choose(page.artifacts);
      await before?.(chosen);
      await artifacts.remove(chosen);
      if (page.next === undefined) return;
      after = page.next;
    }
  }

  async #clear({ sub, account, sessions, keepSession, grants }: EndedAccess): Promise<void> {
    if (account === undefined) return this.#clearDeleted(sub);
    if (sessions)
      await this.#endSessions(
        sub,
        (session) =>
          session.uid !== keepSession &&
          (carriedBy(session).generation ?? NEVER) < account.sessions_generation,
      );
    const isOver = await this.#grantsOver(account, grants);
    if (isOver !== undefined)
      await this.#each({ model: "Grant", account: sub }, (page) => page.filter(isOver));
  }

  #endSessions(sub: string, isOver: (session: StoredArtifact) => boolean): Promise<void> {
    return this.#each(
      { model: "Session", account: sub },
      (page) => page.filter(isOver),
      (ended) => this.#options.onSessions(sub, ended),
    );
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
    const all = services.length === 0 ? [] : await this.#options.storage.directory.listClients();
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

  /** Removes everything that names a deleted account. */
  async #clearDeleted(sub: string): Promise<void> {
    const { records } = this.#options.storage;
    // A restore has brought it back.
    if ((await records.find(ACCOUNT.ref(sub))) !== undefined) return;
    await this.#endSessions(sub, () => true);
    for (const model of ["Grant", "Interaction"] as const)
      await this.#each({ model, account: sub }, (page) => page);
    await records.transact((tx) => {
      for (const ref of confirmationsOf(sub)) tx.remove(ref);
    });
  }

  async #clearClient(client_id: string): Promise<void> {
    const { value: client } = (await this.#options.storage.records.find(CLIENT.ref(client_id))) ?? {};
    await this.#each({ model: "Grant", client: client_id }, (page) =>
      page.filter(
        (grant) => client === undefined || carriedBy(grant).generations?.epoch !== client.tokens_epoch,
      ),
    );
  }

  /** @param ended reports that something ended, and returns the event for the audit. */
  #keepLimit(owner: readonly string[], query: ArtifactQuery, most: number, ended: () => AuditEvent): void {
    const trim = async (): Promise<void> => {
      if ((await this.#options.storage.artifacts.count(query)) <= most) return;
      let kept = 0;
      await this.#each(query, (page) => {
        const over = page.slice(Math.max(0, most - kept));
        kept += page.length;
        over.forEach(() => this.#options.onAudit(ended()));
        return over;
      });
    };
    void this.#trims.add(JSON.stringify(owner), trim);
  }
}
