/** The operations on the directory: services, groups of services, and portals, each with its receiver of notifications. */
import { z } from "zod";
import { described } from "../../config/documented-schema.ts";
import type { EntryKind } from "../../records/directory/directory.ts";
import { exactly, ruled } from "../arguments.ts";
import { receiverChanges, receiverSettings, seededReceiver, type ShownReceiver } from "../receivers.ts";
import { serviceRoles } from "../roles.ts";
import { keyProblem, textProblem } from "../text-rules.ts";
import { type Facade, NONE, operation, operations } from "./operation.ts";

/** Key of a service, group or portal. */
export const entryKey = ruled(keyProblem);

const entryShape = {
  /** Display name. */
  name: described(ruled(textProblem), { form: "a text of 1 to 256 characters" }),
  /** Where its notifications go. Default: none. */
  receiver: receiverSettings.optional(),
};

const entry = exactly(entryShape);

/** The settings of a group or portal. */
export interface EntrySettings extends Readonly<z.input<typeof entry>> {}
const entrySettings: z.ZodType<EntrySettings, EntrySettings> = entry;

const changedReceiver = {
  /** Where its notifications go. Secrets that are left out stay, as long as the origin of `url` does. Default: stays as it is. */
  receiver: receiverChanges.nullish(),
};

const entryChanges = exactly({ ...entryShape, ...changedReceiver }).partial();

/** Settings of a group or portal to change. What is left out stays; `null` removes a value. */
export interface EntryChanges extends Readonly<z.input<typeof entryChanges>> {}
const changesOfEntry: z.ZodType<EntryChanges, EntryChanges> = entryChanges;

const serviceShape = {
  ...entryShape,
  /** The group of the service. Default: none. */
  group: described(ruled(keyProblem).nullish(), { form: "the key of a group" }),
  /** The roles that people can have in the service. A name that is left out is no longer sent for anybody. Default: none. */
  roles: serviceRoles,
};

const service = exactly(serviceShape);

/** The settings of a service. */
export interface ServiceSettings extends Readonly<z.input<typeof service>> {}
const serviceSettings: z.ZodType<ServiceSettings, ServiceSettings> = service;

const seededShape = {
  /** Where its notifications go. Default: none. */
  receiver: seededReceiver.optional(),
};

const entryOfSeed = exactly({ ...entryShape, ...seededShape });

/** A group or portal of a seed. */
export interface SeededEntry extends Readonly<z.input<typeof entryOfSeed>> {}
export const seededEntry: z.ZodType<SeededEntry, SeededEntry> = entryOfSeed;

const serviceOfSeed = exactly({ ...serviceShape, ...seededShape });

/** A service of a seed. */
export interface SeededService extends Readonly<z.input<typeof serviceOfSeed>> {}
export const seededService: z.ZodType<SeededService, SeededService> = serviceOfSeed;

const serviceChanges = exactly({ ...serviceShape, ...changedReceiver }).partial();

/** Settings of a service to change. What is left out stays; `null` removes a value. */
export interface ServiceChanges extends Readonly<z.input<typeof serviceChanges>> {}
const changesOfService: z.ZodType<ServiceChanges, ServiceChanges> = serviceChanges;

const receiver: z.ZodType<ShownReceiver> = exactly({
  url: z.string(),
  client_id: z.string(),
  types: z.array(z.string()).readonly(),
}).meta({ id: "Receiver" });

const shownShape = {
  key: z.string(),
  name: z.string(),
  /** Without its secrets. */
  receiver: receiver.nullable(),
};

const shown = exactly(shownShape);

/** A group or portal as every call returns it. */
export interface Entry extends Readonly<z.output<typeof shown>> {}
const shownEntry: z.ZodType<Entry> = shown.meta({ id: "Entry" });

const shownAsService = exactly({
  ...shownShape,
  /** Key of its group. */
  group: z.string().nullable(),
  roles: z.array(z.string()).readonly(),
});

/** A service as every call returns it. */
export interface ServiceEntry extends Readonly<z.output<typeof shownAsService>> {}
const shownService: z.ZodType<ServiceEntry> = shownAsService.meta({ id: "Service" });

const EXAMPLE_RECEIVER = {
  url: "https://news.example.com/notifications",
  client_id: "sign-in",
  client_secret: "a long random text",
  types: ["DELETE_ACCOUNT", "PROFILE_CHANGED"],
} as const;

