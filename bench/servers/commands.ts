/** How a measurement tells a server what to do: `GET /NAME?OPTIONS`, answered with JSON. */
import type { RequestListener } from "node:http";

/** What a server does by name; what it gives is sent back. */
export type Commands = Readonly<Record<string, (options: URLSearchParams) => Promise<unknown>>>;

/** Answers 500 with the message of what went wrong. */
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

/** Milliseconds on a scale that all processes of the machine share. */
export function machineTime(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
