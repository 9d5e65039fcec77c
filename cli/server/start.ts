/** Starts the bundled server with your configuration, or the demo. */
import { pino } from "pino";
import type { Environment } from "../../config/environment.ts";
import { createApplication } from "./application.ts";
import { type CommandLine, readCommandLine, USAGE } from "../demo/command-line.ts";
import { readConfigFile } from "./config-file.ts";
import { mailboxFor } from "./dev-mail.ts";
import { DEMO_PORT, printedSeed } from "../demo/demo.ts";
import { refuseDemoSecrets } from "./demo-secrets.ts";
import { requirePort } from "./listener.ts";
import { metricsPlace, monitoringListener, withMetricsPort } from "./monitoring.ts";
import { listenerOf, Opened } from "./opened.ts";
import { endWith } from "./start-failure.ts";
import { endWithNpm, onStopSignal } from "./stop-signals.ts";

interface Ports extends Pick<CommandLine, "port" | "metricsPort"> {
  readonly environment: Environment;
}

async function startConfigured(
  opened: Opened,
  path: string,
  { environment, port, metricsPort }: Ports,
): Promise<void> {
  const read = await readConfigFile(path);
  const file = { ...read, config: withMetricsPort(read.config, metricsPort) };
  refuseDemoSecrets(file, printedSeed());
  const logger = pino({ name: "sign-in-service", level: environment.logLevel });
  const address = [port ?? environment.port ?? file.port ?? DEMO_PORT, environment.host] as const;
  // Report unavailable ports before opening anything. Keep the metrics port open, to detect two equal ports.
  const metricsAt = metricsPlace(file.config);
  const monitoring = metricsAt && (await opened.listenForMonitoring(metricsAt));
  await requirePort(...address);
  const mailbox = mailboxFor(file.config);
  const service = await opened.openService(file, logger, mailbox);
  const listener = await opened.listen(...address);
  listener.serve(listenerOf(createApplication(service, logger, mailbox)));
  monitoring?.serve(monitoringListener(service, metricsAt?.token));
  if (monitoring !== undefined) console.log(`health and metrics on port ${monitoring.port}`);
  const { oauth2, openid } = service.configuration.deployments;
  const urls = [oauth2, openid].flatMap((deployment) => deployment?.url ?? []);
  console.log(`listening on port ${listener.port} for ${urls.join(" and ")}`);
}

/**
 * @param args the command line without the program.
 * @param readEnvironment may throw. A failure ends the process with a sentence and an exit code.
 */
export async function start(args: readonly string[], readEnvironment: () => Environment): Promise<void> {
  const opened = new Opened();
  onStopSignal(() => opened.close());
  try {
    const { help, config, metricsPort, ...asked } = readCommandLine(args);
    if (help) {
      console.log(USAGE);
      process.exit(0);
    }
    const environment = readEnvironment();
    if (environment.byNpm) endWithNpm();
    if (config === undefined) {
      const { startDemo } = await import("../demo/start-demo.ts");
      await startDemo(opened, { environment, ...asked });
    } else {
      await startConfigured(opened, config, { environment, port: asked.port, metricsPort });
    }
  } catch (error) {
    endWith(error);
  }
}
