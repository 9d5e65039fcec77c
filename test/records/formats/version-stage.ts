/** Servers and commands of this version and of the next one, whose format a test has planted, on one storage behind one address. */
import { once } from "node:events";
import { closeSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { expect } from "@jest/globals";
import { pino } from "pino";
import { openStores } from "../../../adapters/open.ts";
import type { Found, RecordStore } from "../../../adapters/record-store.ts";
import { createSystemClock } from "../../../core/clock.ts";
import { currentFormat, type FormatPath } from "../../../core/storage-formats.ts";
import { createProxy } from "../../../examples/cluster/proxy.ts";
import { applySeed, createSignInService, type SignInServiceConfig } from "../../../lib/index.ts";
import { KINDS } from "../../../records/all-kinds.ts";
import { ACCOUNT, SHARED_KINDS } from "../../../records/directory/directory-kinds.ts";
import { readFormat } from "../../../records/formats/format.ts";
import { Records } from "../../../records/records.ts";
import { identify } from "../../../records/storage-identity.ts";
import type { Backend, Ground } from "../../adapters/backends.ts";
import { atEnd, closing, newFolder } from "../../closing.ts";
import { withStores } from "../../cli/stage.ts";
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
import { account } from "../rules/stage.ts";
import type { Job } from "./next-version.ts";
import { NEW_INDEX, RENAMED } from "./planted-format.ts";

const PROGRAM = "test/records/formats/next-version.ts";
const PEOPLE = ["one", "two", "three"];
const [KEEPING] = CLIENTS as [(typeof CLIENTS)[0]];
const BATCH = 100;

export const FORMAT = currentFormat().format;

/** A process of a version, as `createProxy` and `Member` know it. */
export interface Server {
  readonly member: Member;
  port: number;
}

interface SignedIn {
  readonly person: Person;
  readonly tokens: Tokens;
}

interface Opened {
  readonly servers: Server[];
  readonly base: string;
  readonly receiver: string;
  readonly received: ReadonlySet<string>;
}

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

/** Where a service keeps everything. */
interface Place {
  readonly storage: string;
  readonly artifacts: string;
  readonly queue: string;
}

/** Redis has the artifacts and the queue, and SQLite the rest. */
async function openPlace({ name, start: open }: Backend<Ground>, folder: string): Promise<Place> {
  const address = await closing(await open()).newAddress();
  if (name !== "Redis") return { storage: address, artifacts: address, queue: "embedded" };
  return { storage: `sqlite:${join(folder, "sign-in.db")}`, artifacts: address, queue: address };
}

export class VersionStage {
  readonly place: Place;
  readonly folder: string;
  /** The file of the configuration. */
  readonly file: string;
  /** How many people have signed in: there is a notification of each. */
  signIns = 0;
  readonly #config: SignInServiceConfig;
  /** The servers that requests go to, each in turn. */
  readonly #servers: Server[];
  readonly #base: string;
  /** The ids of notifications, which are sent again until they are answered. */
  readonly #received: ReadonlySet<string>;
  readonly #log: number;

  private constructor(folder: string, place: Place, opened: Opened) {
    this.folder = folder;
    this.place = place;
    this.#servers = opened.servers;
    this.#base = opened.base;
    this.#received = opened.received;
    this.#config = {
      deployments: { oauth2: { url: opened.base }, openid: { url: `${opened.base}/openid` } },
      ...place,
      keys: { secrets: [Buffer.alloc(32, 5).toString("base64")] },
      proxy: true,
      rateLimits: LIMITS,
      notifications: { worker: true, allowedReceivers: ["127.0.0.1"] },
      events: {
        receivers: {
          crm: {
            url: opened.receiver,
            signing_secret: `whsec_${Buffer.alloc(32, 7).toString("base64")}`,
            types: ["account.signed_in"],
          },
        },
      },
    };
    this.file = this.fileFor(place, "sign-in.json");
    this.#log = openSync(join(folder, "log"), "a");
    atEnd(() => closeSync(this.#log));
  }

  /** @param many how many accounts there are besides those of people who sign in, so that a migration takes many commits. */
  static async open(backend: Backend<Ground>, many: number): Promise<VersionStage> {
    const folder = newFolder();
    const place = await openPlace(backend, folder);
    const servers: Server[] = [];
    const received = new Set<string>();
    const receiver = await listen((request, response) => {
      received.add(String(request.headers["webhook-id"]));
      request.resume().once("end", () => response.writeHead(204).end());
    });
    const base = await listen(createProxy(servers));
    const stage = new VersionStage(folder, place, { servers, base, receiver, received });
    const first = await createSignInService({
      ...stage.#config,
      notifications: { ...stage.#config.notifications, worker: false },
      logger: pino({ level: "silent" }),
    });
    await applySeed(first, seedOf(PEOPLE));
    await first.close();
    await withStores(place, async ({ storage }) => {
      for (let at = 1; at <= many; at += BATCH)
        await storage.commit({
          id: `filled-${at}`,
          deadline: Date.now() + 30_000,
          put: Array.from({ length: BATCH }, (_, index) => ACCOUNT.record(account(1_000 + at + index))),
        });
    });
    return stage;
  }

  /** The accounts of the people who sign in. */
  readonly people: number = PEOPLE.length;

  /** Writes a configuration with another place. */
  fileFor(place: Partial<Place>, name: string): string {
    const file = join(this.folder, name);
    writeFileSync(file, JSON.stringify({ ...this.#config, ...place }), { mode: 0o600 });
    return file;
  }

  /** Starts a server, and sends it requests when it listens. @param next see {@link Job}. */
  async serve(next?: FormatPath): Promise<Server> {
    const job: Job = { next, config: this.#config };
    const member = new Member({
      script: PROGRAM,
      args: () => [JSON.stringify(job)],
      log: this.#log,
      compiled: join(this.folder, "compiled"),
      onMessage: (message) => void (server.port = (message as { port: number }).port),
    });
    const server: Server = { member, port: 1 };
    atEnd(() => member.destroy());
    while (!member.isReady || server.port === 1) await pause(20);
    this.#servers.push(server);
    return server;
  }

  /** Sends a server no more requests, and stops it. */
  async stop(server: Server): Promise<void> {
    this.#servers.splice(this.#servers.indexOf(server), 1);
    expect(await server.member.stop()).toBe(0);
  }

  /** What servers have logged as errors. */
  errors(): string {
    return readFileSync(join(this.folder, "log"), "utf8");
  }

  /** Runs a command of a version. @param next see {@link Job}. */
  run(next: FormatPath | undefined, words: readonly string[], file: string = this.file): Running {
    const job: Job = { next, config: this.#config, command: [...words, "--config", file] };
    return start(PROGRAM, {
      args: [JSON.stringify(job)],
      env: { NODE_COMPILE_CACHE: join(this.folder, "compiled") },
    });
  }

  /**
   * Runs `storage migrate`, which is killed at random, and continued by the next one.
   * @param onKill is called after each kill.
   */
  async migrate(
    next: FormatPath,
    { kills, onKill }: { readonly kills: number; readonly onKill: () => Promise<unknown> },
  ): Promise<string> {
    for (let kill = 0; ; kill += 1) {
      const running = this.run(next, ["storage", "migrate", "--yes", "--json"]);
      const hasEnded = running.ended.then(() => true);
      // The first one waits until all servers have noticed, which its progress says; later ones rewrite.
      const waits = running.until(/seconds until all servers have noticed: \d+/u).then(() => false);
      const isDone =
        kill >= kills
          ? await hasEnded
          : await Promise.race([hasEnded, kill === 0 ? waits : pause(2_000 + Math.random() * 4_000, false)]);
      waits.catch(() => undefined);
      if (isDone) {
        expect([await running.ended, running.output()]).toEqual([
          0,
          expect.stringContaining(`"from":${FORMAT},"to":${FORMAT + 1}`),
        ]);
        return running.output();
      }
      await running.stop("SIGKILL");
      await onKill();
    }
  }

  async signIn(): Promise<SignedIn> {
    const person = new Person(PEOPLE[this.signIns % PEOPLE.length]!, sendPatiently);
    this.signIns += 1;
    const code = await person.signIn(authorizeUrl(this.#base, KEEPING));
    return { person, tokens: await tokensOf(await sendPatiently(exchange(this.#base, KEEPING, code))) };
  }

  /** Uses the access token, the refresh token and the session of each, and waits for a notification of each. */
  async expectAllWorks(people: readonly SignedIn[]): Promise<void> {
    const base = this.#base;
    for (const { person, tokens } of people) {
      const { access_token, refresh_token } = tokens;
      const userinfo = `${base}/resources/userinfo`;
      const seen = await sendPatiently(withToken("GET", userinfo, KEEPING, access_token));
      const refreshed = await sendPatiently(refresh(base, KEEPING, refresh_token));
      const code = codeOf(await person.go(get(authorizeUrl(base, KEEPING))));
      const again = await sendPatiently(exchange(base, KEEPING, code));
      expect([seen.status, refreshed.status, again.status]).toEqual([200, 200, 200]);
    }
    while (this.#received.size < this.signIns) await pause(50);
    expect(this.#received.size).toBe(this.signIns);
  }

  /** Everything is as a version writes it, whatever reads it. @param place of which version; `format` is what the store says. */
  async expectFormat(
    format: number,
    { storage, artifacts }: Pick<Place, "storage" | "artifacts"> = this.place,
  ) {
    const clock = createSystemClock();
    const stores = await openStores({
      storage,
      artifacts,
      clock,
      sharedKinds: SHARED_KINDS,
      watchedKinds: [],
      mustExist: true,
      identify: (main) => identify(new Records(main, clock, KINDS), true),
    });
    const { main, artifacts: beside = main } = stores;
    try {
      expect([await readFormat(main), await readFormat(beside)]).toEqual([{ format }, { format }]);
      for (const [kind, names] of Object.entries(RENAMED)) {
        const [there = "", gone = ""] = format === FORMAT ? names : names.toReversed();
        const values = (await all(kind === "refresh-token" ? beside : main, kind)).map(({ value }) => value);
        expect([kind, values.filter((value) => gone in value || !(there in value))]).toEqual([kind, []]);
      }
      const accounts = await all(main, "account");
      const [entries] = await main.count([
        { kind: NEW_INDEX.kind, index: NEW_INDEX.name, at: "all", limit: 1_000_000 },
      ]);
      return { accounts: accounts.length, entries };
    } finally {
      await stores.close();
    }
  }
}
