/** A service in memory with a manual clock, for tests of applications that build on it. */
import { randomBytes } from "node:crypto";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import Koa from "koa";
import { pino } from "pino";
import { openStorage, type Storage } from "../records/storage.ts";
import type { DeliveryState, DeliveryStore } from "../records/deliveries/delivery.ts";
import { deliveryContext } from "../records/deliveries/delivery-kinds.ts";
import type { Sealer } from "../core/sealing.ts";
import {
  NOTIFICATION_TYPES,
  type NotificationBody,
  type NotificationType,
} from "../receiver/notification.ts";
import type { DeploymentKind } from "../config/configuration.ts";
import type { DeploymentsInput, SignInServiceConfig } from "../config/input.ts";
import type { Account } from "../accounts/operations/accounts.ts";
import { normalName, readName } from "../accounts/names.ts";
import { createMessages } from "../accounts/people/messages.ts";
import { openMail } from "../records/people/mail-kinds.ts";
import { openSealer } from "../accounts/keys/service-keys.ts";
import { createSignInServiceOver, type SignInService, withoutInternals } from "../lib/service.ts";
import { addPhone } from "./add-passkey.ts";
import type { AuthenticatorOptions, TestAuthenticator } from "./authenticator.ts";
import { Browser } from "./browser/browser.ts";
import { createTestDelivering, type TestDelivering } from "./deliver-due.ts";
import { createStorageFaults, type StorageFaults } from "./storage-faults.ts";
import { followClock } from "./provider-clock.ts";
import {
  readTokens,
  type RequestParameters,
  type SignInAnswers,
  TestClient,
  type TestPerson,
  type TestTokens,
} from "./test-client.ts";
import { TestClock } from "./test-clock.ts";
import { TestReceiver } from "./test-receiver.ts";
import type { MailMessage } from "../config/mail.ts";
import type { ImportedAccount } from "../accounts/account-schema.ts";
import { DEFAULT_KIND } from "../accounts/clients/client-kinds.ts";
import type { AnyNewClient } from "../accounts/clients/client-schema.ts";

/** The configuration, in which everything is optional. The clock is the test's. */
export type TestSignInConfig = Partial<Omit<SignInServiceConfig, "clock">>;

/** One notification for one receiver. */
export interface TestNotification {
  /** Its `webhook-id`. */
  readonly id: string;
  /** `service:KEY`, `group:KEY` or `portal:KEY`. */
  readonly receiver: string;
  /** Stays `waiting` while the service does not deliver, which is the default of a test service. */
  readonly state: DeliveryState;
  /** The documented body. */
  readonly body: NotificationBody;
}

/** The account and the scopes of a token; see `TestSignIn.tokenFor`. */
export interface ApiTokenOptions {
  /** As for `signInAs`. The person is assigned to the service of the API. Default: the token of a machine. */
  readonly account?: TestPerson | Account | string;
  /** Default: all scopes of the API. */
  readonly scopes?: readonly string[];
}

/** The settings of a client of any kind, in which everything but the kind is optional. */
type TestClientSettings<C = AnyNewClient> = C extends AnyNewClient
  ? Partial<Omit<C, "kind">> & Pick<C, "kind">
  : never;

