/** Runs the bundled server with configuration files in its own folder. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { configurationVariables, readEnvironment } from "../../config/environment.ts";
import { here } from "../cli/here.ts";
import { atEnd, newFolder } from "../closing.ts";
import { freePorts, type Running, type Start, start } from "./processes.ts";

/** The secret of the client of {@link configuration}. */
export const SECRET = "a secret of at least 16 characters";

/** A configuration with one client and one account. */
export function configuration(url: string): Record<string, unknown> {
  return {
    deployments: { oauth2: { url }, openid: { url: `${url}/openid` } },
    storage: "sqlite:./sign-in.db",
    seed: {
      services: { "1": { name: "News" } },
      clients: [
        {
          client_id: "news",
          client_secret: SECRET,
          redirect_uris: ["http://127.0.0.1:3001/callback"],
          service: "1",
          password_grant: true,
        },
      ],
      accounts: [{ email: "ada@example.com", username: "ada", password: "analytical-engine", name: "Ada" }],
    },
  };
}

/** A running server. */
export interface Served {
  readonly server: Running;
  readonly url: string;
  readonly port: number;
}

type ProcessOptions = Omit<Start, "args" | "cwd">;

/** A folder with configuration files, and the servers that run in it until the end of the test or of the file. */
export class Servers {
  readonly folder: string = newFolder();
  readonly #running: Running[] = [];

  /** Starts the server with these arguments. */
  run(args: readonly string[], options: ProcessOptions = {}): Running {
    const running = start("cli/main.ts", { args: ["serve", ...args], cwd: this.folder, ...options });
    this.#running.push(running);
    atEnd(() => running.stop("SIGKILL"));
    return running;
  }

  /** Writes the file of `--config` and returns its name. */
  write(value: unknown, name = "config.json"): string {
    writeFileSync(join(this.folder, name), typeof value === "string" ? value : JSON.stringify(value), {
      mode: 0o600,
    });
    return name;
  }

  /** Starts a server on a free port, with {@link configuration}. */
  async serve(): Promise<Served> {
    const port = await freePorts();
    const url = `http://127.0.0.1:${port}`;
    const server = this.run(["--config", this.write({ ...configuration(url), port })]);
    await server.until(/listening on/);
    return { server, url, port };
  }

  /** Runs a server that fails in this process, and returns its output and exit code. */
  async refused(
    args: readonly string[],
    { env = {} }: Pick<Start, "env"> = {},
  ): Promise<{ readonly code: number; readonly output: string }> {
    const before = process.cwd();
    process.chdir(this.folder);
    try {
      const { code, out, err } = await here(["serve", ...args], {
        environment: () => readEnvironment(env),
        variables: configurationVariables(env),
      });
      return { code, output: out + err };
    } finally {
      process.chdir(before);
    }
  }

  /** Kills all running servers before. */
  async stop(): Promise<void> {
    await Promise.all(this.#running.splice(0).map((each) => each.stop("SIGKILL")));
  }
}
