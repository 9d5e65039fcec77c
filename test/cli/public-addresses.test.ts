/** What `config check` and `doctor` say about the addresses of public clients. */
import { beforeEach, expect, it } from "@jest/globals";
import { storageChecks } from "../../cli/doctor/storage-checks.ts";
import { checkConfigFile } from "../../cli/server/config-file.ts";
import { readConfiguration } from "../../config/read.ts";
import type { Finding } from "../../cli/doctor/findings.ts";
import { type Domain, openDomain } from "../accounts/open-domain.ts";

let domain: Domain;
beforeEach(async () => {
  domain = await openDomain();
  await domain.directory.services.put("1", { name: "1" });
});

const basic = { kind: "public", name: "App", service: "1" } as const;

/** What `doctor` finds in this storage. */
async function findings(production: boolean): Promise<readonly Finding[]> {
  const check = storageChecks.find(({ id }) => id === "clients");
  const configuration = readConfiguration({
    deployments: { openid: { url: production ? "https://login.example" : "http://127.0.0.1:3000" } },
    storage: "sqlite:./sign-in.db",
    interactions: { theme: { name: "Example" } },
    proxy: false,
  });
  return (await check?.run({ configuration, storage: domain.storage, warnings: [] })) ?? [];
}

it("doctor names addresses that any application can claim, and those of development", async () => {
  const { clients } = domain;
  const redirect_uris = ["com.example.app:/callback", "http://127.0.0.1/callback", "https://app.example/"];
  await clients.register({ ...basic, client_id: "native", native: true, redirect_uris });
  await clients.register({ ...basic, client_id: "page", redirect_uris: ["https://page.example/"] });
  await clients.register({ ...basic, client_id: "draft", redirect_uris: ["http://localhost:5173/"] });
  await clients.register({
    name: "Web",
    service: "1",
    client_id: "web",
    redirect_uris: ["http://127.0.0.1:1/"],
  });
  expect(await findings(false)).toEqual([]);
  expect((await findings(true)).map(({ level, what }) => [level, what])).toEqual([
    [
      "problem",
      "The public client draft has an address that this service does not accept: redirect_uris[0] must be https.",
    ],
    [
      "warning",
      expect.stringMatching(/^The public client native has .* can claim: com\.example\.app:\/callback\.$/u),
    ],
    ["warning", expect.stringMatching(/can claim: http:\/\/127\.0\.0\.1\/callback\.$/u)],
  ]);
});

it("config check refuses addresses for development where others reach the service", async () => {
  const client = { ...basic, client_id: "draft", redirect_uris: ["http://localhost:5173/"] };
  const at = (url: string): unknown => ({
    deployments: { openid: { url } },
    storage: "sqlite:./sign-in.db",
    interactions: { theme: { name: "Example" } },
    proxy: false,
    seed: { services: { 1: { name: "1" } }, clients: [client] },
  });
  await expect(checkConfigFile(at("http://127.0.0.1:3000"))).resolves.toBeDefined();
  await expect(checkConfigFile(at("https://login.example"))).rejects.toMatchObject({
    problems: ["config.seed.clients[0].redirect_uris[0]: must be https"],
  });
});