/** What {@link createTestSignIn} returns. */
export interface TestSignIn {
  readonly service: SignInService;
  readonly clock: TestClock;
  /** Base URLs of the deployments. */
  readonly urls: Partial<Readonly<Record<DeploymentKind, string>>>;
  /**
   * Creates an account with a password, and a browser for it. No notification is sent.
   * @param parts as for `accounts.import`. Default: a unique username and e-mail address.
   */
  addPerson(parts?: Partial<Omit<ImportedAccount, "password_hash">>): Promise<TestPerson>;
  /**
   * Adds a passkey to an account, as the person would at "Sign-in methods", but without the pages. No mail is sent.
   * @param account as for `signInAs`.
   * @param kind default: a phone.
   * @returns the authenticator that has the passkey. Its `get` answers what the service asks a browser for.
   * @throws TypeError if the service has no passkeys, because its host is an IP address.
   */
  addPasskey(
    account: TestPerson | Account | string,
    kind?: Omit<AuthenticatorOptions, "origin">,
  ): Promise<TestAuthenticator>;
  /**
   * Registers a client, and its service if that does not exist.
   * @param settings as for `clients.register`. Default: first-party, of the service `"1"`.
   * @returns the client at the `openid` deployment if there is one. `at` gets it at the other.
   */
  addClient(settings?: TestClientSettings): Promise<TestClient>;
  /**
   * A whole sign-in in one call: the login form, the consent page and the code, in the browser of the person, who is
   * signed in there afterwards.
   * @param account a person; or an account, a username or an e-mail address of one. An unknown name is added.
   * @returns the person, with the tokens.
   * @throws UnexpectedAnswer if it does not end with tokens.
   * @throws TypeError for an account whose password the test service doesn't know, because `addPerson` did not add it.
   */
  signInAs(
    account: TestPerson | Account | string,
    client: TestClient,
    parameters?: RequestParameters,
    answers?: SignInAnswers,
  ): Promise<TestPerson & { readonly tokens: TestTokens }>;
  /**
   * Gets an access token for an API of the directory, as a client of its service gets one. Each call registers such a
   * client.
   * @param identifier as for `directory.apis.put`.
   * @throws TypeError if the directory has no such API.
   * @throws UnexpectedAnswer if it does not end with a token.
   */
  tokenFor(identifier: string, options?: ApiTokenOptions): Promise<string>;
  /**
   * Adds a receiver of notifications to a service of the directory, which is created if it does not exist. It listens on
   * a port of the loopback, and fails when the test wants it to. {@link TestSignIn.deliver} sends to it.
   * @param service its key; default `"1"`.
   * @param types default: all of them.
   */
  addReceiver(service?: string, types?: readonly NotificationType[]): Promise<TestReceiver>;
  /**
   * Sends all notifications that are due by `clock`, and waits for the responses. Retries of failed ones are due after
   * exactly `notifications.retryDelays`: advance the clock, and call it again.
   */
  deliver(): Promise<void>;
  /** Makes the storage fail. */
  readonly storage: StorageFaults;
  /** All stored notifications, with their bodies. */
  notifications(): Promise<TestNotification[]>;
  /** All mail to people, oldest first. Empty if you configure `mail` or `mailer`, which gets it then. */
  mails(): Promise<MailMessage[]>;
  /** Closes the service, and the listener if there is one. */
  close(): Promise<void>;
}

/** No server listens there; browsers of tests stop before it. */
const CALLBACK = "http://127.0.0.1:9/callback";

/** High enough that no rate limit stops a test. */
const MANY = { points: 1_000_000, seconds: 900 };

/**
 * Starts a service for tests. By default it stores everything in memory, logs nothing, and sends no notifications:
 * `notifications()` returns those that it has stored.
 *
 * `clock` starts with the system's time and stands still until a test advances it. Codes, tokens, ID tokens, sessions, limits
 * and notifications follow it. Timers don't: a service that delivers polls every `notifications.poll` seconds of the system.
 * DPoP proofs are compared with the system's time. Passwords are hashed at next to no cost, unless you configure `passwords`.
 * @param config without `deployments` the service has both, and listens on a free port of `localhost`. With them, the
 * test mounts `service.routes()` in its own application.
 */
