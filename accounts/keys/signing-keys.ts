/** The signing keys: the calls of `service.keys`, and the keys that this process signs and verifies with. */
import { generateKeyPair, type KeyObject, randomBytes } from "node:crypto";
import { promisify } from "node:util";
import type { JWK } from "oidc-provider";
import { type AuditEvent, type Caller, SYSTEM } from "../../records/audit/audit-event.ts";
import { type Clock, seconds } from "../../core/clock.ts";
import { NotFound, SignInError, StorageMissing } from "../../core/errors.ts";
import {
  signingKeyContext,
  type SigningKeyRecord,
  type SigningKeyStore,
  type StoredSigningKeys,
} from "../../records/signing-key-store.ts";
import type { Outage } from "../../core/outages.ts";
import type { Sealer } from "../../core/sealing.ts";
import type { SigningKey } from "../operations/keys.ts";
import {
  firstKey,
  isRotationDue,
  keysInForce,
  type NewSigningKey,
  nextKey,
  publishedUntil,
  signingKey,
  stateOf,
  stillPublished,
  withNext,
  without,
} from "./signing-key-times.ts";
import { ID_TOKEN_ALGORITHMS, type IdTokenAlgorithm } from "../../records/directory/directory.ts";

/** The signing keys of a running service. */
export interface SigningKeys {
  /** `list`, `rotate` and `retire` are those of `service.keys`. */
  list(): Promise<SigningKey[]>;
  rotate(caller?: Caller): Promise<SigningKey[]>;
  retire(kid: string, caller?: Caller): Promise<void>;
  /** The keys in the JWKS, with their private parts; the first of each algorithm signs. The same array until a key changes. */
  inForce(): readonly JWK[];
  /** Loads the changes of other processes, removes keys that have left the JWKS, and rotates keys that are due. */
  refresh(): Promise<void>;
  /** Refreshes once a minute, and soon after a change by another process. */
  start(outage: Outage): void;
  /** Waits for calls that are running. */
  stop(): Promise<void>;
}

const REFRESH_INTERVAL_MS = 60_000;
/** From a change notification of the storage to the refresh: one may come for every commit. */
const CHANGE_DELAY_MS = 1_000;

const refuse = (): Promise<never> =>
  Promise.reject(
    new SignInError(
      "configured_elsewhere",
      "the signing keys come from config.keys.signing: change them there",
    ),
  );

/** Keys of the configuration, which don't change while the service runs. */
export function fixedSigningKeys(
  keys: readonly (JWK & { readonly kid: string; readonly alg: string })[],
): SigningKeys {
  const unknown = { published_at: null, signs_from: null, retires_at: null, published_until: null };
  return {
    inForce: () => keys,
    list: async () =>
      keys.map((key) => ({
        kid: key.kid,
        alg: key.alg,
        state: key === keys.find(({ alg }) => alg === key.alg) ? "signing" : "published",
        ...unknown,
      })),
    rotate: refuse,
    retire: refuse,
    refresh: async () => undefined,
    start: () => undefined,
    stop: async () => undefined,
  };
}

interface SigningKeysOptions {
  readonly store: SigningKeyStore;
  readonly sealer: Sealer;
  readonly clock: Clock;
  /** Seconds for which a signed token can be used. */
  readonly usable: number;
  /** Seconds between two scheduled rotations; `undefined`: never. */
  readonly every: number | undefined;
  /** Whether a server has made them; then nothing is written. Default: the first start makes them. */
  readonly mustExist?: boolean;
}

/**
 * Keys of the storage. The first start makes them.
 * @throws SignInError `unusable_secrets` when no key of `keys.secrets` opens them.
 * @throws StorageMissing when they must exist, and don't.
 */
export async function openSigningKeys(options: SigningKeysOptions): Promise<SigningKeys> {
  const { store, sealer, clock, mustExist = false } = options;
  let stored = await store.read();
  if (stored.version === undefined) {
    if (mustExist) throw new StorageMissing("no server has used this storage yet");
    await store.change(async ({ version }) => {
      if (version !== undefined) return undefined;
      return { keys: await makeSigningKeys(sealer, ID_TOKEN_ALGORITHMS, seconds(clock)), audit: [] };
    });
    stored = await store.read();
  }
  const keys = new StoredKeys(options);
  keys.take(stored);
  if (!mustExist) await keys.refresh();
  return keys;
}

