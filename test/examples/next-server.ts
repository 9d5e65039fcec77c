/**
 * Stands for Next.js, which is too large to install for a test: it calls the handlers of
 * `examples/your-application/next.ts` as Next.js does, and has the pages of `docs/your-application.md`.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { buffer } from "node:stream/consumers";
import type { CookieStore } from "iron-session";
import { currentUser, GET, POST } from "../../examples/your-application/next.ts";

const { APP_URL = "" } = process.env;

/** The cookies of a request, which pages can read and not set. */
function cookiesOf({ headers }: IncomingMessage): CookieStore {
  const pairs = (headers.cookie ?? "").split("; ").map((pair) => pair.split("=", 2));
  const found = new Map(pairs.map(([name = "", value = ""]) => [name, { name, value }]));
  return {
    get: (name) => found.get(name),
    set() {
      throw new Error("a page can't set cookies");
    },
  };
}

async function page(request: IncomingMessage): Promise<Response> {
  const { pathname } = new URL(request.url ?? "/", APP_URL);
  const user = await currentUser(cookiesOf(request));
  if (pathname === "/account") {
    const location = `/auth/sign-in?to=${encodeURIComponent(request.url ?? "/")}`;
    return user === undefined
      ? new Response(null, { status: 303, headers: { location } })
      : Response.json(user);
  }
  const html = user === undefined ? '<a href="/auth/sign-in">Sign in</a>' : '<a href="/account">Account</a>';
  return new Response(html, { headers: { "content-type": "text/html" } });
}

async function respond(incoming: IncomingMessage): Promise<Response> {
  const { method = "GET", url = "/" } = incoming;
  if (!url.startsWith("/auth/")) return page(incoming);
  const headers = new Headers({ cookie: incoming.headers.cookie ?? "" });
  if (method === "GET") return GET(new Request(new URL(url, APP_URL), { headers }));
  return POST(new Request(new URL(url, APP_URL), { method, headers, body: await buffer(incoming) }));
}

async function serve(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  const response = await respond(incoming);
  outgoing.writeHead(response.status, [...response.headers].flat());
  outgoing.end(Buffer.from(await response.arrayBuffer()));
}

const { port, hostname } = new URL(APP_URL);
createServer((incoming, outgoing) => void serve(incoming, outgoing)).listen(Number(port), hostname, () =>
  console.log(`listening on ${APP_URL}`),
);
