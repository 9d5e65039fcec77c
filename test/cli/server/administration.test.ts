/** The administration listener of the bundled server: its port, its Host, its certificate, and what is said of it. */
import { randomUUID } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "@jest/globals";
import { freePorts, type Running } from "../../examples/processes.ts";
import { configuration, Servers } from "../../examples/servers.ts";
import { newFolder } from "../../closing.ts";
import { sendRaw } from "../../administration/listener-stage.ts";

const LOCAL = { HOST: "127.0.0.1" };
const servers = new Servers();
const started: Running[] = [];
afterEach(async () => {
  await Promise.all(started.splice(0).map((each) => each.stop("SIGKILL")));
});

/** Starts a server with these settings of `admin`. */
async function serve(more: object = {}) {
  const port = await freePorts();
  const adminPort = await freePorts();
  const admin = `http://127.0.0.1:${adminPort}`;
  const file = servers.write({
    ...configuration(`http://127.0.0.1:${port}`),
    storage: `sqlite:./${randomUUID()}.db`,
    port,
    admin: { url: admin, port: adminPort, ...more },
  });
  const server = servers.run(["--config", file], { env: LOCAL });
  started.push(server);
  return { server, admin, adminPort, deployment: `http://127.0.0.1:${port}` };
}

const ask = async (url: string): Promise<number> => (await fetch(url)).status;

describe("the bundled server", () => {
  it("serves administration on a port of its own, prints it, and ends it with itself [D-ADM-85]", async () => {
    const { server, admin, adminPort, deployment } = await serve();
    await server.until(/listening on/);
    expect(server.output()).toContain(`administration on port ${adminPort} at ${admin}`);
    await expect(ask(`${admin}/v1/keys`)).resolves.toBe(401);
    await expect(ask(`${admin}/health/live`)).resolves.toBe(200);
    await expect(ask(`${admin}/health`)).resolves.toBe(200);
    await expect(ask(`${admin}/metrics`)).resolves.not.toBe(200);
    // Neither is where the other is.
    await expect(ask(`${deployment}/v1/keys`)).resolves.toBe(404);
    await expect(ask(`${admin}/account`)).resolves.not.toBe(200);
    const { status, headers } = await sendRaw(admin, [
      "GET /v1/keys HTTP/1.1",
      `Host: ${new URL(deployment).host}`,
      "Connection: close",
    ]);
    expect([status, headers.get("x-frame-options")]).toEqual([421, "DENY"]);
    await server.stop();
    await expect(fetch(`${admin}/health/live`)).rejects.toThrow();
  });

  it("says which port is in use, and which file is no certificate, without its path", async () => {
    const first = await serve();
    await first.server.until(/listening on/);
    const second = await serve({ port: first.adminPort });
    await second.server.until(/admin\.port in the configuration/);
    const folder = newFolder();
    writeFileSync(join(folder, "cert.pem"), "no certificate");
    const tls = { cert: join(folder, "cert.pem"), key: join(folder, "missing.pem") };
    const third = await serve({ url: "https://admin.localhost", tls });
    await third.server.until(/config\.admin\.tls\.key: the file/);
    expect(third.server.output()).not.toContain(folder);
  });
});
