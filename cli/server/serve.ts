/** `serve`: the bundled server with a configuration, or the demo. */
import type { Environment } from "../../config/environment.ts";
import { isListenAddress, LISTEN_FORM } from "../../config/value-forms.ts";
import type { SignInService } from "../../lib/index.ts";
import type { Run, CommandContext } from "../program/command.ts";
import { CommandFailure, FAILED, misused } from "../program/command-failure.ts";
import type { Arguments } from "../program/arguments.ts";
import { isConfigured } from "../program/settings.ts";
import { endWithNpm } from "../program/stop-signals.ts";
import { type ConfigFile, DEFAULT_PORT, readProcessConfig } from "./config-file.ts";
import { refuseDemoSecrets } from "./demo-secrets.ts";
import { mailboxFor } from "../../testing/mailbox.ts";
import { Generation } from "./generation.ts";
import { requirePort } from "./listener.ts";
import { ADMIN_PORT, adminPlace, certificateOf } from "./administration.ts";
import { METRICS_PORT, metricsPlace } from "./monitoring.ts";
import { type Opened, untilStopped } from "./opened.ts";
import { onReloadSignal, type ListenAddress, Reloadable } from "./reload.ts";

/** The demo's own options. */
const OF_DEMO = [
  "no-client",
  "no-receiver",
  "receiver-fail",
  "receiver-status",
  "receiver-slow",
  "receiver-close",
] as const;

/** What `serve` was asked for. */
interface Asked {
  readonly isDemo: boolean;
  readonly port: number | undefined;
  readonly host: string | undefined;
}

export const serve: Run = async (args, context) => {
  const { isDemo, ...asked } = askedOf(args, context);
  const { port, host } = asked;
  const environment = context.environment();
  if (isDemo) {
    const { readDemo, startDemo } = await import("../demo/start-demo.ts");
    const demo = { ...readDemo(args), port, host, environment, out: context.out };
    return run((opened) => startDemo(opened, demo));
  }
  const read = (): Promise<ConfigFile> => readProcessConfig(args, context);
  return run((opened) => startConfigured(opened, { ...asked, ...context, environment, read }));

  async function run(start: (opened: Opened) => Promise<void>): Promise<number> {
    if (environment.byNpm) endWithNpm();
    return (await untilStopped(context.signal, start)) ? 0 : FAILED;
  }
};

/** @throws CommandFailure with exit code 2. */
function askedOf(args: Arguments, context: CommandContext): Asked {
  const config = args.text("config");
  const isDemo = args.flag("demo") && config === undefined;
  if (config === "") throw misused("--config needs the name of a file");
  const option = OF_DEMO.find((name) => args.has(name));
  if (config !== undefined && option !== undefined) throw misused(`--${option} can't be used with --config`);
  if (!isDemo && option !== undefined) throw misused(`--${option} requires --demo`);
  if (!isDemo && !isConfigured(args, context)) {
    throw new CommandFailure(
      "There is no configuration: make one with sign-in-service init and name it with --config FILE, or try the service with serve --demo.",
      { code: "invalid_configuration" },
    );
  }
  if (args.port("metrics-port") !== undefined && isDemo)
    throw misused("--metrics-port requires a configuration");
  const host = args.text("host");
  if (host !== undefined && !isListenAddress(host)) throw misused(`--host must be ${LISTEN_FORM}`);
  return { isDemo, port: args.port("port"), host };
}

/**
 * The default address to listen on: loopback while only this machine can reach the base URLs, otherwise all addresses.
 */
function usualHost({ production, deployments }: SignInService["configuration"]): string | undefined {
  if (production) return undefined;
  const urls = [deployments.oauth2, deployments.openid].flatMap((each) => each?.url ?? []);
  return urls.every((url) => new URL(url).hostname === "[::1]") ? "::1" : "127.0.0.1";
}

interface Start extends Omit<Asked, "isDemo"> {
  readonly environment: Environment;
  /** Reads and checks the configuration. */
  readonly read: () => Promise<ConfigFile>;
}

async function startConfigured(
  opened: Opened,
  { port, host, environment, read: readAll }: Start,
): Promise<void> {
  const signal = onReloadSignal();
  opened.add({ close: async () => signal.end() });
  async function read(): Promise<ConfigFile> {
    const file = await readAll();
    refuseDemoSecrets(file);
    return file;
  }
  const listenAddressOf = (file: ConfigFile): ListenAddress & { readonly port: number } => ({
    port: port ?? environment.port ?? file.port ?? DEFAULT_PORT,
    host: host ?? environment.host ?? file.host ?? usualHost(file.configuration),
  });

  const file = await read();
  const logger = opened.openLog("sign-in-service", environment.logLevel);
  const wanted = listenAddressOf(file);
  const address = [wanted.port, wanted.host] as const;
  // Report unavailable ports before opening anything. Keep the metrics port open, to detect two equal ports.
  const metricsAt = metricsPlace(file.configuration);
  const monitoring =
    metricsAt && (await opened.listen(metricsAt.port, metricsAt.host, { words: METRICS_PORT }));
  const adminAt = adminPlace(file.configuration);
  const administration =
    adminAt &&
    (await opened.listen(adminAt.port, adminAt.host, {
      words: ADMIN_PORT,
      certificate: await certificateOf(file.configuration),
    }));
  await requirePort(...address);
  let mailbox = mailboxFor(file.configuration);
  const first = await Generation.open(file, { logger, mailbox });
  const reloadable = opened.add(
    new Reloadable({
      running: first,
      file,
      logger,
      read,
      listenAddressOf,
      open(next) {
        // Messages stay readable.
        const needed = mailboxFor(next.configuration);
        mailbox = needed && (mailbox ?? needed);
        return Generation.open(next, { logger, mailbox });
      },
      use(running) {
        listener.serve(running.answer);
        administration?.serve(running.administer);
        if (running.certificate !== undefined) administration?.renew(running.certificate);
        monitoring?.serve(running.monitor);
      },
    }),
  );
  const listener = await opened.listen(...address);
  listener.serve(first.answer);
  administration?.serve(first.administer);
  monitoring?.serve(first.monitor);
  if (monitoring !== undefined) opened.say(`health and metrics on port ${monitoring.port}`);
  if (administration !== undefined)
    opened.say(`administration on port ${administration.port} at ${adminAt?.url}`);
  const { oauth2, openid } = first.service.configuration.deployments;
  const urls = [oauth2, openid].flatMap((deployment) => deployment?.url ?? []);
  opened.say(`listening on port ${listener.port} for ${urls.join(" and ")}`);
  signal.use(() => reloadable.reload());
}
