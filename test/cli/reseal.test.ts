/** `keys reseal`: a new first secret, with a service at work and after a SIGKILL. */
import { createServer } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { pino } from "pino";
import type { RecordData } from "../../adapters/record-store.ts";
import type { SignInServiceConfig } from "../../config/input.ts";
import { SERVICE_KEY } from "../../records/directory/directory-kinds.ts";
import type { StoredSecrets } from "../../records/secrets.ts";
import { KINDS } from "../../records/all-kinds.ts";
import { MAIL, sealMail } from "../../records/people/mail-kinds.ts";
import { createSealer, type Sealer } from "../../core/sealing.ts";
import { createSignInService, type SignInService } from "../../lib/service.ts";
import type { Running } from "../examples/processes.ts";
import { rounds } from "../rounds.ts";
import { BACKENDS, newStorage } from "../servers/storage.ts";
import { configFile, DEPLOYMENTS, newPlace } from "./backup-stage.ts";
import { here } from "./here.ts";
import { everythingIn, withStores, Workshop } from "./stage.ts";
import { storedDeliveries } from "../notifier/stored-deliveries.ts";

const [OLD, NEW] = [1, 2].map((byte) => Buffer.alloc(32, byte).toString("base64")) as [string, string];
const NUMBER = 60;
const MAILS = rounds(2_500, 10_000);
const workshop = new Workshop();
const seen = new Set<string>();
/** Answers with a body, which is stored sealed. A third of the notifications fails at first, and is tried again. */
const receiver = createServer((request, response) => {
  request.resume();
  const id = String(request.headers["webhook-id"]);
  const fails = /[0-4]$/u.test(id) && !seen.has(id);
  seen.add(id);
  response.writeHead(fails ? 503 : 200).end("the answer of the receiver");
});

beforeAll(async () => {
  receiver.listen(0, "127.0.0.1");
  await once(receiver, "listening");
});
afterAll(() => {
  receiver.close();
  receiver.closeAllConnections();
});

type Storage = Pick<SignInServiceConfig, "artifacts"> & { readonly storage: string };

async function storage(): Promise<Storage> {
  const { keys: _own, ...rest } = await newStorage();
  return BACKENDS.includes("sqlite") ? { ...rest, storage: newPlace(workshop).storage } : rest;
}

const config = (place: Storage, ...secrets: string[]): Omit<SignInServiceConfig, "deployments"> => ({
  ...place,
  keys: { secrets },
});

function openService(
  place: Storage,
  secrets: readonly string[],
  { worker = false, warnings = [] }: { readonly worker?: boolean; readonly warnings?: string[] } = {},
): Promise<SignInService> {
  return createSignInService({
    ...config(place, ...secrets),
    deployments: DEPLOYMENTS,
    notifications: { allowedReceivers: ["127.0.0.1"], worker, poll: 0.05, retryDelays: [0.05, 0.05, 60] },
    mail: { url: "smtp://127.0.0.1:9", from: "sign-in@example.com" },
    logger: pino({ level: "warn" }, { write: (line: string) => void warnings.push(line) }),
  });
}

/** A service that has sealed something of most kinds with the old secret. */
async function filled(place: Storage): Promise<void> {
  const service = await openService(place, [OLD]);
  const { port } = receiver.address() as AddressInfo;
  await service.directory.services.put("1", {
    name: "One",
    receiver: {
      url: `http://127.0.0.1:${port}/`,
      client_id: "r",
      client_secret: "of the receiver",
      types: ["PROFILE_CHANGED"],
    },
  });
  for (let index = 0; index < NUMBER; index += 1) {
    const { sub } = await service.accounts.create({ email: `${index}@example.com` });
    await service.accounts.assign(sub, "1", index);
    await service.accounts.update(sub, { surname: "Changed" });
  }
  await service.close();
}

/** Mail that waits, sealed with the old secret: so much that `reseal` takes a while. */
async function fillWithMail(place: Storage): Promise<void> {
  const sealer = createSealer([OLD]);
  const now = Date.now();
  const mail = (): RecordData =>
    MAIL.record(
      sealMail(
        sealer,
        {
          kind: "new-browser",
          to: "a@example.com",
          deployment: "oauth2",
          params: {},
          expiresAt: now + 3_600_000,
        },
        now,
      ),
    );
  await withStores(place, async ({ storage: store }) => {
    for (let page = 0; page < MAILS / 100; page += 1)
      await store.commit({
        id: `mails-${page}`,
        deadline: Date.now() + 60_000,
        put: Array.from({ length: 100 }, mail),
      });
  });
}

