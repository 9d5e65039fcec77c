/** Converts the data of version 0.1 to records. */
import type { RecordData } from "../../adapters/record-store.ts";
import type { Converted, ConvertV01, V01Delivery, V01Items, V01Lane, V01Part } from "../../adapters/v01.ts";
import { artifactRecord, isArtifactModel } from "../artifacts/records.ts";
import { type FirstAuditRecord, fromFirstVersion } from "../audit/records.ts";
import {
  deliveryRecord,
  type Flight,
  type StoredDelivery,
  laneRecord,
  receiverRecord,
} from "../deliveries/records.ts";
import { untouchedReceiver } from "../deliveries/delivery.ts";
import type { AccountRecord, ClientRecord, EntryRecord } from "../directory/directory.ts";
import {
  accountRecord,
  clientRecord,
  entryRecord,
  identifierRecord,
  nameRecord,
  numberRecord,
  settingRef,
} from "../directory/records.ts";

/** The delivery in flight of a lane, unless it is the head, whose own record says so. */
function flightApart({ lease, head }: V01Lane): Flight | null {
  if (lease === null || lease.sequence === head) return null;
  return { id: lease.claimed, sequence: lease.sequence, end: lease.end };
}

function toStored({ history, lane, ...delivery }: V01Delivery, position: number): StoredDelivery {
  const isHead = delivery.state === "waiting" && lane?.head === delivery.sequence;
  const claim = lane?.lease?.claimed === delivery.id ? lane.lease : null;
  return {
    ...delivery,
    position,
    attemptRecords: history,
    isHead,
    // Version 0.1 counted the claims of the lane.
    fence: claim === null ? 0 : (lane?.fence ?? 0),
    lease: claim && { owner: claim.owner, end: claim.end },
    flight: isHead && lane !== undefined ? flightApart(lane) : null,
  };
}

function toLane(lane: V01Lane): RecordData {
  const { receiver, sub, lastSequence, lastDelivered, head } = lane;
  const flight = head === null ? flightApart(lane) : null;
  return laneRecord({ receiver, sub, lastSequence, lastDelivered, flight });
}

/** A position after the last one, and not before this time: microseconds since the epoch. */
const positionAfter = (last: number, milliseconds: number): number =>
  Math.max(last + 1, Math.floor(milliseconds * 1_000));

/** Makes the records of one item, given the last position; also returns the position of the item. */
type Convert<Item> = (item: Item, last: number) => readonly [records: readonly RecordData[], last: number];

/** For parts without positions. */
function unordered<Item>(toRecords: (item: Item) => readonly RecordData[]): Convert<Item> {
  return (item, last) => [toRecords(item), last];
}

const CONVERT: { readonly [Part in V01Part]: Convert<V01Items[Part]> } = {
  entries: unordered(({ kind, record }) => [entryRecord(kind, record as unknown as EntryRecord)]),
  clients: unordered((json) => {
    const client = json as unknown as ClientRecord;
    return [clientRecord(client), identifierRecord(client.client_id)];
  }),
  accounts: unordered(({ record, names }) => {
    const account = record as unknown as AccountRecord;
    const { sub, user_id } = account;
    return [
      accountRecord(account),
      numberRecord(user_id, sub),
      ...names.map((name) => nameRecord(name, sub)),
    ];
  }),
  audit: (json, last) => {
    const record = json as unknown as FirstAuditRecord;
    const position = positionAfter(last, record.at * 1_000);
    return [[fromFirstVersion(record, position)], position];
  },
  deliveries: (delivery, last) => {
    const position = positionAfter(last, delivery.storedAt);
    return [[deliveryRecord(toStored(delivery, position))], position];
  },
  // Each receiver that ever had a delivery gets a record. Those with a state are replaced by the next part.
  lanes: unordered((lane) => [
    toLane(lane),
    receiverRecord({ receiver: lane.receiver, ...untouchedReceiver }),
  ]),
  receivers: unordered((receiver) => [receiverRecord(receiver)]),
  grants: unordered((grant) => [artifactRecord(grant)]),
  // Models that this version does not store were not used by version 0.1 either.
  artifacts: unordered((artifact) => (isArtifactModel(artifact.model) ? [artifactRecord(artifact)] : [])),
  kept: unordered(({ name, value }) => [{ ...settingRef(name), value: { value } }]),
};

/** The last of several records with one name counts. */
export const convertV01: ConvertV01 = <Part extends V01Part>(
  part: Part,
  items: readonly V01Items[Part][],
  last: number,
): Converted => {
  const records = new Map<string, RecordData>();
  let position = last;
  for (const item of items) {
    const [made, next] = CONVERT[part](item, position);
    for (const record of made) records.set(`${record.kind} ${record.key}`, record);
    position = next;
  }
  return { records: [...records.values()], last: position };
};
