/** Starts the example server with a configuration file, in a folder of its own. */
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { freePorts, newFolder, type Running, type Start, start } from "./processes.ts";

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

/** A server that listens. */
export interface Served {
  readonly server: Running;
  readonly url: string;
  readonly port: number;
}

type Surroundings = Omit<Start, "args" | "cwd">;

/** A folder with configuration files, and the servers that were started in it. */
export class Room {
  readonly folder: string = newFolder();
  readonly #running: Running[] = [];

  /** Starts the server with these arguments. */
  run(args: readonly string[], surroundings: Surroundings = {}): Running {
    const running = start("examples/server/main.ts", { args, cwd: this.folder, ...surroundings });
    this.#running.push(running);
    return running;
  }

  /** Writes the file of `--config` and returns its name. */
  write(value: unknown, name = "config.json"): string {
    writeFileSync(join(this.folder, name), typeof value === "string" ? value : JSON.stringify(value));
    return name;
  }

  /** A server that listens on a free port, with {@link configuration}. */
  async serve(): Promise<Served> {
    const port = await freePorts();
    const url = `http://127.0.0.1:${port}`;
    const server = this.run(["--config", this.write({ ...configuration(url), port })]);
    await server.until(/listening on/);
    return { server, url, port };
  }

  /** What it says and how it ends when it can't start. */
  async refused(
    args: readonly string[],
    surroundings: Surroundings = {},
  ): Promise<{ readonly code: number | string; readonly said: string }> {
    const running = this.run(args, surroundings);
    return { code: await running.ended, said: running.said() };
  }

  /** Ends every server that is still running. */
  async stop(): Promise<void> {
    await Promise.all(this.#running.splice(0).map((each) => each.stop("SIGKILL")));
  }

  /** Ends everything and removes the folder. */
  async leave(): Promise<void> {
    await this.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }
}
