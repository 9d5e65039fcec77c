/** Rules about storage, keys, tokens, passwords and pages. */
import { readRedisAddress } from "../redis-address.ts";
import { isInMemory, isRedisAddress, isSqlite } from "../value-forms.ts";
import type { Rule } from "./rule.ts";

const durableInProduction: Rule = {
  reads: ["storage"],
  find: ({ config: { storage }, production }) =>
    production && typeof storage === "string" && isInMemory(storage)
      ? [{ path: ["storage"], text: "must not be in memory in production (a deployment is not on loopback)" }]
      : [],
};

const artifactsMoveToRedis: Rule = {
  reads: ["storage", "artifacts"],
  find: ({ config: { storage, artifacts } }) =>
    artifacts === undefined || artifacts === storage || isRedisAddress(artifacts)
      ? []
      : [
          {
            path: ["artifacts"],
            text: "must be a `redis://` or `rediss://` URL, or the same as config.storage",
          },
        ],
};

const redisAddressesAreRead: Rule = {
  reads: ["artifacts", "queue"],
  find: ({ config }) =>
    (["artifacts", "queue"] as const).flatMap((key) => {
      const text = config[key];
      if (text === undefined || !isRedisAddress(text)) return [];
      const address = readRedisAddress(text);
      return typeof address === "string" ? [{ path: [key], text: address }] : [];
    }),
};

const secretsOutsideSqlite: Rule = {
  reads: ["storage", "keys.secrets"],
  find: ({ config: { storage, keys } }) =>
    !(typeof storage === "string" && isSqlite(storage)) && keys.secrets === undefined
      ? [{ path: ["keys", "secrets"], text: "is required, for config.storage is not SQLite" }]
      : [],
};

const signingKeysHaveNames: Rule = {
  reads: ["keys.signing"],
  find: ({ config: { keys } }) => {
    const names = (keys.signing ?? []).map((key) => key.kid).filter((kid) => kid !== undefined);
    return new Set(names).size === names.length
      ? []
      : [{ path: ["keys", "signing"], text: "must not have two keys with one `kid`" }];
  },
};

const ownKeysRotate: Rule = {
  reads: ["keys.signing", "keys.rotation.signing"],
  find: ({ config: { keys } }) =>
    keys.signing !== undefined && keys.rotation?.signing !== undefined
      ? [
          {
            path: ["keys", "rotation", "signing"],
            text: "must not be set together with config.keys.signing: the service rotates only keys that it made",
          },
        ]
      : [],
};

const slidingEndsLater: Rule = {
  reads: ["refreshTokens.sliding", "refreshTokens.maxAge", "lifetimes.refreshToken"],
  find: ({ config: { refreshTokens, lifetimes } }) =>
    refreshTokens.sliding && refreshTokens.maxAge < lifetimes.refreshToken
      ? [{ path: ["refreshTokens", "maxAge"], text: "must be at least config.lifetimes.refreshToken" }]
      : [],
};

/** OWASP's Password Storage Cheat Sheet: passes of Argon2id → least memory in KiB. More passes need no less. */
const LEAST_MEMORY: readonly (readonly [passes: number, memory: number])[] = [
  [5, 7168],
  [4, 9216],
  [3, 12_288],
  [2, 19_456],
  [1, 47_104],
];

const hashingCostsEnough: Rule = {
  reads: ["passwords.memory", "passwords.passes"],
  find: ({ config: { passwords } }) => {
    const [, least = 0] = LEAST_MEMORY.find(([passes]) => passwords.passes >= passes) ?? [];
    const text = `must be at least ${least} KiB with config.passwords.passes as it is (OWASP's minimum)`;
    return passwords.memory < least ? [{ path: ["passwords", "memory"], text }] : [];
  },
};

const copyIsShown: Rule = {
  reads: ["interactions.copy", "interactions.locales"],
  find: ({ config: { interactions } }) =>
    Object.keys(interactions.copy)
      .filter((tag) => !interactions.locales.includes(tag))
      .map((tag) => ({
        path: ["interactions", "copy", tag],
        text: "is never shown: its language is not in config.interactions.locales",
      })),
};

const registrationIsNotBuilt: Rule = {
  reads: ["interactions.registration"],
  find: ({ config }) =>
    config.interactions.registration
      ? [
          {
            path: ["interactions", "registration"],
            text: "must be `false`: this version has no registration by the user",
          },
        ]
      : [],
};

/** In the order of their problems. */
export const settingRules: readonly Rule[] = [
  durableInProduction,
  artifactsMoveToRedis,
  redisAddressesAreRead,
  secretsOutsideSqlite,
  signingKeysHaveNames,
  ownKeysRotate,
  slidingEndsLater,
  hashingCostsEnough,
  copyIsShown,
  registrationIsNotBuilt,
];
