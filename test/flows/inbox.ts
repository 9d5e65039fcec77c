/** A server for the notifications of many receivers, one per path. */
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** A received POST. */
export interface Arrived {
  readonly path: string;
  readonly method: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  /** `webhook-id`. */
  readonly id: string;
}

/** A status, or a function that responds. */
export type Reaction = number | ((response: ServerResponse) => void);

export interface Inbox {
  readonly arrived: Arrived[];
  /** The response to each POST. Default 200. */
  react: (post: Arrived) => Reaction;
  /** The URL of a receiver. */
  url(path: string): string;
  /** Resolves when the condition is true. */
  until(enough: (arrived: readonly Arrived[]) => boolean): Promise<void>;
  close(): Promise<void>;
}

export async function openInbox(): Promise<Inbox> {
  const arrived: Arrived[] = [];
  const waiting = new Set<() => void>();
  const inbox = { react: () => 200 } as { react: Inbox["react"] };
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      const { headers, url = "", method = "" } = request;
      const body = Buffer.concat(parts).toString();
      const post = { path: url, method, headers, body, id: String(headers["webhook-id"]) };
      arrived.push(post);
      const reaction = inbox.react(post);
      if (typeof reaction === "number") response.writeHead(reaction).end();
      else reaction(response);
      for (const look of waiting) look();
    });
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return Object.assign(inbox, {
    arrived,
    url: (path: string) => `http://127.0.0.1:${port}${path}`,
    until: (enough: (all: readonly Arrived[]) => boolean) =>
      new Promise<void>((resolve) => {
        const look = (): void => {
          if (!enough(arrived)) return;
          waiting.delete(look);
          resolve();
        };
        waiting.add(look);
        look();
      }),
    async close() {
      const closed = new Promise((resolve) => void server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  });
}
