/** The checks of `doctor` on an open storage. Nothing is written. */
import type { Agent, ClientRequest } from "node:http";
import type { Configuration } from "../../config/configuration.ts";
import { readRedisAddress } from "../../config/redis-address.ts";
import { backendOf, databaseFile } from "../../config/storage-address.ts";
import { baseUrls, callbackAddresses } from "../../interactions/account/gate.ts";
import { ACCOUNT_CLIENT } from "../../accounts/clients/client.ts";
import { receiverName } from "../../accounts/receivers.ts";
import { addressProblems, isNativeAddress } from "../../accounts/clients/client-kinds.ts";
import { CLIENT_ROWS } from "../../accounts/clients/client-settings.ts";
import { NotFound, SignInError, StorageUnavailable } from "../../core/errors.ts";
import { CLOCK_TOLERANCE_MS } from "../../records/clocks.ts";
import { openSealer } from "../../accounts/keys/service-keys.ts";
import { readOwnedWays } from "../../accounts/ways/ways.ts";
import { createOperators } from "../../administration/operators.ts";
import { isIndexComplete } from "../../accounts/search/search-index.ts";
import { createAddressRules } from "../../core/outbound-addresses.ts";
import { AddressRefused, createGuardedAgents, http, https } from "../../core/outbound-agents.ts";
import { isResealPending } from "../../records/secrets.ts";
import type { StoreWarning } from "../../core/store-warning.ts";
import type { Storage } from "../../records/storage.ts";
import { adviceFor } from "../program/fault-advice.ts";
import { fileChecks } from "../storage/storage-check.ts";
import { type Check, type Finding, finding, sentence } from "./findings.ts";

interface StorageSubject {
  readonly configuration: Configuration;
  readonly storage: Storage;
  readonly warnings: readonly Warned[];
}

/** A warning that the service would log at its start. */
export interface Warned {
  readonly text: string;
  readonly warning: StoreWarning;
}

/** What becomes of the warnings of an opened storage. The others have checks of their own. */
export function warningFindings(warnings: readonly Warned[]): readonly Finding[] {
  return warnings.flatMap(({ text, warning }) =>
    warning === "postgresql_shared" || warning === "postgresql_host"
      ? [finding(warning, { message: sentence(text) })]
      : [],
  );
}

const QUEUE_TIMEOUT_MS = 5000;

/** The warnings from opening both. */
async function queueWarnings({ queue }: Configuration): Promise<readonly string[]> {
  const address = queue === "embedded" ? undefined : readRedisAddress(queue);
  if (address === undefined || typeof address === "string") return [];
  const { openRedis } = await import("../../notifier/bullmq/connection.ts");
  const warnings: string[] = [];
  const onWarning = (text: string): void => void warnings.push(text);
  (await openRedis({ address, timeoutMs: QUEUE_TIMEOUT_MS, onWarning })).disconnect();
  return warnings;
}

/** What there is to say about each server behind an address of several. */
async function serverFindings(key: "artifacts" | "queue", text: string): Promise<readonly Finding[]> {
  const address = backendOf(text) === "redis" ? readRedisAddress(text) : "";
  if (typeof address === "string" || address.kind === "server") return [];
  const { readTopology } = await import("../../adapters/redis/topology.ts");
  const { servers, unservedSlots } = await readTopology(key, address);
  const found = [
    finding("redis_servers", { key, servers: servers.map(({ role, name }) => `${role} ${name}`).join(", ") }),
  ];
  if (unservedSlots > 0) found.push(finding("redis_slots_unserved", { key, count: unservedSlots }));
  for (const { role, name: server, reason, policy, replicas, isFenced } of servers) {
    if (reason !== undefined)
      found.push(
        finding("redis_server_unreachable", { key, role, server, reason, advice: adviceFor({ reason }) }),
      );
    // Start-up warns of the primary, of which a cluster has several.
    if ((role === "replica" || address.kind === "cluster") && policy !== undefined && policy !== "noeviction")
      found.push(finding("redis_server_evicts", { key, role, server, policy }));
    if (replicas === 0) found.push(finding("redis_without_replica", { key, server }));
    if (key === "artifacts" && isFenced === false && address.replicas === 0)
      found.push(finding("redis_unfenced", { server }));
  }
  return found;
}

function evictionFinding(text: string): Finding {
  return finding("redis_evicts", { message: sentence(text) });
}

