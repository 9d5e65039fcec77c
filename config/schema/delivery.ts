/** `notifications` and `mail`. */
import { z } from "zod";
import type { Mailer, MailMessage, NotificationSettings } from "../configuration.ts";
import { defaults } from "../defaults.ts";
import type { MailInput, NotificationsInput } from "../input.ts";
import { isHostName, isNetwork } from "../networks.ts";
import { isSender, isSmtpAddress } from "../value-forms.ts";
import {
  described,
  duration,
  flag,
  list,
  optional,
  section,
  text,
  whole,
  withMethods,
  writtenAs,
  type Written,
} from "./parts.ts";

const { notifications } = defaults;

const MAX_DELAY = 30 * 24 * 60 * 60;
const delayForm = `a number of seconds from 0 to ${MAX_DELAY}`;
const receiverForm = "an IP address, a network such as `10.0.0.0/8`, or a host name in lower case";

const seconds = (byDefault: number, description: string) =>
  described(z.number().min(0.001).max(300).default(byDefault), {
    form: "a number of seconds from 0.001 to 300",
    description,
  });

/** `notifications`. */
export const notificationsSchema: z.ZodType<
  NotificationSettings,
  Written<NotificationsInput>
> = writtenAs<NotificationsInput>()(
  z.strictObject({
    retryDelays: described(
      z
        .array(z.number().min(0).max(MAX_DELAY).meta({ form: delayForm }))
        .max(100)
        .readonly()
        .default(notifications.retryDelays),
      {
        form: "a list of at most 100 numbers of seconds",
        description: "The wait before each further attempt: N delays are N + 1 attempts",
      },
    ),
    timeouts: section(
      z
        .strictObject({
          connect: seconds(notifications.timeouts.connect, "Seconds to connect to a receiver"),
          total: seconds(notifications.timeouts.total, "Seconds for the whole attempt"),
        })
        .prefault({}),
      "Time-outs of an attempt",
    ),
    concurrency: section(
      z
        .strictObject({
          total: whole(
            [1, 10_000],
            notifications.concurrency.total,
            "Attempts at once in a process; one in five is kept for receivers that have none",
          ),
          perReceiver: whole(
            [1, 10_000],
            notifications.concurrency.perReceiver,
            "Attempts at once to one receiver, in a process; over Redis at most twice as many in all of them",
          ),
        })
        .prefault({}),
      "How much is sent at once",
    ),
    allowedReceivers: described(
      list(
        text(253, (value) => isNetwork(value) || isHostName(value), receiverForm),
        0,
      ).default(notifications.allowedReceivers),
      {
        form: `a list of different entries, each ${receiverForm}`,
        description:
          "Receivers of notifications and of logout tokens that may live outside the public Internet or speak plain http",
      },
    ),
    breaker: section(
      z
        .strictObject({
          failures: whole(
            [1, 1000],
            notifications.breaker.failures,
            "Failed attempts in a row after which a receiver is held back and probed",
          ),
          probe: seconds(
            notifications.breaker.probe,
            "Seconds to the first probe; doubled after each that fails",
          ),
          longestProbe: seconds(notifications.breaker.longestProbe, "Seconds between two probes at most"),
        })
        .prefault({}),
      "When a receiver that fails is held back",
    ),
    retention: section(
      z
        .strictObject({
          payloads: duration(
            notifications.retention.payloads,
            "Seconds for which the payload is kept after success",
          ),
          records: duration(
            notifications.retention.records,
            "Seconds for which records are kept after the end, and parked deliveries with their payloads",
          ),
        })
        .prefault({}),
      "How long deliveries are kept that are not waiting any more",
    ),
    poll: seconds(
      notifications.poll,
      "Seconds between two looks at the storage for what other processes stored; SQLite and PostgreSQL tell of it sooner",
    ),
    worker: flag(notifications.worker, "Deliver in this process"),
  }),
);

const smtpForm = "an `smtp://` or `smtps://` URL";
const smtpUrl = text(2048, isSmtpAddress, smtpForm);

/** `mail`. */
export const mailSchema: z.ZodType<MailInput, Written<MailInput>> = writtenAs<MailInput>()(
  z.union([
    smtpUrl,
    z.strictObject({
      url: described(smtpUrl, {
        form: smtpForm,
        description: "The mail server, with user and password when it wants them",
        otherwise: "required",
      }),
      from: optional(text(320, isSender, "a sender"), {
        form: "an e-mail address or `Name <address>`",
        description: "The sender",
        otherwise: "none",
      }),
    }),
    withMethods<Mailer>("send"),
    z.custom<(message: MailMessage) => Promise<void>>((value) => typeof value === "function"),
  ]),
);
