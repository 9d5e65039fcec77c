/**
 * The device grant (RFC 8628): how a device polls for its tokens, and how a person decides about it. oidc-provider makes the
 * device codes and issues the tokens. Its own pages for the code that the person types are not used: they look a code up before
 * anybody has signed in, and take the consent from an earlier sign-in.
 */
import type { KeyObject } from "node:crypto";
import { errors } from "oidc-provider";
import { type Clock, seconds } from "../../core/clock.ts";
import { ConditionFailed } from "../../core/errors.ts";
import type { ClientInternals } from "../../accounts/clients/client.ts";
import { isDevice } from "../../accounts/clients/client-kinds.ts";
import { hmac } from "../../core/sealing.ts";
import type { ArtifactStore } from "../../records/artifacts/artifact-store.ts";
import { type Artifact, isDecided, type StoredArtifact } from "../../records/artifacts/artifact.ts";
import type { AccountRecord, ClientRecord } from "../../records/directory/directory.ts";
import { type GrantGenerations, isCurrent, type SignedIn } from "../account.ts";
import type { ProviderRules } from "../../accounts/providers.ts";
import { artifactKey } from "../adapter.ts";
import { acrAt, amrAt } from "../authentication.ts";
import { requireProof } from "../proofs/proofs.ts";
import { type ApiTokens, type GrantHandler, identifiersOf, type RequestedApi } from "../apis.ts";
import { clientRecord } from "../clients.ts";
import type { ProviderServices } from "../services.ts";
import type { UnitsOfWork } from "../unit-of-work.ts";
import { newGrant, untilExchanged } from "./grant.ts";
import type { RefreshTokens } from "./refresh-tokens.ts";

const DEVICE_CODE = "DeviceCode";
const GRANT = "Grant";

/** How long a device code is valid. */
export const DEVICE_CODE_LIFETIME_SECONDS = 600;

/** The initial pause between two polls, and by how much it grows when a device polls faster (RFC 8628 section 3.5). */
export const POLL_INTERVAL_SECONDS = 5;

/** How a device code is polled: milliseconds since the epoch, and the seconds that must be between two polls now. */
interface Polling {
  readonly polledAt: number;
  readonly intervalSeconds: number;
}

/** The keyed digest under which the code that a person types is stored. */
export const userCodeDigest = (key: KeyObject, userCode: string): string =>
  hmac(key, JSON.stringify(["user code", userCode]));

const LETTERS = /^[BCDFGHJKLMNPQRSTVWXZ]{8}$/;
/** More than anybody types. */
const MAX_TYPED = 64;

/** The eight letters of a code as typed, in any case, with or without hyphens and spaces; `undefined` if it can't be one. */
export function typedUserCode(typed: string): string | undefined {
  const letters = typed.length > MAX_TYPED ? "" : typed.toUpperCase().replaceAll(/[\s\p{Pd}]/gu, "");
  return LETTERS.test(letters) ? letters : undefined;
}

/** A code as devices show it. */
export const shownUserCode = (letters: string): string => `${letters.slice(0, 4)}-${letters.slice(4)}`;

/**
 * Counts a poll of a code that nobody has decided about, over all processes.
 * @returns whether it came too early, so that the device has to wait longer from now on.
 */
async function isTooEarly(artifacts: ArtifactStore, clock: Clock, key: string): Promise<boolean> {
  let tooEarly = false;
  await artifacts.change(
    async () => (await artifacts.find(DEVICE_CODE, key))?.artifact,
    (code) => {
      const { polledAt = -Infinity, intervalSeconds = POLL_INTERVAL_SECONDS } = (code.state ??
        {}) as Partial<Polling>;
      const now = clock.now();
      tooEarly = now - polledAt < intervalSeconds * 1000;
      const state: Polling = {
        polledAt: now,
        intervalSeconds: intervalSeconds + (tooEarly ? POLL_INTERVAL_SECONDS : 0),
      };
      return { ...code, state };
    },
  );
  return tooEarly;
}

