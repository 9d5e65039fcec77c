/**
 * Account events for systems of one's own: which receiver gets which, stored as deliveries in the commit of what
 * happened. Without receivers in the configuration nothing is read and nothing is written.
 */
import { type EventReceiverSettings, EVENT_TYPES, type EventType } from "../../config/events.ts";
import { seconds } from "../../core/clock.ts";
import type { AuditEvent } from "../../records/audit/audit-event.ts";
import { collect } from "../../records/collected.ts";
import { type NewDelivery, WORTH_SENDING_MS } from "../../records/deliveries/delivery.ts";
import { deliveryContext, invitationLane, newDeliveryId } from "../../records/deliveries/delivery-kinds.ts";
import { ACCOUNT } from "../../records/directory/directory-kinds.ts";
import type { Transaction } from "../../records/records.ts";
import type { StorageServices } from "../../records/services.ts";
import type { FieldValues, PersonFields } from "../profile-fields.ts";
import { receiverName } from "../receivers.ts";
import { type AccountStep, EVENT_ROWS, eventBody, profileOf, valuesTold } from "./event-types.ts";

/** Somebody is invited. */
export interface InvitationEvent extends FieldValues {
  /** The id of the invitation: no personal data. */
  readonly invitation: string;
  readonly email: string;
  /** Seconds since the epoch. */
  readonly at: number;
}

/** An event without what differs between receivers. */
interface Happened {
  readonly type: EventType;
  /** The account, or `invitation:ID`: events with the same one arrive in order. */
  readonly lane: string;
  readonly at: number;
  readonly data: Readonly<Record<string, unknown>>;
  /** What `include` can name. */
  readonly values: Readonly<Record<string, unknown>>;
  /** See {@link NewDelivery}. */
  readonly until?: number;
}

export interface Webhooks {
  /** The deliveries of a change, sealed and ready to be stored with it. @param at seconds since the epoch. */
  ofChange(step: AccountStep, at: number): NewDelivery[];
  /** Stores the events of what the audit collects, such as sign-ins, within a second. Never fails. */
  note(event: AuditEvent): void;
  /**
   * Stores the events of a session in the commit that ends it. Where sessions lie in another store it does nothing, and `note`
   * stores them.
   */
  beside(tx: Transaction, ended: AuditEvent): Promise<void>;
  /** Stores what was noted so far. Never fails. */
  flush(): Promise<void>;
  /** Stores what was noted so far; what can't be stored is lost. */
  close(): Promise<void>;
  /** Stores the event of an invitation with the invitation, and sends it after the commit. */
  invited(tx: Transaction, event: InvitationEvent): Promise<void>;
}

/** Something that the audit collects, and when it happened. */
interface Noted {
  readonly event: AuditEvent;
  readonly at: number;
}

/** While more deliveries wait for a receiver, it gets none of what is only worth sending for a while. */
const MOST_WAITING = 100_000;

type Services = Pick<
  StorageServices,
  "configuration" | "storage" | "sealer" | "clock" | "events" | "outages" | "onWarning"
> & {
  readonly fields: PersonFields;
  readonly onDeliveries: (deliveries: readonly NewDelivery[]) => void;
};

