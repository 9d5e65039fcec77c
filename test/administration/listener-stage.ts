/** A service with its administration listener. */
import { createServer, type Server } from "node:http";
import { connect } from "node:net";
import Koa from "koa";
import type { SignInServiceConfig } from "../../config/input.ts";
import { atEnd } from "../closing.ts";
import { listen, type RunningOptions, type RunningService, startService } from "../flows/running-service.ts";

export interface Administered extends RunningService {
  /** The origin of the console and of `/v1`. */
  readonly admin: string;
}

/** Starts a service with `admin`, which closes by itself at the end of the test or of the file. */
export async function startAdministered(
  options: RunningOptions & { readonly admin?: Partial<NonNullable<SignInServiceConfig["admin"]>> } = {},
): Promise<Administered> {
  const server = createServer({ keepAliveTimeout: 0 });
  const admin = await listen(server, 0);
  atEnd(() => closed(server));
  const { admin: more, ...rest } = options;
  const running = await startService({
    ...rest,
    config: { ...rest.config, admin: { url: admin, ...more } },
  });
  const application = new Koa();
  application.use(running.service.administration());
  const answer = application.callback();
  server.on("request", (request, response) => void answer(request, response));
  return { ...running, admin };
}

async function closed(server: Server): Promise<void> {
  const ended = new Promise((resolve) => void server.close(resolve));
  server.closeAllConnections();
  await ended;
}

/** Sends bytes as they are. @returns the status and the headers, by their names in lower case, and the body. */
export async function sendRaw(
  origin: string,
  lines: readonly string[],
): Promise<{
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
  readonly body: string;
}> {
  const { hostname, port } = new URL(origin);
  const text = await new Promise<string>((resolve, reject) => {
    let received = "";
    const socket = connect(Number(port), hostname);
    socket.setEncoding("utf8");
    socket.on("data", (chunk: string) => (received += chunk));
    socket.once("end", () => resolve(received));
    socket.once("error", reject);
    socket.end(`${lines.join("\r\n")}\r\n\r\n`);
  });
  const [head = "", ...body] = text.split("\r\n\r\n");
  const [first = "", ...fields] = head.split("\r\n");
  const headers = fields.map((line) => {
    const at = line.indexOf(":");
    return [line.slice(0, at).toLowerCase(), line.slice(at + 1).trim()] as const;
  });
  return { status: Number(first.split(" ")[1]), headers: new Map(headers), body: body.join("\r\n\r\n") };
}