export async function createTestSignIn(config: TestSignInConfig = {}): Promise<TestSignIn> {
  const clock = new TestClock();
  const listener = config.deployments === undefined ? await listen() : undefined;
  const deployments = config.deployments ?? listener!.deployments;
  // Read here too, to open the bodies of notifications.
  const secrets = config.keys?.secrets ?? [randomBytes(32).toString("base64")];
  const opened: { storage?: Storage } = {};
  const planted = createStorageFaults();
  const mails: MailMessage[] = [];
  const isOwn = config.mail !== undefined || config.mailer !== undefined;
  const internal = await createSignInServiceOver(
    {
      storage: "sqlite::memory:",
      logger: pino({ level: "silent" }),
      proxy: false,
      ...(!isOwn && { mailer: { send: async (message: MailMessage) => void mails.push(message) } }),
      ...config,
      rateLimits: { interactions: MANY, authorizations: MANY, ...config.rateLimits },
      notifications: { worker: false, allowedReceivers: ["127.0.0.1"], ...config.notifications },
      keys: { ...config.keys, secrets },
      deployments,
      clock,
    },
    async (configuration) =>
      (opened.storage = await openStorage(configuration, undefined, (store) => planted.through(store))),
    { onProvider: followClock, cheapHashes: config.passwords === undefined },
  ).catch(async (error: unknown) => {
    await listener?.close();
    throw error;
  });
  const service = withoutInternals(internal);
  listener?.serve(service);
  const storage = opened.storage!;
  const { faults } = planted;
  const persons: TestPerson[] = [];
  const receivers: TestReceiver[] = [];
  let delivering: TestDelivering | undefined;
  const urls = Object.fromEntries(Object.entries(deployments).map(([kind, { url }]) => [kind, url]));
  let people = 0;

  /** The person of an account, a name or an address. */
  async function personOf(account: TestPerson | Account | string): Promise<TestPerson> {
    if (typeof account !== "string" && "browser" in account) return account;
    const known = persons.find(({ account: { sub, username, email } }) =>
      typeof account === "string"
        ? [username, email].some((name) => name !== null && normalName(name) === readName(account))
        : sub === account.sub,
    );
    if (known !== undefined) return known;
    const isName = typeof account === "string";
    if (!isName || (await service.accounts.findByLogin(account)) !== undefined)
      throw new TypeError("account: its password is not known; add it with addPerson");
    return test.addPerson(account.includes("@") ? { email: account } : { username: account });
  }

  const test: TestSignIn = {
    service,
    clock,
    urls,
    storage: faults,
    async signInAs(account, client, parameters, answers) {
      const person = await personOf(account);
      return { ...person, tokens: await client.signIn(person, parameters, answers) };
    },
    async tokenFor(resource, { account, scopes } = {}) {
      const api = await service.directory.apis.find(resource);
      if (api === undefined) throw new TypeError("identifier: the directory has no such API");
      const wanted = scopes ?? Object.keys(api.scopes);
      const settings = { service: api.service, apis: { [resource]: [...wanted] } };
      const parameters = { resource, scope: wanted.join(" ") };
      if (account !== undefined) {
        const person = await personOf(account);
        await service.accounts.assign(person.account.sub, api.service);
        const client = await test.addClient(settings);
        return (await client.signIn(person, parameters)).access_token;
      }
      const machine = await test.addClient({ ...settings, kind: "machine" });
      const answer = await machine.token({ grant_type: "client_credentials", ...parameters });
      return readTokens(answer).access_token;
    },
    async addReceiver(key = "1", types = NOTIFICATION_TYPES) {
      const credentials = { client_id: "sign-in", client_secret: randomBytes(24).toString("base64url") };
      const receiver = await TestReceiver.open(`service:${key}`, credentials);
      receivers.push(receiver);
      const { name = `Service ${key}`, group = null } = (await service.directory.services.find(key)) ?? {};
      await service.directory.services.put(key, {
        name,
        ...(group !== null && { group }),
        receiver: { url: receiver.url, ...credentials, types: [...types] },
      });
      return receiver;
    },
    async deliver() {
      delivering ??= createTestDelivering(service, storage, await openSealer(service.configuration, storage));
      await delivering.deliverDue();
    },
    async addPerson(overrides = {}) {
      people += 1;
      const usual = {
        email: `person${people}@example.com`,
        username: `person${people}`,
        email_verified: true,
      };
      const password = overrides.password ?? `the password of person ${people}`;
      const account = await service.accounts.import({ ...usual, ...overrides, password });
      // The service decides when a cookie expires, by the clock of the test.
      const browser = new Browser({ stayAt: Object.values(urls).map((url) => `${url}/`), now: () => 0 });
      const person = { account, username: account.username ?? account.email, password, browser };
      persons.push(person);
      return person;
    },
    async addPasskey(account, kind) {
      return addPhone({ service: internal }, (await personOf(account)).account.sub, clock, kind);
    },
    async addClient(settings = {}) {
      const { service: key = "1", kind = DEFAULT_KIND, name = `Client of ${key}` } = settings;
      if ((await service.directory.services.find(key)) === undefined)
        await service.directory.services.put(key, { name: `Service ${key}` });
      const usual = internal.clients.kindOf({ kind }).addresses === null ? {} : { redirect_uris: [CALLBACK] };
      const client = { ...usual, ...settings, name, service: key };
      const credentials = await service.clients.register(client as AnyNewClient);
      return new TestClient({ ...client, ...credentials, urls, scope: "openid" });
    },
    async notifications() {
      const sealer = await openSealer(service.configuration, storage);
      return readNotifications(storage.deliveries, sealer);
    },
    async mails() {
      if (isOwn) return [];
      mails.push(...(await takeMails(storage, service.configuration)));
      return [...mails];
    },
    async close() {
      await listener?.close();
      await delivering?.close();
      await service.close();
      await Promise.all(receivers.map((receiver) => receiver.close()));
    },
  };
  return test;
}

