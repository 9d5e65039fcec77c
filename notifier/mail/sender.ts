/**
 * Sends the mail of the outbox: claims what is due, sends it, and removes it. Mail that is not accepted is tried again
 * until it is out of date. If a process dies after sending, the mail is sent again with the same Message-ID.
 */
import { setTimeout as pause } from "node:timers/promises";
import { inSeconds } from "../../core/clock.ts";
import type { MailFailure } from "../../core/events.ts";
import { normalName } from "../../accounts/names.ts";
import type { RenderMail } from "../../accounts/people/messages.ts";
import type { AskedHealth } from "../../records/health.ts";
import type { StorageServices } from "../../records/services.ts";
import { openMail, type StoredMail } from "../../records/people/mail-kinds.ts";
import { type MailOutcome, recipientHash } from "../../records/people/outbox.ts";
import type { Outage } from "../../core/outages.ts";
import type { Sealer } from "../../core/sealing.ts";
import { ATTEMPT_TIMEOUT_MS, createMailTransport, MailRefused, type SendMail } from "./transport.ts";
import type { Mailer, SmtpSettings } from "../../config/mail.ts";
import { within } from "../../core/with-timeout.ts";

type Services = Pick<
  StorageServices,
  "configuration" | "clock" | "storage" | "sealer" | "events" | "outages"
>;

const SECOND = 1000;
const MINUTE = 60 * SECOND;

/** Pauses after the first attempt, the second, …; the last one repeats. */
const RETRY_DELAYS_MS: readonly number[] = [10 * SECOND, MINUTE, 5 * MINUTE, 15 * MINUTE, 30 * MINUTE];
/** How long a claim lasts: longer than an attempt, so that two workers don't send one mail. */
const LEASE_MS = ATTEMPT_TIMEOUT_MS + MINUTE;
/** How many mails are sent at the same time. */
const BATCH = 10;
/** The shortest pause between polls. */
const MIN_SLEEP_MS = 100;

/** Mail that no key opens has its own turn, and fails when it is sent. */
function recipient(sealer: Sealer, mail: StoredMail): string {
  try {
    return openMail(sealer, mail).to;
  } catch {
    return mail.id;
  }
}

export class MailSender {
  readonly #services: Services;
  readonly #send: SendMail;
  readonly #storageOutage: Outage;
  readonly #mailOutage: Outage;
  /** Why the mail server did not take the last mail; `undefined` if it did, or could have. */
  #failure: MailFailure | undefined;
  /** Loaded for the first mail. */
  #render: Promise<RenderMail> | undefined;
  #sleeping = new AbortController();
  #stopped = false;
  #endWatch: () => void = () => undefined;
  #loop: Promise<void> = Promise.resolve();

  constructor(services: Services, mailer: SmtpSettings | Mailer) {
    this.#services = services;
    this.#send = createMailTransport(mailer);
    this.#storageOutage = services.outages("looking for mail that is due");
    this.#mailOutage = services.outages("sending mail");
  }

