/** `keys reset --lost`: what is void when `keys.secrets` are lost, what stays, and that it can be interrupted. */
import { existsSync, rmSync, statSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, it } from "@jest/globals";
import { pino } from "pino";
import type { SignInServiceConfig } from "../../config/input.ts";
import { createSystemClock } from "../../core/clock.ts";
import { createSealer } from "../../core/sealing.ts";
import { KINDS } from "../../records/all-kinds.ts";
import { MAIL, sealMail } from "../../records/people/mail-kinds.ts";
import { STORAGE_IDENTITY, type StorageIdentity } from "../../records/storage-identity.ts";
import { createSignInService } from "../../lib/service.ts";
import { addPhone } from "../../testing/add-passkey.ts";
import { clientAt } from "../flows/clients.ts";
import {
  ADA,
  BOB,
  NEWS,
  onLocalhost,
  type RunningService,
  startService,
  storageIn,
} from "../flows/running-service.ts";
import { rounds } from "../rounds.ts";
import { BACKENDS } from "../servers/storage.ts";
import { configFile, DEPLOYMENTS, newPlace } from "./backup-stage.ts";
import { here, type Outcome } from "./here.ts";
import { everythingIn, withStores, Workshop } from "./stage.ts";
import { storedDeliveries } from "../notifier/stored-deliveries.ts";

const [LOST, NEW] = [1, 2].map((byte) => Buffer.alloc(32, byte).toString("base64")) as [string, string];
const workshop = new Workshop();

type Place = Pick<SignInServiceConfig, "artifacts"> & { readonly storage: string };

async function newStorage(): Promise<Place> {
  const { keys: _own, ...place } = await storageIn(newPlace(workshop).folder);
  return place;
}

/** With a mail server that is not there. */
const configOf = (place: Place, secret: string): Omit<SignInServiceConfig, "deployments"> => ({
  ...place,
  keys: { secrets: [secret] },
  mail: { url: "smtp://127.0.0.1:9", from: "sign-in@example.com" },
  notifications: { worker: false },
});

const fileOf = (place: Place, secret: string): string =>
  configFile(newPlace(workshop).folder, configOf(place, secret));

function command(words: readonly string[], place: Place, secret: string): Promise<Outcome> {
  return here([...words, "--config", fileOf(place, secret)]);
}

const EVE = "eve@example.com";
const RESET = ["keys", "reset", "--lost", "--yes"];
const RECEIVER = { url: "http://127.0.0.1:9/", client_id: "r", client_secret: "of the receiver" } as const;

async function start(place: Place, secret: string): Promise<RunningService> {
  return startService({ config: configOf(place, secret), deployments: onLocalhost });
}

/** Everything that is sealed, or compared under a key that is. */
async function fill(running: RunningService): Promise<{ readonly tokens: string[] }> {
  const { service, ada, bob } = running;
  const eve = await service.accounts.create({ email: EVE });
  await addPhone(running, eve.sub, createSystemClock());
  await service.accounts.addApp(bob.sub, { secret: "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP" });
  await service.accounts.resetRecoveryCodes(bob.sub);
  const receiver = { ...RECEIVER, types: ["PROFILE_CHANGED" as const] };
  await service.directory.services.put("9", { name: "Nine", receiver });
  await service.accounts.assign(ada.sub, "9", 5);
  await service.accounts.update(ada.sub, { surname: "Waiting" });
  await service.accounts.setPassword(bob.sub, "a new password of bob");
  const party = clientAt(running, "openid", NEWS);
  const { access_token, refresh_token } = await party.signIn(ADA, { scope: "openid" });
  return { tokens: [access_token, refresh_token] };
}

async function passkeysOfEve({ service: { accounts } }: RunningService): Promise<unknown> {
  const eve = await accounts.findByLogin(EVE);
  return (await accounts.factors(eve?.sub ?? ""))?.passkeys;
}

/** The texts in the storage that the secret does not open, by kind. */
async function unreadable(place: Place, secret: string): Promise<string[]> {
  const sealer = createSealer([secret]);
  const all = await everythingIn(place);
  return KINDS.all.flatMap((kind) =>
    (all[kind.name] ?? []).flatMap((found) => {
      let isLost = false;
      kind.resealed({ ...found, version: "" }, (context, text) => {
        try {
          sealer.open(context, text);
        } catch {
          isLost = true;
        }
        return text;
      });
      return isLost ? [kind.name] : [];
    }),
  );
}

