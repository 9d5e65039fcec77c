import { RATE_LIMIT } from "../../records/rate-limits.ts";
import { beforeAll, describe, expect, it } from "@jest/globals";
import { join } from "node:path";
import { openStorage } from "../../records/storage.ts";
import { StorageUnavailable } from "../../core/errors.ts";
import type { ServiceEvent } from "../../core/events.ts";
import { createSignInServiceOver } from "../../lib/service.ts";
import { browserSteps } from "./browser-steps.ts";
import { clientSteps } from "./client-steps.ts";
import { consoleSteps } from "./console-steps.ts";
import { authorizeUrl, passwordGrant, Person, send, type Wire } from "./person.ts";
import { type Dump, openStage, PASSWORD, type Stage } from "./stage.ts";
import type { Ready, Step } from "./step.ts";
import { expectUnavailable } from "./unavailable.ts";
import { WatchedStorage } from "./watched-storage.ts";
import { newFolder, closing } from "../closing.ts";

let stage: Stage;

/** The events since the last request that failed, and the codes of the faults among them. */
const emitted: ServiceEvent[] = [];
const codes: unknown[] = [];

/** Events that a failed request may emit: the fault, and account changes that stay. */
const TRUE_OF_FAULTS: ReadonlySet<ServiceEvent> = new Set(["fault", "account.changed"]);

beforeAll(async () => {
  stage = closing(await openStage());
  const { events } = stage.service;
  const emit = events.emit.bind(events);
  events.emit = (event, argument) => {
    emitted.push(event);
    if (event === "fault") codes.push(Reflect.get(Object(argument), "code"));
    return emit(event, argument);
  };
});

/** More calls than any request makes. */
const MOST = 60;

/** What a defect's message might say; it must not be in the log. */
const MESSAGE = "what-only-the-request-held";

interface Fault {
  readonly make: () => Error;
  /** The `Accept` header, in addition to the headers of the request. */
  readonly accept: string;
  readonly isPage: boolean;
  /** The code in the fault event, unless something else hides it. */
  readonly code?: string;
}

const FAULTS: readonly Fault[] = [
  {
    make: () => new StorageUnavailable("the store is away"),
    accept: "text/html",
    isPage: true,
    code: "storage_unavailable",
  },
  { make: () => new TypeError(`${MESSAGE} of ${PASSWORD}`), accept: "*/*", isPage: false },
];

/** Sends the request while the call number `at` fails; returns the response, the name of the call, and the events. */
async function failing(wire: Wire, at: number, { make, accept }: Fault) {
  const calls: string[] = [];
  emitted.length = 0;
  codes.length = 0;
  stage.storage.fail = ({ name }) => {
    calls.push(name);
    if (calls.length === at) throw make();
  };
  const response = await send({ ...wire, headers: { ...wire.headers, accept } });
  stage.storage.fail = () => undefined;
  return { response, failed: calls[at - 1], events: [...emitted] };
}

function without(dump: Dump, tables: readonly string[]): Dump {
  return Object.fromEntries(Object.entries(dump).filter(([table]) => !tables.includes(table)));
}

/** Fails the call number `at` in every way, then lets the request through; false when there is no such call. */
async function walkOne(step: Step, ready: Ready, at: number): Promise<boolean> {
  const before = await stage.dump();
  for (const fault of FAULTS) {
    const { response, failed, events } = await failing(ready.wire, at, fault);
    if (failed === undefined) {
      await ready.good(response);
      return false;
    }
    if (step.afterCommit?.includes(failed) === true) {
      await ready.good(response);
      return true;
    }
    const where = `call ${at} (${failed})`;
    await expectUnavailable(response, fault.isPage && step.page === true, where);
    expect(events.filter((event) => !TRUE_OF_FAULTS.has(event))).toEqual([]);
    expect(events).toContain("fault");
    if (fault.code !== undefined) expect([where, ...codes]).toEqual([where, fault.code]);
    // Rate limits commit on their own, and the service looks at its storage once a minute.
    const tables = [RATE_LIMIT.name, "storage-identity", ...(step.ownCommits ?? [])];
    expect({ where, ...without(await stage.dump(), tables) }).toEqual({ where, ...without(before, tables) });
  }
  await ready.good(await send(ready.wire));
  return true;
}

describe("a fault at any operation of the store", () => {
  it.each([...browserSteps, ...consoleSteps, ...clientSteps].map((step) => [step.name, step] as const))(
    "is 503 with nothing half-written, and the same request sent again succeeds: %s [ERR-9, D-TOKEN-5]",
    async (_name, step) => {
      let at = 1;
      while (at < MOST && (await walkOne(step, await step.prepare(stage), at))) at += 1;
      expect(at).toBeLessThan(MOST);
      expect(at === 1).toBe(step.storeless === true);
    },
  );

  it("leaves nothing of a request in the log", () => {
    const log = stage.log.join("");
    expect(log).toContain("TypeError");
    const { clients } = stage;
    const secrets = [
      MESSAGE,
      PASSWORD,
      "person1",
      "@example.com",
      "Bearer ",
      "Basic ",
      ...Object.values(clients).map(({ client_secret }) => client_secret),
    ];
    expect(secrets.filter((secret) => log.includes(secret))).toEqual([]);
    // Codes, tokens and cookies are long and random. Only file names are as long.
    expect(log.replaceAll(/file:[^\s)"]+/g, "").match(/[A-Za-z0-9_-]{40,}/g)).toBeNull();
  });

  it("takes no rate-limit points: a fault of the store is not a wrong guess [D-TOKEN-21]", async () => {
    const points = { points: 2, seconds: 900 };
    const limited = closing(
      await openStage({
        rateLimits: {
          signIn: { accountAndAddress: points, account: points, address: points },
          passwordGrant: { accountAndClient: points, account: points, client: points },
        },
      }),
    );
    const { username } = await limited.person();
    const person = new Person(username);
    const form = person.wire(await person.login(authorizeUrl(limited.oauth2, limited.clients.news)));
    const grant = passwordGrant(limited.oauth2, limited.clients.news, username);
    for (const wire of [form, form, form, grant, grant, grant]) {
      limited.storage.fail = ({ name }) => {
        // This comes after the points were taken.
        if (name === "directory.findAccountByName") throw new StorageUnavailable("the store is away");
      };
      expect((await send(wire)).status).toBe(503);
    }
    limited.storage.fail = () => undefined;
    expect((await send(form)).status).toBe(303);
    expect((await send(grant)).status).toBe(200);
  });

  it("at the start is StorageUnavailable, closes the storage, and the next start succeeds", async () => {
    const folder = newFolder();
    const config = {
      deployments: { oauth2: { url: "http://127.0.0.1:9" } },
      storage: `sqlite:${join(folder, "sign-in.db")}`,
    };
    for (let at = 1; ; at += 1) {
      let calls = 0;
      let closed = 0;
      const start = createSignInServiceOver(config, async (configuration) => {
        const watched = new WatchedStorage(await openStorage(configuration));
        watched.fail = () => {
          calls += 1;
          if (calls === at) throw new StorageUnavailable("the store is away");
        };
        return {
          ...watched.storage,
          close() {
            closed += 1;
            return watched.storage.close();
          },
        };
      });
      if (
        await start.then(
          () => true,
          () => false,
        )
      ) {
        await (await start).close();
        expect(at).toBeGreaterThan(4);
        break;
      }
      await expect(start).rejects.toMatchObject({ code: "storage_unavailable" });
      expect(closed).toBe(1);
    }
  });
});
