/** The key `admin`: the listener for the console and `/v1`, and its rules. */
import { z } from "zod";
import { described, list, section, text, whole } from "./documented-schema.ts";
import type { Problem } from "./problems.ts";
import {
  isAtOrAbove,
  isListenAddress,
  isLoopback,
  isTrustworthyNetwork,
  LISTEN_FORM,
  NETWORK_FORM,
} from "./value-forms.ts";

/** What an installation is for. The console says so on each page. */
export const ENVIRONMENTS = ["production", "staging", "development", "demo"] as const;
export type AdminEnvironment = (typeof ENVIRONMENTS)[number];

const ORIGIN_FORM =
  "an origin, such as `https://admin.example.com`: https, or http on loopback, without a path";

/** Whether this is an origin as browsers write it. */
export function isOrigin(value: string): boolean {
  const url = URL.parse(value);
  if (url === null || url.origin !== value || url.hostname.endsWith(".")) return false;
  return url.protocol === "https:" || (url.protocol === "http:" && isLoopback(url.hostname));
}

const path = text(4096, (value) => !value.includes("\0"), "the path of a PEM file");

/** Who forwards requests to the listener. */
const proxy = z.union([
  z.boolean(),
  z.int().min(1).max(100),
  list(text(50, isTrustworthyNetwork, NETWORK_FORM), 1),
]);

const keys = section({
  /** Origin of the console and of `/v1`: no other `Host` is answered. Its host name must be no deployment's. */
  url: text(300, isOrigin, ORIGIN_FORM),
  /** The port of the bundled server for it; 0 is any free port. Default: none: only an application that embeds it serves it. */
  port: described(whole(0, 65_535).exactOptional(), {
    otherwise: "none: only an application that embeds it serves it",
    restart: true,
  }),
  /** The address on which this port listens. One that is not loopback needs `tls` or `proxy`. Default `"127.0.0.1"`. */
  host: described(text(253, isListenAddress, LISTEN_FORM).default("127.0.0.1"), { restart: true }),
  /** The certificate with which this port speaks TLS. Default: none. */
  tls: described(
    section({
      /** Path of the certificate with its chain (PEM); a reload reads the file again. */
      cert: described(path, { restart: true }),
      /** Path of its private key (PEM); a reload reads the file again. */
      key: described(path, { restart: true }),
    }).exactOptional(),
    { form: "an object with `cert` and `key`", otherwise: "none" },
  ),
  /**
   * The trusted proxies in front of this port, whose `X-Forwarded-For` counts: none (`false`), one hop (`true`), a number of
   * hops, or networks (CIDR). They have to pass the `Host` on. Default: `false`.
   */
  proxy: described(proxy.exactOptional(), {
    form: `\`true\`, \`false\`, a number of hops from 1 to 100, or a list of different entries, each ${NETWORK_FORM}`,
    otherwise: "`false`",
  }),
  /** What the console calls this installation. Default: `development` with `url` on loopback, otherwise `production`. */
  environment: described(z.enum(ENVIRONMENTS).exactOptional(), {
    form: "`production`, `staging`, `development` or `demo`",
    otherwise: "`development` with `url` on loopback, otherwise `production`",
  }),
});

/** The key as it is written. */
export interface AdminSettings extends z.output<typeof keys> {}
export interface AdminInput extends z.input<typeof keys> {}

/** Its type has a name, as that of `interactions`. */
export const admin: z.ZodType<AdminSettings, AdminInput> = keys;

/** What the console calls an installation that does not say it. */
export function environmentOf(url: string): AdminEnvironment {
  return isLoopback(new URL(url).hostname) ? "development" : "production";
}

/** What the address of the console has to differ from. */
export interface Surroundings {
  readonly deployments: readonly { readonly kind: string; readonly url: string }[];
  readonly cookieDomain: string | undefined;
  readonly production: boolean;
}

/** What is wrong with an origin of the console. Cookies know no port, so in production not even the host name may be shared. */
export function adminUrlProblems(
  url: string,
  { deployments, cookieDomain, production }: Surroundings,
): readonly string[] {
  const { host, hostname } = new URL(url);
  const shared = deployments.flatMap(({ kind, url: base }) => {
    const deployment = new URL(base);
    const name = `config.deployments.${kind}.url`;
    if (deployment.host === host) return [`must not be the origin of ${name}`];
    return production && deployment.hostname === hostname
      ? [`must have another host name than ${name}: cookies know no port`]
      : [];
  });
  const isBelow = production && cookieDomain !== undefined && isAtOrAbove(cookieDomain, hostname);
  return isBelow
    ? [...shared, "must not be below config.cookies.domain: it would get the cookies of sign-ins"]
    : shared;
}

/** What is wrong with `admin`, beyond the form of each key. */
export function adminProblems(written: AdminSettings, around: Surroundings): readonly Problem[] {
  const { url, port, host, tls, proxy: trusted = false } = written;
  const isSecure = url.startsWith("https:");
  const problems = adminUrlProblems(url, around).map((problem): Problem => ({
    path: ["admin", "url"],
    text: problem,
  }));
  const isOpen = !isLoopback(host.includes(":") ? `[${host}]` : host);
  if (port !== undefined && isOpen && tls === undefined && trusted === false)
    problems.push({
      path: ["admin", "host"],
      text: "is not loopback, which needs config.admin.tls or config.admin.proxy",
    });
  else if (port !== undefined && isSecure && tls === undefined && trusted === false)
    problems.push({
      path: ["admin", "url"],
      text: "is https, which needs config.admin.tls or config.admin.proxy",
    });
  if (tls !== undefined && !isSecure)
    problems.push({ path: ["admin", "tls"], text: "needs an https address in config.admin.url" });
  return problems;
}
