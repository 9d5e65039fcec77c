/** A service with real receivers. */
import { pino } from "pino";
import type { NotificationsInput, SignInServiceConfig } from "../../config/input.ts";
import type { ReceiverSettings } from "../../accounts/receivers.ts";
import { createSignInService, type SignInService } from "../../lib/service.ts";
import { type NotificationType, NOTIFICATION_TYPES } from "../../receiver/notification.ts";
import { type Inbox, openInbox } from "../flows/inbox.ts";
import { storedDeliveries } from "./stored-deliveries.ts";

/** A service with its log and its receivers. */
export interface Notified {
  readonly service: SignInService;
  readonly inbox: Inbox;
  readonly log: readonly string[];
  /** A receiver at a path of the inbox. */
  receiver(path: string, types?: readonly NotificationType[]): ReceiverSettings;
  /** The parsed notifications for a path. */
  bodies(
    path: string,
  ): readonly { readonly notification_type: string; readonly data: { readonly services: object } }[];
  /** Creates two services of a group, another service, a portal, and an account with all of them. */
  everything(): Promise<string>;
  /** Creates service "1" with a receiver at this path, and an account. */
  one(path: string, more?: Partial<ReceiverSettings>): Promise<string>;
  /** Waits until no delivery waits. */
  nothingWaits(): Promise<void>;
  close(): Promise<void>;
}

/** Short times, so that failures end soon. */
const SHORT: NotificationsInput = {
  allowedReceivers: ["127.0.0.1"],
  retryDelays: [0.01, 0.01],
  breaker: { probe: 0.01, longestProbe: 0.05 },
  poll: 0.05,
};

/** @param added further keys of the configuration, with the addresses of receivers. */
export async function startNotified(
  notifications: NotificationsInput = {},
  added: (url: (path: string) => string) => Omit<SignInServiceConfig, "deployments"> = () => ({}),
): Promise<Notified> {
  const inbox = await openInbox();
  const log: string[] = [];
  const service = await createSignInService({
    deployments: { oauth2: { url: "http://127.0.0.1:3999" } },
    storage: "sqlite::memory:",
    logger: pino({ level: "trace" }, { write: (line: string) => void log.push(line) }),
    notifications: { ...SHORT, ...notifications },
    ...added((path) => inbox.url(path)),
  });
  const { portals, groups, services } = service.directory;
  const receiver: Notified["receiver"] = (path, types = NOTIFICATION_TYPES) => ({
    url: inbox.url(path),
    client_id: `client ${path}`,
    client_secret: "of the receiver: %+ä",
    types,
  });
  return {
    service,
    inbox,
    log,
    receiver,
    bodies: (path) => inbox.arrived.filter((post) => post.path === path).map(({ body }) => JSON.parse(body)),
    async everything() {
      await portals.put("main", { name: "Main", receiver: receiver("/portal", ["DELETE_ACCOUNT"]) });
      await groups.put("media", { name: "Media", receiver: receiver("/group") });
      for (const key of ["1", "2"]) await services.put(key, { name: key, group: "media" });
      await services.put("3", { name: "Shop", receiver: receiver("/shop", ["PROFILE_CHANGED"]) });
      const assigned = { "1": 1_102_020_202, "2": null, "3": 7 };
      const account = { email: "ada@example.com", portal: "main", services: assigned };
      return (await service.accounts.import(account)).sub;
    },
    async one(path, more = {}) {
      await services.put("1", { name: "1", receiver: { ...receiver(path), ...more } });
      return (await service.accounts.import({ email: "bob@example.com", services: { "1": 5 } })).sub;
    },
    async nothingWaits() {
      while ((await storedDeliveries(service.notifications, { state: "waiting" })).length > 0) {
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    },
    async close() {
      await service.close();
      await inbox.close();
    },
  };
}
