/** `npm start` without a configuration: a server, a client and a receiver on three consecutive ports. */
import { pino, type Logger } from "pino";
import type { Environment } from "../../config/environment.ts";
import type { SignInService } from "../../lib/index.ts";
import { createClient } from "../../examples/client/application.ts";
import { createReceiver } from "../../examples/receiver/application.ts";
import { seededEndpoints } from "../../examples/receiver/seeded-endpoints.ts";
import { createTroubleMaker, type Trouble, type TroubleMaker } from "../../examples/receiver/trouble.ts";
import { createApplication } from "../server/application.ts";
import type { CommandLine } from "./command-line.ts";
import type { Seed } from "../server/config-file.ts";
import { mailboxFor } from "../server/dev-mail.ts";
import { banner, DEMO_PORT, demoConfig } from "./demo.ts";
import { demoControls } from "./demo-controls.ts";
import type { Listener } from "../server/listener.ts";
import { listenerOf, type Opened } from "../server/opened.ts";

/** By default, the demo is reachable only from this machine. */
const HERE = "127.0.0.1";

export interface DemoStart extends Pick<CommandLine, "port" | "client" | "receiver"> {
  readonly environment: Environment;
}

function origin(port: number): string {
  return `http://${HERE}:${port}`;
}

interface Ports {
  readonly server: Listener;
  readonly client: Listener | undefined;
  readonly receiver: Listener | undefined;
}

/** @throws StartFailure if one of the ports isn't available. */
async function takePorts(opened: Opened, { environment, port, client, receiver }: DemoStart): Promise<Ports> {
  const host = environment.host ?? HERE;
  const first = port ?? environment.port ?? DEMO_PORT;
  const after = (steps: number): number => (first === 0 ? 0 : first + steps);
  return {
    server: await opened.listen(first, host),
    client: client ? await opened.listen(after(1), host) : undefined,
    receiver: receiver && (await opened.listenBriefly(after(2), HERE)),
  };
}

function say(line: string): void {
  console.log(`  ${line}`);
}

function startReceiver(listener: Listener, seed: Seed, first: Trouble): TroubleMaker {
  const trouble = createTroubleMaker(first, say);
  const { endpoints = [] } = seededEndpoints(seed) ?? {};
  listener.serve(listenerOf(createReceiver({ endpoints, trouble, say })));
  return trouble;
}

function startClient(
  listener: Listener,
  url: string,
  { service, seed, trouble }: { service: SignInService; seed: Seed; trouble: TroubleMaker | undefined },
): void {
  const [registered] = seed?.clients ?? [];
  const { oauth2, openid } = service.configuration.deployments;
  if (registered === undefined || oauth2 === undefined || openid === undefined) return;
  const { client_id, client_secret, service: serviceKey } = registered;
  const settings = { url, client_id, client_secret, oauth2: oauth2.url, openid: openid.url };
  const controls = demoControls({ service, seed, serviceKey, trouble });
  listener.serve(listenerOf(createClient(settings, controls)));
}

/** The demo logs warnings only, because it prints what users need. */
function createLogger({ logLevel }: Environment): Logger {
  const level = logLevel === "info" ? "warn" : logLevel;
  return pino({ name: "sign-in-service", level }, pino.destination(2));
}

/** Starts the demo and prints its addresses. */
export async function startDemo(opened: Opened, asked: DemoStart): Promise<void> {
  const { server, client, receiver } = await takePorts(opened, asked);
  const origins = {
    server: origin(server.port),
    client: origin(client?.port ?? server.port + 1),
    receiver: origin(receiver?.port ?? server.port + 2),
  };
  const file = await demoConfig(origins);
  const { seed } = file;
  // Start the receiver before the service, which may have deliveries left from the last run.
  const trouble = receiver && asked.receiver && startReceiver(receiver, seed, asked.receiver);
  const logger = createLogger(asked.environment);
  const mailbox = mailboxFor(file.config);
  const service = await opened.openService(file, logger, mailbox);
  server.serve(listenerOf(createApplication(service, logger, mailbox)));
  if (client !== undefined) startClient(client, origins.client, { service, seed, trouble });
  const beside = {
    ...(client && { client: origins.client }),
    ...(receiver && { receiver: origins.receiver }),
  };
  console.log(await banner(service, seed, beside));
}
