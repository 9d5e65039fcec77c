/**
 * The sides that deliver notifications. The receiver, Redis and an app that only stores share one core; the process
 * that delivers has the other.
 */
import { startRedis } from "./redis.ts";
import { LOAD_CORE, SERVER_CORE, type Side, type SideOptions, startSide } from "./side.ts";

/** Which process delivers: the app, a worker on the same SQLite file, or a worker that BullMQ wakes. */
export const KINDS = ["embedded", "worker", "bullmq"] as const;
export type Kind = (typeof KINDS)[number];

/** The options that docs/operate/set-up/workers.md recommends for workers. */
const WORKERS_NODE = ["--max-semi-space-size=8"] as const;

/** Parallel attempts to one receiver: the default of the service. */
export const CONCURRENCY = 10;

/** The response of a server to a command. */
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

/** A service that sends notifications. */
export interface Notifying {
  /** The process that makes the changes. */
  readonly app: Side;
  /** The process that delivers; `undefined` if it is the app. */
  readonly worker: Side | undefined;
}

export interface NotifyingOptions {
  readonly kind: Kind;
  /** The database. */
  readonly file: string;
  /** The path of the receiver of each service. */
  readonly receivers: Readonly<Record<string, string>>;
  /** Settings of `notifications` that differ from the defaults. */
  readonly notifications?: Readonly<Record<string, unknown>>;
  /** The checkout of the service. Default: this one. */
  readonly checkout?: string | undefined;
}

/** All processes of one measurement. */
export interface Stage {
  readonly receiver: Side;
  readonly notifying: (options: NotifyingOptions) => Promise<Notifying>;
  readonly bare: () => Promise<Side>;
  /** A bare worker whose jobs are added by another process. */
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

/** Starts what all sides share, and stops everything at the end. */
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
  /** Each service has its own database in this Redis; the bare worker has the first one. */
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
