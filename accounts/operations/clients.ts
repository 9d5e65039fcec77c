/** The operations on clients. */
import { z } from "zod";
import { described } from "../../config/documented-schema.ts";
import { anyString, choice, exactly, flag } from "../arguments.ts";
import {
  type AnyNewClient,
  clientChanges,
  keepOldFor,
  newClient,
  type NewClient,
  type NewMachineClient,
} from "../clients/client-schema.ts";
import { CLIENT_ROWS, type ClientRows, type Setting, type SETTINGS } from "../clients/client-settings.ts";
import type { CallOptions } from "../arguments.ts";
import { CLIENT_KINDS } from "../../core/events.ts";
import { type Facade, NONE, operation, operations } from "./operation.ts";

/** The members of answers, with the comments of the rows. */
type SettingAnswers = {
  readonly [S in keyof typeof SETTINGS]: (typeof SETTINGS)[S] extends { readonly shown: z.ZodType }
    ? z.output<(typeof SETTINGS)[S]["shown"]>
    : Exclude<z.output<(typeof SETTINGS)[S]["value"]>, undefined>;
};

/** What a client has besides its settings. */
const others = exactly({
  client_id: z.string(),
  kind: z.enum(CLIENT_KINDS),
  /** The origins whose scripts may read the responses. Empty for a client that is not `public`. */
  effective_origins: z.array(z.string()).readonly(),
  disabled: z.boolean(),
  /** Seconds since the epoch. */
  created_at: z.int(),
  /** Seconds since the epoch. */
  updated_at: z.int(),
});

/** A client as every call returns it, without its secrets and their digests. */
export interface Client extends Omit<SettingAnswers, "client_secret">, Readonly<z.output<typeof others>> {}

/** The result of `register` for a client with a secret, and of `rotateSecret`. It can't be read again. */
export interface ClientCredentials {
  readonly client_id: string;
  readonly client_secret: string;
}

/** The result of `register`. A client that has keys, or can keep no secret, gets none. */
export type RegisteredClient = Pick<ClientCredentials, "client_id"> & Partial<ClientCredentials>;

const credentials: z.ZodType<ClientCredentials> = exactly({
  client_id: z.string(),
  client_secret: z.string(),
}).meta({ id: "ClientCredentials" });
const registered: z.ZodType<RegisteredClient> = exactly({
  client_id: z.string(),
  client_secret: z.string().exactOptional(),
}).meta({ id: "RegisteredClient" });

const ONE = { target: ["client_id"], columns: [] } as const;
const READS = {
  role: "viewer",
  limited: { role: "viewer", by: "client" },
  confirm: "none",
  audit: [],
  errors: [],
} as const;
const CHANGES = {
  ...ONE,
  role: "administrator",
  limited: false,
  recent: true,
  errors: ["not_found"],
} as const;
const ANY = { target: ["news"], input: {} } as const;

const filters = exactly({
  /** Only clients of this kind. */
  kind: choice(CLIENT_KINDS).exactOptional(),
  /** Only clients of this service. */
  service: anyString.exactOptional(),
  /** Only clients that are disabled, or only those that are not. */
  disabled: flag().exactOptional(),
});

/** Which clients to list. All that is given has to hold. Default: all clients. */
export interface ClientFilter extends Readonly<z.input<typeof filters>> {}
const clientFilter: z.ZodType<ClientFilter, ClientFilter> = filters;

function shownClient({ kinds, settings }: ClientRows): z.ZodType<Client> {
  const answers = Object.entries<Setting>(settings).flatMap(([name, { value, shown = value }]) =>
    shown === null ? [] : [[name, shown instanceof z.ZodOptional ? shown.unwrap() : shown] as const],
  );
  const kind = z.enum(Object.keys(kinds));
  const schema = exactly({ ...Object.fromEntries(answers), ...others.shape, kind }).meta({ id: "Client" });
  return schema as unknown as z.ZodType<Client>;
}

