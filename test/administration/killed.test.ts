/** A server that is killed while it carries out requests with an `Idempotency-Key`. */
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "@jest/globals";
import { freePorts, newFolder, type Running, start } from "../examples/processes.ts";

/** Requests that are under way at once. */
const AT_ONCE = 8;
/** How many have an answer when the server is killed. */
const ANSWERED = 40;

it("has made both the account and the record of its key, or neither, and a repeat makes no second one [D-ADM-48]", async () => {
  const folder = newFolder();
  const port = await freePorts(2);
  const admin = port + 1;
  const origin = `http://127.0.0.1:${admin}`;
  await writeFile(
    join(folder, "config.json"),
    JSON.stringify({
      port,
      deployments: { openid: { url: `http://127.0.0.1:${port}/openid` } },
      storage: `sqlite:${join(folder, "sign-in.db")}`,
      admin: { port: admin, url: origin },
    }),
  );
  const options = { cwd: folder };
  async function begin(): Promise<Running> {
    const running = start("cli/main.ts", { args: ["serve", "--config", "config.json"], ...options });
    await running.until(/listening on/u);
    return running;
  }
  let server = await begin();
  try {
    const args = ["tokens", "create", "--role", "administrator", "--expires", "1d", "--json"];
    const made = start("cli/main.ts", { args: [...args, "--config", "config.json"], ...options });
    const [, token = ""] = await made.until(/"token":"(sis_[^"]+)"/u);
    await made.ended;
    async function create(name: string): Promise<readonly [status: number, sub: string]> {
      const answer = await fetch(`${origin}/v1/accounts`, {
        method: "POST",
        headers: {
          Authorization: `Bearer ${token}`,
          "Content-Type": "application/json",
          "Idempotency-Key": name,
        },
        body: JSON.stringify({ email: `${name}@example.com` }),
      });
      return [answer.status, ((await answer.json()) as { readonly sub: string }).sub];
    }
    const sent: string[] = [];
    const known = new Map<string, string>();
    let isDead = false;
    async function load(): Promise<void> {
      while (!isDead) {
        const name = `person-${sent.length}`;
        sent.push(name);
        const [status, sub] = await create(name).catch(() => [0, ""] as const);
        if (status === 201) known.set(name, sub);
        if (known.size >= ANSWERED && !isDead) {
          isDead = true;
          await server.stop("SIGKILL");
        }
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, load));
    server = await begin();
    for (const name of sent) {
      const [status, sub] = await create(name);
      expect([name, status, sub]).toEqual([name, 201, known.get(name) ?? expect.any(String)]);
      expect(await create(name)).toEqual([201, sub]);
    }
  } finally {
    await server.stop("SIGKILL");
    await rm(folder, { recursive: true });
  }
});
