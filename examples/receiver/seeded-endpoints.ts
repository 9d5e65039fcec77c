/** The receivers of a seed that live at one address, as what a receiver there has to expect. */
import type { Seed } from "../server/config-file.ts";
import type { Endpoint } from "./application.ts";

type Receiver = Pick<Endpoint, "client_id" | "client_secret" | "signing_secret"> & { readonly url: string };

/** What all of them share. */
export interface SeededEndpoints {
  /** Such as `http://127.0.0.1:4000`. */
  readonly origin: string;
  readonly endpoints: readonly Endpoint[];
}

/** Those at the address of the first one that is reached by http on this machine; `undefined` without any. */
export function seededEndpoints(seed: Seed): SeededEndpoints | undefined {
  const { portals = {}, groups = {}, services = {} } = seed ?? {};
  const all = Object.entries({ portal: portals, group: groups, service: services }).flatMap(
    ([kind, entries]) =>
      Object.entries(entries).flatMap(([key, { receiver }]) =>
        receiver === undefined ? [] : [located(`${kind}:${key}`, receiver)],
      ),
  );
  const origin = all.find(({ url }) => isHere(url))?.url.origin;
  if (origin === undefined) return undefined;
  const here = all.filter(({ url }) => url.origin === origin);
  return { origin, endpoints: here.map(({ endpoint }) => endpoint) };
}

/** Whether a receiver without a certificate, on this machine, answers there. */
function isHere({ protocol, hostname }: URL): boolean {
  return protocol === "http:" && (hostname === "localhost" || hostname.startsWith("127."));
}

function located(
  name: string,
  { url: address, client_id, client_secret, signing_secret }: Receiver,
): { readonly url: URL; readonly endpoint: Endpoint } {
  const url = new URL(address);
  return { url, endpoint: { name, path: url.pathname, client_id, client_secret, signing_secret } };
}
