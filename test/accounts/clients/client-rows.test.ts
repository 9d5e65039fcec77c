/** A kind and a setting of clients are a row each: every view has one that a service of the tests adds. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import type { z } from "zod";
import { flag } from "../../../accounts/arguments.ts";
import type { KindOfClient } from "../../../accounts/clients/client-kinds.ts";
import type { AnyNewClient } from "../../../accounts/clients/client-schema.ts";
import { CLIENT_ROWS, type ClientRows, type Setting } from "../../../accounts/clients/client-settings.ts";
import { clientOperations } from "../../../accounts/operations/clients.ts";
import { membersOf } from "../../../accounts/operations/operation.ts";
import { argumentTables } from "../../../build/configuration.ts";
import { kindTable } from "../../../build/tables.ts";
import { commandOf } from "../../../cli/program/operation-command.ts";
import { checkConfigFile } from "../../../cli/server/config-file.ts";
import type { ConfigurationError, Seed, SignInServiceConfig } from "../../../lib/index.ts";
import { createSignInServiceOver, type InternalService } from "../../../lib/service.ts";
import { openStorage } from "../../../records/storage.ts";
import { here } from "../../cli/here.ts";
import { clientAt, signIn } from "../../flows/clients.ts";
import { connect } from "../../flows/devices.ts";
import { ADA, startService, storageIn } from "../../flows/running-service.ts";
import { Browser } from "../../../testing/browser/browser.ts";
import { newProof } from "../../../testing/test-client.ts";

/** A screen in a hall: people sign in at it, and it can keep a secret, but no browser reaches it. */
const KIOSK: KindOfClient = {
  is: "A screen in a public place",
  confidential: true,
  people: true,
  addresses: null,
  grants: ["urn:ietf:params:oauth:grant-type:device_code", "refresh_token"],
  rotates: "always",
  behaves: "standard",
};

/** An extension of a browser: an application that gets the documented answers. */
const PLUGIN: KindOfClient = {
  is: "An extension of a browser",
  confidential: false,
  people: true,
  addresses: "application",
  grants: ["authorization_code", "refresh_token"],
  rotates: "as configured",
  behaves: "documented",
};

/** oidc-provider knows it as metadata. */
const REQUIRE_AUTH_TIME: Setting = {
  value: flag()
    .optional()
    .meta({ form: "`true` or `false`", description: "ID tokens say when the person signed in" }),
  has: ({ people }) => people,
  unset: false,
  stored: "if set",
  isMetadata: true,
};

const ROWS = {
  kinds: { ...CLIENT_ROWS.kinds, kiosk: KIOSK, plugin: PLUGIN },
  settings: { ...CLIENT_ROWS.settings, require_auth_time: REQUIRE_AUTH_TIME },
} as ClientRows;

const TABLE = clientOperations(ROWS);
const SECRET = "0123456789abcdef".repeat(2);
const HALL = { name: "Hall", service: "1", kind: "kiosk", require_auth_time: true };
const JOB = { name: "Job", service: "1", kind: "machine", require_auth_time: true };

let folder: string;
let file: string;
let service: InternalService;

const startOver = async (rows?: ClientRows): Promise<InternalService> => {
  const config = JSON.parse(readFileSync(file, "utf8")) as SignInServiceConfig;
  return createSignInServiceOver(config, openStorage, { clientRows: rows });
};

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "sign-in-clients-"));
  file = join(folder, "config.json");
  const config = { deployments: { openid: { url: "http://localhost:4000" } }, ...(await storageIn(folder)) };
  writeFileSync(file, JSON.stringify(config), { mode: 0o600 });
  service = await startOver(ROWS);
  await service.directory.services.put("1", { name: "1" });
}, 60_000);
afterAll(async () => {
  await service.close();
  rmSync(folder, { recursive: true });
});

const register = (settings: object) => service.clients.register(settings as AnyNewClient);
const update = (client_id: string, changes: object) => service.clients.update(client_id, changes);

const commands = (["register", "update"] as const).map((verb) =>
  commandOf("clients", verb, TABLE, () => service.clients),
);
const cli = (...words: readonly string[]) =>
  here(["clients", ...words, "--config", file], {}, { nouns: { clients: "clients" }, commands });