/** The operations on one kind of entry. @param spare one that nothing refers to, for examples. */
function entryRows<S extends EntrySettings, C extends EntryChanges, E extends Entry>(
  kind: EntryKind,
  {
    settings,
    changes,
    shows,
    example,
    spare,
  }: {
    readonly settings: z.ZodType<S, S>;
    readonly changes: z.ZodType<C, C>;
    readonly shows: z.ZodType<E>;
    readonly example: { readonly target: readonly [string]; readonly input: S };
    readonly spare: string;
  },
) {
  const reads = {
    role: "viewer",
    limited: kind === "service" && ({ role: "viewer", by: "service" } as const),
    confirm: "none",
    audit: [],
    errors: [],
  } as const;
  const writes = {
    target: ["key"],
    output: shows,
    role: "administrator",
    limited: false,
    confirm: "none",
    recent: true,
    columns: [],
  } as const;
  return operations(kind, {
    /**
     * Creates the entry.
     *
     * @throws AlreadyExists if there is one with this key.
     * @throws UnknownReference when the group of a service is not in the directory.
     */
    create: operation({
      ...writes,
      effect: "create",
      input: settings,
      audit: [`${kind}.created`],
      errors: ["already_exists", "unknown_reference"],
      example: { ...example, target: ["radio"] },
    }),
    /**
     * Changes the given settings of the entry. What is left out stays.
     *
     * A receiver keeps the secrets that are left out, as long as the origin of its address stays. The command asks before it removes
     * one.
     *
     * @throws NotFound if there is no such entry.
     * @throws UnknownReference when the group of a service is not in the directory.
     */
    update: operation({
      ...writes,
      effect: "change",
      input: changes,
      // Its secrets are shown nowhere, and what waits for it is parked.
      final: ["receiver"],
      audit: [`${kind}.updated`],
      errors: ["not_found", "unknown_reference"],
      example: { target: example.target, input: { name: example.input.name } as C },
    }),
    /**
     * Creates the entry, or replaces it entirely.
     *
     * A receiver, a group or a role that is left out is removed. The command asks before that.
     *
     * @throws UnknownReference when the group of a service is not in the directory.
     */
    put: operation({
      ...writes,
      effect: "put",
      input: settings,
      audit: [`${kind}.created`, `${kind}.updated`],
      errors: ["unknown_reference"],
      // Nobody can read the secrets of a receiver to put them back.
      surfaces: ["library", "command"],
      example,
    }),
    /**
     * Shows the entry, and its receiver without the secrets.
     * @returns `undefined` if there is none.
     */
    find: operation({
      ...reads,
      effect: "read",
      target: ["key"],
      input: NONE,
      output: shows,
      columns: [],
      example: { target: example.target, input: {} },
    }),
    /** Lists all entries, ordered by key. */
    list: operation({
      ...reads,
      effect: "list",
      target: [],
      input: NONE,
      output: shows,
      columns: ["key", "name", "receiver"],
      example: { target: [], input: {} },
    }),
    /**
     * Removes the entry, if nothing refers to it.
     *
     * @returns `false` if there is none.
     * @throws StillReferenced naming the clients, services, APIs or accounts that refer to it.
     */
    remove: operation({
      effect: "remove",
      target: ["key"],
      input: NONE,
      output: NONE,
      role: "administrator",
      limited: false,
      confirm: "typed",
      recent: true,
      audit: [`${kind}.removed`],
      errors: ["still_referenced"],
      columns: [],
      example: { target: [spare], input: {} },
    }),
  });
}

export const services = entryRows("service", {
  settings: serviceSettings,
  changes: changesOfService,
  shows: shownService,
  example: {
    target: ["news"],
    input: { name: "News", group: "media", roles: ["editor", "author"], receiver: EXAMPLE_RECEIVER },
  },
  spare: "weather",
});

export const groups = entryRows("group", {
  settings: entrySettings,
  changes: changesOfEntry,
  shows: shownEntry,
  example: { target: ["media"], input: { name: "Media", receiver: EXAMPLE_RECEIVER } },
  spare: "sports",
});

export const portals = entryRows("portal", {
  settings: entrySettings,
  changes: changesOfEntry,
  shows: shownEntry,
  example: { target: ["main"], input: { name: "Main", receiver: EXAMPLE_RECEIVER } },
  spare: "old",
});

/** The calls for services. */
export interface Services extends Facade<typeof services.rows> {}
/** The calls for groups. */
export interface Groups extends Facade<typeof groups.rows> {}
/** The calls for portals. */
export interface Portals extends Facade<typeof portals.rows> {}
