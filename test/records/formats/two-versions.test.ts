/**
 * This version and the next one, whose format a test has planted, on one storage: together, while the storage is migrated, and after it.
 * The other storages run in `npm run test:all`.
 */
import { once } from "node:events";
import { closeSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, it } from "@jest/globals";
import { pino } from "pino";
import type { Found, RecordStore } from "../../../adapters/record-store.ts";
import { createSystemClock } from "../../../core/clock.ts";
import { currentFormat } from "../../../core/storage-formats.ts";
import { createProxy } from "../../../examples/cluster/proxy.ts";
import { applySeed, createSignInService, type SignInServiceConfig } from "../../../lib/index.ts";
import { ACCOUNT } from "../../../records/directory/directory-kinds.ts";
import { readFormat } from "../../../records/formats/format.ts";
import { BACKENDS } from "../../adapters/backends.ts";
import { openAt } from "../../adapters/open-at.ts";
import { atEnd, closing, newFolder } from "../../closing.ts";
import { withStores } from "../../cli/stage.ts";
import { here } from "../../cli/here.ts";
import { type Running, start } from "../../examples/processes.ts";
import { Member } from "../../faults/campaign/member.ts";
import { CLIENTS, LIMITS, seedOf } from "../../faults/load.ts";
import {
  authorizeUrl,
  codeOf,
  exchange,
  get,
  Person,
  refresh,
  sendPatiently,
  type Tokens,
  tokensOf,
  withToken,
} from "../../faults/person.ts";
import { rounds } from "../../rounds.ts";
import { account } from "../rules/stage.ts";
import { type Job, NEW_INDEX, RENAMED } from "./next-version.ts";

const PROGRAM = "test/records/formats/next-version.ts";
const PEOPLE = ["one", "two", "three"];
/** Accounts besides, so that a migration takes many commits. */
const MANY = rounds(600, 6_000);
const KILLS = rounds(2, 12);
const TIMEOUT_MS = 300_000;
const FORMAT = currentFormat().format;
const [KEEPING] = CLIENTS as [(typeof CLIENTS)[0]];

