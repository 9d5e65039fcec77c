/** The REST API over a real service and a real storage, with a token for every role. */
import Koa from "koa";
import { createAuditLog } from "../../accounts/audit-log.ts";
import { once } from "node:events";
import type { IncomingHttpHeaders } from "node:http";
import { request as send } from "node:http";
import type { AddressInfo } from "node:net";
import { text as textOf } from "node:stream/consumers";
import { createKeys, loadServiceKeys } from "../../accounts/keys/service-keys.ts";
import { openSearchIndex } from "../../accounts/search/search-index.ts";
import type { AccountServices } from "../../accounts/services.ts";
import type { RecordStore } from "../../adapters/record-store.ts";
import type { Administrator } from "../../administration/administrator.ts";
import { createPerform, type Perform, type PerformServices } from "../../administration/perform.ts";
import { openApiDocument } from "../../administration/open-api.ts";
import { createOperators } from "../../administration/operators.ts";
import { storageHealth } from "../../records/health.ts";
import { createTokens } from "../../administration/tokens.ts";
import { createRest } from "../../administration/rest/rest.ts";
import { type SignInServiceConfig } from "../../config/input.ts";
import { readConfiguration } from "../../config/read.ts";
import { createLogger } from "../../core/logger.ts";
import { LimitReached } from "../../core/errors.ts";
import { createDocumentClients } from "../../accounts/documents/document-clients.ts";
import { createDocuments } from "../../accounts/documents/kept-copies.ts";
import { createInvitations } from "../../accounts/people/invitations.ts";
import { createAccountServices } from "../../lib/account-services.ts";
import { createNotifier } from "../../notifier/notifier.ts";
import { createStorageServices } from "../../records/services.ts";
import { openStorage } from "../../records/storage.ts";
import { TestClock } from "../../testing/test-clock.ts";
import { atEnd, closing } from "../closing.ts";
import { newStorage } from "../servers/storage.ts";
import { watchedLogout } from "../watched-parts.ts";

/** A record, a page or a problem. */
interface Body {
  readonly [member: string]: unknown;
  readonly items: readonly Readonly<Record<string, unknown>>[];
  readonly next: string | null;
  readonly code: string;
  readonly errors: readonly unknown[];
}

/** An answer, with its body as it was parsed. */
export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Body;
  readonly text: string;
}

export interface Sent {
  readonly headers?: Readonly<Record<string, string>>;
  /** An object is sent as JSON, a text as it is. */
  readonly body?: object | string;
}

/** Sends a request with a path exactly as it is written. */
export type Send = (method: string, path: string, sent?: Sent) => Promise<Answer>;

export interface AdministrationStage extends Pick<
  AccountServices,
  "accounts" | "clients" | "directory" | "documents" | "storage"
> {
  readonly clock: TestClock;
  readonly calls: PerformServices["calls"];
  readonly services: Omit<PerformServices, "hourly">;
  readonly perform: Perform;
  readonly base: string;
  /** Without a token. */
  readonly anybody: Send;
  /** The token of this administrator. */
  tokenOf(who: Omit<Administrator, "actor"> & Partial<Pick<Administrator, "actor">>): string;
  /** With the token of this administrator. */
  as(who: Omit<Administrator, "actor"> & Partial<Pick<Administrator, "actor">>): Send;
  /** What the hourly limits were asked for. */
  readonly taken: (readonly [what: string, value: number | string])[];
  /** What is refused by the hourly limits. */
  readonly full: Set<string>;
  /** What the service has written to the log about requests: the templates. */
  readonly templates: string[];
}

/** Of a token that does not say which. */
const ACTOR = { kind: "token", id: "tok_1" } as const;

