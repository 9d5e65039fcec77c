/** A service, group or portal as the public calls give and take it. */
import type { EntryRecord } from "../directory/directory.ts";
import type { ReceiverSettings, ShownReceiver } from "./receivers.ts";

/** What a group or portal is made of. */
export interface EntrySettings {
  /** What people see, at most 256 characters. */
  readonly name: string;
  /** Left out: it has none, also if it had one before. */
  readonly receiver?: ReceiverSettings | undefined;
}

/** What a service is made of. */
export interface ServiceSettings extends EntrySettings {
  /** Key of its group. Left out or `null`: it has none. */
  readonly group?: string | null | undefined;
}

/** A group or portal as every call returns it. */
export interface Entry {
  readonly key: string;
  readonly name: string;
  /** Without its secrets. */
  readonly receiver: ShownReceiver | null;
}

/** A service as every call returns it. */
export interface ServiceEntry extends Entry {
  /** Key of its group. */
  readonly group: string | null;
}

/** The record of a group or portal as the public calls show it. */
export function toEntry({ key, name, receiver }: EntryRecord): Entry {
  return { key, name, receiver: shown(receiver) };
}

/** The record of a service as the public calls show it. */
export function toServiceEntry({ key, name, group, receiver }: EntryRecord): ServiceEntry {
  return { key, name, group, receiver: shown(receiver) };
}

function shown(receiver: EntryRecord["receiver"]): ShownReceiver | null {
  return receiver && { url: receiver.url, client_id: receiver.client_id, types: receiver.types };
}