const GENERATORS: Readonly<Record<IdTokenAlgorithm, () => Promise<{ readonly privateKey: KeyObject }>>> = {
  RS256: () => promisify(generateKeyPair)("rsa", { modulusLength: 2048 }),
  PS256: () => promisify(generateKeyPair)("rsa", { modulusLength: 2048 }),
  ES256: () => promisify(generateKeyPair)("ec", { namedCurve: "P-256" }),
  EdDSA: () => promisify(generateKeyPair)("ed25519"),
};

async function makeKey(sealer: Sealer, alg: string): Promise<NewSigningKey> {
  const { privateKey } = await GENERATORS[alg as IdTokenAlgorithm]();
  // Hexadecimal, because people type it: an operand must not begin with a dash.
  const kid = randomBytes(12).toString("hex");
  return sealed(sealer, { ...privateKey.export({ format: "jwk" }), kid, use: "sig", alg });
}

/** New keys that sign from now on, one for each algorithm. @param now seconds since the epoch. */
export function makeSigningKeys(
  sealer: Sealer,
  algorithms: readonly string[],
  now: number,
): Promise<SigningKeyRecord[]> {
  return Promise.all(algorithms.map(async (alg) => firstKey(await makeKey(sealer, alg), now)));
}

/** The algorithms without a signing key, after the storage was used by a version that did not have them. */
function missingAlgorithms(keys: readonly SigningKeyRecord[], now: number): IdTokenAlgorithm[] {
  return ID_TOKEN_ALGORITHMS.filter((alg) => signingKey(keys, alg, now) === undefined);
}

function sealed(sealer: Sealer, jwk: JWK): NewSigningKey {
  const { kid = "", alg = "RS256" } = jwk;
  return { kid, alg, sealed: sealer.seal(signingKeyContext(kid), JSON.stringify(jwk)) };
}

/** The keys in force, and the period in which they are. */
interface InForce {
  readonly jwks: readonly JWK[];
  readonly from: number;
  readonly until: number;
}

class StoredKeys implements SigningKeys {
  readonly #options: SigningKeysOptions;
  #stored: StoredSigningKeys = { keys: [], version: undefined };
  /** The private parts, by `kid`. */
  #opened: ReadonlyMap<string, JWK> = new Map();
  #inForce: InForce = { jwks: [], from: Infinity, until: -Infinity };
  /** The last call: calls run one at a time, so that no process replaces newer keys by older ones that it read before. */
  #last: Promise<unknown> = Promise.resolve();
  #end: () => void = () => undefined;

  constructor(options: SigningKeysOptions) {
    this.#options = options;
  }

  inForce(): readonly JWK[] {
    const { from, until } = this.#inForce;
    const now = this.#now();
    if (now < from || now >= until) this.#decide(now);
    return this.#inForce.jwks;
  }