export async function openAdministration(
  more: Partial<SignInServiceConfig> = {},
  through?: (store: RecordStore) => RecordStore,
): Promise<AdministrationStage> {
  const clock = new TestClock();
  const configuration = readConfiguration({
    deployments: { openid: { url: "http://127.0.0.1:39998/openid" } },
    notifications: { worker: false, allowedReceivers: ["127.0.0.0/8"] },
    keys: { secrets: [Buffer.alloc(32, 7).toString("base64")] },
    clock,
    ...(await newStorage()),
    ...more,
  });
  const storage = closing(await openStorage(configuration, undefined, through));
  const keys = await loadServiceKeys(configuration, storage);
  await openSearchIndex(storage.records);
  const logger = createLogger({ level: "silent" });
  const base = createStorageServices({ configuration, storage, sealer: keys.sealer, logger });
  atEnd(() => base.audit.close());
  const notifier = await createNotifier(base);
  atEnd(() => notifier.stop(0));
  const below = createAccountServices(
    {
      ...base,
      keys,
      backchannel: watchedLogout(),
      onMail: () => undefined,
      onDeliveries: () => undefined,
    },
    { isCheap: true },
    { createDocuments },
  );
  atEnd(() => below.passwords.close());
  atEnd(() => below.cleanup.settled(5_000));
  const { accounts, clients, directory } = below;
  const audit = createAuditLog(base);
  const { invite, ...invitations } = createInvitations(below);
  const calls = {
    accounts: { ...accounts, invite },
    invitations,
    clients,
    directory,
    documents: createDocumentClients(below),
    notifications: notifier.notifications,
    audit,
    keys: createKeys(keys, () => storage.secrets.read()),
    tokens: createTokens(base).calls,
    operators: createOperators(below).calls,
    health: () => storageHealth(storage),
  };
  const taken: AdministrationStage["taken"] = [];
  const full = new Set<string>();
  const services = { ...below, calls };
  const perform = createPerform({
    ...services,
    hourly: {
      left: async () => undefined,
      async take({ role }, what, value) {
        if (role === "administrator") return;
        taken.push([what, value]);
        if (full.has(what)) throw new LimitReached(600);
      },
      requireRoom: async () => undefined,
    },
  });
  const tokens = new Map<string, Administrator>();
  const templates: string[] = [];
  const rest = createRest({
    perform,
    findToken: async (secret) => tokens.get(secret),
    openApi: openApiDocument,
  });
  const app = new Koa();
  app.use(async (ctx) => {
    const administration = { requestId: "request", origin: { request: "request" }, template: "/v1" };
    try {
      await rest(Object.assign(ctx, { administration }));
    } catch (error) {
      ctx.status = 503;
      ctx.body = { code: String((error as { code?: unknown }).code), message: String(error) };
    }
    templates.push(administration.template);
  });
  const server = app.listen(0, "127.0.0.1");
  await once(server, "listening");
  atEnd(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const sender =
    (secret: string | undefined): Send =>
    (method, path, sent) =>
      exchange(port, method, path, sent, secret);
  const tokenOf: AdministrationStage["tokenOf"] = ({ actor = ACTOR, role, service }) => {
    const written = Buffer.from(JSON.stringify([actor, role, service])).toString("base64url");
    const secret = `sis_${written}`.slice(0, 120);
    tokens.set(secret, { actor, role, ...(service !== undefined && { service }) });
    return secret;
  };
  return {
    accounts,
    clients,
    directory,
    documents: below.documents,
    storage,
    clock,
    calls,
    services,
    perform,
    taken,
    full,
    templates,
    base: `http://127.0.0.1:${port}`,
    anybody: sender(undefined),
    tokenOf,
    as: (who) => sender(tokenOf(who)),
  };
}

/** Sends a request with a path exactly as it is written. */
export async function exchange(
  port: number,
  method: string,
  path: string,
  { headers = {}, body }: Sent = {},
  secret?: string,
): Promise<Answer> {
  const written = body === undefined || typeof body === "string" ? body : JSON.stringify(body);
  const request = send({
    host: "127.0.0.1",
    port,
    method,
    path,
    agent: false,
    headers: {
      ...(secret !== undefined && { Authorization: `Bearer ${secret}` }),
      ...(written !== undefined && {
        "Content-Type": "application/json",
        ...(headers["Transfer-Encoding"] === undefined && { "Content-Length": Buffer.byteLength(written) }),
      }),
      ...headers,
    },
  });
  // A refused body ends the connection while it is sent.
  request.on("error", () => undefined);
  request.end(written);
  const [response] = await once(request, "response");
  const text = await textOf(response);
  const isJson = /json/u.test(response.headers["content-type"] ?? "");
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    text,
    body: (isJson && text !== "" ? JSON.parse(text) : {}) as Body,
  };
}
