/** `clients`: registers, changes and removes clients, and rotates their secrets. */
import { CLIENT_KINDS } from "../core/events.ts";
import { DEFAULT_KIND, hasSetting, type SettingName } from "../accounts/clients/client-kinds.ts";
import { ID_TOKEN_ALGORITHMS } from "../records/directory/directory.ts";
import type { Command, CommandOption } from "./program/command.ts";
import { CommandFailure, misused } from "./program/command-failure.ts";
import type { Arguments } from "./program/arguments.ts";
import { readBytes, readJsonObject } from "./program/json-file.ts";
import { type Call, onService, SERVICE_OPTIONS, textMembers, unknown, YES } from "./program/on-service.ts";
import type { AnyNewClient, ClientChanges } from "../accounts/clients/client-schema.ts";

const ID = { form: "ID", about: "the client_id" };
const COLUMNS = ["client_id", "kind", "service", "name", "first_party", "disabled"] as const;

/** Addresses that can be removed. */
const ADDRESSES = ["backchannel-logout-uri", "client-uri", "policy-uri", "tos-uri"] as const;
const REMOVABLE = [...ADDRESSES, "apis"] as const;

/** An option that sets a setting. */
interface SettingOption extends CommandOption {
  /** Default: the name of the option, in the plural for a list. */
  readonly setting?: SettingName;
  /** How its value is read; the library checks it. Default: as it is. */
  readonly read?: (args: Arguments, name: string, before: Pick<ClientChanges, "refresh_tokens">) => unknown;
}

const SETTING_OPTIONS: readonly SettingOption[] = [
  { form: "--service KEY", about: "the service that it belongs to" },
  { form: "--name NAME", about: "display name" },
  { form: "--redirect-uri URL", about: "where the authorization endpoint may redirect", isList: true },
  { form: "--post-logout-redirect-uri URL", about: "where logout may redirect", isList: true },
  { form: "--grant-type GRANT", about: "authorization_code, refresh_token or password", isList: true },
  {
    form: "--jwks FILE",
    about: "its public keys, in place of a secret: a JSON Web Key Set",
    read: (args, name) => (args.has(name) ? readJsonObject(args.required(name)) : undefined),
  },
  {
    form: "--native ANSWER",
    about: "yes or no: whether a public client is an application on a device",
    read: yesOrNo,
  },
  { form: "--origin ORIGIN", about: "where the scripts of a public client run", isList: true },
  { form: "--backchannel-logout-uri URL", about: "gets a logout token when a session ends" },
  { form: "--client-uri URL", about: "its home page" },
  { form: "--policy-uri URL", about: "its privacy policy" },
  { form: "--tos-uri URL", about: "its terms of use" },
  {
    form: "--logo FILE",
    about: "its logo: PNG, JPEG or WebP",
    read: (args, name) => (args.has(name) ? readBytes(args.required(name)) : undefined),
  },
  {
    form: "--api API",
    about: "an API and the scopes that the client may ask for: 'IDENTIFIER SCOPE SCOPE'",
    isList: true,
    read: (args) => (args.list("remove")?.includes("apis") === true ? {} : apisOf(args)),
  },
  {
    form: "--second-factor ANSWER",
    about: "required or optional: whether everybody needs a second factor or a passkey to sign in",
    read: (args, name) => args.oneOf(name, ["required", "optional"]),
  },
  {
    form: "--error-status STATUS",
    about: "documented or standard",
    read: (args, name) => args.oneOf(name, ["documented", "standard"]),
  },
  {
    setting: "refresh_tokens",
    form: "--rotate-refresh-tokens ANSWER",
    about: "yes or no: whether each use gives a new one; default: refreshTokens.rotate",
    read: (args, name, before) => {
      const rotate = yesOrNo(args, name);
      return rotate === undefined ? undefined : { ...before.refresh_tokens, rotate };
    },
  },
];

const settingOptions: readonly CommandOption[] = SETTING_OPTIONS.map(
  ({ setting: _setting, read: _read, ...option }) => option,
);

function yesOrNo(args: Arguments, name: string): boolean | undefined {
  const answer = args.oneOf(name, ["yes", "no"]);
  return answer === undefined ? undefined : answer === "yes";
}

/** The APIs of `--api 'IDENTIFIER SCOPE SCOPE'`. The library checks them. */
function apisOf(args: Arguments): ClientChanges["apis"] {
  const entries = args.list("api")?.map((text): [string, string[]] => {
    const [identifier = "", ...scopes] = text.split(" ").filter((word) => word !== "");
    return [identifier, scopes];
  });
  return entries && Object.fromEntries(entries);
}

