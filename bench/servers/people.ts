/** The end user and the client that all servers of the benchmarks have. */

export const PERSON = {
  username: "ada",
  email: "ada@example.com",
  password: "correct horse battery",
} as const;

export interface Credentials {
  readonly client_id: string;
  readonly client_secret: string;
}

export const CLIENT = {
  client_id: "bench",
  client_secret: "the secret of the benchmarks",
} as const;

/** The algorithm of an ID token. */
export type IdTokenAlgorithm = "RS256" | "ES256";

/** Clients with ID tokens, by algorithm. */
export const ID_TOKEN_CLIENTS: Readonly<Record<IdTokenAlgorithm, Credentials>> = {
  RS256: { ...CLIENT, client_id: "bench-rs256" },
  ES256: { ...CLIENT, client_id: "bench-es256" },
};

/** The APIs of a machine, by the form of their tokens; the machine may introspect the opaque ones. */
export const APIS = { opaque: "http://127.0.0.1:9/opaque", jwt: "http://127.0.0.1:9/jwt" } as const;
export const MACHINE: Credentials = { ...CLIENT, client_id: "bench-machine" };

export const CALLBACK = "http://127.0.0.1:9/callback";

/** The Basic header of a client. */
export function basic({ client_id, client_secret }: Credentials = CLIENT): string {
  return `Basic ${Buffer.from(`${client_id}:${encodeURIComponent(client_secret)}`).toString("base64")}`;
}

/** High limits, because the load comes from one address. */
const ROOM = { points: 100_000_000, seconds: 900 };
export const ROOMY_LIMITS = {
  interactions: ROOM,
  authorizations: ROOM,
  signIn: { accountAndAddress: ROOM, account: ROOM, address: ROOM },
  clientSecret: ROOM,
} as const;
