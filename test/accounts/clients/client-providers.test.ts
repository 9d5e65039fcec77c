/** `providers` and `providers_mfa` of clients, in every view: library, seed, file, command line, record and audit. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { offersProvider } from "../../../accounts/providers.ts";
import { checkConfigFile } from "../../../cli/server/config-file.ts";
import type { ConfigurationError, SignInServiceConfig } from "../../../lib/index.ts";
import { createSignInServiceOver, type InternalService } from "../../../lib/service.ts";
import { openStorage } from "../../../records/storage.ts";
import { here } from "../../cli/here.ts";
import { storageIn } from "../../flows/running-service.ts";

const SECRET = "0123456789abcdef".repeat(2);
const PROVIDER = { client_id: "sign-in", client_secret: "s3cret" };
const NEWS = { name: "News", service: "1", redirect_uris: ["https://news.example/cb"] };
const MANY = Array.from({ length: 31 }, (_, index) => `a${index}`);

let folder: string;
let file: string;
let service: InternalService;
let config: SignInServiceConfig;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "sign-in-client-providers-"));
  file = join(folder, "config.json");
  const written = {
    deployments: { openid: { url: "http://localhost:4000" } },
    providers: { google: PROVIDER, github: PROVIDER },
    ...(await storageIn(folder)),
  };
  writeFileSync(file, JSON.stringify(written), { mode: 0o600 });
  config = JSON.parse(readFileSync(file, "utf8")) as SignInServiceConfig;
  service = await createSignInServiceOver(config, openStorage);
  await service.directory.services.put("1", { name: "1" });
}, 60_000);
afterAll(async () => {
  await service.close();
  rmSync(folder, { recursive: true });
});

const cli = (...words: readonly string[]) => here(["clients", ...words, "--config", file]);
const stored = async (client_id: string) => (await service.clients.record(client_id))!;
const offered = async (client_id: string) => {
  const record = await stored(client_id);
  return service.configuration.providers
    .filter((provider) => offersProvider(record, provider))
    .map(({ key }) => key);
};

/** The problems of a file with this client in its seed. */
async function problemsIn(client: object): Promise<readonly string[]> {
  const seed = {
    services: { 1: { name: "1" } },
    clients: [{ ...NEWS, client_id: "seeded", client_secret: SECRET, ...client }],
  };
  try {
    await checkConfigFile({ ...config, seed }, folder);
    return [];
  } catch (error) {
    return (error as ConfigurationError).problems;
  }
}

describe("the providers of a client", () => {
  it("are all unless it names some; an empty list is none [D-PROV-6]", async () => {
    const { client_id } = await service.clients.register(NEWS);
    expect(await service.clients.find(client_id)).toMatchObject({ providers: null, providers_mfa: false });
    expect(await stored(client_id)).not.toHaveProperty("providers");
    expect(await offered(client_id)).toEqual(["google", "github"]);
    expect(
      await service.clients.update(client_id, { providers: ["github"], providers_mfa: true }),
    ).toMatchObject({ providers: ["github"], providers_mfa: true });
    expect(await stored(client_id)).toMatchObject({ providers: ["github"], providers_mfa: true });
    expect(await offered(client_id)).toEqual(["github"]);
    expect((await service.audit.list({ limit: 1 })).items).toMatchObject([
      { action: "client.updated", detail: { fields: "providers providers_mfa" } },
    ]);
    await service.clients.update(client_id, { providers: [] });
    expect(await offered(client_id)).toEqual([]);
    expect(await service.clients.update(client_id, { providers: null, providers_mfa: false })).toMatchObject({
      providers: null,
      providers_mfa: false,
    });
    expect(await stored(client_id)).not.toHaveProperty("providers");
  });

  it.each<[unknown, string]>([
    [["gogle"], "providers[0]: is not a key of config.providers; did you mean google?"],
    [["google", "corp"], "providers[1]: is not a key of config.providers"],
    [["__proto__"], "providers[0]: is not a key of config.providers"],
    [["constructor"], "providers[0]: is not a key of config.providers"],
    [["Google"], "providers[0]: is not a key of config.providers; did you mean google?"],
    [["google", "google"], "providers: must not have a provider twice"],
    ["google", "providers: must be a list of at most 30 keys of providers"],
    [MANY, "providers: must be a list of at most 30 keys of providers"],
    [[5], "providers[0]: must be a string"],
  ])("can't be %j [D-PROV-6]", async (providers, problem) => {
    const given = { ...NEWS, providers: providers as string[] };
    await expect(service.clients.register(given)).rejects.toThrow(`client.${problem}`);
    const { client_id } = await service.clients.register(NEWS);
    await expect(service.clients.update(client_id, given)).rejects.toThrow(`client.${problem}`);
    expect(await problemsIn({ providers })).toEqual([expect.stringContaining(problem)]);
  });

  it("are of kinds that people sign in to", async () => {
    const machine = { name: "Job", service: "1", kind: "machine", providers: ["google"] } as const;
    await expect(service.clients.register(machine)).rejects.toThrow("a machine client can't have it");
    expect(await problemsIn({ providers_mfa: "yes" })).toEqual([
      "config.seed.clients[0].providers_mfa: must be true or false",
    ]);
  });

  it("are in a seed and in commands", async () => {
    const seeded = { ...NEWS, client_id: "seeded", client_secret: SECRET, providers: ["google"] };
    expect(await problemsIn(seeded)).toEqual([]);
    await service.applySeed({ clients: [seeded] });
    expect(await offered("seeded")).toEqual(["google"]);
    await expect(service.applySeed({ clients: [{ ...seeded, providers: ["corp"] }] })).rejects.toThrow(
      "providers[0]: is not a key of config.providers",
    );
    const update = await cli("update", "seeded", "--provider", "github", "--providers-mfa", "yes");
    expect(update).toMatchObject({ code: 0, err: "" });
    expect(await service.clients.find("seeded")).toMatchObject({
      providers: ["github"],
      providers_mfa: true,
    });
    expect((await cli("update", "seeded", "--provider", "corp")).err).toContain(
      "is not a key of config.providers",
    );
    expect(await cli("update", "seeded", "--remove", "provider")).toMatchObject({ code: 0, err: "" });
    expect(await offered("seeded")).toEqual(["google", "github"]);
  });
});