/** The operations on clients of these kinds, with these settings. */
export function clientOperations(rows: ClientRows) {
  // The rules that hold everywhere. Those of this service, which may be stricter, are checked by its function.
  const anywhere = { production: false };
  const client: z.ZodType<Client> = shownClient(rows);
  return operations("client", {
    /**
     * Registers a client. The secret is returned only here.
     *
     * The kinds: `web`, a server that keeps a secret, or keys; `public`, a browser or native application, which can't keep one;
     * `machine`, a service that acts on its own behalf; `device`, an application without a browser or a keyboard. The kind can't be
     * changed later, and decides which of the settings a client has.
     *
     * @throws AlreadyExists when the `client_id` is taken, or is the `sub` of an account.
     * @throws UnknownReference when the service, or an API or scope of `apis`, is not in the directory.
     */
    register: operation({
      effect: "create",
      target: [],
      input: newClient(rows, anywhere),
      output: registered,
      secret: ["client_secret"],
      role: "administrator",
      limited: false,
      confirm: "none",
      recent: true,
      audit: ["client.registered"],
      errors: ["already_exists", "unknown_reference", "secret_already_shown"],
      columns: [],
      example: {
        target: [],
        input: {
          client_id: "shop",
          name: "Shop",
          service: "news",
          redirect_uris: ["https://shop.example.com/callback"],
        },
      },
    }),
    /**
     * Shows a client.
     * @returns `undefined` if there is none.
     */
    find: operation({ ...READS, ...ONE, effect: "read", input: NONE, output: client, example: ANY }),
    /** Lists clients, ordered by `client_id`. */
    list: operation({
      ...READS,
      effect: "list",
      target: [],
      input: clientFilter,
      output: client,
      columns: ["client_id", "kind", "service", "name", "first_party", "disabled"],
      example: { target: [], input: { service: "news", disabled: false } },
    }),
    /**
     * Changes the given settings of a client.
     *
     * A call that changes nothing writes nothing. Moving the client to another service ends its codes and tokens.
     *
     * @throws NotFound when there is no such client.
     * @throws UnknownReference when the service, or an API or scope of `apis`, is not in the directory.
     */
    update: operation({
      ...CHANGES,
      effect: "change",
      input: clientChanges(rows, anywhere),
      output: client,
      limited: { role: "administrator", by: "client", only: ["logo", "policy_uri", "tos_uri"] },
      confirm: "none",
      audit: ["client.updated"],
      errors: ["not_found", "unknown_reference"],
      example: { target: ["news"], input: { name: "Daily News", tos_uri: null } },
    }),
    /**
     * Makes a new secret, which is returned only here.
     *
     * A client has at most four secrets. If the old ones stop working now, the opaque tokens of a `machine` client end, too.
     *
     * @throws NotFound when there is no such client.
     * @throws SignInError `not_applicable` when the client has no secret.
     */
    rotateSecret: operation({
      ...CHANGES,
      effect: "verb",
      input: exactly({
        /** How long the old secrets work, in seconds, at most a year. Default: not at all. */
        keepOldFor: described(keepOldFor.optional(), { unit: "duration" }),
      }),
      output: credentials,
      secret: ["client_secret"],
      confirm: "final",
      audit: ["client.secret_rotated"],
      errors: ["not_found", "not_applicable", "secret_already_shown"],
      example: { target: ["news"], input: { keepOldFor: 86_400 } },
    }),
    /**
     * Ends all tokens of a `machine` client. For the tokens of people, see `accounts.revokeTokens`.
     *
     * @throws NotFound when there is no such client.
     * @throws SignInError `not_applicable` for a client of another kind.
     */
    revokeTokens: operation({
      ...CHANGES,
      effect: "verb",
      input: NONE,
      output: NONE,
      confirm: "final",
      audit: ["client.tokens_revoked"],
      errors: ["not_found", "not_applicable"],
      example: { target: ["nightly-export"], input: {} },
    }),
    /**
     * Blocks a client, which is then treated like an unknown one, and ends its codes and tokens for good.
     *
     * @throws NotFound when there is no such client.
     */
    disable: operation({
      ...CHANGES,
      effect: "verb",
      input: NONE,
      output: client,
      confirm: "page",
      audit: ["client.disabled"],
      example: ANY,
    }),
    /**
     * Accepts a disabled client again. Earlier codes and tokens stay invalid.
     *
     * @throws NotFound when there is no such client.
     */
    enable: operation({
      ...CHANGES,
      effect: "verb",
      input: NONE,
      output: client,
      confirm: "page",
      audit: ["client.enabled"],
      example: ANY,
    }),
    /**
     * Removes a client for good, with its tokens and its consents; assignments stay.
     * @returns `false` if there is no such client.
     */
    remove: operation({
      ...CHANGES,
      effect: "remove",
      input: NONE,
      output: NONE,
      confirm: "typed",
      audit: ["client.removed"],
      errors: [],
      example: ANY,
    }),
  });
}

export type ClientTable = ReturnType<typeof clientOperations>;

export const clients: ClientTable = clientOperations(CLIENT_ROWS);

/**
 * The clients. A wrong argument is an `InvalidArgument` that names the option; a storage fault is `StorageUnavailable`. Every
 * change writes an audit record that names its `actor`.
 */
export interface Clients extends Omit<Facade<ClientTable["rows"]>, "register"> {
  /**
   * Registers a client. The secret is returned only here.
   * @throws AlreadyExists when the `client_id` is taken, or is the `sub` of an account.
   * @throws UnknownReference when the service, or an API or scope of `apis`, is not in the directory.
   */
  register(client: NewClient | NewMachineClient, options?: CallOptions): Promise<ClientCredentials>;
  register(client: AnyNewClient, options?: CallOptions): Promise<RegisteredClient>;
}
