/** `apis`: the APIs of the directory, for which clients get access tokens. */
import type { Api, ApiSettings } from "../accounts/apis.ts";
import type { Arguments } from "./program/arguments.ts";
import type { Command } from "./program/command.ts";
import { misused } from "./program/command-failure.ts";
import { type Call, onService, SERVICE_OPTIONS, unknown, YES } from "./program/on-service.ts";

const IDENTIFIER = { form: "IDENTIFIER", about: "an https URL, which requests name as resource" };

/** The scopes of `--scope 'NAME=DESCRIPTION'`. The library checks them. */
function scopesOf(args: Arguments): Record<string, string> | undefined {
  const entries = args.list("scope")?.map((text): [string, string] => {
    const equals = text.indexOf("=");
    if (equals === -1) throw misused("--scope must be NAME=DESCRIPTION");
    return [text.slice(0, equals), text.slice(equals + 1)];
  });
  return entries && Object.fromEntries(entries);
}

/** The settings in the options; what is left out stays as it is. */
function settings(args: Arguments, before: Partial<Api> = {}): ApiSettings {
  const scopes = scopesOf(args) ?? before.scopes;
  if (scopes === undefined) throw misused("--scope is missing");
  const tokens = args.oneOf("tokens", ["opaque", "jwt"]) ?? before.tokens;
  const lifetime = args.duration("lifetime") ?? before.lifetime;
  const assign = args.oneOf("assign", ["yes", "no"]);
  return {
    name: args.text("name") ?? before.name ?? args.required("name"),
    service: args.text("service") ?? before.service ?? args.required("service"),
    scopes,
    ...(tokens && { tokens }),
    ...(lifetime !== undefined && { lifetime }),
    introspection: args.flag("nobody-introspects")
      ? []
      : (args.list("introspection") ?? before.introspection ?? []),
    assign: assign === undefined ? (before.assign ?? false) : assign === "yes",
  };
}

async function put({ service, args, print, by }: Call): Promise<void> {
  const identifier = args.operand(0);
  const { apis } = service.directory;
  print.record(await apis.put(identifier, settings(args, await apis.find(identifier)), by));
}

async function remove(call: Call): Promise<void> {
  const { service, args, print, by } = call;
  const identifier = args.operand(0);
  const { apis } = service.directory;
  if ((await apis.find(identifier)) === undefined) throw unknown("API");
  await call.confirm(`Remove the API ${identifier} and end its tokens?`);
  if (!(await apis.remove(identifier, by))) throw unknown("API");
  print.done(`Removed: ${identifier}`, { identifier });
}

export const apiCommands: readonly Command[] = [
  {
    words: ["apis", "put"],
    summary: "creates an API, or changes the given settings",
    about: `An API whose tokens are opaque asks this service about them (introspection) with a client of its own. A jwt is verified with the published keys and can't be revoked. --scope and --introspection replace the whole list.`,
    operands: [IDENTIFIER],
    options: [
      ...SERVICE_OPTIONS,
      { form: "--name NAME", about: "display name; required for a new one" },
      { form: "--service KEY", about: "the service that it belongs to; required for a new one" },
      {
        form: "--scope SCOPE",
        about: "a scope and what it allows: 'NAME=DESCRIPTION'; required for a new one",
        isList: true,
      },
      { form: "--tokens KIND", about: "opaque (default) or jwt; can't be changed later" },
      {
        form: "--lifetime TIME",
        about: "lifetime of access tokens, such as 10m; default: 10h, for a jwt 10m",
      },
      { form: "--introspection ID", about: "a client that may introspect its tokens", isList: true },
      { form: "--nobody-introspects", about: "removes the clients that may introspect its tokens" },
      {
        form: "--assign ANSWER",
        about:
          "yes or no (default): whether people who authorize a client for it are assigned to its service",
      },
    ],
    examples: [
      "apis put https://api.example.com --name Articles --service news --scope 'articles:write=Write and delete articles'",
    ],
    load: async () => onService(put),
  },
  {
    words: ["apis", "find"],
    summary: "shows an API",
    operands: [IDENTIFIER],
    options: SERVICE_OPTIONS,
    examples: ["apis find https://api.example.com"],
    load: async () =>
      onService(async ({ service, args, print }) => {
        const api = await service.directory.apis.find(args.operand(0));
        if (api === undefined) throw unknown("API");
        print.record(api);
      }),
  },
  {
    words: ["apis", "list"],
    summary: "lists all APIs",
    options: SERVICE_OPTIONS,
    examples: ["apis list"],
    load: async () =>
      onService(async ({ service, print }) =>
        print.rows(await service.directory.apis.list(), [
          "identifier",
          "name",
          "service",
          "tokens",
          "lifetime",
        ]),
      ),
  },
  {
    words: ["apis", "remove"],
    summary: "removes an API that no client may ask for, and ends its tokens",
    operands: [IDENTIFIER],
    options: [...SERVICE_OPTIONS, YES],
    examples: ["apis remove https://old.example.com --yes"],
    load: async () => onService(remove),
  },
];
