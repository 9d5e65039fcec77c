/** Commands of a measurement to a server: `GET /NAME?OPTIONS`, answered with JSON. */
import type { RequestListener } from "node:http";

/** The commands of a server, by name. Their results are sent back. */
export type Commands = Readonly<Record<string, (options: URLSearchParams) => Promise<unknown>>>;

/** Responds to an error with 500 and its message. */
export function obey(commands: Commands): RequestListener {
  return (request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? "/", "http://127.0.0.1");
    const command = commands[pathname.slice(1)];
    if (command === undefined) {
      response.writeHead(404).end();
      return;
    }
    void command(searchParams).then(
      (result) => response.end(JSON.stringify(result ?? null)),
      (error: unknown) => response.writeHead(500).end(String(error)),
    );
  };
}

/** Milliseconds on a clock that all processes of the machine share. */
export function machineTime(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
