/** The checks of `doctor` on an open storage. Nothing is written. */
import type { Agent, ClientRequest } from "node:http";
import type { Configuration } from "../../config/configuration.ts";
import { databaseFile, readRedisAddress } from "../../config/storage-address.ts";
import { baseUrls, callbackAddresses } from "../../interactions/account/gate.ts";
import { ACCOUNT_CLIENT } from "../../accounts/clients/client.ts";
import { receiverName } from "../../accounts/receivers.ts";
import {
  addressProblems,
  isNativeAddress,
  KINDS,
  type SettingProblem,
} from "../../accounts/clients/client-kinds.ts";
import { SignInError, StorageUnavailable } from "../../core/errors.ts";
import { CLOCK_TOLERANCE_MS } from "../../records/clocks.ts";
import { openSealer } from "../../accounts/keys/service-keys.ts";
import { createAddressRules } from "../../core/outbound-addresses.ts";
import { AddressRefused, createGuardedAgents, http, https } from "../../core/outbound-agents.ts";
import { isResealPending } from "../../records/secrets.ts";
import type { Storage } from "../../records/storage.ts";
import { adviceFor } from "../program/fault-advice.ts";
import { fileChecks } from "../storage/storage-check.ts";
import { type Check, sentence, type Finding } from "./check.ts";

