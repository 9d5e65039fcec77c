/** A disk without room: no server can write, each says so, and goes on by itself when there is room. */
import { rmSync, statfsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { afterEach, expect, it } from "@jest/globals";
import { configuration, SECRET, Servers } from "../examples/servers.ts";
import { freePorts, type Running, startProgram } from "../examples/processes.ts";

const ROOT = join(import.meta.dirname, "../..");
const servers = new Servers();
let server: Running | undefined;
afterEach(async () => {
  await server?.stop("SIGKILL");
});

/** A file system of 4 MB in memory, which only this process sees and which ends with it. */
const IN_SMALL_PLACE = 'mount -t tmpfs -o size=4m tmpfs "$0" && exec "$@"';

it("SQLite on a full disk: 503, live, readable, and again in service as soon as there is room [D-HEALTH-4, D-HEALTH-6]", async () => {
  const port = await freePorts();
  const url = `http://127.0.0.1:${port}`;
  const place = join(servers.folder, "small");
  const file = join(
    servers.folder,
    servers.write({ ...configuration(url), storage: `sqlite:${place}/a.db`, port }),
  );
  const serve = [process.execPath, join(ROOT, "cli/main.ts"), "serve", "--config", file];
  const inside = `mkdir -p "$0" && ${IN_SMALL_PLACE}`;
  server = startProgram("unshare", {
    args: ["--user", "--map-root-user", "--mount", "sh", "-c", inside, place, ...serve],
    cwd: servers.folder,
  });
  await server.until(/listening on/);
  const statusOf = async (path: string, init?: RequestInit): Promise<number> =>
    (await fetch(`${url}${path}`, init)).status;
  const signIn = (): Promise<number> =>
    statusOf("/oauth2/token", {
      method: "POST",
      body: new URLSearchParams({
        client_id: "news",
        client_secret: SECRET,
        grant_type: "password",
        username: "ada",
        password: "analytical-engine",
      }),
    });
  expect([await statusOf("/health"), await signIn()]).toEqual([200, 200]);
  // The process sees it there, and so does whoever looks through the process.
  const seen = `/proc/${server.pid}/root${place}`;
  const filling = join(seen, "filling");
  const { bavail, bsize } = statfsSync(seen);
  const fill = (left: number): void =>
    writeFileSync(filling, Buffer.alloc(Math.max(0, bavail * bsize - left)));
  fill(0);
  // The write-ahead log may have room for some more.
  while ((await signIn()) !== 503);
  while ((await statusOf("/health")) !== 503) await pause(100);
  expect(await statusOf("/health/live")).toBe(200);
  expect(await statusOf("/openid/.well-known/openid-configuration")).toBe(200);
  const lines = server.output().split("\n");
  expect(
    lines.some((line) => line.includes('"level":50') && /SQLITE_FULL|disk is full|full/i.test(line)),
  ).toBe(true);
  rmSync(filling);
  while ((await statusOf("/health")) !== 200) await pause(100);
  expect(await signIn()).toBe(200);
  expect(server.output()).not.toContain("analytical-engine");
}, 60_000);
