/** The rules between keys. Each rule skips keys that are already wrong, so all problems are reported together. */
import { createRequire } from "node:module";
import type * as Tldts from "tldts";
import { adminProblems } from "./admin.ts";
import { attributeProblems } from "./attributes.ts";
import { clientsProblems } from "./clients.ts";
import type { Deployment, DeploymentKind } from "./configuration.ts";
import { baseProblems, findClashes, isServed, parseBase, toDeployment } from "./deployments.ts";
import { eventProblems } from "./events.ts";
import type { Problem } from "./problems.ts";
import { providerProblems } from "./providers.ts";
import { addressForm, addressProblem, backendOf, isInMemory, suits } from "./storage-address.ts";
import { isAtOrAbove, isLoopback } from "./value-forms.ts";
import type { CheckedConfig } from "./schema.ts";

/** The base URLs as written, valid or not. */
export type WrittenBases = Readonly<Partial<Record<DeploymentKind, string>>>;

/** The input of the rules. */
interface RuleInput {
  /** The configuration. Invalid values are left out or have their default. */
  readonly config: CheckedConfig;
  readonly bases: WrittenBases;
  /** True when any base URL is not on loopback. */
  readonly production: boolean;
}

/** A rule and the keys that it reads. It is skipped while one of these keys has an invalid value. */
export interface Rule {
  readonly reads: readonly string[];
  readonly find: (input: RuleInput) => readonly Problem[];
}

/** Both kinds of deployments. */
export const KINDS: readonly DeploymentKind[] = ["oauth2", "openid"];

/** Whether any of these base URLs is not on loopback. */
export function isProduction(bases: WrittenBases): boolean {
  return KINDS.some((kind) => {
    const url = parseBase(bases[kind] ?? "");
    return url !== undefined && !isLoopback(url.hostname);
  });
}

const MAX_CLASHES_SHOWN = 3;

/** The valid base URLs. */
function validBases(bases: WrittenBases): readonly Deployment[] {
  return KINDS.flatMap((kind) => {
    const url = bases[kind];
    return url === undefined || baseProblems(url).length > 0
      ? []
      : [toDeployment(kind, url, { post: false })];
  });
}

const oneDeployment: Rule = {
  reads: ["deployments"],
  find: ({ config: { deployments } }) =>
    deployments.oauth2 === undefined && deployments.openid === undefined
      ? [{ path: ["deployments"], text: "needs at least one of `oauth2` and `openid`" }]
      : [],
};

const basesAreRight: Rule = {
  reads: [],
  find: ({ bases }) =>
    KINDS.flatMap((kind) =>
      (bases[kind] === undefined ? [] : baseProblems(bases[kind])).map((text) => ({
        path: ["deployments", kind, "url"],
        text,
      })),
    ),
};

/** Host and path of a base URL, normalized. The scheme is left out, because a request does not contain it. */
function addressOf(base: string | undefined): string | undefined {
  const url = parseBase(base ?? "");
  return url && url.host + url.pathname.replace(/\/+$/u, "");
}