/** How many sealed texts each of the sealers opens, and how many none of them. */
async function openedBy(place: Storage, ...sealers: readonly Sealer[]): Promise<number[]> {
  const counts = [...sealers, undefined].map(() => 0);
  const all = await everythingIn(place);
  for (const kind of KINDS.all) {
    for (const found of all[kind.name] ?? []) {
      kind.resealed({ ...found, version: "" }, (context, text) => {
        const index = sealers.findIndex((sealer) => {
          try {
            sealer.open(context, text);
            return true;
          } catch {
            return false;
          }
        });
        counts[index === -1 ? sealers.length : index]! += 1;
        return text;
      });
    }
  }
  return counts;
}

const BY_NEW_AND_OLD = [createSealer([NEW]), createSealer([OLD])];

describe("keys reseal", () => {
  it("encrypts everything anew while a service delivers, rotates and writes; then the old secret can be removed [D-KEYS-7]", async () => {
    const place = await storage();
    await filled(place);
    const warnings: string[] = [];
    const service = await openService(place, [NEW, OLD], { worker: true, warnings });
    expect(warnings.join("")).toContain("run sign-in-service keys reseal before you remove the old one");
    const file = configFile(newPlace(workshop).folder, config(place, NEW, OLD));
    const check = await here(["keys", "reseal", "--check", "--json", "--config", file]);
    expect(check.code).toBe(1);
    expect(JSON.parse(check.out)).toEqual({ old: expect.any(Number), unreadable: 0 });
    const told = await here(["doctor", "--json", "--config", file]);
    expect(told.out).toContain("Not everything in the storage is encrypted with the first of keys.secrets.");
    const stop = new AbortController();
    const writing = (async () => {
      for (let index = 0; !stop.signal.aborted; index += 1) {
        const { sub } = await service.accounts.create({ email: `while${index}@example.com` });
        await service.accounts.assign(sub, "1", index);
        await service.accounts.update(sub, { name: "New" });
        if (index % 5 === 0) await service.keys.rotate();
      }
    })();
    const done = await here(["keys", "reseal", "--config", file]);
    stop.abort();
    await writing;
    expect(done).toEqual({
      code: 0,
      out: expect.stringMatching(/^Re-encrypted: \d+ records\n$/u),
      err: expect.not.stringContaining("ome records"),
    });
    const { items: before } = await service.keys.list();
    const { items: records } = await service.audit.list({ action: "secrets.reseal" });
    expect(records).toMatchObject([{ actor: { kind: "command_line" } }]);
    while ((await storedDeliveries(service.notifications, { state: "delivered" })).length === 0)
      await pause(20);
    await service.close();
    const [fresh = 0, old, neither] = await openedBy(place, ...BY_NEW_AND_OLD);
    expect([old, neither]).toEqual([0, 0]);
    expect(fresh).toBeGreaterThan(NUMBER);
    expect(await here(["keys", "reseal", "--config", file])).toMatchObject({
      out: "Re-encrypted: 0 records\n",
    });
    const alone = configFile(newPlace(workshop).folder, config(place, NEW));
    expect(await here(["keys", "reseal", "--check", "--config", alone])).toMatchObject({
      code: 0,
      out: "Not sealed with the first secret: 0 records\n",
    });
    expect((await here(["doctor", "--json", "--config", alone])).out).not.toContain("Not everything");
    const said: string[] = [];
    const after = await openService(place, [NEW], { worker: true, warnings: said });
    expect(said.join("")).not.toContain("reseal");
    expect((await after.keys.list()).items.map(({ kid }) => kid)).toEqual(before.map(({ kid }) => kid));
    await after.close();
    expect((await here(["deliveries", "list", "--state", "parked", "--config", alone])).out).toBe("");
  }, 120_000);

  it("continues after SIGKILL; until it has finished, nothing starts without the old secret [D-KEYS-7]", async () => {
    // MongoDB holds the locks of a killed run for a minute.
    const KILLS = BACKENDS.includes("mongodb") ? 1 : rounds(2, 6);
    const place = await storage();
    await filled(place);
    await fillWithMail(place);
    const file = configFile(newPlace(workshop).folder, config(place, NEW, OLD));
    const alone = configFile(newPlace(workshop).folder, config(place, NEW));
    let killed = 0;
    while (killed < KILLS) {
      const running = workshop.start(["keys", "reseal", "--config", file]);
      await untilSomeAreNew(place, running);
      const wasInTime = (await running.stop("SIGKILL")) === "SIGKILL";
      const [fresh = 0, old = 0, neither] = await openedBy(place, ...BY_NEW_AND_OLD);
      expect(neither).toBe(0);
      if (!wasInTime || old === 0) break;
      killed += 1;
      expect(fresh).toBeGreaterThan(0);
      const refused = await here(["accounts", "list", "--config", alone]);
      expect(refused).toMatchObject({
        code: 1,
        err: expect.stringMatching(/^The storage needs [0-9a-f]{12}, which keys\.secrets lacks/u),
      });
    }
    expect(killed).toBeGreaterThan(0);
    expect(await here(["keys", "reseal", "--config", file])).toMatchObject({ code: 0 });
    expect((await openedBy(place, ...BY_NEW_AND_OLD)).slice(1)).toEqual([0, 0]);
    expect(await here(["accounts", "list", "--limit", "1", "--config", alone])).toMatchObject({ code: 0 });
  }, 120_000);

  it("reports what no secret opens, and the old secret stays needed", async () => {
    const place = await storage();
    await filled(place);
    const lost = createSealer([Buffer.alloc(32, 3).toString("base64")]);
    await withStores(place, async ({ storage: store }) => {
      const put = [SERVICE_KEY.record({ name: "cookie-keys", sealed: lost.seal("cookie-keys", "[]") })];
      await store.commit({ id: "lost", deadline: Date.now() + 5_000, put });
    });
    const file = configFile(newPlace(workshop).folder, config(place, NEW, OLD));
    const done = await here(["keys", "reseal", "--config", file]);
    expect(done).toMatchObject({
      code: 1,
      err: expect.stringMatching(/^Some records were sealed with a secret that is not in keys\.secrets/u),
    });
    expect((await openedBy(place, ...BY_NEW_AND_OLD)).slice(1)).toEqual([0, 1]);
    const known = (await everythingIn(place))["sealing-secrets"]?.[0]?.value as unknown as StoredSecrets;
    expect(known.secrets.map(({ needed }) => needed)).toEqual([true, true]);
    const checked = await here(["keys", "reseal", "--check", "--json", "--config", file]);
    expect([checked.code, JSON.parse(checked.out)]).toEqual([1, { old: 0, unreadable: 1 }]);
  }, 120_000);

  it("stops when it is interrupted, and knows every kind that says that it is sealed", async () => {
    const place = await storage();
    await filled(place);
    const stop = new AbortController();
    const file = configFile(newPlace(workshop).folder, config(place, NEW, OLD));
    const stopped = await here(["keys", "reseal", "--config", file], {
      signal: stop.signal,
      err: { isTTY: true, write: () => stop.abort() },
    });
    expect(stopped).toMatchObject({ code: 130, out: "" });
    for (const { name, declaration } of KINDS.all) {
      const says = /sealed with `keys\.secrets`/u.test(`${declaration.holds} ${declaration.personal}`);
      if (says) expect([name, declaration.sealed !== undefined]).toEqual([name, true]);
    }
  }, 120_000);
});

/** Waits until the command has written a page of mail, or is over. */
async function untilSomeAreNew(place: Storage, running: Running): Promise<void> {
  const state = { isOver: false };
  void running.ended.then(() => (state.isOver = true));
  await withStores(place, async ({ storage: store }) => {
    const versions = async (): Promise<string> => {
      const { records } = await store.scan(MAIL.name, undefined, 10);
      return records.map(({ version }) => version).join();
    };
    const begun = await versions();
    while (!state.isOver && (await versions()) === begun) await pause(2);
  });
}