  list(): Promise<SigningKey[]> {
    return this.#serialize(async () => {
      await this.#reload();
      return stillPublished(this.#stored.keys, this.#now(), this.#options.usable).map((key) =>
        this.#shown(key),
      );
    });
  }

  async rotate(caller: Caller = SYSTEM): Promise<SigningKey[]> {
    return this.#serialize(async () => {
      await this.#change((keys, now) =>
        this.#rotated(keys, now, ID_TOKEN_ALGORITHMS, { ...caller, by: "call" }),
      );
      const { keys } = this.#stored;
      const now = this.#now();
      return ID_TOKEN_ALGORITHMS.flatMap(
        (alg) => nextKey(keys, alg, now) ?? signingKey(keys, alg, now) ?? [],
      ).map((key) => this.#shown(key));
    });
  }

  async retire(kid: string, caller: Caller = SYSTEM): Promise<void> {
    await this.#serialize(() =>
      this.#change(async (keys, now) => {
        const key = keys.find((each) => each.kid === kid);
        if (key === undefined) throw new NotFound("the signing key");
        const was = stateOf(key, keys, now);
        return {
          keys: await without(keys, key, now, (alg) => makeKey(this.#options.sealer, alg)),
          audit: [
            { ...caller, action: "signing_key.retired", subject: kid, detail: { alg: key.alg, state: was } },
          ],
        };
      }),
    );
  }

  refresh(): Promise<void> {
    return this.#serialize(async () => {
      await this.#reload();
      const { keys } = this.#stored;
      if (!this.#isDue(keys, this.#now())) return;
      await this.#change(async (current, now) => {
        if (!this.#isDue(current, now)) return undefined;
        const left = stillPublished(current, now, this.#options.usable);
        const gone = current.filter((key) => !left.includes(key));
        const { actor } = SYSTEM;
        const action = "signing_key.removed";
        const audit = gone.map(({ kid, alg }): AuditEvent => ({
          actor,
          action,
          subject: kid,
          detail: { alg },
        }));
        const missing = await Promise.all(
          missingAlgorithms(left, now).map((alg) => makeKey(this.#options.sealer, alg)),
        );
        const complete = [...left, ...missing.map((key) => firstKey(key, now))];
        const old = ID_TOKEN_ALGORITHMS.filter((alg) =>
          isRotationDue(complete, alg, now, this.#options.every),
        );
        const rotated = await this.#rotated(complete, now, old, { ...SYSTEM, by: "schedule" });
        return { keys: rotated?.keys ?? complete, audit: [...audit, ...(rotated?.audit ?? [])] };
      });
    });
  }

  start(outage: Outage): void {
    const refresh = (): void => void this.refresh().then(outage.worked, outage.failed);
    const timer = setInterval(refresh, REFRESH_INTERVAL_MS).unref();
    let pending: NodeJS.Timeout | undefined;
    const endWatch = this.#options.store.watch(() => {
      pending ??= setTimeout(() => {
        pending = undefined;
        refresh();
      }, CHANGE_DELAY_MS).unref();
    });
    this.#end = () => {
      clearInterval(timer);
      clearTimeout(pending);
      endWatch();
    };
  }

  async stop(): Promise<void> {
    this.#end();
    await this.#last.catch(() => undefined);
  }

  /** @throws SignInError when no secret opens a key; then the keys in force stay. */
  take(stored: StoredSigningKeys): void {
    const { sealer } = this.#options;
    this.#opened = new Map(
      stored.keys.map(({ kid, sealed: text }) => [
        kid,
        this.#opened.get(kid) ?? (JSON.parse(sealer.open(signingKeyContext(kid), text)) as JWK),
      ]),
    );
    this.#stored = stored;
    this.#decide(this.#now());
  }

  #now(): number {
    return seconds(this.#options.clock);
  }

  /** Whether `refresh` has to change the keys. */
  #isDue(keys: readonly SigningKeyRecord[], now: number): boolean {
    const { usable, every } = this.#options;
    if (stillPublished(keys, now, usable).length < keys.length) return true;
    if (missingAlgorithms(keys, now).length > 0) return true;
    return ID_TOKEN_ALGORITHMS.some((alg) => isRotationDue(keys, alg, now, every));
  }

  #decide(now: number): void {
    const { keys, until } = keysInForce(this.#stored.keys, now, this.#options.usable);
    const jwks = keys.flatMap(({ kid }) => this.#opened.get(kid) ?? []);
    const before = this.#inForce.jwks;
    const isSame = jwks.length === before.length && jwks.every((jwk, index) => jwk === before[index]);
    this.#inForce = { jwks: isSame ? before : jwks, from: now, until };
  }

  async #reload(): Promise<void> {
    const { store } = this.#options;
    if ((await store.version()) !== this.#stored.version) this.take(await store.read());
  }

  async #rotated(
    keys: readonly SigningKeyRecord[],
    now: number,
    algorithms: readonly IdTokenAlgorithm[],
    { by, ...caller }: Caller & { readonly by: "call" | "schedule" },
  ): Promise<{ keys: readonly SigningKeyRecord[]; audit: readonly AuditEvent[] } | undefined> {
    const due = algorithms.filter((alg) => nextKey(keys, alg, now) === undefined);
    if (due.length === 0) return undefined;
    let after = keys;
    const audit: AuditEvent[] = [];
    for (const alg of due) {
      const fresh = await makeKey(this.#options.sealer, alg);
      after = withNext(after, fresh, now);
      const detail = { by, alg, signs_from: after.at(-1)?.signs_from ?? null };
      audit.push({ ...caller, action: "signing_key.rotated", subject: fresh.kid, detail });
    }
    return { keys: after, audit };
  }

  async #change(
    decide: (
      keys: readonly SigningKeyRecord[],
      now: number,
    ) => ReturnType<Parameters<SigningKeyStore["change"]>[0]>,
  ): Promise<void> {
    const { store } = this.#options;
    await store.change(({ keys }) => decide(keys, this.#now()));
    this.take(await store.read());
  }

  #serialize<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#last.then(work, work);
    this.#last = done.catch(() => undefined);
    return done;
  }

  #shown(key: SigningKeyRecord): SigningKey {
    const { kid, alg, published_at, signs_from, retires_at } = key;
    const state = stateOf(key, this.#stored.keys, this.#now());
    const published_until = publishedUntil(key, this.#options.usable);
    return { kid, alg, state, published_at, signs_from, retires_at, published_until };
  }
}