const redis: Check<StorageSubject> = {
  id: "redis",
  async run({ configuration, warnings }) {
    const { artifacts, queue } = configuration;
    const evicting = warnings.filter(({ warning }) => warning === "redis_evicts");
    const found = [
      ...evicting.map(({ text }) => evictionFinding(text)),
      ...(await serverFindings("artifacts", artifacts)),
    ];
    try {
      found.push(...(await queueWarnings(configuration)).map(evictionFinding));
    } catch (error) {
      if (!(error instanceof StorageUnavailable)) throw error;
      found.push(
        finding("queue_unreachable", { message: sentence(error.message), advice: adviceFor(error) }),
      );
    }
    if (queue === artifacts) return found;
    try {
      return [...found, ...(await serverFindings("queue", queue))];
    } catch (error) {
      // Nobody says which servers there are, and the queue can't be reached.
      if (!(error instanceof StorageUnavailable)) throw error;
      return found;
    }
  },
};

/** Above this, times in the audit are hard to compare. */
const MIN_DIFFERENCE_MS = 2000;

/** The finding for a clock that differs from that of this machine. */
export function clockFindings(
  prefix: "storage" | "server",
  whose: string,
  differenceMs: number,
): readonly Finding[] {
  const absoluteMs = Math.abs(differenceMs);
  if (absoluteMs < MIN_DIFFERENCE_MS) return [];
  const seconds = Math.round(absoluteMs / 1000);
  const side = differenceMs > 0 ? "ahead of" : "behind";
  return [
    finding(`${prefix}_clock_${absoluteMs < CLOCK_TOLERANCE_MS ? "differs" : "wrong"}`, {
      whose,
      seconds,
      side,
    }),
  ];
}

const clocks: Check<StorageSubject> = {
  id: "clocks",
  run: async ({ storage: { clocks: known } }) =>
    [...known.differences].flatMap(([name, differenceMs]) =>
      clockFindings("storage", `the server of ${name}`, differenceMs),
    ),
};

const indexes: Check<StorageSubject> = {
  id: "indexes",
  async run({ configuration: { storage } }) {
    // The other storages create what is missing when they are opened.
    const database = databaseFile(storage);
    if (database === undefined) return [];
    const found: Finding[] = [];
    for (const check of await fileChecks(database)) {
      const flaws = await check.find(10);
      if (flaws.length === 0) continue;
      found.push(finding("database_damaged", { damage: check.problem, count: flaws.length }));
    }
    return found;
  },
};

/** How long an emptied Redis is reported: its cause should be found. */
const LOSS_REPORTED_MS = 7 * 86_400_000;

const history: Check<StorageSubject> = {
  id: "history",
  async run({ configuration: { clock }, storage: { watch } }) {
    const [goneBack, identity] = [await watch.check(), await watch.read()];
    const lostAtMs = (identity?.artifacts_lost_at ?? -Infinity) * 1000;
    if (goneBack === undefined && clock.now() - lostAtMs < LOSS_REPORTED_MS)
      return [finding("redis_emptied", { time: new Date(lostAtMs).toISOString() })];
    if (goneBack === undefined) return [];
    const { what, fix } = goneBack;
    return [finding("storage_went_back", { message: sentence(what), advice: sentence(fix) })];
  },
};

const keys: Check<StorageSubject> = {
  id: "keys",
  async run({ configuration, storage }) {
    const known = await storage.secrets.read();
    // A storage that no service has used yet takes any keys.
    if (known.length === 0) return [];
    try {
      const sealer = await openSealer(configuration, storage, { mustExist: true, asConfigured: true });
      return isResealPending(known, sealer.ids) ? [finding("keys_reseal_pending", {})] : [];
    } catch (error) {
      if (!(error instanceof SignInError)) throw error;
      return [finding("keys_wrong", { message: sentence(error.message) })];
    }
  },
};

const search: Check<StorageSubject> = {
  id: "search",
  async run({ storage: { records, secrets } }) {
    // The first server says whether there are accounts that it lacks.
    if ((await secrets.read()).length === 0 || (await isIndexComplete(records))) return [];
    return [finding("search_incomplete", {})];
  },
};

const OF_ACCESS = { no_factor: "operator_without_factor", factor_too_new: "operator_factor_new" } as const;

const operators: Check<StorageSubject> = {
  id: "operators",
  async run({ configuration, storage }) {
    const { records } = storage;
    const factors = { factors: async (sub: string) => readOwnedWays(records, sub) };
    const { clock } = configuration;
    const console = createOperators({ accounts: factors, clock, configuration, storage });
    const found: Finding[] = [];
    for (const sub of Object.keys(configuration.operators)) {
      try {
        const access = await console.mayOpenConsole({ sub });
        if (access !== "yes") found.push(finding(OF_ACCESS[access], { sub }));
      } catch (error) {
        if (!(error instanceof NotFound)) throw error;
        found.push(finding("operator_missing", { sub }));
      }
    }
    return found;
  },
};

