/** The demo client alone, for a service that runs elsewhere: node examples/client/main.ts --help */
import { readEnvironment } from "../../config/environment.ts";
import { type ConfigFile, readConfigFile } from "../server/config-file.ts";
import { DEMO_FILE } from "../server/demo.ts";
import { chosenFile } from "../server/example-config.ts";
import { Opened, listenerOf } from "../server/opened.ts";
import { endWith, StartFailure } from "../server/start-failure.ts";
import { onStopSignal } from "../server/stop-signals.ts";
import { createClient } from "./application.ts";
import { type ClientSettings, redirectAddress } from "./sign-in.ts";

const USAGE = `Usage: node examples/client/main.ts [--config FILE]

Signs people in as the first client in the seed of a configuration, at the origin of its first redirect address.
Its redirect addresses have to be that origin with /callback and with /callback/openid, and the configuration
must have both deployments. The service itself is started with the same file, such as npm start -- --config FILE.

  --config FILE  the configuration of the service; default: that of the demo (npm start -- --no-client)
  --help         this text

Environment: PORT (default: that of the redirect address), HOST (default: 127.0.0.1).
`;

/** @throws StartFailure when the configuration has no client that this one could be. */
function settingsOf(path: string, { config, seed }: ConfigFile): ClientSettings {
  const { oauth2, openid } = config.deployments;
  const [client] = seed?.clients ?? [];
  const [first] = client?.redirect_uris ?? [];
  if (client === undefined || first === undefined || oauth2 === undefined || openid === undefined) {
    throw new StartFailure(`${path} must have both deployments, and a client in its seed.`);
  }
  const { client_id, client_secret, redirect_uris } = client;
  const { origin: url } = new URL(first);
  for (const address of [redirectAddress({ url }, "oauth2"), redirectAddress({ url }, "openid")]) {
    if (!redirect_uris.includes(address)) {
      throw new StartFailure(`${path} must register the redirect address ${address} for ${client_id}.`);
    }
  }
  return { url, client_id, client_secret, oauth2: oauth2.url, openid: openid.url };
}

async function main(): Promise<void> {
  const opened = new Opened();
  onStopSignal(() => opened.close());
  try {
    const path = chosenFile(USAGE) ?? DEMO_FILE;
    const settings = settingsOf(path, await readConfigFile(path));
    const { port, host = "127.0.0.1" } = readEnvironment();
    const { protocol, port: ofUrl } = new URL(settings.url);
    const usual = protocol === "https:" ? 443 : 80;
    const listener = await opened.listen(port ?? (Number(ofUrl) || usual), host);
    listener.serve(listenerOf(createClient(settings)));
    console.log(`The client is at ${settings.url}`);
  } catch (error) {
    endWith(error);
  }
}

await main();
