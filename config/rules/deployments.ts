/** Rules about the base URLs and what must fit them. */
import { findClashes } from "../addresses.ts";
import type { Deployment } from "../configuration.ts";
import { baseProblems, parseBase, toDeployment } from "../deployments.ts";
import { KINDS, type Rule, type WrittenBases } from "./rule.ts";

const MAX_CLASHES_SHOWN = 3;

/** The base URLs that have nothing wrong with them. */
function rightBases(bases: WrittenBases): readonly Deployment[] {
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

/** Where a base URL leads, however it is spelled; the scheme does not count, a request does not say it. */
function place(base: string | undefined): string | undefined {
  const url = parseBase(base ?? "");
  return url && url.host + url.pathname.replace(/\/+$/u, "");
}

const basesDiffer: Rule = {
  reads: [],
  find: ({ bases }) => {
    const path = ["deployments", "openid", "url"];
    const where = place(bases.openid);
    if (where !== undefined && where === place(bases.oauth2)) {
      return [{ path, text: "must not be the same place as config.deployments.oauth2.url" }];
    }
    const [oauth2, openid] = rightBases(bases);
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
      ? [{ path: ["deployments", "openid", "post"], text: "needs https, for its cookies do" }]
      : [],
};

const cookieDomainHoldsHosts: Rule = {
  reads: ["cookies.domain"],
  find: ({ config: { cookies }, bases }) => {
    const { domain } = cookies;
    if (domain === undefined) return [];
    return rightBases(bases)
      .filter(({ url }) => !`.${new URL(url).hostname}`.endsWith(`.${domain}`))
      .map(({ kind }) => ({
        path: ["cookies", "domain"],
        text: `must be the host of config.deployments.${kind}.url, or a domain above it`,
      }));
  },
};

const prefixIsOfBases: Rule = {
  reads: ["stripPrefix"],
  find: ({ config: { stripPrefix }, bases }) => {
    if (stripPrefix === undefined) return [];
    return rightBases(bases)
      .filter(({ path }) => path !== stripPrefix && !path.startsWith(`${stripPrefix}/`))
      .map(({ kind }) => ({
        path: ["stripPrefix"],
        text: `must begin the path of config.deployments.${kind}.url, or no request reaches it`,
      }));
  },
};

/** Without an answer, everybody behind a TLS proxy would share its address, and one lock-out. */
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

/** In the order of their problems. */
export const deploymentRules: readonly Rule[] = [
  oneDeployment,
  basesAreRight,
  basesDiffer,
  postNeedsHttps,
  cookieDomainHoldsHosts,
  prefixIsOfBases,
  httpsNamesItsProxy,
];