/** @param original the handler that issues the tokens. */
export function polledGrant(
  original: GrantHandler,
  artifacts: ArtifactStore,
  units: UnitsOfWork,
  apis: Pick<ApiTokens, "choose">,
  refreshTokens: Pick<RefreshTokens, "keepGrant">,
  clock: Clock,
): GrantHandler {
  return async (ctx) => {
    const unit = units.required();
    const { device_code } = ctx.oidc.params;
    const found =
      device_code === undefined ? undefined : await unit.find(DEVICE_CODE, artifactKey(device_code));
    const isOurs = found?.clientId === ctx.oidc.client.clientId;
    if (found === undefined || !isOurs || isExpired(found, clock)) return original(ctx);
    // oidc-provider would end the family. A device may poll again because it lost the answer, or poll twice at once; nobody but
    // the device has ever seen the code.
    if (found.consumedAt !== undefined) throw new errors.InvalidGrant("the code was already used");
    if (epochOf(found) !== clientRecord(ctx.oidc.client).tokens_epoch)
      throw new errors.InvalidGrant("the codes of this client have ended");
    // oidc-provider would use the code up with its first answer.
    if (found.payload["error"] !== undefined) throw new errors.AccessDenied("the user refused");
    if (isDecided(found)) {
      await requireProof(ctx, undefined);
      await apis.choose(ctx, found);
      await original(ctx);
      return refreshTokens.keepGrant(ctx, found.grantKey);
    }
    try {
      if (await isTooEarly(artifacts, clock, found.key)) throw new errors.SlowDown("poll less often");
    } catch (error) {
      // oidc-provider would turn a fault of the store into an error of its own.
      if (!(error instanceof errors.OIDCProviderError)) unit.failure ??= error;
      throw error;
    }
    return original(ctx);
  };
}

function isExpired({ payload }: Artifact, clock: Clock): boolean {
  return typeof payload["exp"] !== "number" || payload["exp"] <= seconds(clock);
}

/** The epoch of the client for which the code was made. */
const epochOf = ({ payload }: Artifact): string | undefined =>
  (payload["generations"] as Partial<GrantGenerations> | undefined)?.epoch;

/** A device whose code a person has typed. */
export interface WaitingDevice {
  readonly client_id: string;
  /** The `tokens_epoch` of the client when it asked: under another one, the code has ended. */
  readonly epoch: string | undefined;
  /** The scope that it asks for. */
  readonly scope: string;
  /** Identifiers of the APIs that it asks for. */
  readonly resource: readonly string[];
  /** Seconds since the epoch: when it asked. */
  readonly askedAt: number;
  /** The network that it asked from, as {@link shortenedAddress} writes it. */
  readonly network: string | undefined;
  /** For the calls below. */
  readonly code: Artifact;
}

export type FoundDevice =
  | { readonly kind: "waiting"; readonly device: WaitingDevice }
  | { readonly kind: "unknown" | "used" | "expired" };

/** What the page for the code of a device needs. Every call belongs to the unit of work of its request. */
export interface DeviceCodes {
  /** @param userCode eight letters. */
  find(userCode: string): Promise<FoundDevice>;
  /**
   * The device gets tokens at its next poll. Of several people who decide about one code, the first one does.
   * @param apis what the person allows, of the APIs that the device asks for.
   * @throws ConditionFailed at the commit, or at once if the session has ended.
   */
  connect(
    device: WaitingDevice,
    client: ClientRecord,
    person: SignedIn,
    apis: readonly RequestedApi[],
  ): Promise<void>;
  /** The device gets `access_denied` at its next poll. Otherwise like `connect`. */
  refuse(device: WaitingDevice): void;
}

/** A device that a person has connected. */
export interface ConnectedDevice {
  readonly id: string;
  readonly client: ClientRecord;
  /** Seconds since the epoch. */
  readonly since: number;
}

/** Where a page of devices begins: the client of the first one, and the position behind its devices before. */
export type DevicePosition = readonly [client_id: string, after?: string];

/** A page of devices. */
export interface DeviceList {
  readonly devices: readonly ConnectedDevice[];
  /** Where the next page begins; missing on the last one. */
  readonly next?: DevicePosition;
}

/** The devices of people. Storage faults reject with `StorageUnavailable`. */
export interface ConnectedDevices {
  /**
   * One page of the devices that have not ended: client by client, the most recently used first.
   * @param clients all clients of the service.
   * @param from `next` of the page before.
   */
  list(account: AccountRecord, clients: readonly ClientRecord[], from?: DevicePosition): Promise<DeviceList>;
  /** Ends all tokens of one device. @returns false if the account has no such device. */
  end(account: AccountRecord, id: string, clients: readonly ClientRecord[]): Promise<boolean>;
}

/** Devices of one page. */
const LISTED = 50;

