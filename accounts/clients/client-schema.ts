/** The arguments of the calls for clients: the settings of `client-settings.ts`, and what identifies a client. */
import { z } from "zod";
import { described, textsOf } from "../../config/documented-schema.ts";
import type { ClientKind } from "../../records/directory/directory.ts";
import { exactly, integer, ruled, whenValid } from "../arguments.ts";
import { addressProblems, DEFAULT_KIND, problem, type SettingProblem } from "./client-kinds.ts";
import {
  type ClientRows,
  type ClientRules,
  configuredProblems,
  type KindSettings,
  kindProblems,
  READ_WITH_KIND,
  type Setting,
  type SettingName,
  type SETTINGS,
} from "./client-settings.ts";
import { clientIdProblem } from "../text-rules.ts";

/** A longer overlap would defeat the rotation. */
const MAX_OVERLAP_SECONDS = 365 * 24 * 60 * 60;

type Shape = Readonly<Record<string, z.ZodType>>;

/** What arguments take for each of these settings. */
function valuesOf(
  { settings }: ClientRows,
  { production }: ClientRules,
  takes = (_row: Setting) => true,
): Shape {
  const rows = Object.entries<Setting>(settings).filter(([, row]) => takes(row));
  return Object.fromEntries(
    rows.map(([name, { value, hosted = value }]) => [name, production ? hosted : value]),
  );
}

function kindIn({ kinds }: ClientRows): z.ZodType {
  const names = Object.keys(kinds);
  return described(z.enum(names, { error: `must be one of ${names.join(", ")}` }).default(DEFAULT_KIND), {
    form: `${names.map((each) => `\`${each}\``).join(", ")}: see [Kinds](docs/reference/client-settings.md#kinds)`,
  });
}

function refuse(context: z.core.$RefinementCtx, problems: readonly SettingProblem[]): void {
  for (const { path, message } of problems) context.addIssue({ code: "custom", path: [...path], message });
}

/** A new client with these members. Rules that span several of them run although others have problems. */
function ofOneKind(
  rows: ClientRows,
  rules: ClientRules,
  client_id: z.ZodType,
  settings: Shape,
  moreProblems: (client: KindSettings) => readonly SettingProblem[] = () => [],
): z.ZodType {
  const members = exactly({ client_id, kind: kindIn(rows), ...settings });
  const configured = members.superRefine((client, context) =>
    refuse(context, configuredProblems(rows, client, rules)),
  );
  return configured.superRefine(
    (checked, context) => {
      const client = checked as unknown as KindSettings;
      const foreign = kindProblems(rows, client);
      const isForeign = ({ path: [name] }: SettingProblem): boolean =>
        foreign.some(({ path }) => path[0] === name);
      const wrong = addressProblems(rows.kinds[client.kind], client, rules.production);
      refuse(context, [...foreign, ...wrong.filter((each) => !isForeign(each)), ...moreProblems(client)]);
    },
    whenValid("kind", ...READ_WITH_KIND),
  );
}

/** A new client of any kind. */
export function newClient(rows: ClientRows, rules: ClientRules): z.ZodType<CheckedClient, ClientInput> {
  const client_id = ruled(clientIdProblem).optional();
  return ofOneKind(rows, rules, client_id, valuesOf(rows, rules)) as z.ZodType<CheckedClient, ClientInput>;
}

/** A client of a seed: with a required id, and a required secret or keys if it is `web` or `machine`. */
export function identifiedClient(
  rows: ClientRows,
  rules: ClientRules,
): z.ZodType<CheckedIdentified, IdentifiedClient> {
  // A secret that is too short for production is refused when the client is registered: those of the examples come first.
  const values = valuesOf(rows, { production: false });
  const client_id = described(ruled(clientIdProblem), {
    form: "1 to 128 of the characters `A-Z a-z 0-9 . _ ~ -`, not the `sub` of an account",
  });
  const secret = values["client_secret"]!;
  const orNull = described(secret.nullable(), {
    ...textsOf(secret),
    form: `${textsOf(secret).form}; or \`null\``,
  });
  const settings = { ...values, client_secret: orNull, name: values["name"]!.optional() };
  return ofOneKind(rows, rules, client_id, settings, ({ kind, client_secret, jwks }) =>
    client_secret === undefined && jwks === undefined && rows.kinds[kind].confidential
      ? [problem(["client_secret"], "is required")]
      : [],
  ) as z.ZodType<CheckedIdentified, IdentifiedClient>;
}

/** Argument of `update`. What depends on the kind is checked with the record. */
export function clientChanges(rows: ClientRows, rules: ClientRules): z.ZodType<ClientChanges, ClientChanges> {
  const values = Object.entries(valuesOf(rows, rules, ({ changes }) => changes !== "fixed"));
  return exactly(Object.fromEntries(values.map(([name, value]) => [name, value.optional()])));
}