/** The settings in the options. @param before the client, of whose settings for refresh tokens an option may change some. */
async function settings(
  args: Arguments,
  before: Pick<ClientChanges, "refresh_tokens"> = {},
): Promise<ClientChanges> {
  const members: Record<string, unknown> = textMembers(args, REMOVABLE);
  for (const { form, isList, setting, read = isList ? listOf : textOf } of SETTING_OPTIONS) {
    const [name = ""] = form.slice("--".length).split(" ");
    const value = await read(args, name, before);
    if (value !== undefined) members[setting ?? name.replaceAll("-", "_") + (isList ? "s" : "")] = value;
  }
  return members;
}

const textOf = (args: Arguments, name: string): string | undefined => args.text(name);
const listOf = (args: Arguments, name: string): readonly string[] | undefined => args.list(name);

/** @returns its `client_id`. @throws CommandFailure if there is no such client. */
async function existing({ service, args }: Call): Promise<string> {
  const client = await service.clients.find(args.operand(0));
  if (client === undefined) throw unknown("client");
  return client.client_id;
}

async function register({ service, args, print, by }: Call): Promise<void> {
  const key = args.required("service");
  const kind = args.oneOf("kind", CLIENT_KINDS) ?? DEFAULT_KIND;
  if (hasSetting(kind, "redirect_uris") && args.list("redirect-uri") === undefined)
    throw misused("--redirect-uri is missing");
  const name = args.text("name") ?? (await service.directory.services.find(key))?.name ?? key;
  const client_id = args.text("client-id");
  const algorithm = args.oneOf("id-token-alg", ID_TOKEN_ALGORITHMS);
  const client = {
    ...(await settings(args)),
    kind,
    name,
    service: key,
    ...(client_id !== undefined && { client_id }),
    ...(args.flag("third-party") && { first_party: false }),
    ...(algorithm && { id_token_signed_response_alg: algorithm }),
  };
  // The library checks that the kind has these settings.
  print.record(await service.clients.register(client as AnyNewClient, by));
}

async function find({ service, args, print }: Call): Promise<void> {
  const client = await service.clients.find(args.operand(0));
  if (client === undefined) throw unknown("client");
  print.record(client);
}

async function update({ service, args, print, by }: Call): Promise<void> {
  const client = await service.clients.find(args.operand(0));
  const changes = await settings(args, client);
  if (Object.keys(changes).length === 0) throw misused("There is nothing to change");
  print.record(await service.clients.update(args.operand(0), changes, by));
}

async function rotateSecret(call: Call): Promise<void> {
  const { service, args, print, by } = call;
  const keepOldFor = args.duration("keep-old-for") ?? 0;
  const client_id = await existing(call);
  if (args.flag("from-seed")) return applySeedsSecret(call, client_id);
  if (keepOldFor === 0)
    await call.confirm(`Replace the secret of ${client_id}? The old one stops working now.`);
  const { client_secret } = await service.clients.rotateSecret(client_id, { ...by, keepOldFor });
  print.record({ client_id, client_secret });
}

/** Sets the secret or the keys that the seed of the configuration names. The seed itself leaves them as they are. */
async function applySeedsSecret(call: Call, client_id: string): Promise<void> {
  const { service, args, print, by, context } = call;
  if (args.has("keep-old-for")) throw misused("--from-seed and --keep-old-for exclude each other");
  const { readProcessConfig } = await import("./server/config-file.ts");
  const { seed } = await readProcessConfig(args, context);
  const named: Pick<ClientChanges, "client_secret" | "jwks"> | undefined = seed?.clients?.find(
    (client) => client.client_id === client_id,
  );
  const { client_secret, jwks } = named ?? {};
  if (client_secret === undefined && jwks === undefined)
    throw new CommandFailure("The seed has no secret and no keys of this client.");
  await call.confirm(`Replace the secret or the keys of ${client_id} with those of the seed?`);
  await service.clients.update(client_id, jwks === undefined ? { client_secret } : { jwks }, by);
  print.done(`The secret or the keys of the seed are set: ${client_id}`, { client_id });
}

async function revokeTokens(call: Call): Promise<void> {
  const { service, print, by } = call;
  const client_id = await existing(call);
  await call.confirm(`End all tokens of ${client_id}?`);
  await service.clients.revokeTokens(client_id, by);
  print.done(`Revoked: the tokens of ${client_id}`, { client_id });
}