async function listen(answer: RequestListener): Promise<string> {
  const server = createServer({ keepAliveTimeout: 600_000 }, answer).listen(0, "127.0.0.1");
  await once(server, "listening");
  atEnd(() => server.close().closeAllConnections());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Every record of a kind, as it is stored. */
async function all(store: RecordStore, kind: string): Promise<Found[]> {
  const found: Found[] = [];
  for (let after: string | undefined; ;) {
    const page = await store.scan(kind, after, 500);
    found.push(...page.records);
    if (page.next === undefined) return found;
    after = page.next;
  }
}

/** A process of a version, as `createProxy` and `Member` know it. */
interface Process {
  readonly member: Member;
  port: number;
}

describe.each(BACKENDS.slice(0, rounds(2, BACKENDS.length)))("two versions on $name", (backend) => {
  it(
    "sign in, refresh and deliver for each other, and migrate beside the new one, killed at random [D-UP-1, D-UP-2, D-UP-3, D-UP-4]",
    async () => {
      const folder = newFolder();
      const address = await closing(await backend.start()).newAddress();
      const isRedis = backend.name === "Redis";
      const storage = isRedis ? `sqlite:${join(folder, "sign-in.db")}` : address;
      const log = openSync(join(folder, "log"), "a");
      atEnd(() => closeSync(log));
      const processes: Process[] = [];
      const base = await listen(createProxy(processes));
      /** The ids of notifications, which are sent again until they are answered. */
      const received = new Set<string>();
      const url = await listen((request, response) => {
        received.add(String(request.headers["webhook-id"]));
        request.resume().once("end", () => response.writeHead(204).end());
      });
      const config = {
        deployments: { oauth2: { url: base }, openid: { url: `${base}/openid` } },
        storage,
        artifacts: isRedis ? address : storage,
        queue: isRedis ? address : "embedded",
        keys: { secrets: [Buffer.alloc(32, 5).toString("base64")] },
        proxy: true,
        rateLimits: LIMITS,
        notifications: { worker: true, allowedReceivers: ["127.0.0.1"] },
        events: {
          receivers: {
            crm: {
              url,
              signing_secret: `whsec_${Buffer.alloc(32, 7).toString("base64")}`,
              types: ["account.signed_in"],
            },
          },
        },
      } satisfies SignInServiceConfig;
      const file = join(folder, "sign-in.json");
      writeFileSync(file, JSON.stringify(config), { mode: 0o600 });
      const first = await createSignInService({
        ...config,
        notifications: { ...config.notifications, worker: false },
        logger: pino({ level: "silent" }),
      });
      await applySeed(first, seedOf(PEOPLE));
      await first.close();

      async function run(isNext: boolean): Promise<Process> {
        const job: Job = { isNext, config };
        const member = new Member({
          script: PROGRAM,
          args: [JSON.stringify(job)],
          log,
          compiled: join(folder, "compiled"),
          onMessage: (message) => void (process.port = (message as { port: number }).port),
        });
        const process: Process = { member, port: 1 };
        atEnd(() => member.destroy());
        while (!member.isReady || process.port === 1) await pause(20);
        return process;
      }
      const migrate = (...words: readonly string[]): Running => {
        const command = ["storage", "migrate", "--yes", "--config", file, ...words];
        return start(PROGRAM, { args: [JSON.stringify({ isNext: true, config, command } satisfies Job)] });
      };
      let signIns = 0;
      async function signIn(): Promise<{ person: Person; tokens: Tokens }> {
        const person = new Person(PEOPLE[signIns % PEOPLE.length]!, sendPatiently);
        signIns += 1;
        const code = await person.signIn(authorizeUrl(base, KEEPING));
        return { person, tokens: await tokensOf(await sendPatiently(exchange(base, KEEPING, code))) };
      }
      /** Uses an access token, a refresh token and the cookie of a session. */
      async function use({ person, tokens }: { person: Person; tokens: Tokens }): Promise<number[]> {
        const { access_token, refresh_token } = tokens;
        const userinfo = `${base}/resources/userinfo`;
        const seen = await sendPatiently(withToken("GET", userinfo, KEEPING, access_token));
        const refreshed = await sendPatiently(refresh(base, KEEPING, refresh_token));
        const code = codeOf(await person.go(get(authorizeUrl(base, KEEPING))));
        const again = await sendPatiently(exchange(base, KEEPING, code));
        return [seen.status, refreshed.status, again.status];
      }
      const WORKS = [200, 200, 200];

      await withStores(config, async ({ storage: store }) => {
        for (let at = 1; at <= MANY; at += 100)
          await store.commit({
            id: `filled-${at}`,
            deadline: Date.now() + 30_000,
            put: Array.from({ length: 100 }, (_, index) => ACCOUNT.record(account(1_000 + at + index))),
          });
      });

      // Each request goes to the other version than the one before.
      const [old, next] = await Promise.all([run(false), run(true)]);
      processes.push(old, next);
      const people = [];
      for (let count = 0; count < 3; count += 1) people.push(await signIn());
      for (const each of people) expect(await use(each)).toEqual(WORKS);

      // The new one writes what the old one reads. Deliveries of sign-ins are gone soon after they were answered.
      await withStores(config, async ({ storage: main, artifacts }) => {
        expect(await readFormat(main)).toEqual({ format: FORMAT });
        for (const [kind, [before, after]] of Object.entries(RENAMED)) {
          const values = (await all(kind === "refresh-token" ? artifacts : main, kind)).map(
            ({ value }) => value,
          );
          expect([
            kind,
            kind === "delivery" || values.length > 0,
            values.some((value) => after in value),
          ]).toEqual([kind, true, false]);
          expect(values.every((value) => before in value)).toBe(true);
        }
      });

      const refused = migrate();
      expect([await refused.ended, refused.output()]).toEqual([
        1,
        expect.stringMatching(/In the way: server of version [\d.]+ on .*Stop this process first/su),
      ]);
      processes.splice(0, 1);
      expect(await old.member.stop()).toBe(0);
      const check = migrate("--check", "--json");
      expect([await check.ended, check.output()]).toEqual([
        1,
        expect.stringContaining(`"from":${FORMAT},"to":${FORMAT + 1},"under_way":false`),
      ]);

      // A process of the old version that nobody has seen, such as a command.
      await withStores(config, async (stores) => {
        let kills = 0;
        let isDone = false;
        while (!isDone) {
          const running = migrate("--json");
          if (kills < KILLS) {
            const hasEnded = running.ended.then(() => true);
            // The first ones wait until everybody knows; later ones rewrite.
            isDone = await Promise.race([hasEnded, pause(2_000 + Math.random() * 4_000, false)]);
            if (!isDone) await running.stop("SIGKILL");
            kills += 1;
            people.push(await signIn());
          } else {
            expect([await running.ended, running.output()]).toEqual([
              0,
              expect.stringContaining(`"to":${FORMAT + 1}`),
            ]);
            isDone = true;
          }
        }
        const put = [ACCOUNT.record(account(999_999))];
        await expect(
          stores.storage.commit({ id: "too late", deadline: Date.now() + 30_000, put }),
        ).rejects.toMatchObject({ code: "storage_unavailable", reason: "format" });
      });

      // Everything is as the new version writes it, and nothing that was given has ended.
      const main = closing(await openAt(storage, createSystemClock()));
      expect(await readFormat(main)).toEqual({ format: FORMAT + 1 });
      const accounts = await all(main, "account");
      expect(accounts.length).toBe(MANY + PEOPLE.length);
      for (const [kind, [before, after]] of Object.entries(RENAMED)) {
        if (isRedis && kind === "refresh-token") continue;
        const values = (await all(main, kind)).map(({ value }) => value);
        expect([
          kind,
          kind === "delivery" || values.length > 0,
          values.some((value) => before in value),
        ]).toEqual([kind, true, false]);
        expect(values.every((value) => after in value)).toBe(true);
      }
      const [count] = await main.count([
        { kind: NEW_INDEX.kind, index: NEW_INDEX.name, at: "all", limit: 2 * MANY },
      ]);
      expect(count).toBe(accounts.length);
      people.push(await signIn());
      for (const each of people) expect(await use(each)).toEqual(WORKS);
      while (received.size < signIns) await pause(50);
      expect(received.size).toBe(signIns);
      const again = migrate("--check");
      expect([await again.ended, again.output()]).toEqual([
        0,
        `Nothing to migrate: the storage is in format ${FORMAT + 1}\n`,
      ]);
      const refusedHere = await here(["accounts", "list", "--config", file]);
      expect(refusedHere).toMatchObject({
        code: 2,
        err: expect.stringContaining("a later version wrote this storage"),
      });
      expect(await next.member.stop()).toBe(0);
      expect(readFileSync(join(folder, "log"), "utf8")).toBe("");
    },
    TIMEOUT_MS,
  );
});
