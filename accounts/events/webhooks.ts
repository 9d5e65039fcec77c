/**
 * Account events for systems of one's own: which receiver gets which, stored as deliveries in the commit of what
 * happened. Without receivers in the configuration nothing is read and nothing is written.
 */
import { type EventReceiverSettings, EVENT_TYPES, type EventType } from "../../config/events.ts";
import type { NewDelivery } from "../../records/deliveries/delivery.ts";
import { deliveryContext, newDeliveryId } from "../../records/deliveries/delivery-kinds.ts";
import type { AccountRecord } from "../../records/directory/directory.ts";
import type { Transaction } from "../../records/records.ts";
import type { StorageServices } from "../../records/services.ts";
import { type FieldValues, type PersonFields, valueOf } from "../profile-fields.ts";
import { receiverName } from "../receivers.ts";
import { type AccountStep, EVENT_ROWS, eventBody, profileOf } from "./event-types.ts";

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
}

export interface Webhooks {
  /** The deliveries of a change, sealed and ready to be stored with it. @param at seconds since the epoch. */
  ofChange(step: AccountStep, at: number): NewDelivery[];
  /** Stores the event of an invitation with the invitation, and sends it after the commit. */
  invited(tx: Transaction, event: InvitationEvent): Promise<void>;
}

type Services = Pick<StorageServices, "configuration" | "storage" | "sealer"> & {
  readonly fields: PersonFields;
  readonly onDeliveries: (deliveries: readonly NewDelivery[]) => void;
};

export function createWebhooks({ configuration, storage, sealer, fields, onDeliveries }: Services): Webhooks {
  const receivers = Object.entries(configuration.events.receivers).map(
    ([key, settings]) => [receiverName("events", key), settings] as const,
  );
  const isTaken = (type: EventType): boolean => receivers.some(([, { types }]) => types.includes(type));
  const taken = EVENT_TYPES.filter(isTaken);

  const valuesOf = (record: FieldValues & Pick<AccountRecord, "email"> & { email_verified?: boolean }) => ({
    email: record.email,
    email_verified: record.email_verified ?? false,
    ...Object.fromEntries(fields.rows.map((row) => [row.name, valueOf(row, record)])),
  });

  const deliver =
    ({ type, lane, at, data, values }: Happened) =>
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
      };
    };

  const deliveriesOf = (happened: Happened): NewDelivery[] =>
    receivers.filter(([, { types }]) => types.includes(happened.type)).map(deliver(happened));

  return {
    ofChange(step, at) {
      const account = step.after ?? step.before;
      if (taken.length === 0 || account === undefined) return [];
      const { sub, user_id } = account;
      let values: Happened["values"] | undefined;
      return taken.flatMap((type) =>
        (EVENT_ROWS.get(type)?.ofChange?.(step, fields) ?? []).flatMap((told) => {
          values ??= valuesOf(account);
          return deliveriesOf({ type, lane: sub, at, data: { sub, user_id, ...told }, values });
        }),
      );
    },
    async invited(tx, { invitation, email, at, ...given }) {
      const values = valuesOf({ ...given, email });
      const deliveries = deliveriesOf({
        type: "account.invited",
        lane: `invitation:${invitation}`,
        at,
        data: { invitation },
        values,
      });
      if (deliveries.length === 0) return;
      await storage.deliveries.add(tx, deliveries);
      tx.afterCommit(() => onDeliveries(deliveries));
    },
  };
}
