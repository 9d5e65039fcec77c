/** The documented configurations of nginx, in an nginx that runs in front of a service. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "@jest/globals";
import { Browser } from "../../testing/browser/browser.ts";
import { namedBlock, textOf } from "../examples/documents.ts";
import { freePorts } from "../examples/processes.ts";
import { startAdministered } from "../administration/listener-stage.ts";
import { clientAt } from "../flows/clients.ts";
import { ADA, NEWS, type RunningService, startService } from "../flows/running-service.ts";
import { programFor } from "../machine.mjs";
import { newFolder } from "../closing.ts";

const nginx = programFor("nginx");
const folder = newFolder();

const OPERATING = namedBlock("proxy-the-service");

const ADMINISTRATION = namedBlock("proxy-the-administration");

/** A documented location in a whole file. */
const placed = (location: string, port: number, upstream: string): string =>
  `events {}\nhttp {\nserver {\nlisten 127.0.0.1:${port};\n${location.replace(/127\.0\.0\.1:\d+/u, upstream)}}\n}\n`;

/** As an administrator would place each: the document has a location, the example a whole file. */
const CONFIGURATIONS = {
  "docs/operate/set-up/behind-a-proxy.md": (port: number, upstream: string) =>
    placed(OPERATING.code, port, upstream),
  "examples/cluster/nginx.conf": (port: number, upstream: string) =>
    textOf("examples/cluster/nginx.conf")
      .replace("server app:3000;", `server ${upstream};`)
      .replace("listen 3000;", `listen 127.0.0.1:${port};`),
};

/** Where nginx writes, if it must: all of it in the folder of the test. */
function filed(text: string): string {
  const kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
  const own = kinds.map((kind) => `${kind}_temp_path ${folder}/${kind};`).join(" ");
  const file = join(folder, "nginx.conf");
  writeFileSync(file, text.replace("http {", `http {\n${own} access_log off;`));
  return file;
}

const settings = (file: string): readonly string[] => [
  "-p",
  folder,
  "-c",
  file,
  "-g",
  `daemon off; master_process off; pid ${folder}/nginx.pid; error_log stderr notice;`,
];

/** What nginx says of a configuration. */
function tested(text: string): readonly [number | null, string] {
  const { status, stderr } = spawnSync(nginx, ["-t", ...settings(filed(text))], { encoding: "utf8" });
  return [status, stderr];
}

/** Resolves when it listens. */
async function startProxy(text: string): Promise<ChildProcess> {
  const proxy = spawn(nginx, settings(filed(text)), { stdio: ["ignore", "ignore", "pipe"] });
  await new Promise<void>((resolve, reject) => {
    let said = "";
    proxy.once("exit", () => reject(new Error(said)));
    proxy.stderr?.setEncoding("utf8").on("data", (more: string) => {
      said += more;
      if (said.includes("event method")) resolve();
    });
  });
  return proxy;
}

async function stopProxy(proxy: ChildProcess): Promise<void> {
  const ended = once(proxy, "exit");
  proxy.kill("SIGTERM");
  await ended;
}

describe.each(Object.entries(CONFIGURATIONS))("the proxy of %s", (_file, configured) => {
  let running: RunningService;
  let proxy: ChildProcess;
  let url: string;

  beforeAll(async () => {
    const port = await freePorts();
    url = `http://localhost:${port}`;
    running = await startService({
      config: { proxy: 1 },
      deployments: () => ({ oauth2: { url }, openid: { url: `${url}/openid` } }),
    });
    proxy = await startProxy(configured(port, new URL(running.origin).host));
  });
  afterAll(() => stopProxy(proxy));
  afterEach(() => {
    expect(running.log.filter((line) => /config\.proxy|"level":[56]0/.test(line))).toEqual([]);
  });

  it("is valid", () => {
    const text = configured(1, "127.0.0.1:2");
    expect(tested(text)).toEqual([0, expect.stringContaining("test is successful")]);
    expect(tested(text.replace("proxy_pass", "proxy_planted"))[0]).toBe(1);
  });

  it.each(["oauth2", "openid"] as const)("signs a person in at %s", async (kind) => {
    const news = clientAt(running, kind, NEWS);
    const { access_token } = await news.signIn(ADA);
    expect(await news.userinfo(access_token)).toMatchObject({ status: 200 });
  });

  it("passes on who asks, and nothing that a caller says about that", async () => {
    const headers = { "x-forwarded-for": "198.51.100.1", "x-forwarded-host": "elsewhere.example" };
    const news = clientAt(running, "oauth2", NEWS);
    const browser = await new Browser({ headers }).get(news.authorizeUrl());
    await browser.submit(browser.form("password"), { username: "ada", password: "not this password" });
    const { items: records } = await running.service.audit.list({ account: running.ada.sub });
    expect(records[0]).toMatchObject({ action: "sign_in", outcome: "failure", address: "127.0.0.0/24" });
  });

  it("passes on the name that the browser used, which leads to the right one", async () => {
    const { search } = new URL(clientAt(running, "oauth2", NEWS).authorizeUrl());
    const other = `${url.replace("localhost", "127.0.0.1")}/oauth2/authorize${search}`;
    const response = await fetch(other, { redirect: "manual", headers: { accept: "text/html" } });
    expect(response.headers.get("location")).toBe(`${url}/oauth2/authorize${search}`);
  });
});

describe("the proxy of docs/operate/set-up/deploying.md, in front of administration", () => {
  it.each([
    ["passes on the Host, and a listener that gets another one answers nothing", ADMINISTRATION.code, 401],
    ["is refused without the Host", ADMINISTRATION.code.replace(/^.* Host .*\n/mu, ""), 421],
    [
      "is refused with X-Forwarded-Host in its place",
      ADMINISTRATION.code.replace("header Host", "header X-Forwarded-Host"),
      421,
    ],
  ])("%s [D-ADM-85]", async (_what, location, status) => {
    const port = await freePorts();
    const url = `http://localhost:${port}`;
    const { admin } = await startAdministered({ admin: { url, proxy: 1 } });
    const proxy = await startProxy(placed(location, port, new URL(admin).host));
    try {
      const { status: got, headers } = await fetch(`${url}/v1/keys`);
      expect([got, headers.get("content-type")]).toEqual([status, "application/problem+json"]);
    } finally {
      await stopProxy(proxy);
    }
  });
});

describe("a documented proxy", () => {
  it.each([...Object.keys(CONFIGURATIONS), "docs/operate/set-up/deploying.md"])(
    "sets no header twice: %s",
    (file) => {
      const names = [...textOf(file).matchAll(/^ *proxy_set_header (\S+) /gmu)].map(([, name]) => name);
      expect(names).toHaveLength(new Set(names).size);
    },
  );
});
