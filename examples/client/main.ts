/** Runs the demo client alone, for a service that runs elsewhere: npx node examples/client/main.ts --help */
import { readEnvironment } from "../../config/environment.ts";
import { type ConfigFile, readConfigFile } from "../../cli/server/config-file.ts";
import { DEMO_FILE } from "../../cli/demo/demo.ts";
import { chosenFile } from "../example-config.ts";
import { Opened, listenerOf } from "../../cli/server/opened.ts";
import { CommandFailure } from "../../cli/program/command-failure.ts";
import { BY_VARIABLE, endOnSignal, endWith } from "../ending.ts";
import { createClient } from "./application.ts";
import { type ClientSettings, redirectUri } from "./sign-in.ts";

const USAGE = `Usage: node examples/client/main.ts [--config FILE]

Signs users in as the first client in the seed of a configuration, at the origin of its first redirect URI.
Start the service with the same file, for example with npm start -- --config FILE. The configuration must have
both deployments, and the client must register that origin with /callback and with /callback/openid.

  --config FILE  configuration of the service; default: the demo (npm start -- --no-client)
  --help         show this help

Environment: PORT (default: the port of the redirect URI), HOST (default: 127.0.0.1).
`;

/** @throws CommandFailure if the configuration has no suitable client. */
function settingsOf(path: string, { config, seed }: ConfigFile): ClientSettings {
  const { oauth2, openid } = config.deployments;
  const [client] = seed?.clients ?? [];
  const [first] = client?.redirect_uris ?? [];
  if (client === undefined || first === undefined || oauth2 === undefined || openid === undefined) {
    throw new CommandFailure(`${path} must have both deployments, and a client in its seed.`);
  }
  const { client_id, client_secret = null, redirect_uris = [] } = client;
  if (client_secret === null) throw new CommandFailure(`${path} must give ${client_id} a secret.`);
  const { origin: url } = new URL(first);
  for (const address of [redirectUri({ url }, "oauth2"), redirectUri({ url }, "openid")]) {
    if (!redirect_uris.includes(address)) {
      throw new CommandFailure(`${path} must register the redirect URI ${address} for ${client_id}.`);
    }
  }
  return { url, client_id, client_secret, oauth2: oauth2.url, openid: openid.url };
}

async function main(): Promise<void> {
  const opened = new Opened();
  endOnSignal(() => opened.close());
  try {
    const path = chosenFile(USAGE) ?? DEMO_FILE;
    const settings = settingsOf(path, await readConfigFile(path));
    const { port, host = "127.0.0.1" } = readEnvironment();
    const { protocol, port: ofUrl } = new URL(settings.url);
    const usual = protocol === "https:" ? 443 : 80;
    const listener = await opened.listen(port ?? (Number(ofUrl) || usual), host, { words: BY_VARIABLE });
    listener.serve(listenerOf(createClient(settings)));
    console.log(`The client is at ${settings.url}`);
  } catch (error) {
    endWith(error);
  }
}

await main();