describe("keys reset --lost", () => {
  it("makes the storage usable with new secrets: what they had sealed is void, and the rest stays [D-SECRETS-7, D-SECRETS-8, D-SECRETS-9]", async () => {
    const place = await newStorage();
    const before = await start(place, LOST);
    const { tokens } = await fill(before);
    const kids = new Set((await before.service.keys.list()).items.map(({ kid }) => kid));
    const passkeys = await passkeysOfEve(before);
    expect(passkeys).toHaveLength(1);
    await before.close();

    const refused = await command(["accounts", "list"], place, NEW);
    expect(refused).toMatchObject({ code: 1, err: expect.stringContaining("keys reset --lost") });
    const done = await command(RESET, place, NEW);
    expect(done).toMatchObject({
      code: 0,
      err: expect.stringContaining("Accounts, password hashes, passkeys"),
    });
    for (const row of [
      /^signing keys /mu,
      /^client secrets .*\bnews\b.*clients rotate-secret/mu,
      /^credentials of receivers .*service:9.*services put/mu,
      /^authenticator apps /mu,
      /^recovery codes /mu,
      /^waiting mails /mu,
      /^payloads of notifications .*parked/mu,
      /^sessions and tokens /mu,
      /^the index of the search .*storage reindex/mu,
    ])
      expect(done.out).toMatch(row);
    expect(await unreadable(place, NEW)).toEqual([]);
    const { mail = [] } = await everythingIn(place);
    expect(mail).toEqual([]);

    const after = await start(place, NEW);
    try {
      const { service, ada, bob } = after;
      expect([ada.sub, bob.sub]).toEqual([before.ada.sub, before.bob.sub]);
      expect(ada.services).toEqual({ "1": null, "9": 5 });
      expect((await service.keys.list()).items.filter(({ kid }) => kids.has(kid))).toEqual([]);
      expect(await passkeysOfEve(after)).toEqual(passkeys);
      expect(await service.accounts.factors(bob.sub)).toMatchObject({ app: null, passkeys: [] });
      const party = clientAt(after, "openid", NEWS);
      expect((await party.refresh(tokens[1] ?? "")).body).toMatchObject({ error: "invalid_client" });
      expect((await party.userinfo(tokens[0] ?? "")).status).toBe(400);
      const { client_secret } = await service.clients.rotateSecret(NEWS.client_id);
      const again = clientAt(after, "openid", { ...NEWS, client_secret });
      expect((await again.refresh(tokens[1] ?? "")).body).toMatchObject({ error: "invalid_grant" });
      await expect(again.signIn(BOB)).rejects.toThrow();
      const bobby = { username: BOB.username, password: "a new password of bob" };
      await expect(again.signIn(bobby)).resolves.toMatchObject({ token_type: "bearer" });
      const [parked] = await storedDeliveries(service.notifications, { receiver: "service:9" });
      expect(parked).toMatchObject({ state: "parked", reason: "payload_unreadable" });
      // With its credentials set again, the receiver gets what happens from now on.
      const receiver = { ...RECEIVER, types: ["PROFILE_CHANGED" as const] };
      await service.directory.services.put("9", { name: "Nine", receiver });
      await service.accounts.update(ada.sub, { surname: "Later" });
      const states = (await storedDeliveries(service.notifications, { receiver: "service:9" })).map(
        ({ state }) => state,
      );
      expect(states.toSorted()).toEqual(["parked", "waiting"]);
      await expect(service.accounts.list({ search: "example" })).rejects.toMatchObject({
        code: "search_incomplete",
      });
      expect((await service.accounts.list({ search: BOB.username })).items).toMatchObject([{ sub: bob.sub }]);
      expect((await command(["storage", "reindex"], place, NEW)).code).toBe(0);
      expect((await service.accounts.list({ search: "later" })).items).toMatchObject([{ sub: ada.sub }]);
      const { items: records } = await service.audit.list({ action: "secrets.reset" });
      expect(records).toMatchObject([{ actor: { kind: "command_line" } }]);
    } finally {
      await after.close();
    }
    // The old secret does not come back, and everything can be checked and sealed again.
    await expect(
      createSignInService({ ...configOf(place, LOST), deployments: DEPLOYMENTS }),
    ).rejects.toMatchObject({ code: "unusable_secrets" });
    expect(await command(["keys", "reseal"], place, NEW)).toMatchObject({
      code: 0,
      out: "Re-encrypted: 0 records\n",
    });
    expect(await command(["storage", "check"], place, NEW)).toMatchObject({ code: 0 });
  }, 120_000);

  it("asks first, needs --lost, and refuses while nothing is lost [D-SECRETS-7]", async () => {
    const place = await newStorage();
    await (await start(place, LOST)).close();
    const before = await everythingIn(place);
    const words = ["keys", "reset"];
    expect((await command([...words, "--yes"], place, NEW)).code).toBe(2);
    expect((await command([...words, "--lost"], place, NEW)).code).toBe(2);
    expect(await command(RESET, place, LOST)).toMatchObject({
      code: 1,
      err: expect.stringContaining("Nothing was changed"),
    });
    for (const answer of ["", "y", "yes"]) {
      const said: string[] = [];
      const no = await here([...words, "--lost", "--config", fileOf(place, NEW)], {
        confirm: async () => true,
        ask: async (question) => {
          said.push(question);
          return answer;
        },
      });
      expect([no.code, said]).toEqual([
        1,
        [expect.stringMatching(/lost for good.* Type lost to confirm: $/)],
      ]);
    }
    expect(await everythingIn(place)).toEqual(before);
    await (await start(place, LOST)).close();
  }, 60_000);

  it("makes a new key file next to an SQLite database that has lost its own", async () => {
    const { folder, database, storage } = newPlace(workshop);
    const config = { storage, deployments: DEPLOYMENTS, logger: pino({ level: "silent" }) };
    const serve = async (): Promise<void> => (await createSignInService(config)).close();
    await serve();
    rmSync(`${database}.keys`);
    await expect(serve()).rejects.toThrow("the key file");
    const file = configFile(folder, { storage });
    expect((await here(["keys", "reset", "--lost", "--config", file])).code).toBe(2);
    expect(existsSync(`${database}.keys`)).toBe(false);
    expect((await here([...RESET, "--config", file])).code).toBe(0);
    expect(statSync(`${database}.keys`).mode & 0o777).toBe(0o600);
    await serve();
  }, 60_000);

  it("continues after SIGKILL; until it has finished, no service starts [D-SECRETS-7]", async () => {
    // MongoDB holds the locks of a killed run for a minute.
    const KILLS = BACKENDS.includes("mongodb") ? 1 : rounds(2, 6);
    const place = await newStorage();
    const before = await start(place, LOST);
    await fill(before);
    await before.close();
    await fillWithMail(place);
    const file = fileOf(place, NEW);
    let killed = 0;
    while (killed < KILLS) {
      const running = workshop.start([...RESET, "--config", file]);
      const state = { isOver: false };
      void running.ended.then(() => (state.isOver = true));
      while (!state.isOver && (await unfinished(place)) === undefined) await pause(2);
      if ((await running.stop("SIGKILL")) !== "SIGKILL" || (await unfinished(place)) === undefined) break;
      killed += 1;
      for (const secret of [NEW, LOST]) {
        const config = { ...configOf(place, secret), deployments: DEPLOYMENTS };
        await expect(createSignInService(config)).rejects.toThrow("`keys reset --lost` again");
      }
    }
    expect(killed).toBeGreaterThan(0);
    let done = await command(RESET, place, NEW);
    // Meanwhile the command can't be finished, and says so.
    while (done.code === 3) done = await command(RESET, place, NEW);
    expect(done).toMatchObject({ code: 0 });
    expect(await unfinished(place)).toBeUndefined();
    expect(await unreadable(place, NEW)).toEqual([]);
    const after = await start(place, NEW);
    await after.close();
    expect(await command(["storage", "check"], place, NEW)).toMatchObject({ code: 0 });
  }, 180_000);
});

async function unfinished(place: Place): Promise<string | undefined> {
  return withStores(place, async ({ storage }) => {
    const [found] = await storage.get([STORAGE_IDENTITY.ref("current")]);
    return (found?.value as StorageIdentity | undefined)?.unfinished;
  });
}

/** Mail that waits: so much that the command takes a while. */
async function fillWithMail(place: Place): Promise<void> {
  const sealer = createSealer([LOST]);
  const now = Date.now();
  const mail = {
    kind: "new-browser",
    to: "a@example.com",
    deployment: "oauth2",
    params: {},
    expiresAt: now + 3_600_000,
  } as const;
  await withStores(place, async ({ storage }) => {
    for (let page = 0; page < rounds(25, 100); page += 1)
      await storage.commit({
        id: `mails-${page}`,
        deadline: Date.now() + 60_000,
        put: Array.from({ length: 100 }, () => MAIL.record(sealMail(sealer, mail, now))),
      });
  });
}
