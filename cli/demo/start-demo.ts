/** `serve --demo`: a server, a client, a receiver and the console on four consecutive ports. */
import { mkdir } from "node:fs/promises";
import { dirname } from "node:path";
import Koa from "koa";
import { pino, type Logger } from "pino";
import type { Environment } from "../../config/environment.ts";
import { databaseFile } from "../../config/storage-address.ts";
import type { SignInService } from "../../lib/index.ts";
import { createClient } from "../../examples/client/application.ts";
import { createReceiver } from "../../examples/receiver/application.ts";
import { seededEndpoints } from "../../examples/receiver/seeded-endpoints.ts";
import {
  createFaultInjector,
  NO_FAULTS,
  type Faults,
  type FaultInjector,
  readFaults,
} from "../../examples/receiver/faults.ts";
import type { CommandContext } from "../program/command.ts";
import { misused } from "../program/command-failure.ts";
import type { Arguments } from "../program/arguments.ts";
import { DEFAULT_PORT, type Seed } from "../server/config-file.ts";
import { mailboxFor } from "../../testing/mailbox.ts";
import { banner, demoConfig } from "./demo.ts";
import { demoControls } from "./demo-controls.ts";
import { Generation } from "../server/generation.ts";
import type { Listener } from "../server/listener.ts";
import { listenerOf, type Opened } from "../server/opened.ts";

/** By default, the demo is reachable only from this machine. */
const HERE = "127.0.0.1";

/** How long requests to the receiver may take at the end. Notifications without a response are sent again. */
const RECEIVER_DRAIN_MS = 1_000;

/** The parts of the demo besides the server. */
interface Parts {
  /** Whether to start the client. */
  readonly client: boolean;
  /** How the receiver fails at first. `undefined` doesn't start it. */
  readonly receiver: Faults | undefined;
}

interface DemoStart extends Parts, Pick<CommandContext, "out"> {
  readonly environment: Environment;
  readonly port: number | undefined;
  /** The address that the server and the client listen on; default: 127.0.0.1. */
  readonly host: string | undefined;
}

/** Reads the options of the demo. @throws CommandFailure with exit code 2. */
export function readDemo(args: Arguments): Parts {
  const own = ["fail", "status", "slow", "close"].find((name) => args.has(`receiver-${name}`));
  const client = !args.flag("no-client");
  if (args.flag("no-receiver")) {
    if (own !== undefined) throw misused(`--receiver-${own} can't be used with --no-receiver`);
    return { client, receiver: undefined };
  }
  const faults = readFaults("--receiver-", {
    fail: args.text("receiver-fail"),
    status: args.text("receiver-status"),
    slow: args.text("receiver-slow"),
    close: args.flag("receiver-close"),
  });
  return { client, receiver: own === undefined ? NO_FAULTS : faults };
}

interface Ports {
  readonly server: Listener;
  readonly client: Listener | undefined;
  readonly receiver: Listener | undefined;
  readonly console: Listener;
}

/** @throws CommandFailure if one of the ports isn't available. */
async function takePorts(
  opened: Opened,
  { environment, port, host: asked, client, receiver }: DemoStart,
): Promise<Ports> {
  const host = asked ?? environment.host ?? HERE;
  const first = port ?? environment.port ?? DEFAULT_PORT;
  const after = (steps: number): number => (first === 0 ? 0 : first + steps);
  return {
    server: await opened.listen(first, host),
    client: client ? await opened.listen(after(1), host) : undefined,
    receiver: receiver && (await opened.listen(after(2), HERE, { drainMs: RECEIVER_DRAIN_MS })),
    console: await opened.listen(after(3), HERE),
  };
}

function startReceiver(
  listener: Listener,
  seed: Seed,
  { receiver = NO_FAULTS, out }: DemoStart,
): FaultInjector {
  const say = (line: string): void => void out.write(`  ${line}\n`);
  const faults = createFaultInjector(receiver, say);
  const { endpoints = [] } = seededEndpoints(seed) ?? {};
  listener.serve(listenerOf(createReceiver({ endpoints, faults, say })));
  return faults;
}

function startClient(
  listener: Listener,
  url: string,
  { service, seed, faults }: { service: SignInService; seed: Seed; faults: FaultInjector | undefined },
): void {
  const [registered] = seed?.clients ?? [];
  const { oauth2, openid } = service.configuration.deployments;
  if (registered === undefined || oauth2 === undefined || openid === undefined) return;
  const { client_id, client_secret = null, service: serviceKey } = registered;
  if (client_secret === null) return;
  const settings = { url, client_id, client_secret, oauth2: oauth2.url, openid: openid.url };
  const controls = demoControls({ service, seed, serviceKey, faults });
  listener.serve(listenerOf(createClient(settings, controls)));
}

/**
 * The console beside the service. Without `admin` in the configuration, the page of deliveries stays where the client links to. Nobody
 * waits a day with a factor that they have just added to try it out.
 */
function serveConsole(listener: Listener, url: string, service: SignInService): void {
  listener.serve(listenerOf(new Koa().use(service.administration({ url }))));
  service.events.on("account.changed", ({ sub, action }) => {
    if (action === "account.app_added" || action === "account.passkey_added")
      // Only operators have to wait.
      service.operators.confirm(sub).catch(() => undefined);
  });
}

/** The demo logs warnings only, because it prints what users need. */
function createLogger({ logLevel }: Environment): Logger {
  const level = logLevel === "info" ? "warn" : logLevel;
  return pino({ name: "sign-in-service", level }, pino.destination(2));
}

/** Starts the demo and prints its addresses. */
export async function startDemo(opened: Opened, asked: DemoStart): Promise<void> {
  const { server, client, receiver, console: administration } = await takePorts(opened, asked);
  const origins = {
    // Browsers create no passkeys for IP addresses.
    server: `http://localhost:${server.port}`,
    client: `http://localhost:${client?.port ?? server.port + 1}`,
    receiver: `http://${HERE}:${receiver?.port ?? server.port + 2}`,
  };
  const file = await demoConfig(origins);
  const { seed } = file;
  // Start the receiver before the service, which may have deliveries left from the last run.
  const faults = receiver && startReceiver(receiver, seed, asked);
  // At the first start, the folder is new: nothing to warn about.
  const database = databaseFile(file.configuration.storage);
  if (database !== undefined) await mkdir(dirname(database), { recursive: true });
  const logger = createLogger(asked.environment);
  const mailbox = mailboxFor(file.configuration);
  const { service, answer } = opened.add(await Generation.open(file, { logger, mailbox }));
  server.serve(answer);
  const console = `http://localhost:${administration.port}`;
  serveConsole(administration, console, service);
  if (client !== undefined) startClient(client, origins.client, { service, seed, faults });
  const beside = {
    console,
    ...(client && { client: origins.client }),
    ...(receiver && { receiver: origins.receiver }),
  };
  asked.out.write(`${await banner(service, seed, beside)}\n`);
}
