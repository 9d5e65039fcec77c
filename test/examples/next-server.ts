/**
 * Stands for Next.js, which is too large to install for a test: it serves the files of `docs/connect/sign-in/your-server.md` as they
 * stand there, with the parts of Next.js that they import.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { dirname, join } from "node:path";
import { buffer } from "node:stream/consumers";
import type { AsyncLocalStorage } from "node:async_hooks";
import type { CookieStore } from "iron-session";
import type { ReactNode } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { createServer as createVite } from "vite";
import type * as Auth from "../../examples/your-application/next.ts";
import { namedBlock, ROOT } from "./documents.ts";

const { APP_URL = "" } = process.env;

mkdirSync(join(ROOT, ".cache"), { recursive: true });
/** Below the root, so that packages are found. */
const folder = mkdtempSync(join(ROOT, ".cache/next-"));

function save(name: string, text: string): string {
  const path = join(folder, name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
  return path;
}

/** The files of the document. */
for (const name of ["app/auth/[action]/route.ts", "app/account/page.tsx"]) save(name, namedBlock(name).code);
save("auth.ts", namedBlock("examples/your-application/next.ts").code);
const alias = {
  "next/headers": save(
    "headers.ts",
    `import { AsyncLocalStorage } from "node:async_hooks";
    export const request = new AsyncLocalStorage();
    export const cookies = async () => request.getStore();`,
  ),
  "next/navigation": save(
    "navigation.ts",
    `export function redirect(location) { throw Object.assign(new Error("redirected"), { location }); }`,
  ),
};
const vite = await createVite({
  root: folder,
  configFile: false,
  appType: "custom",
  logLevel: "error",
  server: { middlewareMode: true, hmr: false, ws: false, watch: null },
  optimizeDeps: { noDiscovery: true },
  oxc: { jsx: { runtime: "automatic" } },
  resolve: { alias },
});
const load = async <Module>(path: string): Promise<Module> => (await vite.ssrLoadModule(path)) as Module;
const { GET, POST } = await load<typeof Auth>("/app/auth/[action]/route.ts");
const { currentUser } = await load<typeof Auth>("/auth.ts");
const { default: Account } = await load<{ default: () => Promise<ReactNode> }>("/app/account/page.tsx");
const { request } = await load<{ request: AsyncLocalStorage<CookieStore> }>("/headers.ts");

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

/** The page of the document. */
async function documented(incoming: IncomingMessage): Promise<Response> {
  try {
    const account = await request.run(cookiesOf(incoming), Account);
    return new Response(renderToStaticMarkup(account), { headers: { "content-type": "text/html" } });
  } catch (error) {
    const { location } = error as { readonly location?: string };
    if (location === undefined) throw error;
    return new Response(null, { status: 307, headers: { location } });
  }
}

/** What the applications of the other frameworks have. */
async function page(incoming: IncomingMessage): Promise<Response> {
  const { pathname } = new URL(incoming.url ?? "", APP_URL);
  if (pathname === "/documented") return documented(incoming);
  const user = await currentUser(cookiesOf(incoming));
  if (pathname === "/account") {
    const location = `/auth/sign-in?to=${encodeURIComponent(incoming.url ?? "/")}`;
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
const server = createServer((incoming, outgoing) => void serve(incoming, outgoing));
server.listen(Number(port), hostname, () => console.log(`listening on ${APP_URL}`));

async function end(): Promise<void> {
  server.close();
  server.closeAllConnections();
  await vite.close();
  rmSync(folder, { recursive: true });
}
process.once("SIGTERM", () => void end());