const deployments: Check<StorageSubject> = {
  id: "deployments",
  async run({ configuration, storage: { directory } }) {
    const client = await directory.findClient(ACCOUNT_CLIENT);
    const own = callbackAddresses(configuration.deployments);
    if (client === undefined || client.redirect_uris.join() === own.join()) return [];
    const [started, configured] = [baseUrls(client.redirect_uris), baseUrls(own)];
    return [finding("deployments_differ", { started, configured })];
  },
};

/** Why a connection failed; `undefined` if it was made. */
async function connect(
  address: string,
  agentFor: (protocol: string) => Agent,
  timeoutMs: number,
): Promise<Error | undefined> {
  const url = new URL(address);
  const isSecure = url.protocol === "https:";
  const { promise, resolve } = Promise.withResolvers<Error | undefined>();
  // This only connects: without a call of `end`, no request is sent.
  const request: ClientRequest = (isSecure ? https : http).request(url, {
    agent: agentFor(url.protocol),
    method: "POST",
  });
  const timer = setTimeout(
    () => resolve(Object.assign(new Error("no answer"), { code: "ETIMEDOUT" })),
    timeoutMs,
  );
  request.on("error", resolve);
  request.on("socket", (socket) => {
    socket.once(isSecure ? "secureConnect" : "connect", () => resolve(undefined));
  });
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
    request.destroy();
  }
}

/** @param works whether deliveries to it succeed. */
function connectionFinding(receiver: string, error: Error, works: boolean): Finding {
  if (error instanceof AddressRefused)
    return finding(works ? "receiver_refused_here" : "receiver_refused", {
      receiver,
      message: error.message,
    });
  const code: unknown = Reflect.get(error, "code");
  return finding("receiver_unreachable", { receiver, code: typeof code === "string" ? code : error.name });
}

/** Whether the receiver works, and has accepted one of the last deliveries to it. */
async function getsDeliveries(deliveries: Storage["deliveries"], receiver: string): Promise<boolean> {
  const { paused, failingSince } = await deliveries.receiver(receiver);
  if (paused || failingSince !== null) return false;
  const page = await deliveries.page({ receiver, state: "delivered", first: "newest", limit: 1 });
  return page.deliveries.length > 0;
}

/** How many connections are tried at a time. */
const MAX_PARALLEL = 10;

const receivers: Check<StorageSubject> = {
  id: "receivers",
  async run({ configuration: { notifications, events }, storage: { directory, deliveries } }) {
    const targets: (readonly [who: string, address: string, receiver?: string])[] = [];
    for (const [key, { url }] of Object.entries(events.receivers)) {
      const name = receiverName("events", key);
      targets.push([`The receiver ${name}`, url, name]);
    }
    for (const kind of ["service", "group", "portal"] as const)
      for (const { key, receiver } of await directory.listEntries(kind))
        if (receiver !== null)
          targets.push([`The receiver ${kind}:${key}`, receiver.url, receiverName(kind, key)]);
    for (const client of await directory.listClients()) {
      const { client_id, backchannel_logout_uri: address } = client;
      if (typeof address === "string")
        targets.push([`The back-channel logout address of the client ${client_id}`, address]);
    }
    const rules = createAddressRules(notifications.allowedReceivers);
    const agents = createGuardedAgents({ rules, keep: 0 });
    const found: Finding[] = [];
    try {
      for (let at = 0; at < targets.length; at += MAX_PARALLEL) {
        const tried = targets.slice(at, at + MAX_PARALLEL).map(async ([who, address, receiver]) => {
          const timeoutMs = notifications.timeouts.connect * 1000;
          const error = await connect(address, (protocol) => agents.agentFor(protocol), timeoutMs);
          if (error === undefined) return [];
          const works = receiver !== undefined && (await getsDeliveries(deliveries, receiver));
          return [connectionFinding(who, error, works)];
        });
        found.push(...(await Promise.all(tried)).flat());
      }
    } finally {
      agents.close();
    }
    return found;
  },
};

/** Addresses that another application can claim, and those that only development allows. */
const clients: Check<StorageSubject> = {
  id: "clients",
  async run({ configuration: { production }, storage }) {
    if (!production) return [];
    const { kinds } = CLIENT_ROWS;
    const records = (await storage.directory.listClients()).filter(
      ({ kind }) => kinds[kind].addresses === "application",
    );
    return records.flatMap((record) => {
      const refused = addressProblems(kinds[record.kind], record, production);
      const client = record.client_id;
      if (refused.length > 0)
        return refused.map(({ path: [setting, index], message }) =>
          finding("client_address_refused", { client, problem: `${setting}[${index}] ${message}` }),
        );
      return record.redirect_uris
        .filter(isNativeAddress)
        .map((address) => finding("client_address_claimable", { client, address }));
    });
  },
};

export const storageChecks: readonly Check<StorageSubject>[] = [
  redis,
  clocks,
  indexes,
  history,
  keys,
  search,
  deployments,
  operators,
  clients,
  receivers,
];