interface Listener {
  readonly deployments: DeploymentsInput;
  serve(service: SignInService): void;
  close(): Promise<void>;
}

/** The base URLs contain the port, so the server listens before the service is created. */
async function listen(): Promise<Listener> {
  // A connection that waits is not closed: on a slow machine, a client may just have begun to use it.
  const server: Server = createServer({ keepAliveTimeout: 0 });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  // Browsers make no passkeys for an IP address.
  const origin = `http://localhost:${(server.address() as AddressInfo).port}`;
  return {
    deployments: { oauth2: { url: origin }, openid: { url: `${origin}/openid` } },
    serve(service) {
      const answer = new Koa().use(service.routes()).callback();
      server.on("request", (request, response) => void answer(request, response));
    },
    async close() {
      const closed = new Promise((resolve) => void server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
}

/** How long the test may hold mail from the outbox. */
const LEASE_MS = 60_000;

/** Takes the mail that waits, as a service that delivers would send it. */
async function takeMails(
  storage: Storage,
  configuration: SignInService["configuration"],
): Promise<MailMessage[]> {
  const sealer = await openSealer(configuration, storage);
  const render = createMessages(configuration);
  const mails = await storage.outbox.claim(PAGE, LEASE_MS);
  const taken = mails.map(async (mail) => {
    const message = render(mail.id, openMail(sealer, mail));
    return (await storage.outbox.remove(mail)) && message.to !== "" ? [message] : [];
  });
  return (await Promise.all(taken)).flat();
}

const PAGE = 500;

/** All stored notifications, oldest first. */
async function readNotifications(deliveries: DeliveryStore, sealer: Sealer): Promise<TestNotification[]> {
  const found: TestNotification[] = [];
  for (let after: string | undefined; ;) {
    const page = await deliveries.list({ limit: PAGE, ...(after !== undefined && { after }) });
    for (const { id, receiver, state } of page) {
      const payload = (await deliveries.find(id))?.payload;
      if (payload === undefined || payload === null) continue;
      const body = JSON.parse(sealer.open(deliveryContext(id), payload)) as NotificationBody;
      found.push({ id, receiver, state, body });
    }
    after = page.at(-1)?.id;
    if (page.length < PAGE) return found;
  }
}
