/** `npm start`: the service as a process of its own, with a demo or with your configuration. */
import { pino } from "pino";
import { readEnvironment, type Environment } from "../../config/environment.ts";
import { createApplication } from "./application.ts";
import { readCommandLine, USAGE } from "./command-line.ts";
import { readConfigFile } from "./config-file.ts";
import { DEMO_PORT, demoSeed } from "./demo.ts";
import { refuseDemoSecrets } from "./demo-secrets.ts";
import { requirePort } from "./listener.ts";
import { listenerOf, Opened } from "./opened.ts";
import { startDemo } from "./start-demo.ts";
import { endWith } from "./start-failure.ts";
import { endWithNpm, onStopSignal } from "./stop-signals.ts";

async function startConfigured(
  opened: Opened,
  path: string,
  { environment, port }: { readonly environment: Environment; readonly port: number | undefined },
): Promise<void> {
  const file = await readConfigFile(path);
  refuseDemoSecrets(file, demoSeed());
  const logger = pino({ name: "sign-in-service", level: environment.logLevel });
  const place = [port ?? environment.port ?? file.port ?? DEMO_PORT, environment.host] as const;
  // Told before anything is opened.
  await requirePort(...place);
  const service = await opened.openService(file, logger);
  const listener = await opened.listen(...place);
  listener.serve(listenerOf(createApplication(service, logger)));
  const { oauth2, openid } = service.configuration.deployments;
  const urls = [oauth2, openid].flatMap((deployment) => deployment?.url ?? []);
  console.log(`listening on port ${listener.port} for ${urls.join(" and ")}`);
}

async function main(args: readonly string[]): Promise<void> {
  const opened = new Opened();
  onStopSignal(() => opened.close());
  try {
    const { help, config, ...asked } = readCommandLine(args);
    if (help) {
      console.log(USAGE);
      process.exit(0);
    }
    const environment = readEnvironment();
    if (environment.byNpm) endWithNpm();
    if (config === undefined) await startDemo(opened, { environment, ...asked });
    else await startConfigured(opened, config, { environment, port: asked.port });
  } catch (error) {
    endWith(error);
  }
}

await main(process.argv.slice(2));