/** The members that have to be there, with their comments. */
type Given<T> = { readonly [K in keyof T]-?: NonNullable<T[K]> };

/** The settings that every new client names. */
type RequiredSetting = {
  [S in SettingName]: undefined extends z.input<(typeof SETTINGS)[S]["value"]> ? never : S;
}[SettingName];

type FixedSetting = {
  [S in SettingName]: (typeof SETTINGS)[S] extends { readonly changes: "fixed" } ? S : never;
}[SettingName];

/** The members of arguments, with the comments of the rows. */
type SettingArguments = {
  readonly [S in keyof typeof SETTINGS]?: z.input<(typeof SETTINGS)[S]["value"]>;
};

/** The same after checking. */
type SettingValues = {
  readonly [S in keyof typeof SETTINGS]?: z.output<(typeof SETTINGS)[S]["value"]>;
};

/** A new client of any kind. What each kind has is checked. */
export interface ClientInput
  extends Given<Pick<SettingArguments, RequiredSetting>>, Omit<SettingArguments, RequiredSetting> {
  /** What the client is; can't be changed later. Default: `web`. */
  readonly kind?: ClientKind | undefined;
  /** 1 to 128 of `A-Z a-z 0-9 . _ ~ -`, not the `sub` of an account, also not of a deleted one. Default: generated. */
  readonly client_id?: string | undefined;
}

/** The same after checking: with its kind. */
export interface CheckedClient
  extends Given<Pick<SettingValues, RequiredSetting>>, Omit<SettingValues, RequiredSetting> {
  readonly kind: ClientKind;
  readonly client_id?: string | undefined;
}

/** A client of a seed: its id is required, and its secret where the kind has one. */
export interface IdentifiedClient extends Omit<ClientInput, "client_id" | "client_secret" | "name"> {
  /** Identifies the client. */
  readonly client_id: string;
  /**
   * Its secret; stored as a keyed digest. `null`: not in this file. A client keeps the secrets that it has; a new one gets a secret that
   * nobody knows, until it is rotated. Default: none: required for `web` and `machine`, unless `jwks` is there.
   */
  readonly client_secret?: string | null | undefined;
  /** Display name. Default: the name of its service. */
  readonly name?: string | undefined;
}

/**
 * The argument of `clients.update`. Only the given settings change; a setting that the kind of client does not have is
 * an error.
 */
export interface ClientChanges extends Omit<
  SettingArguments,
  FixedSetting | "client_secret" | "jwks" | "service"
> {
  /** The service that it belongs to. Moving it to another one ends its codes and tokens. */
  readonly service?: string | undefined;
  /** Replaces all secrets by this one, unless it is one of them and has no expiry, and the keys. */
  readonly client_secret?: string | undefined;
  /** Replaces all secrets and keys. */
  readonly jwks?: SettingArguments["jwks"];
}

/** The same after checking. */
type CheckedIdentified = Omit<CheckedClient, "client_secret" | "name"> & IdentifiedClient;

type Web = Omit<ClientInput, "kind" | "redirect_uris" | "jwks" | "native" | "origins">;

/** A server that keeps a secret. */
export interface NewClient extends Web, Given<Pick<ClientInput, "redirect_uris">> {
  readonly kind?: "web" | undefined;
}

/** A server that signs assertions instead of keeping a secret. */
export interface NewClientWithKeys
  extends Omit<NewClient, "client_secret">, Given<Pick<ClientInput, "jwks">> {}

/** A browser or native application, which can keep no secret. Its refresh tokens rotate, and it uses PKCE. */
export interface NewPublicClient
  extends
    Omit<NewClient, "kind" | "client_secret" | "password_grant">,
    Pick<ClientInput, "native" | "origins"> {
  readonly kind: "public";
}

/** A service that acts for itself, with a secret. */
export interface NewMachineClient extends Pick<
  ClientInput,
  "name" | "service" | "error_status" | "client_id" | "client_secret" | "apis" | "dpop" | "profile"
> {
  readonly kind: "machine";
}

/** A service that acts for itself, with keys. */
export interface NewMachineClientWithKeys
  extends Omit<NewMachineClient, "client_secret">, Given<Pick<ClientInput, "jwks">> {}

/** An application without a browser or a keyboard. Its refresh tokens rotate. */
export interface NewDeviceClient extends Omit<
  Web,
  "client_secret" | "password_grant" | "grant_types" | "post_logout_redirect_uris" | "backchannel_logout_uri"
> {
  readonly kind: "device";
}

/** The argument of `clients.register`. The kind can't be changed later. */
export type AnyNewClient =
  | NewClient
  | NewClientWithKeys
  | NewPublicClient
  | NewMachineClient
  | NewMachineClientWithKeys
  | NewDeviceClient;

/** Option of `rotateSecret`, in seconds. */
export const keepOldFor = integer(0, MAX_OVERLAP_SECONDS);