async function remove(call: Call): Promise<void> {
  const { service, print, by } = call;
  const client_id = await existing(call);
  await call.confirm(`Remove the client ${client_id} for good, with its tokens and consents?`);
  if (!(await service.clients.remove(client_id, by))) throw unknown("client");
  print.done(`Removed: ${client_id}`, { client_id });
}

/** A command that turns a client on or off. */
function turning(verb: "disable" | "enable", summary: string): Command {
  return {
    words: ["clients", verb],
    summary,
    operands: [ID],
    options: SERVICE_OPTIONS,
    examples: [`clients ${verb} news`],
    load: async () =>
      onService(async ({ service, args, print, by }) => {
        const client_id = args.operand(0);
        if (!(await service.clients[verb](client_id, by))) throw unknown("client");
        print.done(`${verb === "disable" ? "Disabled" : "Enabled"}: ${client_id}`, { client_id });
      }),
  };
}

export const clientCommands: readonly Command[] = [
  {
    words: ["clients", "register"],
    summary: "registers a client, and prints its secret once, if it has one",
    about: `The kinds: web, a server that keeps a secret (or keys: --jwks); public, a browser or native application, which can't keep one; machine, a service that acts on its own behalf; device, an application without a browser or a keyboard. The kind can't be changed later, and decides which of the settings a client has.`,
    options: [
      ...SERVICE_OPTIONS,
      { form: "--kind KIND", about: "web (default), public, machine or device" },
      { form: "--client-id ID", about: "default: generated" },
      ...settingOptions,
      { form: "--third-party", about: "people are asked for consent" },
      { form: "--id-token-alg ALG", about: "RS256 (default), ES256 or EdDSA; can't be changed later" },
    ],
    examples: [
      "clients register --client-id shop --service news --redirect-uri https://shop.example.com/callback",
      "clients register --kind public --client-id news-page --service news --redirect-uri https://news.example.com/",
    ],
    load: async () => onService(register),
  },
  {
    words: ["clients", "find"],
    summary: "shows a client",
    operands: [ID],
    options: SERVICE_OPTIONS,
    examples: ["clients find news"],
    load: async () => onService(find),
  },
  {
    words: ["clients", "list"],
    summary: "lists all clients",
    options: SERVICE_OPTIONS,
    examples: ["clients list --json"],
    load: async () =>
      onService(async ({ service, print }) => print.rows(await service.clients.list(), COLUMNS)),
  },
  {
    words: ["clients", "update"],
    summary: "changes the given settings of a client",
    operands: [ID],
    options: [
      ...SERVICE_OPTIONS,
      ...settingOptions,
      { form: "--remove SETTING", about: `removes a setting; any of ${REMOVABLE.join(", ")}`, isList: true },
    ],
    examples: ["clients update news --name 'Daily News' --remove tos-uri"],
    load: async () => onService(update),
  },
  {
    words: ["clients", "rotate-secret"],
    summary: "makes a new secret, and prints it once",
    operands: [ID],
    options: [
      ...SERVICE_OPTIONS,
      {
        form: "--keep-old-for TIME",
        about: "how long the old secrets work, such as 1d; default: not at all",
      },
      { form: "--from-seed", about: "sets the secret, or the keys, of the seed in the configuration" },
      YES,
    ],
    about:
      "A seed never changes the secret or the keys of a client that exists, so that a rotated secret does not come back. With --from-seed this command does: run it after you have changed them in the seed.",
    examples: [
      "clients rotate-secret news --keep-old-for 1d",
      "clients rotate-secret news --from-seed --yes",
    ],
    load: async () => onService(rotateSecret),
  },
  {
    words: ["clients", "revoke-tokens"],
    summary: "ends all tokens of a machine client",
    operands: [ID],
    options: [...SERVICE_OPTIONS, YES],
    examples: ["clients revoke-tokens nightly-export --yes"],
    load: async () => onService(revokeTokens),
  },
  turning(
    "disable",
    "blocks a client, which is then treated like an unknown one, and ends its codes and tokens",
  ),
  turning("enable", "accepts a disabled client again"),
  {
    words: ["clients", "remove"],
    summary: "removes a client, its tokens and its consents",
    operands: [ID],
    options: [...SERVICE_OPTIONS, YES],
    examples: ["clients remove news --yes"],
    load: async () => onService(remove),
  },
];