/** Only the device grant creates grants for clients of this kind. */
export function createConnectedDevices(
  artifacts: Pick<ArtifactStore, "page" | "find" | "change">,
  { kindOf }: Pick<ClientInternals, "kindOf">,
  rules: ProviderRules,
): ConnectedDevices {
  const isConnected = (grant: StoredArtifact, account: AccountRecord, client: ClientRecord): boolean =>
    isCurrent(grant.payload["generations"], account, client, rules);

  const devicesAmong = (clients: readonly ClientRecord[]): readonly ClientRecord[] =>
    clients
      .filter((client) => isDevice(kindOf(client)))
      .toSorted((one, other) => (one.client_id < other.client_id ? -1 : 1));

  return {
    async list(account, clients, from) {
      const [first = "", position] = from ?? [];
      const devices: ConnectedDevice[] = [];
      for (const client of devicesAmong(clients)) {
        const { client_id } = client;
        if (client_id < first) continue;
        if (devices.length >= LISTED) return { devices, next: [client_id] };
        const holder = { account: account.sub, client: client_id };
        const page = await artifacts.page(
          { model: GRANT, holder },
          { limit: LISTED - devices.length, ...(client_id === first && { after: position }) },
        );
        const connected = page.artifacts.filter((grant) => isConnected(grant, account, client));
        devices.push(
          ...connected.map(({ key, payload }) => ({ id: key, client, since: Number(payload["iat"] ?? 0) })),
        );
        if (page.next !== undefined) return { devices, next: [client_id, page.next] };
      }
      return { devices };
    },
    async end(account, id, clients) {
      const ended = await artifacts.change(
        async () => {
          const grant = (await artifacts.find(GRANT, id))?.artifact;
          if (grant?.accountId !== account.sub) return undefined;
          const client = devicesAmong(clients).find(({ client_id }) => client_id === grant.clientId);
          return client && isConnected(grant, account, client) ? grant : undefined;
        },
        () => undefined,
      );
      return ended !== undefined;
    },
  };
}

/** The parts that oidc-provider stores with a device code. */
interface DevicePayload {
  readonly iat?: number;
  readonly params?: { readonly scope?: string; readonly resource?: string | readonly string[] };
  readonly deviceInfo?: { readonly address?: string };
}

export function createDeviceCodes({
  clock,
  units,
  currentProvider,
  keys,
  grantable,
}: Pick<ProviderServices, "clock" | "units" | "currentProvider" | "keys" | "grantable">): DeviceCodes {
  /** The answer counts only in the session in which it was given. */
  async function expectSession({ session: uid }: SignedIn): Promise<void> {
    const unit = units.required();
    const session = await unit.findByUid("Session", uid);
    if (session === undefined) throw new ConditionFailed("the session has ended");
    unit.save(session);
  }

  return {
    async find(userCode) {
      const code = await units.required().findByUid(DEVICE_CODE, userCodeDigest(keys.userCodes, userCode));
      if (code?.clientId === undefined) return { kind: "unknown" };
      if (code.consumedAt !== undefined || isDecided(code)) return { kind: "used" };
      if (isExpired(code, clock)) return { kind: "expired" };
      const { iat = 0, params, deviceInfo } = code.payload as DevicePayload;
      const device = {
        client_id: code.clientId,
        epoch: epochOf(code),
        scope: params?.scope ?? "",
        resource: identifiersOf(params?.resource),
        askedAt: iat,
        network: deviceInfo?.address,
        code,
      };
      return { kind: "waiting", device };
    },

    async connect({ code, scope, resource }, client, person, apis) {
      await expectSession(person);
      const { account } = person;
      const byIdentifier = new Map(apis.map(({ api }) => [api.identifier, api]));
      const grant = newGrant(currentProvider().provider, person, client, byIdentifier);
      // The scope may also have scopes of APIs.
      const own = scope.split(" ").filter((each) => grantable.scopes.includes(each));
      grant.addOIDCScope(own.join(" "));
      for (const { api, scopes } of apis) grant.addResourceScope(api.identifier, scopes.join(" "));
      const grantId = await untilExchanged(grant, DEVICE_CODE_LIFETIME_SECONDS).save();
      const unit = units.required();
      const stored = unit.known(GRANT, artifactKey(grantId));
      // The person sees the device at once, and can end it.
      if (stored !== undefined) unit.save({ ...stored, usedAt: Math.floor(clock.now()) });
      const { generations } = grant as typeof grant & { readonly generations?: unknown };
      // What oidc-provider's own page would write (lib/actions/authorization/device.js, `deviceVerificationResponse`).
      const granted = {
        accountId: account.sub,
        grantId,
        generations,
        scope,
        // Includes those that are not granted: a device that asks for an API never gets a token for userinfo.
        ...(resource.length > 0 && { resource }),
        ...(person.undated !== true && { authTime: person.signedInAt }),
        acr: acrAt(client, person),
        amr: amrAt(client, person.amr ?? []),
        sessionUid: person.session,
      };
      unit.save({
        ...code,
        payload: { ...code.payload, ...granted },
        grantKey: artifactKey(grantId),
        accountId: account.sub,
      });
    },

    refuse({ code }) {
      const refused = { error: "access_denied", errorDescription: "the user refused" };
      units.required().save({ ...code, payload: { ...code.payload, ...refused } });
    },
  };
}
