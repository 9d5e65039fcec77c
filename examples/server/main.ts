/** `npm start`: the service as a process of its own, with a demo or with your configuration. */
import { pino } from "pino";
import { readEnvironment, type Environment } from "../../config/environment.ts";
import { SignInError } from "../../lib/index.ts";
import { readCommandLine, USAGE } from "./command-line.ts";
import { readConfigFile } from "./config-file.ts";
import { DEMO_PORT, demoSeed } from "./demo.ts";
import { refuseDemoSecrets } from "./demo-secrets.ts";
import { Opened } from "./opened.ts";
import { startDemo } from "./start-demo.ts";
import { FAILED, StartFailure } from "./start-failure.ts";
import { endWithNpm, onStopSignal } from "./stop-signals.ts";

async function startConfigured(
  opened: Opened,
  path: string,
  { environment, port }: { readonly environment: Environment; readonly port: number | undefined },
): Promise<void> {
  const file = await readConfigFile(path);
  refuseDemoSecrets(file, demoSeed());
  const logger = pino({ name: "sign-in-service", level: environment.logLevel });
  const listener = await opened.listen(port ?? environment.port ?? file.port ?? DEMO_PORT, environment.host);
  const service = await opened.serve(file, { listener, logger });
  const { oauth2, openid } = service.configuration.deployments;
  const urls = [oauth2, openid].flatMap((deployment) => deployment?.url ?? []);
  console.log(`listening on port ${listener.port} for ${urls.join(" and ")}`);
}

/** What is wrong, for a person: sentences, never a stack. */
function sentencesOf(error: unknown): string {
  if (error instanceof StartFailure || error instanceof SignInError) return error.message;
  const { name = "an unknown error", code } = error as { name?: string; code?: unknown };
  return `The service could not start: ${typeof code === "string" ? code : name}.`;
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
    console.error(sentencesOf(error));
    process.exit(error instanceof StartFailure ? error.exitCode : FAILED);
  }
}

await main(process.argv.slice(2));