  /**
   * Whether the mail server works, by the last attempt: nothing is sent to find out. Without mail that waits there is nothing that
   * could fail.
   */
  async health(): Promise<AskedHealth> {
    const failure = this.#failure;
    if (failure === undefined || (await this.#services.storage.outbox.nextDue()) === undefined)
      return { ok: true, detail: "" };
    return { ok: false, detail: `the last mail could not be sent: ${failure}` };
  }

  start(): void {
    this.#endWatch = this.#services.storage.outbox.watch(() => this.wake());
    this.#loop = this.#run();
  }

  /** Something may be due. */
  wake(): void {
    this.#sleeping.abort();
  }

  /** Waits for the running attempts, `grace` milliseconds at most. What is not finished is sent again later. */
  async stop(grace: number): Promise<void> {
    this.#stopped = true;
    this.#endWatch();
    this.wake();
    await within(grace, this.#loop, () => undefined);
  }

  /** Sends everything that is due. @returns milliseconds until the next mail is due. */
  async pass(): Promise<number> {
    const { storage, clock, sealer } = this.#services;
    const { outbox } = storage;
    const recipientOf = (mail: StoredMail): string => recipient(sealer, mail);
    while (!this.#stopped) {
      const mails = await outbox.claim(BATCH, LEASE_MS, recipientOf);
      if (mails.length === 0) break;
      const deliveries = mails.map((mail) => this.#deliver(mail));
      // Wait for all of them even if one fails.
      await Promise.allSettled(deliveries);
      await Promise.all(deliveries);
    }
    const due = await outbox.nextDue();
    return due === undefined ? Infinity : due - clock.now();
  }

  async #deliver(mail: StoredMail): Promise<void> {
    const { storage, events } = this.#services;
    const { outbox } = storage;
    const { kind } = mail;
    const refusal = await this.#attempt(mail);
    if (refusal === undefined || refusal === "nobody") {
      const isRemoved = await outbox.remove(mail, refusal === undefined ? this.#outcome(mail) : undefined);
      if (isRemoved && refusal === undefined) events.emit("mail.sent", { kind });
      return;
    }
    const retryAt = refusal.final ? null : this.#retryAt(mail);
    const outcome = refusal.final ? this.#outcome(mail, refusal.code) : undefined;
    const isRecorded = await (retryAt === null
      ? outbox.remove(mail, outcome)
      : outbox.postpone(mail, retryAt));
    if (isRecorded) events.emit("mail.failed", { kind, reason: refusal.code, retry_at: inSeconds(retryAt) });
  }

  async #attempt(mail: StoredMail): Promise<MailRefused | "nobody" | undefined> {
    try {
      const message = await this.#message(mail);
      if (message.to === "") return "nobody";
      await this.#send(message);
      this.#failure = undefined;
      this.#mailOutage.worked();
      return undefined;
    } catch (error) {
      const refusal = error instanceof MailRefused ? error : new MailRefused("unexpected");
      // A refused recipient and greylisting are no faults of the mail server.
      const isFault = !refusal.final && refusal.code !== "delayed";
      this.#failure = isFault ? refusal.code : undefined;
      if (isFault) this.#mailOutage.failed(error);
      return refusal;
    }
  }

  /** What support is told about the address: see `accounts.diagnose`. */
  #outcome(mail: StoredMail, refusal?: MailFailure): MailOutcome {
    const { sealer } = this.#services;
    return { recipient: recipientHash(sealer, normalName(openMail(sealer, mail).to)), refusal };
  }

  async #message(mail: StoredMail): Promise<Parameters<SendMail>[0]> {
    const { configuration, sealer } = this.#services;
    this.#render ??= import("../../accounts/people/messages.ts").then(({ createMessages }) =>
      createMessages(configuration),
    );
    const render = await this.#render;
    return render(mail.id, openMail(sealer, mail));
  }

  /** `null` if the mail is out of date by then. */
  #retryAt({ attempts, expiresAt }: StoredMail): number | null {
    const wait = RETRY_DELAYS_MS[attempts - 1] ?? RETRY_DELAYS_MS.at(-1) ?? 0;
    const at = Math.floor(this.#services.clock.now() + wait);
    return at < expiresAt ? at : null;
  }

  async #run(): Promise<void> {
    const interval = this.#services.configuration.notifications.poll * SECOND;
    while (!this.#stopped) {
      // Before the poll, so that mail stored during it wakes the next one.
      this.#sleeping = new AbortController();
      let wait = interval;
      try {
        wait = Math.min(wait, await this.pass());
        this.#storageOutage.worked();
      } catch (error) {
        this.#storageOutage.failed(error);
      }
      const { signal } = this.#sleeping;
      const sleep = pause(Math.max(wait, MIN_SLEEP_MS), undefined, { ref: false, signal });
      await sleep.catch(() => undefined);
    }
  }
}
