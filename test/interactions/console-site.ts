/** The console's pages in a bare Koa application, over deliveries in memory. */
import { createSecretKey } from "node:crypto";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import Koa from "koa";
import type { AccountRecord } from "../../records/directory/directory.ts";
import type { Deployment } from "../../config/configuration.ts";
import type { AccountGate } from "../../interactions/account/gate.ts";
import { createOperatorPages } from "../../interactions/account/pages.ts";
import {
  createConsolePages,
  createConsoleSeals,
  type OperatorServices,
} from "../../interactions/console/console-pages.ts";
import { createPeoplePages } from "../../interactions/console/people.ts";
import { createSigner } from "../../core/sealing.ts";
import { SignInError, type SignInErrorCode } from "../../core/errors.ts";
import type { Notifications, ShownDelivery } from "../../notifier/operations.ts";
import type { ReceiverReport } from "../../notifier/receiver-operations.ts";
import type { Exchange } from "../../provider/exchange.ts";
import type { SignedIn } from "../../provider/account.ts";
import { createBodyReader, readFields, readForm } from "../../compat/request-body.ts";
import { sampleDelivery, sampleReceiver } from "../../interactions/samples/console.ts";
import { pagesWith } from "./every-page.ts";

export const OPERATOR = "3f0c7d1e-8f5b-4c39-9d4e-2a6b1c0d7e8f";

/** The parts of a session that the pages use. */
export function person(changes: { sub?: string; session?: string; generation?: number } = {}): SignedIn {
  const { sub = OPERATOR, session = "session-1", generation = 1 } = changes;
  const account = {
    sub,
    email: "op@example.com",
    sessions_generation: generation,
    ways: {},
  } as AccountRecord;
  return { account, session, signedInAt: 0 };
}

/** One call of the console that changes something. */
export type Done = readonly [call: string, ...parameters: unknown[]];

/** The results of the stub. A code is the one of an error. */
export interface Answers {
  /** Of `redrive`, `sendNow`, `discard`, `pause` and `resume`; `undefined`: they work. */
  refusal: SignInErrorCode | undefined;
  /** `undefined`: it never ends. */
  redriveAll: Awaited<ReturnType<Notifications["redriveAll"]>> | undefined;
  test: ReturnType<Notifications["test"]>;
}

type Detail = NonNullable<Awaited<ReturnType<Notifications["find"]>>>;

/** What is still under way when the page is sent. */
const ENDLESS: Promise<never> = Promise.withResolvers<never>().promise;

/** The result of a test that was sent. */
export async function testResult(
  changes: Partial<Awaited<ReturnType<Notifications["test"]>>>,
): ReturnType<Notifications["test"]> {
  const sent = { ok: false, id: "msg_0", type: "PROFILE_CHANGED", sent: true, answer: null } as const;
  return { ...sent, status: null, error: null, duration_ms: 7, ...changes };
}

/** The directory names one of the receivers, and there is no audit. */
const STORAGE = {
  directory: {
    findEntry: async (kind: string, key: string) =>
      kind === "service" && key === "1" ? { key, name: "News", group: null, receiver: null } : undefined,
  },
  audit: { append: async () => undefined },
};

/** A stub of the notifications with deliveries in memory. test/flows/console.test.ts uses real ones. */
export class MemoryConsole implements Partial<Notifications> {
  readonly deliveries: Detail[] = [];
  known: ReceiverReport[] = [];
  readonly done: Done[] = [];
  readonly queries: unknown[] = [];
  /** An empty page that is not the last one. */
  searching: Awaited<ReturnType<Notifications["list"]>> | undefined;
  answers: Answers = {
    refusal: undefined,
    redriveAll: { redriven: 2, superseded: 1, waiting: 0, purged: 3, unknown: 0 },
    test: testResult({ ok: true, status: 200 }),
  };

  async list(page: Parameters<Notifications["list"]>[0] = {}): ReturnType<Notifications["list"]> {
    const { after, limit = 100, account, ...filter } = page;
    this.queries.push(page);
    const fits = this.deliveries.filter((each) =>
      Object.entries({ ...filter, ...(account !== undefined && { sub: account }) }).every(
        ([name, value]) => Reflect.get(each, name) === value,
      ),
    );
    const from = after === undefined ? 0 : fits.findIndex(({ id }) => id === after) + 1;
    const items = fits.slice(from, from + limit);
    const last = from + limit < fits.length ? items.at(-1) : undefined;
    return this.searching ?? { items, next: last?.id ?? null };
  }
  async find(id: string): Promise<Detail | undefined> {
    return this.deliveries.find((each) => each.id === id);
  }
  async receivers(): ReturnType<Notifications["receivers"]> {
    return { items: this.known, next: null };
  }
  async stats(): ReturnType<Notifications["stats"]> {
    return {
      last_hour: [
        { from: 1_789_999_700, stored: 6, parked: 2 },
        { from: 1_790_000_000, stored: 1, parked: 0 },
      ],
      held_mails: 0,
    };
  }
  #delivery(done: Done): ShownDelivery {
    this.#do(done);
    return sampleDelivery({ id: String(done[1]) });
  }
  #receiver(done: Done): ReceiverReport {
    this.#do(done);
    return sampleReceiver({ receiver: String(done[1]) });
  }
  #do(done: Done): void {
    this.done.push(done);
    const { refusal } = this.answers;
    if (refusal !== undefined && done[2] !== true) throw new SignInError(refusal, "no");
  }
  async redrive(
    id: string,
    { force = false }: { readonly force?: boolean | undefined } = {},
  ): Promise<ShownDelivery> {
    return this.#delivery(["redrive", id, force]);
  }
  async redriveAll(filter?: object): ReturnType<Notifications["redriveAll"]> {
    this.done.push(["redriveAll", filter]);
    return this.answers.redriveAll ?? ENDLESS;
  }
  async sendNow(id: string): Promise<ShownDelivery> {
    return this.#delivery(["sendNow", id]);
  }
  async discard(id: string): Promise<ShownDelivery> {
    return this.#delivery(["discard", id]);
  }
  async pause(receiver: string): Promise<ReceiverReport> {
    return this.#receiver(["pause", receiver]);
  }
  async resume(receiver: string): Promise<ReceiverReport> {
    return this.#receiver(["resume", receiver]);
  }
  test(receiver: string): Answers["test"] {
    this.done.push(["test", receiver]);
    return this.answers.test;
  }
}