interface StorageSubject {
  readonly configuration: Configuration;
  readonly storage: Storage;
  /** The warnings that the service would log at its start. */
  readonly warnings: readonly string[];
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

const redis: Check<StorageSubject> = {
  id: "redis",
  title: "the settings of Redis",
  async run({ configuration, warnings }) {
    let ofQueue: readonly string[];
    try {
      ofQueue = await queueWarnings(configuration);
    } catch (error) {
      if (!(error instanceof StorageUnavailable)) throw error;
      return [
        {
          level: "problem",
          what: sentence(error.message),
          why: "Without it, notifications are late, and a worker is not healthy. People can sign in.",
          fix: adviceFor(error),
          isUnreachable: true,
        },
      ];
    }
    return [...warnings, ...ofQueue].map((text) => ({
      level: "problem",
      what: sentence(text),
      why: "A Redis that evicts keys deletes sessions, tokens and wake-ups that are still valid, without a trace.",
      fix: "Run CONFIG SET maxmemory-policy noeviction, and put it into redis.conf. Give Redis enough memory, and alert before it is full.",
    }));
  },
};

/** Above this, times in the audit are hard to compare. */
const MIN_DIFFERENCE_MS = 2000;

/** The finding for a clock that differs from that of this machine. */
export function clockFindings(whose: string, differenceMs: number): readonly Finding[] {
  if (Math.abs(differenceMs) < MIN_DIFFERENCE_MS) return [];
  const seconds = Math.round(Math.abs(differenceMs) / 1000);
  return [
    {
      level: Math.abs(differenceMs) < CLOCK_TOLERANCE_MS ? "warning" : "problem",
      what: `The clock of ${whose} is ${seconds} seconds ${differenceMs > 0 ? "ahead of" : "behind"} that of this machine.`,
      why: "Codes and tokens expire too early or too late, clients refuse ID tokens, and writes can miss their deadline.",
      fix: "Synchronize the clocks of all machines with NTP, for example with chrony.",
    },
  ];
}

const clocks: Check<StorageSubject> = {
  id: "clocks",
  title: "the clocks of the storage's servers",
  run: async ({ storage: { clocks: known } }) =>
    [...known.differences].flatMap(([name, differenceMs]) =>
      clockFindings(`the server of ${name}`, differenceMs),
    ),
};

const indexes: Check<StorageSubject> = {
  id: "indexes",
  title: "damage of the database file, and its indexes",
  async run({ configuration: { storage } }) {
    // The other storages create what is missing when they are opened.
    const database = databaseFile(storage);
    if (database === undefined) return [];
    const found: Finding[] = [];
    for (const check of await fileChecks(database)) {
      const flaws = await check.find(10);
      if (flaws.length === 0) continue;
      found.push({
        level: "problem",
        what: `The database has ${check.problem} (${flaws.length} found).`,
        why: "Accounts or tokens may not be found, and the next write can make it worse.",
        fix: "Run sign-in-service storage check with --repair, and restore a backup if that does not help.",
      });
    }
    return found;
  },
};

/** How long an emptied Redis is reported: its cause should be found. */
const LOSS_REPORTED_MS = 7 * 86_400_000;

const history: Check<StorageSubject> = {
  id: "history",
  title: "whether the storage has gone back to an earlier state, and Redis was emptied",
  async run({ configuration: { clock }, storage: { watch } }) {
    const [goneBack, identity] = [await watch.check(), await watch.read()];
    const lostAtMs = (identity?.artifacts_lost_at ?? -Infinity) * 1000;
    if (goneBack === undefined && clock.now() - lostAtMs < LOSS_REPORTED_MS)
      return [
        {
          level: "warning",
          what: `The Redis of config.artifacts was found empty at ${new Date(lostAtMs).toISOString()}.`,
          why: "Everybody was signed out, and all codes and tokens of before are void.",
          fix: "Find out who emptied or restarted it, and give it appendonly yes and maxmemory-policy noeviction.",
        },
      ];
    if (goneBack === undefined) return [];
    const { what, fix } = goneBack;
    return [
      {
        level: "problem",
        what: sentence(what),
        why: "Sessions, tokens, codes and links that have ended are valid again, a user_id can be given out twice, and notifications are sent again.",
        fix: sentence(fix),
      },
    ];
  },
};

const keys: Check<StorageSubject> = {
  id: "keys",
  title: "whether keys.secrets belong to the storage",
  async run({ configuration, storage }) {
    const known = await storage.secrets.read();
    // A storage that no service has used yet takes any keys.
    if (known.length === 0) return [];
    try {
      const sealer = await openSealer(configuration, storage, { mustExist: true, asConfigured: true });
      if (!isResealPending(known, sealer.ids)) return [];
      return [
        {
          level: "warning",
          what: "Not everything in the storage is encrypted with the first of keys.secrets.",
          why: "Anyone who has the old secret can still decrypt it, and the service does not start without the old secret.",
          fix: "Run sign-in-service keys reseal, and then remove the old secret.",
        },
      ];
    } catch (error) {
      if (!(error instanceof SignInError)) throw error;
      return [
        {
          level: "problem",
          what: sentence(error.message),
          why: "The service does not start: the secrets of receivers and the signing keys in the storage can't be read.",
          fix: "Restore the keys.secrets, or the key file, that the storage was used with, the newest first.",
        },
      ];
    }
  },
};

const deployments: Check<StorageSubject> = {
  id: "deployments",
  title: "whether the servers on this storage have these deployments",
  async run({ configuration, storage: { directory } }) {
    const client = await directory.findClient(ACCOUNT_CLIENT);
    const own = callbackAddresses(configuration.deployments);
    if (client === undefined || client.redirect_uris.join() === own.join()) return [];
    return [
      {
        level: "problem",
        what: `The last server on this storage was started at ${baseUrls(client.redirect_uris)}, and this configuration has ${baseUrls(own)}.`,
        why: "Servers with other addresses break each other's account pages, and mail that a command causes links to the wrong address.",
        fix: "Give the servers and the command line the same deployments. If their address has just changed, restart all servers.",
      },
    ];
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
function connectionFinding(who: string, error: Error, works: boolean): Finding {
  if (error instanceof AddressRefused && works) {
    return {
      level: "warning",
      what: `${who} gets its notifications, but this command may not connect to it: ${error.message}.`,
      why: "The server has other values than this configuration, so what commands say about it can be wrong.",
      fix: "Give this configuration the notifications.allowedReceivers of the server.",
    };
  }
  if (error instanceof AddressRefused) {
    return {
      level: "problem",
      what: `${who} is refused by this configuration: ${error.message}.`,
      why: "A server with this configuration sends nothing there, so its service never learns of deleted and changed accounts, or of sign-outs.",
      fix: "If the address is right, add it, its network or its host to notifications.allowedReceivers, here and where the server has its configuration.",
    };
  }
  const code: unknown = Reflect.get(error, "code");
  return {
    level: "problem",
    what: `${who} can't be reached from this machine (${typeof code === "string" ? code : error.name}).`,
    why: "What is sent there waits, is retried and is finally parked.",
    fix: "Check its address, its certificate and the firewall, then run sign-in-service receivers test.",
  };
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
  title: "connections to receivers of notifications and logout tokens; nothing is sent",
  async run({ configuration: { notifications }, storage: { directory, deliveries } }) {
    const targets: (readonly [who: string, address: string, receiver?: string])[] = [];
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
  title: "the redirect addresses and origins of public clients",
  async run({ configuration: { production }, storage }) {
    if (!production) return [];
    const records = (await storage.directory.listClients()).filter(
      ({ kind }) => KINDS[kind].addresses === "application",
    );
    return records.flatMap((record) => {
      const refused = addressProblems(record, production);
      if (refused.length > 0) return refused.map((problem) => refusedAddress(record.client_id, problem));
      const claimable = record.redirect_uris.filter(isNativeAddress);
      return claimable.map((address) => claimableAddress(record.client_id, address));
    });
  },
};

function refusedAddress(clientId: string, { path: [setting, index], message }: SettingProblem): Finding {
  return {
    level: "problem",
    what: `The public client ${clientId} has an address that this service does not accept: ${setting}[${index}] ${message}.`,
    why: "Addresses on loopback are for development. Where other machines reach the service, people can't come back to them.",
    fix: "Set the addresses with clients update, or in the seed.",
  };
}

function claimableAddress(clientId: string, address: string): Finding {
  return {
    level: "warning",
    what: `The public client ${clientId} has a redirect address that any application on a device can claim: ${address}.`,
    why: "Another application can receive its codes. It can't exchange them without the verifier, and people are asked each time.",
    fix: "Where the platform has them, use https addresses that the operating system gives to your application alone.",
  };
}

export const storageChecks: readonly Check<StorageSubject>[] = [
  redis,
  clocks,
  indexes,
  history,
  keys,
  deployments,
  clients,
  receivers,
];
