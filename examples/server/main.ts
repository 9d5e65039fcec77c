/** `npm start`: the service as a process of its own, with a demo or with your configuration. */
import { pino, type Logger } from "pino";
import { readEnvironment, type Environment } from "../../config/environment.ts";
import { applySeed, createSignInService, SignInError, type SignInService } from "../../lib/index.ts";
import { createClient } from "../client/application.ts";
import { createApplication } from "./application.ts";
import { type CommandLine, readCommandLine, USAGE } from "./command-line.ts";
import { type ConfigFile, readConfigFile } from "./config-file.ts";
import { banner, DEMO_PORT, demoConfig, demoSeed } from "./demo.ts";
import { refuseDemoAccounts, refuseDemoSecrets } from "./demo-secrets.ts";
import { listen, type Listener } from "./listener.ts";
import { FAILED, StartFailure } from "./start-failure.ts";
import { endWithNpm, onStopSignal } from "./stop-signals.ts";

/** Milliseconds that running requests have when the process is told to stop. */
const PATIENCE = 30_000;

/** What has been opened so far, in that order; closed from the end. */
interface Opened {
  readonly listeners: Listener[];
  service?: SignInService;
}

async function stop({ listeners, service }: Opened): Promise<void> {
  await Promise.all(listeners.map((listener) => listener.stop(PATIENCE)));
  await service?.close();
}

async function open(
  opened: Opened,
  { config, seed }: ConfigFile,
  { listener, logger }: { listener: Listener; logger: Logger },
): Promise<SignInService> {
  const service = await createSignInService({ ...config, logger });
  opened.service = service;
  await applySeed(service, seed);
  await refuseDemoAccounts(service, demoSeed());
  listener.serve(listenerOf(createApplication(service, logger).callback()));
  return service;
}

/** Koa's handler answers its own faults, so nobody has to wait for it. */
function listenerOf(
  handle: ReturnType<ReturnType<typeof createApplication>["callback"]>,
): Parameters<Listener["serve"]>[0] {
  return (request, response) => void handle(request, response);
}

async function startConfigured(
  opened: Opened,
  path: string,
  { environment, port }: { readonly environment: Environment; readonly port: number | undefined },
): Promise<void> {
  const file = await readConfigFile(path);
  refuseDemoSecrets(file, demoSeed());
  const logger = pino({ name: "sign-in-service", level: environment.logLevel });
  const listener = await listen(port ?? environment.port ?? file.port ?? DEMO_PORT, environment.host);
  opened.listeners.push(listener);
  const service = await open(opened, file, { listener, logger });
  const { oauth2, openid } = service.configuration.deployments;
  const urls = [oauth2, openid].flatMap((deployment) => deployment?.url ?? []);
  console.log(`listening on port ${listener.port} for ${urls.join(" and ")}`);
}

function origin(port: number): string {
  return `http://127.0.0.1:${port}`;
}

async function startDemo(
  opened: Opened,
  { environment, port, client }: { readonly environment: Environment } & Pick<CommandLine, "port" | "client">,
): Promise<void> {
  const host = environment.host ?? "127.0.0.1";
  const wanted = port ?? environment.port ?? DEMO_PORT;
  const listener = await listen(wanted, host);
  opened.listeners.push(listener);
  const beside = client ? await listen(wanted === 0 ? 0 : wanted + 1, host) : undefined;
  if (beside !== undefined) opened.listeners.push(beside);
  const places = { server: origin(listener.port), client: origin(beside?.port ?? listener.port + 1) };
  const file = await demoConfig(places);
  // The demo prints what a person needs; what the log says beside that is for --config.
  const level = environment.logLevel === "info" ? "warn" : environment.logLevel;
  const logger = pino({ name: "sign-in-service", level }, pino.destination(2));
  const service = await open(opened, file, { listener, logger });
  const [registered] = file.seed?.clients ?? [];
  const { oauth2, openid } = service.configuration.deployments;
  if (beside !== undefined && registered !== undefined && oauth2 && openid) {
    const { client_id, client_secret } = registered;
    const app = createClient({
      url: places.client,
      client_id,
      client_secret,
      oauth2: oauth2.url,
      openid: openid.url,
    });
    beside.serve(listenerOf(app.callback()));
  }
  console.log(await banner(service, file.seed, beside && places.client));
}

/** What is wrong, for a person: sentences, never a stack. */
function sentencesOf(error: unknown): string {
  if (error instanceof StartFailure || error instanceof SignInError) return error.message;
  const { name = "an unknown error", code } = error as { name?: string; code?: unknown };
  return `The service could not start: ${typeof code === "string" ? code : name}.`;
}

async function main(args: readonly string[]): Promise<void> {
  const opened: Opened = { listeners: [] };
  onStopSignal(() => stop(opened));
  try {
    const { help, config, port, client } = readCommandLine(args);
    if (help) {
      console.log(USAGE);
      process.exit(0);
    }
    const environment = readEnvironment();
    if (environment.byNpm) endWithNpm();
    if (config === undefined) await startDemo(opened, { environment, port, client });
    else await startConfigured(opened, config, { environment, port });
  } catch (error) {
    console.error(sentencesOf(error));
    process.exit(error instanceof StartFailure ? error.exitCode : FAILED);
  }
}

await main(process.argv.slice(2));