/** The account that the deliveries are about. */
export const SUB = "5b8a2c0e-1111-4222-8333-444455556666";

/** Resets the site to four deliveries, two receivers and an operator. */
export function refill(site: ConsoleSite): void {
  const { console } = site;
  site.visitor = person();
  console.deliveries.length = 0;
  console.done.length = 0;
  console.queries.length = 0;
  const common = { receiver: "service:1", sub: SUB, type: "PROFILE_CHANGED" };
  console.deliveries.push(
    sampleDelivery({ id: "msg_1", ...common, reason: "attempts", history: [] }),
    sampleDelivery({ id: "msg_2", ...common, state: "waiting", reason: null, history: [] }),
    sampleDelivery({ id: "msg_3", ...common, state: "delivered", receiver: "group:media", history: [] }),
    sampleDelivery({ id: "msg_4", ...common, state: "discarded", type: "DELETE_ACCOUNT", history: [] }),
  );
  console.known = [
    sampleReceiver({ receiver: "service:1", url: "https://news.example/notify" }),
    sampleReceiver({ receiver: "group:media", paused: true, reason: "by hand", waiting: 4, parked: 1 }),
  ];
}

/** The site and its current user. */
export interface ConsoleSite {
  readonly base: string;
  readonly console: MemoryConsole;
  /** The `sub` of every operator. */
  readonly operators: string[];
  /** The user of all requests, or `undefined` without a session. */
  visitor: SignedIn | undefined;
  /** Gets the error of an operation that failed after its page was sent. */
  onDefect: (error: unknown) => void;
  close(): Promise<void>;
}

/** The account that the deliveries are about, with an app. */
function oneAccount({ done }: MemoryConsole): Partial<OperatorServices["accounts"]> {
  const app = { added_at: 0, last_used_at: null, stopped: false };
  const account = { ...person({ sub: SUB }).account, created_at: 0 };
  return {
    record: async (sub) => (sub === SUB ? account : undefined),
    recordByName: async () => undefined,
    factors: async () => ({ app, passkeys: [], recovery_codes_left: 10 }),
    async removeFactorsOf(sub, which, generation) {
      done.push(["removeFactorsOf", sub, which, generation]);
      return { kind: "changed", recoveryCodes: [], sessions_generation: generation + 1 };
    },
  };
}

/** Starts the site. The caller closes it. */
export async function consoleSite(): Promise<ConsoleSite> {
  const console = new MemoryConsole();
  const pages = pagesWith();
  const server: Server = createServer();
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const base = `http://${host}/prefix`;
  const site: ConsoleSite = {
    base,
    console,
    operators: [OPERATOR],
    visitor: person(),
    onDefect() {},
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => void server.close(resolve));
    },
  };
  const enter: AccountGate["enter"] = async (ctx) => {
    if (site.visitor === undefined) ctx.status = 303;
    return site.visitor;
  };
  const gate: AccountGate = {
    find: async () => site.visitor,
    enter,
    enterRecently: enter,
    stepUp: () => ({ kind: "leave", location: "" }),
    demandSecondFactor() {},
    async callback() {},
  };
  const services = {
    pages,
    gate,
    notifications: console,
    storage: STORAGE,
    accounts: oneAccount(console),
    fields: { rows: [] },
    configuration: { operators: site.operators, profile: "documented" },
    mailDeployment: undefined,
    clock: { now: () => 1_790_000_300_000 },
    seals: createConsoleSeals(createSigner([createSecretKey(Buffer.alloc(32, 7))])),
    onDefect: (error: unknown) => site.onDefect(error),
    // A stub answers at once, or never.
    waitMs: 0,
  } as unknown as OperatorServices;
  const all = createOperatorPages(services, [
    ...createConsolePages(services),
    ...createPeoplePages(services),
  ]);
  const deployment: Deployment = {
    kind: "oauth2",
    url: base,
    path: "/prefix",
    host,
    secure: false,
    post: false,
  };
  const application = new Koa();
  application.silent = true;
  const readBody = createBodyReader();
  application.use(async (ctx) => {
    const path = ctx.path.slice("/prefix".length);
    const id = path.slice(path.lastIndexOf("/") + 1);
    const found =
      all.find((page) => page.path === path) ??
      all.find((page) => page.path === path.replace(/[^/]*$/, ":uid"));
    const answer = found?.methods[ctx.method];
    if (answer === undefined) return;
    const query = new Map(new URLSearchParams(ctx.querystring));
    await answer(
      Object.assign(ctx, {
        exchange: {
          deployment,
          address: "127.0.0.1",
          form: () => readForm(readFields(ctx, readBody)),
        } as unknown as Exchange,
      }),
      { path, id, query },
    );
  });
  const callback = application.callback();
  server.on("request", (request, response) => void callback(request, response));
  return site;
}
