/** Which of the hosts of an address is used: the one that takes writes, and never one that was replaced. */
import type { Client } from "pg";
import type { PostgresAddress, PostgresHost } from "../../config/postgresql-address.ts";
import { sqlState } from "./faults.ts";

/** How long to wait for the other hosts once one can be used. A dead host must not use up the time of a request. */
const GRACE_MS = 500;
/** Failing requests trigger a look for another host, at most once in this time. */
const MIN_INTERVAL_MS = 250;

/** What a server says about itself. */
export interface Answer {
  readonly isStandby: boolean;
  readonly isReadOnly: boolean;
  /** The history of the data: servers that replicate one another have the same id. `undefined` if it tells nobody. */
  readonly history?: { readonly id: string; readonly timeline: number };
}

/** What a host of the address is now. */
export interface HostState {
  readonly host: PostgresHost;
  /** `undefined`: it does not answer, for this reason. */
  readonly answer: Answer | undefined;
  readonly reason: string | undefined;
}

interface Usable {
  readonly host: PostgresHost;
  readonly history: Answer["history"];
}

/** Asks a server for its {@link Answer}. */
export const STATE = `SELECT pg_is_in_recovery() AS "isStandby", current_setting('transaction_read_only') = 'on' AS "isReadOnly"`;

/** A timeline begins when a standby is promoted, and when a server is restored to an earlier moment. */
export const HISTORY = `SELECT system_identifier::text AS id, left(pg_walfile_name(pg_current_wal_lsn()), 8) AS timeline FROM pg_control_system()`;

export async function askServer(client: Client): Promise<Answer> {
  const { rows } = await client.query<Answer>(STATE);
  const [state = { isStandby: true, isReadOnly: true }] = rows;
  // A standby can't tell, and is not compared.
  if (state.isStandby) return state;
  try {
    const [history] = (await client.query<{ id: string; timeline: string }>(HISTORY)).rows;
    if (history === undefined) return state;
    return { ...state, history: { ...history, timeline: Number.parseInt(history.timeline, 16) } };
  } catch (error) {
    // Not every server tells everybody.
    if (sqlState(error) === undefined) throw error;
    return state;
  }
}

/** Whether a connection to this server is one that the address asks for. */
export function isWanted({ isStandby, isReadOnly }: Answer, wanted: PostgresAddress["wanted"]): boolean {
  if (wanted === "any") return true;
  return wanted === "primary" ? !isStandby : !isReadOnly;
}

/** `HOST:PORT` */
export const nameOf = ({ host, port }: PostgresHost): string =>
  `${host.includes(":") ? `[${host}]` : host}:${port}`;

export class Hosts {
  readonly #hosts: readonly PostgresHost[];
  readonly #wanted: PostgresAddress["wanted"];
  readonly #ask: (host: PostgresHost) => Promise<Answer>;
  readonly #onChange: (text: string) => void;
  #current: PostgresHost;
  /**
   * The newest timeline of each history. After a promotion, the server that was replaced may still run, or come back, and take
   * writes that nobody will see: it is never used again.
   */
  readonly #newest = new Map<string, number>();
  #looking: Promise<void> | undefined;
  #lookedAt = -Infinity;
  #isLost = false;

  /**
   * @param ask rejects if there is no answer.
   * @param onChange gets a sentence when a look finds another host than the one before, or none, or one again.
   */
  constructor(
    { hosts, wanted }: PostgresAddress,
    ask: (host: PostgresHost) => Promise<Answer>,
    onChange: (text: string) => void,
  ) {
    this.#hosts = hosts;
    this.#wanted = wanted;
    this.#ask = ask;
    this.#onChange = onChange;
    this.#current = hosts[0] as PostgresHost;
  }

  /** The one that was found last; before that, the first of the address. */
  get current(): PostgresHost {
    return this.#current;
  }

  get areSeveral(): boolean {
    return this.#hosts.length > 1;
  }

  /** Whether the last look found none. */
  get isLost(): boolean {
    return this.#isLost;
  }

  /** Asks all hosts in parallel and updates `current`, which stays as it is if no host can be used. */
  async look(): Promise<void> {
    if (performance.now() - this.#lookedAt < MIN_INTERVAL_MS) return;
    this.#looking ??= this.#look().finally(() => {
      this.#looking = undefined;
      this.#lookedAt = performance.now();
    });
    await this.#looking;
  }

  async #look(): Promise<void> {
    const usable: Usable[] = [];
    const grace = Promise.withResolvers<void>();
    let timer: NodeJS.Timeout | undefined;
    const asking = this.#hosts.map(async (host) => {
      const answer = await this.#ask(host).catch(() => undefined);
      if (answer === undefined || !isWanted(answer, this.#wanted)) return;
      usable.push({ host, history: answer.history });
      timer ??= setTimeout(grace.resolve, GRACE_MS);
    });
    await Promise.race([Promise.all(asking), grace.promise]);
    clearTimeout(timer);
    for (const { history } of usable)
      if (history !== undefined && history.timeline > (this.#newest.get(history.id) ?? 0))
        this.#newest.set(history.id, history.timeline);
    const newest = usable.filter(
      ({ history }) => history === undefined || history.timeline === this.#newest.get(history.id),
    );
    const chosen = [this.#current, ...this.#hosts].find((host) => newest.some((each) => each.host === host));
    this.#note(chosen);
    this.#isLost = chosen === undefined;
    this.#current = chosen ?? this.#current;
  }

  #note(chosen: PostgresHost | undefined): void {
    // Whoever opens the storage learns from the first look by itself.
    if (this.#lookedAt === -Infinity) return;
    if (chosen === undefined) {
      if (!this.#isLost)
        this.#onChange(
          "no host of PostgreSQL can be used: none answers and takes writes, or only one that was replaced",
        );
    } else if (chosen !== this.#current)
      this.#onChange(`the host of PostgreSQL is now ${nameOf(chosen)} instead of ${nameOf(this.#current)}`);
    else if (this.#isLost) this.#onChange(`the host of PostgreSQL is ${nameOf(chosen)} again`);
  }
}
