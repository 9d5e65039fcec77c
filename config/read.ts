/** Reads the caller's configuration: checks it, adds the defaults and freezes the result. */
import type { z } from "zod";
import { ConfigurationError } from "../core/errors.ts";
import { createSystemClock } from "../core/clock.ts";
import { type AdminSettings, environmentOf } from "./admin.ts";
import {
  type AdminConfiguration,
  type Configuration,
  type DeploymentKind,
  OWN_STORAGE,
  type ProxyTrust,
} from "./configuration.ts";
import { keysAt, textsAt } from "./documented-schema.ts";
import { toDeployment } from "./deployments.ts";
import type { MailInput } from "./input.ts";
import { formatProblem, meantBranch, type Problem, problemsOf } from "./problems.ts";
import { brokenRules, isProduction, type WrittenBases } from "./rules.ts";
import { configurationSchema, type CheckedConfig } from "./schema.ts";
import { deepFreeze, isPlainObject, takeSnapshot } from "./plain-data.ts";
import { isList, operatorsOf } from "./operators.ts";
import { providersOf } from "./providers.ts";
import { toCidr } from "./value-forms.ts";
import type { Mailer, SmtpSettings } from "./mail.ts";

/** Whether an object belongs to the host: it is used, but not copied or frozen. */
function isForeign(path: readonly PropertyKey[], value: object): boolean {
  if (path.length !== 1) return false;
  const { holds, writtenForm } = textsAt(configurationSchema, path);
  // A key that has another form in a file takes an object of the host as well; `mail` also takes settings.
  if (writtenForm !== undefined) return keysAt(configurationSchema, path).length === 0 || "send" in value;
  return holds === "code";
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

/** Removing a value can leave an object without a required key. The next round removes that object. */
const ROUNDS = 6;

/** Removes a key. If it is missing, removes the object that lacks it. */
function takeOut(root: Record<string, unknown>, path: readonly PropertyKey[]): void {
  let holder = root;
  let above: (() => void) | undefined;
  for (const [depth, key] of path.map(String).entries()) {
    if (!Object.hasOwn(holder, key)) break;
    const parent = holder;
    above = () => delete parent[key];
    // Don't read a value that is about to be removed: it may be an object of the host whose getters throw.
    if (depth === path.length - 1) break;
    const child = holder[key];
    // A list that is read only freezes what it refuses, even an object.
    if (!isPlainObject(child) || Object.isFrozen(child)) break;
    holder = child;
  }
  above?.();
}

function pathsOf(issue: z.core.$ZodIssue): readonly (readonly PropertyKey[])[] {
  const meant = issue.code === "invalid_union" ? meantBranch(issue.errors) : [];
  if (meant.length > 0) return meant.flatMap(pathsOf).map((path) => issue.path.concat(path));
  return issue.code === "unrecognized_keys" ? issue.keys.map((key) => [...issue.path, key]) : [issue.path];
}

/**
 * The configuration without its invalid values, so that the rules between keys can run too. It has defaults in their
 * place, and possibly no deployment.
 *
 * @param snapshot is modified.
 */
function salvage(snapshot: unknown): CheckedConfig {
  const rest = isPlainObject(snapshot) ? snapshot : {};
  for (let round = 0; round < ROUNDS; round++) {
    if (!isPlainObject(rest["deployments"])) rest["deployments"] = {};
    const result = configurationSchema.safeParse(rest);
    if (result.success) return result.data;
    for (const path of result.error.issues.flatMap(pathsOf)) takeOut(rest, path);
  }
  return configurationSchema.parse({ deployments: {} });
}

function check(input: unknown, elsewhere: readonly string[]): CheckedConfig {
  const { value, refused } = takeSnapshot(input, isForeign);
  const result = configurationSchema.safeParse(value);
  const single: readonly Problem[] = [
    ...refused.map(({ path, reason }) => ({ path, text: reason })),
    ...(result.success ? [] : problemsOf(result.error.issues, configurationSchema, value, elsewhere)),
  ];
  const bases = writtenBases(value);
  const config = result.success ? result.data : salvage(value);
  const checked = { config, bases, production: isProduction(bases) };
  const problems = [
    ...single,
    ...brokenRules(
      checked,
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

function toAdmin({ proxy, environment, ...settings }: AdminSettings): AdminConfiguration {
  const { url } = settings;
  return { ...settings, proxy: toProxyTrust(proxy), environment: environment ?? environmentOf(url) };
}

function toMailSettings(mail: MailInput): SmtpSettings | Mailer {
  if (typeof mail === "string") return Object.freeze({ url: mail });
  if (typeof mail === "function") return Object.freeze({ send: mail });
  return "send" in mail ? mail : Object.freeze(mail);
}

/**
 * Checks a configuration, adds the defaults and freezes the result. The caller's object is neither changed nor kept, except
 * for the objects that the service uses directly: logger, clock, mailer, fetch, a store in `storage`, and an object or
 * function in `mail`.
 *
 * @param input a {@link SignInServiceConfig}. Anything else is an error.
 * @param elsewhere keys around the configuration, such as those of its file, for the hints about unknown keys.
 * @throws ConfigurationError with one line per problem: `config.<path>: <problem>`. No line contains a value of the
 * configuration.
 */
export function readConfiguration(input: unknown, elsewhere: readonly string[] = []): Configuration {
  const checked = check(input, elsewhere);
  const { deployments, artifacts, mail, providers, operators, admin, stripPrefix, proxy, ...objects } =
    checked;
  const { storage: stored, logger, clock, mailer, fetch, ...rest } = objects;
  const storage = typeof stored === "string" ? stored : OWN_STORAGE;
  return Object.freeze({
    ...deepFreeze(rest),
    deployments: toDeployments(deployments),
    storage,
    ...(typeof stored !== "string" && { store: stored }),
    artifacts: artifacts ?? storage,
    providers: deepFreeze(providersOf(providers)),
    ...(admin && { admin: deepFreeze(toAdmin(admin)) }),
    operators: operatorsOf(operators),
    operatorsAreListed: isList(operators) && operators.length > 0,
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
