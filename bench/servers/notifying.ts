/** This service with users whose changes notify receivers. It delivers itself, or leaves that to a worker. */
import { randomUUID } from "node:crypto";
import { pino } from "pino";
import { createSignInService, type SignInServiceConfig } from "../../lib/index.ts";
import { obey } from "./commands.ts";
import { CREDENTIALS, SIGNING_SECRET } from "./notices.ts";
import { paced } from "./paced.ts";
import { serve } from "./ready.ts";

interface Options {
  readonly config: SignInServiceConfig;
  /** The URL of each service's receiver. */
  readonly receivers: Readonly<Record<string, string>>;
}

const { config, receivers } = JSON.parse(process.argv[2] ?? "{}") as Options;
/** Parallel changes. */
const PARALLEL = 100;

const service = await createSignInService({
  ...config,
  logger: pino({ level: "warn" }, pino.destination(2)),
});
const { accounts, notifications } = service;
const types = ["PROFILE_CHANGED"] as const;
for (const [name, url] of Object.entries(receivers)) {
  const receiver = { url, ...CREDENTIALS, signing_secret: SIGNING_SECRET, types };
  await service.directory.services.put(name, { name, receiver });
}

const groups = new Map<string, readonly string[]>();
let changes = 0;

async function inParallel<T>(items: readonly T[], work: (item: T) => Promise<unknown>): Promise<void> {
  const left = items.values();
  const one = async (): Promise<void> => {
    for (const item of left) await work(item);
  };
  await Promise.all(Array.from({ length: PARALLEL }, one));
}

function change(sub: string): Promise<unknown> {
  changes += 1;
  return accounts.update(sub, { name: `Ada ${changes}` });
}

function usersOf(options: URLSearchParams): readonly string[] {
  return groups.get(options.get("group") ?? "") ?? [];
}

await serve(async () => ({
  handle: obey({
    /** Creates `count` users in a `group`, assigned to `services`. */
    async users(options) {
      const services = Object.fromEntries(
        (options.get("services") ?? "").split(",").map((key) => [key, null]),
      );
      const subs = Array.from({ length: Number(options.get("count")) }, () => randomUUID());
      await inParallel(subs, (sub) => accounts.import({ sub, email: `${sub}@example.com`, services }));
      groups.set(options.get("group") ?? "", subs);
    },
    /** Changes every user of a `group` a number of `times`. */
    async change(options) {
      const users = usersOf(options);
      for (let time = 0; time < Number(options.get("times")); time += 1) await inParallel(users, change);
    },
    /** Changes `perSecond` users of a `group` for a number of `seconds`. */
    pace(options) {
      const perSecond = Number(options.get("perSecond"));
      return paced(usersOf(options).slice(0, perSecond * Number(options.get("seconds"))), perSecond, change);
    },
    pause: (options) => notifications.pause(options.get("receiver") ?? ""),
    resume: (options) => notifications.resume(options.get("receiver") ?? ""),
    /** Removes the receiver of a `service`. */
    async remove(options) {
      const name = options.get("service") ?? "";
      await service.directory.services.put(name, { name });
    },
    receivers: () => notifications.receivers(),
  }),
  close: () => service.close(),
}));