const problemsIn = async (client: object, rows?: ClientRows): Promise<unknown> => {
  const seed = { services: { 1: { name: "1" } }, clients: [{ client_id: "seeded", ...client }] };
  const config = JSON.parse(readFileSync(file, "utf8")) as object;
  try {
    await checkConfigFile({ ...config, seed }, folder, rows);
    return [];
  } catch (error) {
    return (error as ConfigurationError).problems;
  }
};

describe("a kind and a setting that are added", () => {
  it("are registered, stored, shown and changed", async () => {
    const { client_id, client_secret } = await register(HALL);
    expect(client_secret).toMatch(/^\S{43}$/u);
    expect(await service.clients.record(client_id)).toMatchObject({
      kind: "kiosk",
      grant_types: KIOSK.grants,
      error_status: KIOSK.behaves,
      require_auth_time: true,
    });
    const shown = { kind: "kiosk", require_auth_time: true, redirect_uris: [], effective_origins: [] };
    expect(await service.clients.find(client_id)).toMatchObject(shown);
    expect((await service.clients.list()).items).toContainEqual(expect.objectContaining(shown));
    expect(await update(client_id, { require_auth_time: false })).toMatchObject({ require_auth_time: false });
    expect(await service.clients.record(client_id)).not.toHaveProperty("require_auth_time");
    const { items } = await service.audit.list({ limit: 1 });
    expect(items).toMatchObject([{ action: "client.updated", detail: { fields: "require_auth_time" } }]);
  });

  it.each<[object, RegExp]>([
    [{ ...HALL, require_auth_time: "yes" }, /^client\.require_auth_time: must be true or false$/u],
    [JOB, /^client\.require_auth_time: a machine client can't have it$/u],
    [{ ...HALL, redirect_uris: ["https://a.example"] }, /redirect_uris: a kiosk client can't have it/u],
    [{ ...HALL, refresh_tokens: { rotate: false } }, /the tokens of a kiosk client always rotate$/u],
    [
      { ...HALL, kind: "hall" },
      /^client\.kind: must be one of web, public, machine, device, kiosk, plugin$/u,
    ],
  ])("have the rules of their rows: %j", async (client, says) => {
    await expect(register(client)).rejects.toThrow(says);
    const [, problem = ""] = says.source.split(": ");
    expect(await problemsIn({ client_secret: SECRET, ...client }, ROWS)).toEqual([
      expect.stringMatching(new RegExp(`^config\\.seed\\.clients\\[0\\]\\..*${problem}`, "u")),
    ]);
  });

  it("are in a file, and a seed brings a client to its values", async () => {
    const config = JSON.parse(readFileSync(file, "utf8")) as object;
    const client = { ...HALL, client_id: "seeded", client_secret: SECRET };
    expect(await problemsIn(client, ROWS)).toEqual([]);
    expect(await problemsIn(HALL, ROWS)).toEqual(["config.seed.clients[0].client_secret: is required"]);
    const misplaced = { ...config, require_auth_tine: true };
    await expect(checkConfigFile(misplaced, folder, ROWS)).rejects.toThrow(
      'did you mean "config.seed.clients[0].require_auth_time"?',
    );
    await service.applySeed({ clients: [client] } as unknown as Seed);
    expect(await service.clients.find("seeded")).toMatchObject({ kind: "kiosk", require_auth_time: true });
    await service.applySeed({ clients: [{ ...client, require_auth_time: false }] } as unknown as Seed);
    expect(await service.clients.find("seeded")).toMatchObject({ require_auth_time: false });
  });

  it("are in the table of operations, in the help and in the options of commands", async () => {
    for (const verb of ["register", "update"] as const)
      expect(Object.keys(membersOf(TABLE.rows[verb]))).toContain("require_auth_time");
    expect(Object.keys((TABLE.rows.find.output as unknown as z.ZodObject).shape)).toContain(
      "require_auth_time",
    );
    const help = (await cli("register", "--help")).out.replaceAll(/\s+/gu, " ");
    expect(help).toContain("--require-auth-time yes|no ID tokens say when the person signed in");
    expect(help).toContain("one of web, public, machine, device, kiosk, plugin");
    const words = ["--name", "Hall", "--service", "1", "--kind", "kiosk", "--require-auth-time", "yes"];
    expect(await cli("register", "--client-id", "typed", ...words)).toMatchObject({ code: 0, err: "" });
    expect(await service.clients.find("typed")).toMatchObject({ kind: "kiosk", require_auth_time: true });
    expect(await cli("update", "typed", "--require-auth-time", "no")).toMatchObject({ code: 0, err: "" });
    expect(await service.clients.find("typed")).toMatchObject({ require_auth_time: false });
  });

  it("are what oidc-provider is given", async () => {
    const { client_id } = await register(HALL);
    expect((await service.provider.Client.find(client_id))?.metadata()).toMatchObject({
      require_auth_time: true,
      grant_types: KIOSK.grants,
      token_endpoint_auth_method: "client_secret_basic",
    });
    await update(client_id, { require_auth_time: false });
    expect((await service.provider.Client.find(client_id))?.metadata()).toMatchObject({
      require_auth_time: false,
    });
  });

  it("are what the endpoints and the pages ask", async () => {
    const running = await startService({ clientRows: ROWS, config: { refreshTokens: { rotate: false } } });
    const {
      clients,
      directory: { apis },
    } = running.service;
    await clients.register({ ...HALL, client_id: "hall", client_secret: SECRET } as never);
    const hall = clientAt(running, "openid", { client_id: "hall", client_secret: SECRET });

    await apis.create("https://hall.example", {
      name: "Hall",
      service: "1",
      scopes: { watch: "Watch the hall" },
      introspection: ["hall"],
    });
    expect(await hall.post("/oauth2/introspect", { token: "unknown" })).toMatchObject({
      body: { active: false },
    });
    const open = { client_id: "hall" };
    expect(await hall.post("/oauth2/device", open, {})).toMatchObject({ body: { error: "invalid_client" } });
    expect(await hall.post("/oauth2/par", {})).toMatchObject({ body: { error: "unauthorized_client" } });
    const page = await hall.browser().get(hall.authorizeUrl());
    expect([page.status, page.html]).toEqual([400, expect.stringContaining("a kiosk client has no address")]);

    const codes = await hall.deviceCodes({ scope: "openid" });
    await connect(codes);
    const { body: tokens } = await hall.poll(codes);
    expect(tokens).toMatchObject({ scope: "openid" });
    const { body: refreshed } = await hall.refresh(tokens["refresh_token"]);
    expect(refreshed["refresh_token"]).not.toBe(tokens["refresh_token"]);
    const account = await signIn(await new Browser().get(`${running.openid}/account/services`), ADA);
    expect(account.hasForm("device")).toBe(true);
    expect(account.html).toContain("/openid/device");

    const redirect_uri = "com.example.reader:/callback";
    const reader = {
      kind: "plugin",
      client_id: "reader",
      name: "Reader",
      service: "1",
      native: true,
      redirect_uris: [redirect_uri],
      origins: ["https://reader.example"],
    };
    await clients.register(reader as never);
    await expect(apis.update("https://hall.example", { introspection: ["reader"] })).rejects.toThrow(
      "a plugin client can't prove who it is for introspection",
    );
    const oauth2 = clientAt(running, "oauth2", reader);
    const browser = oauth2.browser();
    const { request, code_verifier } = newProof();
    const unnamed = { ...request, redirect_uri: undefined };
    const issued = await oauth2.code({ ...ADA, browser }, unnamed);
    const answer = await oauth2.exchange(issued, { code_verifier });
    expect(Object.keys(answer.body)).toEqual(["access_token", "token_type", "expires_in", "refresh_token"]);
    const again = await oauth2.refresh(answer.body["refresh_token"], {});
    expect(again.body["refresh_token"]).toBe(answer.body["refresh_token"]);
    await browser.get(oauth2.authorizeUrl({ ...request, prompt: "none" }));
    expect(browser.location?.searchParams.get("error")).toBe("interaction_required");
    const readable = await oauth2.post("/oauth2/token", {}, { origin: "https://reader.example" });
    expect(readable.headers.get("access-control-allow-origin")).toBe("https://reader.example");
  });

  it("are in the generated documents", () => {
    expect(argumentTables(ROWS)["clients"]).toContain(
      "| `require_auth_time` | boolean | none | ID tokens say when the person signed in |",
    );
    expect(kindTable(ROWS.kinds)).toContain(
      "| `kiosk` | A screen in a public place | A secret, or keys (`jwks`) | always rotate | `standard` |",
    );
  });

  it("are unknown to a service that adds none", async () => {
    expect(await problemsIn({ ...HALL, client_secret: SECRET })).toEqual([
      "config.seed.clients[0].kind: must be one of web, public, machine, device",
      expect.stringContaining("unknown key require_auth_time"),
    ]);
  });
});