export function createWebhooks(
  { configuration, storage, sealer, fields, clock, events, outages, onWarning, onDeliveries }: Services,
  { mostWaiting = MOST_WAITING }: { readonly mostWaiting?: number } = {},
): Webhooks {
  const receivers = Object.entries(configuration.events.receivers).map(
    ([key, settings]) => [receiverName("events", key), settings] as const,
  );
  const isTaken = (type: EventType): boolean => receivers.some(([, { types }]) => types.includes(type));
  const taken = EVENT_TYPES.filter(isTaken);
  const noted = taken.filter((type) => EVENT_ROWS.get(type)?.ofNote !== undefined);

  const deliver =
    ({ type, lane, at, data, values, until }: Happened) =>
    ([receiver, settings]: readonly [string, EventReceiverSettings]): NewDelivery => {
      const id = newDeliveryId(at);
      const body = eventBody(type, at, { ...data, ...profileOf(settings, values) });
      return {
        id,
        receiver,
        sub: lane,
        type,
        payload: sealer.seal(deliveryContext(id), JSON.stringify(body)),
        at,
        ...(until !== undefined && { until }),
      };
    };

  const deliveriesOf = (happened: Happened): NewDelivery[] =>
    receivers.filter(([, { types }]) => types.includes(happened.type)).map(deliver(happened));

  const toldBy = (event: AuditEvent): readonly (readonly [EventType, Happened["data"]])[] =>
    noted.flatMap((type) =>
      (EVENT_ROWS.get(type)?.ofNote?.(event) ?? []).map((told) => [type, told] as const),
    );

  /** The deliveries of what was noted about accounts that are still there. */
  async function ofNoted(
    tx: Transaction,
    batch: readonly Noted[],
    isFleeting: boolean,
  ): Promise<NewDelivery[]> {
    const accounts = await tx.peekAll(batch.map(({ event }) => ACCOUNT.ref(event.subject ?? "")));
    return batch.flatMap(({ event, at }, index) => {
      const account = accounts[index];
      if (account === undefined) return [];
      const { sub, user_id } = account;
      const until = isFleeting && { until: at * 1000 + WORTH_SENDING_MS };
      const common = { lane: sub, at, values: valuesTold(account, fields), ...until };
      return toldBy(event).flatMap(([type, told]) =>
        deliveriesOf({ ...common, type, data: { sub, user_id, ...told } }),
      );
    });
  }

  /** The receivers for which too many deliveries wait. */
  async function fullReceivers(): Promise<ReadonlySet<string>> {
    const names = receivers.map(([receiver]) => receiver);
    const counts = await Promise.all(
      names.map((receiver) => storage.deliveries.countWaiting(receiver, mostWaiting + 1)),
    );
    return new Set(names.filter((_name, index) => (counts[index] ?? 0) > mostWaiting));
  }

  async function storeNoted(batch: readonly Noted[]): Promise<void> {
    const full = await fullReceivers();
    const dropped = new Map<string, number>();
    const stored = await storage.records.transact(
      async (tx) => {
        dropped.clear();
        const all = await ofNoted(tx, batch, true);
        for (const { receiver } of all)
          if (full.has(receiver)) dropped.set(receiver, (dropped.get(receiver) ?? 0) + 1);
        const deliveries = all.filter(({ receiver }) => !full.has(receiver));
        await storage.deliveries.add(tx, deliveries);
        return deliveries;
      },
      { relaxed: true },
    );
    if (stored.length > 0) onDeliveries(stored);
    for (const [receiver, number] of dropped)
      events.emit("delivery.dropped", { receiver, reason: "too_many_waiting", number });
  }

  const { add, flush, close } = collect<Noted>({
    store: storeNoted,
    merge: (_earlier, later) => later,
    outage: outages("storing account events"),
    onLost: (count) =>
      onWarning(`${count} account events, such as sign-ins, could not be stored and are lost`),
  });

  const hasOneStore = storage.parts.length === 1;
  const isBeside = ({ action }: AuditEvent): boolean => hasOneStore && action === "session.ended";

  async function put(tx: Transaction, deliveries: readonly NewDelivery[]): Promise<void> {
    if (deliveries.length === 0) return;
    await storage.deliveries.add(tx, deliveries);
    tx.afterCommit(() => onDeliveries(deliveries));
  }

  return {
    note(event) {
      if (!isBeside(event) && toldBy(event).length > 0) add(Symbol("event"), { event, at: seconds(clock) });
    },
    async beside(tx, event) {
      if (!isBeside(event) || toldBy(event).length === 0) return;
      await put(tx, await ofNoted(tx, [{ event, at: seconds(clock) }], false));
    },
    flush,
    close,
    ofChange(step, at) {
      const account = step.after ?? step.before;
      if (taken.length === 0 || account === undefined) return [];
      // An import says whether anybody is told, also of what it changes.
      if (step.action === "account.imported" && step.isAnnounced !== true) return [];
      const { sub, user_id } = account;
      let values: Happened["values"] | undefined;
      return taken.flatMap((type) =>
        (EVENT_ROWS.get(type)?.ofChange?.(step, fields) ?? []).flatMap((told) => {
          values ??= valuesTold(account, fields);
          return deliveriesOf({ type, lane: sub, at, data: { sub, user_id, ...told }, values });
        }),
      );
    },
    async invited(tx, { invitation, email, at, ...given }) {
      const values = valuesTold({ ...given, email }, fields);
      const happened = {
        type: "account.invited",
        lane: invitationLane(invitation),
        at,
        data: { invitation },
        values,
      } as const;
      await put(tx, deliveriesOf(happened));
    },
  };
}
