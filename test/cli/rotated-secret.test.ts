/** A client's secret that was rotated stays so after a restart with a seed, until an operator applies the seed's. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, expect, it } from "@jest/globals";
import { clientAt } from "../flows/clients.ts";
import { ADA, NEWS, type RunningService, startService, storageIn } from "../flows/running-service.ts";
import type { StorageConfig } from "../servers/storage.ts";
import { here, type Outcome } from "./here.ts";
import { newFolder } from "../closing.ts";

let folder: string;
let storage: StorageConfig;
let running: RunningService;

beforeEach(async () => {
  folder = newFolder();
  storage = await storageIn(folder);
  running = await startService({ config: storage });
});

/** Every start applies the seed, which has the client `news`. */
async function restart(): Promise<void> {
  await running.close();
  running = await startService({ config: storage });
}

function command(words: readonly string[], clients: readonly unknown[] = [NEWS]): Promise<Outcome> {
  const deployments = { oauth2: { url: running.oauth2 }, openid: { url: running.openid } };
  const path = join(folder, "config.json");
  writeFileSync(path, JSON.stringify({ deployments, ...storage, seed: { clients } }));
  return here([...words, "--config", path]);
}

const statusWith = async (client_secret: string): Promise<number> =>
  (await clientAt(running, "oauth2", { ...NEWS, client_secret }).password(ADA)).status;

const warnings = (): readonly string[] =>
  running.log.filter((line) => line.includes('"level":40') && line.includes("seed: "));

it("a leaked secret that was rotated never works again, and a warning says how to set the seed's [D-SEED-2]", async () => {
  expect([await statusWith(NEWS.client_secret), warnings()]).toEqual([200, []]);
  const rotated = await command(["clients", "rotate-secret", "news", "--yes", "--json"]);
  const { client_secret } = JSON.parse(rotated.out) as { client_secret: string };
  for (let start = 0; start < 2; start += 1) {
    await restart();
    expect([await statusWith(NEWS.client_secret), await statusWith(client_secret)]).toEqual([400, 200]);
    expect(warnings()).toEqual([expect.stringContaining("clients rotate-secret news --from-seed")]);
    expect(running.log.join("\n")).not.toContain(NEWS.client_secret);
  }
  const applied = await command(["clients", "rotate-secret", "news", "--from-seed", "--yes"]);
  expect([applied.code, applied.out]).toEqual([0, expect.stringContaining("news")]);
  expect(applied.out + applied.err).not.toContain(NEWS.client_secret);
  expect([await statusWith(NEWS.client_secret), await statusWith(client_secret)]).toEqual([200, 400]);
  await restart();
  expect(warnings()).toEqual([]);
});

it("the command wants a client that the seed gives a secret, and asks before it replaces one [D-SEED-2]", async () => {
  const words = ["clients", "rotate-secret", "news", "--from-seed"];
  const cases: readonly (readonly [Outcome, RegExp])[] = [
    [await command(words), /confirm it with --yes/],
    [await command([...words, "--yes"], []), /no secret and no keys of this client/],
    [await command([...words, "--yes", "--keep-old-for", "1d"]), /exclude each other/],
    [await command(["clients", "rotate-secret", "nobody", "--from-seed", "--yes"]), /no such client/],
  ];
  for (const [{ code, out, err }, says] of cases)
    expect([code === 0, out, err]).toEqual([false, "", expect.stringMatching(says)]);
  expect(await statusWith(NEWS.client_secret)).toBe(200);
});
