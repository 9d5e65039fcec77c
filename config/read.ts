/** From what the caller wrote to what the service works with. */
import { ConfigurationError } from "../lib/errors.ts";
import { createSystemClock } from "../lib/clock.ts";
import {
  type Configuration,
  type DeploymentKind,
  type Mailer,
  OWN_STORAGE,
  type ProxyTrust,
  type SmtpSettings,
} from "./configuration.ts";
import { deepFreeze } from "./deep-freeze.ts";
import { toDeployment } from "./deployments.ts";
import type { MailInput } from "./input.ts";
import { toCidr } from "./networks.ts";
import { formatProblem, type Problem, problemsOf } from "./problems.ts";
import { brokenRules } from "./rules.ts";
import { isProduction, type WrittenBases } from "./rules/rule.ts";
import { type CheckedConfig, configurationSchema } from "./schema.ts";
import { salvage } from "./salvage.ts";
import { isPlainObject, takeSnapshot } from "./snapshot.ts";

const HOST_OBJECTS: ReadonlySet<PropertyKey | undefined> = new Set([
  "storage",
  "logger",
  "clock",
  "mailer",
  "fetch",
]);

/** Whether an object belongs to the host: it is used, but neither copied nor frozen. */
function isForeign([key, ...inner]: readonly PropertyKey[], value: unknown): boolean {
  if (inner.length > 0) return false;
  if (HOST_OBJECTS.has(key)) return true;
  return key === "mail" && typeof value === "object" && value !== null && "send" in value;
}

function writtenBases(value: unknown): WrittenBases {
  const deployments = isPlainObject(value) ? value["deployments"] : undefined;
  const base = (kind: DeploymentKind): WrittenBases => {
    const deployment = isPlainObject(deployments) ? deployments[kind] : undefined;
    const url = isPlainObject(deployment) ? deployment["url"] : undefined;
    return typeof url === "string" ? { [kind]: url } : {};
  };
  return { ...base("oauth2"), ...base("openid") };
}

function check(input: unknown): CheckedConfig {
  const { value, refused } = takeSnapshot(input, isForeign);
  const result = configurationSchema.safeParse(value);
  const single: readonly Problem[] = [
    ...refused.map(({ path, reason }) => ({ path, text: reason })),
    ...(result.success ? [] : problemsOf(result.error.issues, configurationSchema, value)),
  ];
  const bases = writtenBases(value);
  const config = result.success ? result.data : salvage(value);
  const sound = { config, bases, production: isProduction(bases) };
  const problems = [
    ...single,
    ...brokenRules(
      sound,
      single.map(({ path }) => path),
    ),
  ];
  if (problems.length > 0) throw new ConfigurationError(problems.map(formatProblem));
  return config;
}

function toDeployments({ oauth2, openid }: CheckedConfig["deployments"]): Configuration["deployments"] {
  return deepFreeze({
    ...(oauth2 && { oauth2: toDeployment("oauth2", oauth2.url, { post: false }) }),
    ...(openid && { openid: toDeployment("openid", openid.url, { post: openid.post }) }),
  });
}

function toProxyTrust(proxy: CheckedConfig["proxy"] = false): ProxyTrust {
  if (typeof proxy === "boolean") return proxy ? 1 : false;
  return typeof proxy === "number" ? proxy : Object.freeze(proxy.map(toCidr));
}

function toMailSettings(mail: MailInput): SmtpSettings | Mailer {
  if (typeof mail === "string") return Object.freeze({ url: mail });
  if (typeof mail === "function") return Object.freeze({ send: mail });
  return "send" in mail ? mail : Object.freeze(mail);
}

/**
 * Reads a configuration: checks it, fills in the defaults and freezes the result. What the caller handed
 * over is neither changed nor kept, apart from the objects that the host wants used: logger, clock, mailer,
 * fetch, a store in `storage`, and an object or function in `mail`.
 *
 * @param input a {@link SignInServiceConfig}; anything else is an error.
 * @throws ConfigurationError with one line for each problem, as `config.<path>: <problem>`. No line holds a
 * value of the configuration.
 */
export function readConfiguration(input: unknown): Configuration {
  const checked = check(input);
  const { deployments, artifacts, mail, stripPrefix, proxy, ...objects } = checked;
  const { storage: stored, logger, clock, mailer, fetch, ...rest } = objects;
  const storage = typeof stored === "string" ? stored : OWN_STORAGE;
  return Object.freeze({
    ...deepFreeze(rest),
    deployments: toDeployments(deployments),
    storage,
    ...(typeof stored !== "string" && { store: stored }),
    artifacts: artifacts ?? storage,
    stripPrefix: stripPrefix ?? "",
    proxy: toProxyTrust(proxy),
    ...(mail !== undefined && { mail: toMailSettings(mail) }),
    ...(logger && { logger }),
    clock: clock ?? createSystemClock(),
    ...(mailer && { mailer }),
    ...(fetch && { fetch }),
    production: isProduction({
      ...(deployments.oauth2 && { oauth2: deployments.oauth2.url }),
      ...(deployments.openid && { openid: deployments.openid.url }),
    }),
  });
}
