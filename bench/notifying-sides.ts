/**
 * What delivers notifications in the measurements. The receiver, Redis and the app that only stores share one core;
 * the process that delivers has the other one.
 */
import { startRedis } from "./redis.ts";
import { LOAD_CORE, SERVER_CORE, type Side, type SideOptions, startSide } from "./side.ts";

/** Who delivers: the app itself, a worker on the same SQLite file, or a worker that BullMQ wakes. */
export const KINDS = ["embedded", "worker", "bullmq"] as const;
export type Kind = (typeof KINDS)[number];

/** As docs/operating-notifications.md says that a worker is to be started. */
const WORKERS_NODE = ["--max-semi-space-size=8"] as const;

/** Attempts at once to one receiver: the default of the service. */
export const CONCURRENCY = 10;

/** What a server answers to a command. */
export async function ask(
  { ready }: Side,
  command: string,
  options: Readonly<Record<string, string | number>> = {},
): Promise<unknown> {
  const query = new URLSearchParams(Object.entries(options).map(([key, value]) => [key, String(value)]));
  const response = await fetch(`${ready["base"] ?? ""}/${command}?${query.toString()}`);
  const text = await response.text();
  if (response.status !== 200) throw new Error(`${command}: ${text}`);
  return JSON.parse(text);
}

/** A service that notifies. */
export interface Notifying {
  /** Makes the changes. */
  readonly app: Side;
  /** Delivers; `undefined` when the app does. */
  readonly worker: Side | undefined;
}

export interface NotifyingOptions {
  readonly kind: Kind;
  /** The database. */
  readonly file: string;
  /** The path of each service's receiver. */
  readonly receivers: Readonly<Record<string, string>>;
  /** `notifications` of the configuration, as far as it is not the default. */
  readonly notifications?: Readonly<Record<string, unknown>>;
  /** The checkout whose service it is. Default: this one. */
  readonly checkout?: string | undefined;
}

/** Everything that one measurement has running. */
export interface Stage {
  readonly receiver: Side;
  readonly notifying: (options: NotifyingOptions) => Promise<Notifying>;
  readonly bare: () => Promise<Side>;
  /** A bare worker whose jobs are added by a process of its own. */
  readonly bareApart: () => Promise<Notifying & { readonly worker: Side }>;
}

function configOf(
  { kind, file, notifications = {} }: NotifyingOptions,
  redis: string,
): Record<string, unknown> {
  return {
    deployments: { oauth2: { url: "http://127.0.0.1:9" } },
    storage: `sqlite:${file}`,
    queue: kind === "bullmq" ? redis : "embedded",
    notifications: { allowedReceivers: ["127.0.0.1"], ...notifications },
  };
}

/** Starts what all sides share, and ends all of it. */
export async function onStage<T>(folder: string, measure: (stage: Stage) => Promise<T>): Promise<T> {
  const sides: Side[] = [];
  const start = async (
    name: string,
    core: number,
    options: Record<string, unknown> = {},
    how: Pick<SideOptions, "node" | "checkout"> = {},
  ): Promise<Side> => {
    const side = await startSide(name, { options, core, ...how });
    sides.push(side);
    return side;
  };
  /** Each service has a database of this Redis to itself; the bare worker has the first one. */
  let databases = 0;
  const redis = await startRedis(folder, SERVER_CORE);
  try {
    const receiver = await start("receiver", SERVER_CORE);
    const url = (path: string): string => `${receiver.ready["base"] ?? ""}${path}`;
    const bare = { redis: redis.url, url: url("/take/bare"), concurrency: CONCURRENCY };
    return await measure({
      receiver,
      async notifying(options) {
        databases += 1;
        const config = configOf(options, `${redis.url}/${databases}`);
        const receivers = Object.fromEntries(
          Object.entries(options.receivers).map(([name, path]) => [name, url(path)]),
        );
        const { checkout } = options;
        if (options.kind === "embedded") {
          const app = await start("notifying", LOAD_CORE, { config, receivers }, { checkout });
          return { app, worker: undefined };
        }
        const notifications = { ...(config["notifications"] as object), worker: false };
        const app = await start(
          "notifying",
          SERVER_CORE,
          { config: { ...config, notifications }, receivers },
          { checkout },
        );
        const how = { node: WORKERS_NODE, checkout };
        return { app, worker: await start("notification-worker", LOAD_CORE, { config }, how) };
      },
      bare: () => start("bare-bullmq", LOAD_CORE, bare),
      bareApart: async () => ({
        app: await start("bare-bullmq", SERVER_CORE, { ...bare, role: "queue" }),
        worker: await start("bare-bullmq", LOAD_CORE, bare, { node: WORKERS_NODE }),
      }),
    });
  } finally {
    await Promise.all(sides.map((side) => side.stop()));
    await redis.stop();
  }
}
