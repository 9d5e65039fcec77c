/** Finds the receivers in a seed that the demo receiver can play. */
import type { Seed } from "../../cli/server/config-file.ts";
import type { Endpoint } from "./application.ts";

type Receiver = Pick<Endpoint, "client_id" | "signing_secret"> & {
  readonly url: string;
  readonly client_secret: string | null;
};

export interface SeededEndpoints {
  /** Such as `http://127.0.0.1:4000`. */
  readonly origin: string;
  readonly endpoints: readonly Endpoint[];
}

/** All receivers at the origin of the first one with an http URL on this machine. `undefined` if there is none. */
export function seededEndpoints(seed: Seed): SeededEndpoints | undefined {
  const { portals = {}, groups = {}, services = {} } = seed ?? {};
  const all = Object.entries({ portal: portals, group: groups, service: services }).flatMap(
    ([kind, entries]) =>
      Object.entries(entries).flatMap(([key, { receiver }]) =>
        receiver === undefined ? [] : located(`${kind}:${key}`, receiver),
      ),
  );
  const origin = all.find(({ url }) => isHere(url))?.url.origin;
  if (origin === undefined) return undefined;
  const here = all.filter(({ url }) => url.origin === origin);
  return { origin, endpoints: here.map(({ endpoint }) => endpoint) };
}

function isHere({ protocol, hostname }: URL): boolean {
  return protocol === "http:" && (hostname === "localhost" || hostname.startsWith("127."));
}

function located(
  name: string,
  { url: address, client_id, client_secret, signing_secret }: Receiver,
): readonly { readonly url: URL; readonly endpoint: Endpoint }[] {
  // Nobody can play a receiver whose password is not in the seed.
  if (client_secret === null) return [];
  const url = new URL(address);
  return [{ url, endpoint: { name, path: url.pathname, client_id, client_secret, signing_secret } }];
}
