/** Faults of what is sent: the queue, receivers and mail. */
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import type { OwnPostgres } from "../../servers/postgresql.ts";
import { openOwnRedis } from "../../servers/redis.ts";
import { openSmtp, type SmtpServer } from "../../servers/smtp.ts";
import { Deployment, type Member } from "./deployment.ts";
import type { Fault, Lane } from "./fault.ts";
import { MOVED, PEOPLE } from "./visitors.ts";

/** Faults of what is sent: the queue, receivers, mail. */
export async function queueLane(postgres: OwnPostgres): Promise<Lane> {
  const redis = await openOwnRedis();
  const storage = await postgres.newDatabase();
  const deployment = await Deployment.open({ storage, queue: redis, worker: true });
  const lost = {
    health: 200,
    worker: 503,
    part: ["notifications", /the Redis of config\.queue can't be used \(/u],
    metric: "sign_in_queue_up{$on} == 0",
    alerts: ["SignInQueueLost"],
    again: "work in the background works again",
  } as const;
  const faults: Fault[] = [
    {
      ...lost,
      name: "Redis of `queue` hangs",
      begin: () => redis.pause(),
      end: () => redis.resume(),
      line: {
        level: "error",
        msg: "work in the background fails; it is tried again until it works",
        reason: "no answer",
        store: "queue",
      },
      runbook: [["doctor", /no answer comes/u]],
    },
    {
      ...lost,
      name: "Redis of `queue` is stopped",
      begin: () => redis.stop(),
      end: () => redis.start(),
      line: {
        level: "error",
        msg: "work in the background fails; it is tried again until it works",
        reason: "ECONNREFUSED",
        store: "queue",
      },
      runbook: [["doctor", /Nothing listens there/u]],
    },
  ];
  return { deployment, faults, close: () => redis.close() };
}

/** Faults of receivers and of the mail server. */
export async function sendingLane(postgres: OwnPostgres): Promise<Lane> {
  let smtp: SmtpServer = await openSmtp();
  const { port } = smtp;
  const storage = await postgres.newDatabase();
  const deployment = await Deployment.open({ storage, mail: smtp, worker: true });
  const ports = new Map<string, number>();
  const worker = (): Member => deployment.worker!;
  const mailedTo = (email: string): Promise<unknown> =>
    deployment.run("accounts", "update", PEOPLE[0].username, "--email", email);
  const faults: Fault[] = [
    {
      name: "Two receivers are down",
      at: worker,
      async begin() {
        for (const [key, server] of deployment.receivers) {
          ports.set(key, (server.address() as AddressInfo).port);
          server.closeAllConnections();
          server.close();
          await once(server, "close");
        }
        const updates = PEOPLE.map(({ username }) =>
          deployment.run("accounts", "update", username, "--gender", "unknown"),
        );
        await Promise.all(updates);
      },
      async end() {
        for (const [key, server] of deployment.receivers) {
          server.listen(ports.get(key), "127.0.0.1");
          await once(server, "listening");
        }
        // Otherwise they are tried again when it is their time.
        const resumed = [...deployment.receivers.keys()].map((key) =>
          deployment.run("receivers", "resume", `service:${key}`),
        );
        await Promise.all(resumed);
      },
      health: 200,
      worker: 503,
      part: ["receivers", /service:shop/u],
      line: { level: "warn", msg: "a receiver of notifications fails" },
      again: "a receiver of notifications works again",
      metric: 'count(sign_in_receivers_stopped{state="circuit_open",$on}) >= 2',
      alerts: ["SignInReceiverCircuitOpen", "SignInDeliveriesLate"],
      runbook: [
        ["receivers list", /service:shop.*ECONNREFUSED/u],
        ["receivers test NAME", /ECONNREFUSED/u],
      ],
      within: 4200,
    },
    {
      name: "The mail server is down",
      at: worker,
      async begin() {
        await smtp.close();
        await mailedTo(MOVED[0]);
      },
      async end() {
        smtp = await openSmtp("usual", port);
        // What waits is sent at its next time; new mail is sent now.
        await mailedTo(MOVED[1]);
        await smtp.until(2);
      },
      health: 200,
      worker: 503,
      part: ["mail", /./u],
      line: {
        level: "error",
        msg: "work in the background fails; it is tried again until it works",
        reason: "connection",
        store: "mail",
      },
      again: "work in the background works again",
      metric: "sign_in_mail_oldest_timestamp_seconds{$on} > 0",
      alerts: ["SignInMailLate"],
      runbook: [],
      within: 1260,
    },
  ];
  return {
    deployment,
    faults,
    close: () => smtp.close(),
  };
}