const basesDiffer: Rule = {
  reads: [],
  find: ({ bases }) => {
    const path = ["deployments", "openid", "url"];
    const address = addressOf(bases.openid);
    if (address !== undefined && address === addressOf(bases.oauth2)) {
      return [{ path, text: "must differ from config.deployments.oauth2.url" }];
    }
    const [oauth2, openid] = validBases(bases);
    if (oauth2 === undefined || openid === undefined) return [];
    const clashes = findClashes(oauth2, openid);
    if (clashes.length === 0) return [];
    const shown = clashes
      .slice(0, MAX_CLASHES_SHOWN)
      .map((clash) => `${clash.path} (its ${clash.openid}, and ${clash.oauth2} of oauth2)`);
    const more = clashes.length - shown.length;
    const text = `puts two endpoints at one address: ${shown.join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
    return [{ path, text }];
  },
};

const postNeedsHttps: Rule = {
  reads: ["deployments.openid"],
  find: ({ config: { deployments } }) =>
    deployments.openid?.post === true && parseBase(deployments.openid.url)?.protocol === "http:"
      ? [{ path: ["deployments", "openid", "post"], text: "requires https, because its cookies do" }]
      : [],
};

const hostsOf = (bases: WrittenBases): readonly string[] =>
  validBases(bases).map(({ url }) => new URL(url).hostname);

const load = createRequire(import.meta.url);

/**
 * Whether a domain above a host is one under which anybody can have a host, such as `com` or `co.uk`. Browsers let a page
 * claim no such domain, except its own host (HTML, "is a registrable domain suffix of or is equal to").
 */
function isPublicSuffix(domain: string, host: string): boolean {
  if (domain === host) return false;
  // The list is loaded only here: few services have a domain above their hosts.
  const { getPublicSuffix } = load("tldts") as typeof Tldts;
  const suffix = getPublicSuffix(host, { allowPrivateDomains: true });
  return suffix === null || isAtOrAbove(domain, suffix);
}

const IS_PUBLIC_SUFFIX = "must not be a public suffix such as `co.uk`, because browsers refuse it";

const cookieDomainHoldsHosts: Rule = {
  reads: ["cookies.domain"],
  find: ({ config: { cookies }, bases }) => {
    const { domain } = cookies;
    if (domain === undefined) return [];
    const path = ["cookies", "domain"];
    const outside = validBases(bases)
      .filter(({ url }) => !isAtOrAbove(domain, new URL(url).hostname))
      .map(({ kind }) => ({
        path,
        text: `must be the host of config.deployments.${kind}.url, or a domain above it`,
      }));
    if (outside.length > 0) return outside;
    return hostsOf(bases).some((host) => isPublicSuffix(domain, host))
      ? [{ path, text: IS_PUBLIC_SUFFIX }]
      : [];
  },
};

const prefixIsOfBases: Rule = {
  reads: ["stripPrefix"],
  find: ({ config: { stripPrefix }, bases }) => {
    if (stripPrefix === undefined) return [];
    return validBases(bases)
      .filter(({ path }) => path !== stripPrefix && !path.startsWith(`${stripPrefix}/`))
      .map(({ kind }) => ({
        path: ["stripPrefix"],
        text: `must begin the path of config.deployments.${kind}.url, or no request reaches it`,
      }));
  },
};

/** Otherwise all users behind a TLS proxy would share its address, and with it one rate limit. */
const httpsNamesItsProxy: Rule = {
  reads: ["proxy"],
  find: ({ config: { proxy }, bases }) =>
    proxy === undefined && KINDS.some((kind) => parseBase(bases[kind] ?? "")?.protocol === "https:")
      ? [
          {
            path: ["proxy"],
            text: "is required with an https deployment: false when nothing is in front of this process, 1 for one proxy, a number for several in a row, or a list of their addresses or networks",
          },
        ]
      : [],
};

/** Problems are reported in this order. */
const deploymentRules: readonly Rule[] = [
  oneDeployment,
  basesAreRight,
  basesDiffer,
  postNeedsHttps,
  cookieDomainHoldsHosts,
  prefixIsOfBases,
  httpsNamesItsProxy,
];

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
    artifacts === undefined || artifacts === storage || suits("artifacts", artifacts)
      ? []
      : [
          {
            path: ["artifacts"],
            text: `must be ${addressForm("artifacts")}, or the same as config.storage`,
          },
        ],
};

/** Reports what is wrong with an address of a suitable backend. */
const addressesAreRead: Rule = {
  reads: ["storage", "artifacts", "queue"],
  find: ({ config: { storage, artifacts = "", queue } }) => {
    const problems = {
      storage: typeof storage === "string" ? addressProblem("storage", storage) : undefined,
      artifacts: suits("artifacts", artifacts) ? addressProblem("artifacts", artifacts) : undefined,
      queue: suits("queue", queue) ? addressProblem("queue", queue) : undefined,
    };
    return Object.entries(problems).flatMap(([key, text]) =>
      text === undefined ? [] : [{ path: [key], text }],
    );
  },
};

const secretsOutsideSqlite: Rule = {
  reads: ["storage", "keys.secrets"],
  find({ config: { storage, keys } }) {
    // A malformed address is reported by another rule.
    const needsNone =
      typeof storage === "string" &&
      (backendOf(storage) === "sqlite" || addressProblem("storage", storage) !== undefined);
    return needsNone || keys.secrets !== undefined
      ? []
      : [
          {
            path: ["keys", "secrets"],
            text: "is required because config.storage is not SQLite: a list with one key, made with `openssl rand -base64 32`",
          },
        ];
  },
};

const signingKeysHaveNames: Rule = {
  reads: ["keys.signing"],
  find: ({ config: { keys } }) => {
    const names = (keys.signing ?? []).map((key) => key.kid).filter((kid) => kid !== undefined);
    return new Set(names).size === names.length
      ? []
      : [{ path: ["keys", "signing"], text: "must not have two keys with the same `kid`" }];
  },
};

const ownKeysRotate: Rule = {
  reads: ["keys.signing", "keys.rotation.signing"],
  find: ({ config: { keys } }) =>
    keys.signing !== undefined && keys.rotation?.signing !== undefined
      ? [
          {
            path: ["keys", "rotation", "signing"],
            text: "must not be set together with config.keys.signing: the service rotates only keys that it created",
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

/** OWASP Password Storage Cheat Sheet: passes of Argon2id → minimum memory in KiB. More passes do not lower the minimum further. */
const MIN_MEMORY_KIB: readonly (readonly [passes: number, memory: number])[] = [
  [5, 7168],
  [4, 9216],
  [3, 12_288],
  [2, 19_456],
  [1, 47_104],
];

const hashingCostsEnough: Rule = {
  reads: ["passwords.memory", "passwords.passes"],
  find: ({ config: { passwords } }) => {
    const [, min = 0] = MIN_MEMORY_KIB.find(([passes]) => passwords.passes >= passes) ?? [];
    const text = `must be at least ${min} KiB with config.passwords.passes as it is (OWASP's minimum)`;
    return passwords.memory < min ? [{ path: ["passwords", "memory"], text }] : [];
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

/** It goes on beside keys that are wrong, because each attribute has many. */
const attributesAreRight: Rule = {
  reads: ["interactions.locales"],
  find: ({ config: { accounts, interactions } }) => attributeProblems(accounts, interactions.locales),
};

/** It goes on beside keys that are wrong, as for attributes. */
const providersAreRight: Rule = {
  reads: ["interactions.locales"],
  find: ({ config: { providers, interactions }, production }) =>
    providerProblems(providers, { locales: interactions.locales, production }),
};

/** It goes on beside keys that are wrong, as for attributes. */
const eventReceiversAreRight: Rule = {
  reads: ["accounts.attributes", "notifications.allowedReceivers"],
  find: ({ config: { events, accounts, notifications } }) =>
    eventProblems(events, accounts, notifications.allowedReceivers),
};

const emailCodesAreSent: Rule = {
  reads: ["signIn", "profile", "mail", "mailer"],
  find: ({ config: { signIn, profile, mail, mailer }, production }) => {
    const path = ["signIn", "emailCode"];
    if (!signIn.emailCode) return [];
    if (profile === "strict")
      return [{ path, text: 'must be left out with config.profile "strict": a mailbox alone is too little' }];
    return production && mail === undefined && mailer === undefined
      ? [{ path, text: "needs config.mail in production: the codes come by mail" }]
      : [];
  },
};

const uiIsElsewhere: Rule = {
  reads: ["interactions.ui", "deployments"],
  find: ({ config: { interactions }, bases }) =>
    interactions.ui !== undefined && validBases(bases).some((base) => isServed(base, interactions.ui ?? ""))
      ? [{ path: ["interactions", "ui"], text: "is an address of the service itself; choose another path" }]
      : [],
};

const registrationSendsMail: Rule = {
  reads: ["interactions.registration", "mail", "mailer"],
  find: ({ config: { interactions, mail, mailer }, production }) =>
    production && interactions.registration !== false && mail === undefined && mailer === undefined
      ? [
          {
            path: ["interactions", "registration"],
            text: "needs config.mail in production: people confirm their address by mail",
          },
        ]
      : [],
};

/** People must be able to tell whose page asks for their password. */
const pagesHaveAName: Rule = {
  reads: ["interactions.theme"],
  find: ({ config: { interactions }, production }) =>
    production && interactions.theme.name === undefined
      ? [
          {
            path: ["interactions", "theme", "name"],
            text: "is required in production: the name that people know the service by, shown on its pages and in its mail",
          },
        ]
      : [],
};

const NO_PASSKEYS = "set config.interactions.passkeys.enabled to false to do without passkeys";

/** A browser makes and uses passkeys for the host of the page, or a domain above it. */
const passkeysHaveOneDomain: Rule = {
  reads: ["deployments", "interactions.passkeys", "cookies.domain"],
  find({ config: { interactions, cookies }, bases }) {
    const hosts = hostsOf(bases);
    const { enabled, rpId = cookies.domain } = interactions.passkeys;
    if (!enabled || hosts.some(isIpAddress)) return [];
    const path = ["interactions", "passkeys", "rpId"];
    if (rpId === undefined) {
      const text = `is required with deployments on two hosts: a domain above both (every host under it can use the passkeys); or ${NO_PASSKEYS}`;
      return new Set(hosts).size > 1 ? [{ path, text }] : [];
    }
    // Another rule reports these of `cookies.domain`.
    if (interactions.passkeys.rpId === undefined) return [];
    if (!hosts.every((host) => isAtOrAbove(rpId, host)))
      return [{ path, text: `must be the host of each deployment, or a domain above it; or ${NO_PASSKEYS}` }];
    return hosts.some((host) => isPublicSuffix(rpId, host))
      ? [{ path, text: `${IS_PUBLIC_SUFFIX}; set a domain under it, or ${NO_PASSKEYS}` }]
      : [];
  },
};

const passwordlessHasPasskeys: Rule = {
  reads: ["deployments", "interactions.passkeys", "interactions.registration", "signIn"],
  find({ config: { interactions, signIn }, bases }) {
    const { registration, passkeys } = interactions;
    if (typeof registration === "boolean" || registration.passwordless !== true || signIn.emailCode)
      return [];
    return passkeys.enabled && !hostsOf(bases).some(isIpAddress)
      ? []
      : [
          {
            path: ["interactions", "registration", "passwordless"],
            text: "needs passkeys, which are off: by config.interactions.passkeys.enabled, or because browsers make none for a host that is an IP address",
          },
        ];
  },
};

/** Whether the host of a URL is an IP address: browsers create no passkeys there. */
export function isIpAddress(host: string): boolean {
  return /^\[|^[\d.]+$/.test(host);
}

const administrationIsApart: Rule = {
  reads: ["admin", "cookies.domain"],
  find: ({ config: { admin, cookies }, bases, production }) =>
    admin === undefined
      ? []
      : adminProblems(admin, { deployments: validBases(bases), cookieDomain: cookies.domain, production }),
};

const unregisteredClientsAreRight: Rule = {
  reads: ["deployments", "clients"],
  find: ({ config: { clients, deployments } }) => clientsProblems(clients, deployments.openid !== undefined),
};

/** Problems are reported in this order. */
const settingRules: readonly Rule[] = [
  durableInProduction,
  artifactsMoveToRedis,
  addressesAreRead,
  secretsOutsideSqlite,
  signingKeysHaveNames,
  ownKeysRotate,
  slidingEndsLater,
  hashingCostsEnough,
  copyIsShown,
  attributesAreRight,
  providersAreRight,
  eventReceiversAreRight,
  emailCodesAreSent,
  uiIsElsewhere,
  registrationSendsMail,
  pagesHaveAName,
  passkeysHaveOneDomain,
  passwordlessHasPasskeys,
  administrationIsApart,
  unregisteredClientsAreRight,
];

/** Whether the paths are equal or one is above the other. The empty path is above all paths. */
function touch(one: string, other: string): boolean {
  return one === other || other === "" || one.startsWith(`${other}.`) || other.startsWith(`${one}.`);
}

const isWithin = (path: string, outer: string): boolean => path === outer || path.startsWith(`${outer}.`);

/** Whether the second is an entry of the list at the first: a list with a wrong entry is wrong itself. */
const isListOf = (path: string, entry: string): boolean =>
  entry.startsWith(`${path}.`) && /^\d+$/u.test(entry.slice(path.length + 1));

/**
 * The problems between keys. Where a value is already wrong by itself, nothing more is said.
 *
 * @param wrong paths of the values that are invalid by themselves.
 */
export function brokenRules(
  input: RuleInput,
  wrong: readonly (readonly PropertyKey[])[],
): readonly Problem[] {
  const paths = wrong.map((path) => path.map(String).join("."));
  return [...deploymentRules, ...settingRules]
    .filter(({ reads }) => !reads.some((read) => paths.some((path) => touch(read, path))))
    .flatMap(({ find }) => find(input))
    .filter(({ path }) => {
      const found = path.map(String).join(".");
      return !paths.some((wrongPath) => isWithin(found, wrongPath) || isListOf(found, wrongPath));
    });
}
