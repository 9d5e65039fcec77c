import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { Browser } from "../../testing/browser/browser.ts";
import { readCookie } from "../../testing/browser/cookie-jar.ts";
import { readForms } from "../../testing/browser/forms.ts";

const PAGE = `<!doctype html><h1>Form</h1>
<form method="post" action="/echo"><input type="hidden" name="csrf" value="a&amp;b"><input name="name" value="old">
<input type="checkbox" name="no" value="1"><input type="checkbox" name="yes" value="1" checked>
<select name="pick"><option value="a">A</option><option value="b" selected>B</option></select>
<textarea name="text">
words</textarea><input name="off" disabled value="x"><button type="submit" name="go" value="now">Go</button></form>
<input name="stray" value="x"><form><input name="q"></form><a href="/hop?n=3">Hop</a>`;

async function echo(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const { origin, cookie } = request.headers;
  const body = Buffer.concat(chunks).toString();
  response.end(JSON.stringify({ method: request.method, body, origin, cookie }));
}

const answer: RequestListener = (request, response) => {
  const url = new URL(request.url ?? "/", "http://x");
  const n = Number(url.searchParams.get("n"));
  if (url.pathname === "/hop" && n > 0) {
    response.writeHead(303, { location: `/hop?n=${n - 1}`, "set-cookie": `hop${n}=${n}; Path=/hop` }).end();
  } else if (url.pathname === "/away") {
    response.writeHead(302, { location: "http://client.test/callback?code=1" }).end();
  } else if (url.pathname === "/echo") {
    void echo(request, response);
  } else response.end(url.pathname === "/hop" ? (request.headers.cookie ?? "none") : PAGE);
};

describe("the browser of the tests", () => {
  let server: Server;
  let base: string;
  beforeAll(async () => {
    server = createServer(answer);
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
    base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  afterAll(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => void server.close(resolve));
  });

  it("follows redirects and sends their cookies, to their path only", async () => {
    const browser = await new Browser().get(`${base}/`);
    await browser.click("Hop");
    expect(browser.visits.map(({ status }) => status)).toEqual([303, 303, 303, 200]);
    expect(browser.html).toBe("hop3=3; hop2=2; hop1=1");
    await browser.get("/echo");
    expect(JSON.parse(browser.html)).toEqual({ method: "GET", body: "" });
  });

  it("stops at the first response, at the given addresses, and in a redirect loop", async () => {
    const browser = new Browser({ stopAt: "http://client.test/callback" });
    await browser.get(`${base}/away`);
    expect([browser.status, browser.location?.search]).toEqual([302, "?code=1"]);
    await browser.getOnly(`${base}/hop?n=2`);
    expect([browser.status, browser.location?.href]).toEqual([303, `${base}/hop?n=1`]);
    await expect(browser.get("/hop?n=30")).rejects.toThrow("more than 20 redirects");
  });

  it("submits hidden fields, checkboxes, selections and typed text, as a browser does", async () => {
    const browser = await new Browser().get(`${base}/`);
    await browser.submit(browser.form("name"), { name: "Zoë & co", go: "now" });
    expect(JSON.parse(browser.html)).toEqual({
      method: "POST",
      body: "csrf=a%26b&name=Zo%C3%AB+%26+co&yes=1&pick=b&text=words&go=now",
      origin: base,
    });
    expect(() => browser.form("stray")).toThrow("has 0 forms");
    expect(readForms(PAGE, new URL(base)).map(({ method, fields }) => [method, fields.length])).toEqual([
      ["POST", 5],
      ["GET", 1],
    ]);
  });

  it("refuses the cookies that browsers refuse, and drops expired ones", async () => {
    const https = new URL("https://login.example/a/b");
    const take = (header: string, url = https) => readCookie(header, url, 1_000);
    expect(take("a=1; Domain=other.example")).toBeUndefined();
    expect(take("a=1; Secure", new URL("http://login.example/"))).toBeUndefined();
    expect(take("__Host-a=1; Secure; Path=/; Domain=login.example")).toBeUndefined();
    expect(take("__Secure-a=1")).toBeUndefined();
    expect(take("__Host-a=1; Secure; Path=/")).toMatchObject({ hostOnly: true, path: "/" });
    expect(take("a=1; Domain=example")).toMatchObject({ domain: "example", hostOnly: false, path: "/a" });
    expect(take("a=; Expires=Thu, 01 Jan 1970 00:00:00 GMT")).toMatchObject({ expires: 0 });
    expect(take("a=1; Max-Age=5; Expires=Thu, 01 Jan 1970 00:00:00 GMT")).toMatchObject({ expires: 6_000 });
    const { jar } = new Browser({ now: () => 10 });
    jar.take(https, ["a=1; Path=/; Secure", "b=2; Path=/a"]);
    expect(jar.header(https)).toBe("b=2; a=1");
    expect(jar.header(new URL("http://login.example/ab"))).toBe("");
    jar.take(https, ["a=; Path=/; Secure; Expires=Thu, 01 Jan 1970 00:00:00 GMT"]);
    expect(jar.all().map(({ name }) => name)).toEqual(["b"]);
  });
});
