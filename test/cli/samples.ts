/** Records of every kind, some with hostile names, as a service could have written them. */
import { randomUUID } from "node:crypto";
import type { RecordData, RecordStore } from "../../adapters/record-store.ts";
import type { Stores } from "../../records/kinds.ts";
import {
  AUTHENTICATOR_APP,
  PASSKEY,
  RECOVERY_CODES,
  REMEMBERED_BROWSER,
  rememberedBrowserId,
  USED_CHALLENGE,
  USED_RP_ID,
} from "../../records/factors/factor-kinds.ts";
import { INVITATION } from "../../records/people/invitation-kinds.ts";
import { TRIP } from "../../records/people/trip-kinds.ts";
import { OPERATOR_CONFIRMATION } from "../../records/administration/operator-kinds.ts";
import { TOKEN } from "../../records/administration/token-kinds.ts";
import { IDEMPOTENCY } from "../../records/administration/idempotency-kinds.ts";
import { MAIL, REFUSED_MAIL, type StoredMail } from "../../records/people/mail-kinds.ts";
import { IDENTITY, identityId } from "../../records/people/identity-kinds.ts";
import { NOTICE_COUNT } from "../../records/people/notices.ts";
import { FAILED_SIGN_INS, SIGNED_IN_BEFORE } from "../../records/people/sign-ins.ts";
import { CONFIRMATION, type StoredConfirmation } from "../../records/people/confirmation-kinds.ts";
import { KINDS } from "../../records/all-kinds.ts";
import { AUDIT } from "../../records/audit/audit-kinds.ts";
import { artifactRecord } from "../../records/artifacts/artifact-kinds.ts";
import { untouchedReceiver } from "../../records/deliveries/receiver-state.ts";
import {
  DELIVERY,
  type StoredDelivery,
  LANE,
  PAYLOAD,
  RECEIVER,
} from "../../records/deliveries/delivery-kinds.ts";
import {
  ACCOUNT,
  IDENTIFIER,
  API,
  CLIENT,
  CLIENT_LOGO,
  ENTRIES,
  REMOVAL,
  REMOVED_CLIENT,
  SEEDED,
  SERVICE_KEY,
  SIGN_IN_NAME,
  USER_ID,
} from "../../records/directory/directory-kinds.ts";
import { DOCUMENT, DOCUMENT_BLOCK } from "../../records/directory/document-kinds.ts";
import { SEARCH_INDEX, SEARCH_WORDS } from "../../records/directory/search-kinds.ts";
import { SEALING_SECRETS } from "../../records/secrets.ts";
import { SIGNING_KEY, SIGNING_KEY_SET } from "../../records/signing-key-store.ts";
import { account, client, entry, hostileKeys } from "../records/rules/stage.ts";

const HOUR = 3_600_000;
const DELIVERIES_IN_LANE = 4;
const STATES = ["waiting", "delivered", "parked", "discarded"] as const;

/** Text of which some is hostile: a different one for each number. */
function text(number: number): string {
  return `${hostileKeys[number % hostileKeys.length]?.slice(0, 300)} ${number}`;
}

function laneOf(index: number): { readonly receiver: string; readonly sub: string } {
  const lane = Math.floor(index / DELIVERIES_IN_LANE);
  return { receiver: `service:${lane % 7}`, sub: text(lane) };
}

/** The first of its lane waits. */
function delivery(index: number, now: number): StoredDelivery {
  const state = STATES[index % STATES.length] ?? "waiting";
  const isWaiting = state === "waiting";
  return {
    id: `id ${text(index)}`,
    ...laneOf(index),
    type: "PROFILE_CHANGED",
    hasPayload: true,
    at: now - index,
    sequence: (index % DELIVERIES_IN_LANE) + 1,
    state,
    attempts: 1,
    failures: isWaiting ? 1 : 0,
    storedAt: now - index,
    nextAttemptAt: isWaiting ? now + index + 0.5 : null,
    finishedAt: isWaiting ? null : now - 1 - index,
    reason: state === "parked" ? "attempts_used_up" : null,
    position: now * 1_000 + index,
    attemptRecords: [
      { number: 1, startedAt: now - 10, duration: 1.25, status: 503, error: null, answer: text(index) },
    ],
    failedAt: isWaiting ? now - 2 : null,
    isHead: isWaiting,
    fence: index,
    lease: index % 8 === 0 ? { owner: text(index), end: now + HOUR } : null,
    flight: null,
  };
}

const MODELS = ["AccessToken", "RefreshToken", "AuthorizationCode"] as const;

function artifacts(index: number, now: number): RecordData[] {
  const grantKey = `grant ${text(Math.floor(index / 3))}`;
  const shared = {
    payload: { text: text(index + 4), iat: index, nested: [{ index }, null, true, 1e21, -0.5] },
    accountId: text(Math.floor(index / 9)),
    clientId: text(index % 11),
    expiresAt: now + HOUR + index / 4,
  };
  const token = { ...shared, model: MODELS[index % 3] ?? "AccessToken", key: text(index), grantKey };
  const session = { ...shared, model: "Session", key: text(index), uid: `uid ${text(index)}` };
  const consumed = { consumedAt: now - index, replay: text(index), replayUntil: now + HOUR };
  return [
    ...(index % 3 === 0
      ? [artifactRecord({ ...shared, expiresAt: now + 2 * HOUR, model: "Grant", key: grantKey, grantKey })]
      : []),
    artifactRecord(index % 3 === 1 ? { ...token, ...consumed } : token),
    artifactRecord(session),
    artifactRecord({ ...shared, model: "Interaction", key: text(index) }),
    artifactRecord({ ...shared, model: "PushedAuthorizationRequest", key: text(index) }),
    artifactRecord({ ...shared, model: "ReplayDetection", key: text(index) }),
    artifactRecord({ ...shared, model: "ClientCredentials", key: text(index) }),
    artifactRecord({
      ...shared,
      model: "DeviceCode",
      key: text(index),
      uid: `user code ${text(index)}`,
    }),
  ];
}

function signingKey(index: number): RecordData {
  const times = { published_at: index, signs_from: index + 1, retires_at: index === 0 ? null : index + 2 };
  return SIGNING_KEY.record({ kid: `kid ${index}`, alg: "RS256", sealed: text(index), ...times });
}

function waitingMail(index: number, now: number): StoredMail {
  const times = { createdAt: now - index, due: now + index, expiresAt: now + HOUR + index };
  return { id: `mail ${index}`, kind: "password-changed", sealed: text(index), attempts: index, ...times };
}

function confirmation(index: number, now: number): StoredConfirmation {
  return {
    purpose: "address-change",
    subject: text(index),
    interaction: index % 2 === 0 ? text(index) : null,
    code: text(index),
    link: `link ${text(index)}`,
    triesLeft: index % 6,
    confirmed: false,
    sealed: text(index),
    createdAt: now - index,
    expiresAt: now + HOUR + index,
  };
}

function trip(index: number, now: number): RecordData {
  const sub = text(index);
  return TRIP.record({
    digest: `trip ${sub}`,
    provider: "google",
    deployment: "openid",
    browser: text(index + 1),
    cookie: text(index + 2),
    owner:
      index % 2 === 0
        ? { kind: "sign-in", uid: sub }
        : { kind: "account", sub, session: text(index + 3), generation: index },
    sealed: text(index + 1),
    startedAt: now - index,
    expiresAt: now + HOUR + index,
  });
}

function administrationToken(index: number, now: number): RecordData {
  const created_at = Math.floor(now / 1000);
  return TOKEN.record({
    id: `tok_${index}`,
    hash: text(index),
    role: "support",
    service: index % 2 === 0 ? null : text(index),
    created_at,
    expires_at: created_at + 3_600 + index,
    last_used_at: index % 3 === 0 ? null : created_at,
    ended_at: null,
  });
}

function repeatable(index: number, now: number): RecordData {
  const target = [text(index)];
  return IDEMPOTENCY.record(
    {
      actor: { kind: "token", id: `tok_${index}` },
      body: text(index + 1),
      status: 201,
      state: index % 2 === 0 ? "done" : "begun",
      made: index % 3 === 0 ? null : { noun: "accounts", target },
      held_secret: index % 5 === 0,
      expires_at_ms: now + HOUR + index,
    },
    { key: text(index + 2) },
  );
}

function invitation(index: number, now: number): RecordData {
  return INVITATION.record({
    id: text(index),
    address: text(index + 1),
    sealed: text(index),
    state: "waiting",
    invitedBy: { kind: "operator", id: `operator-${index}` },
    byAdministrator: index % 2 === 0,
    deployment: "openid",
    sendsLeft: index % 4,
    sub: null,
    createdAt: now - index,
    sentAt: now - index,
    expiresAt: now + HOUR + index,
  });
}

function factors(index: number, now: number): RecordData[] {
  const sub = text(index);
  const times = { added_at: index, last_used_at: index % 2 === 0 ? null : index + 1 };
  return [
    AUTHENTICATOR_APP.record({ sub, sealed: sub, last_step: index, wrong_codes: index % 3, ...times }),
    PASSKEY.record({
      id: `passkey ${sub}`,
      sub,
      public_key: text(index + 1),
      counter: index,
      transports: ["internal"],
      backup_eligible: true,
      backed_up: false,
      rp_id: "login.example",
      name: text(index + 2),
      ...times,
    }),
    RECOVERY_CODES.record({ sub, codes: [text(index)] }),
    IDENTITY.record({
      id: identityId({ issuer: "https://accounts.google.com", subject: sub }),
      issuer: "https://accounts.google.com",
      subject: sub,
      sub,
      provider: "google",
      sealed: index % 2 === 0 ? null : text(index + 1),
      linked_at: index,
      last_used_at: index % 2 === 0 ? null : index + 1,
    }),
    REMEMBERED_BROWSER.record({
      id: rememberedBrowserId(text(index), sub),
      sub,
      generation: index,
      browser: null,
      system: "linux",
      added_at: index,
      expires_at: Math.ceil((now + HOUR) / 1_000),
    }),
    USED_CHALLENGE.record({ digest: text(index), expires_at_ms: now + HOUR }),
    USED_RP_ID.record({ rp_id: `${index}.example` }),
    trip(index, now),
    repeatable(index, now),
    invitation(index, now),
    administrationToken(index, now),
    OPERATOR_CONFIRMATION.record({ sub: text(index), confirmed_at: Math.floor(now / 1000) }),
  ];
}

function mainRecords(index: number, now: number): RecordData[] {
  const sub = text(index);
  const places = { portal: text(index), services: { [text(index)]: index } };
  return [
    ENTRIES.group.record(entry(text(index))),
    ENTRIES.service.record(entry(text(index), { name: text(index + 1), group: text(index) })),
    ENTRIES.portal.record(entry(text(index))),
    API.record({
      identifier: `https://api.example/${index}`,
      name: text(index + 2),
      service: text(index),
      scopes: { read: text(index) },
      tokens: "opaque",
      lifetime: 60,
      introspection: [`client ${sub}`],
      assign: false,
      second_factor: "optional",
      unregistered: ["read"],
      tokens_epoch: text(index),
    }),
    CLIENT.record(client(`client ${sub}`, { name: text(index + 3), service: text(index) })),
    CLIENT_LOGO.record({
      client_id: `client ${sub}`,
      type: "image/png",
      sha256: text(index),
      bytes: text(index),
    }),
    IDENTIFIER.record({ client_id: `client ${sub}` }),
    IDENTIFIER.record({ sub }),
    ACCOUNT.record(
      account(2 * index + 1, {
        sub,
        email: `person${index}@example.com`,
        surname: text(index + 1),
        ...places,
      }),
    ),
    SIGN_IN_NAME.record({ sub }, { key: `person${index}@example.com` }),
    USER_ID.record({ sub }, { key: String(2 * index + 1) }),
    SEARCH_WORDS.record({
      sub,
      user_id: 2 * index + 1,
      words: [
        [`word${index}`, index],
        ["all", 1],
      ],
    }),
    ...(index === 0 ? [SEARCH_INDEX.record({ complete: true })] : []),
    REMOVED_CLIENT.record({ client_id: `removed ${text(index)}` }),
    SEEDED.record({ mark: `seeded-${index}` }),
    DOCUMENT.record({
      url: `https://client${index}.example/client.json`,
      origin: `https://client${index}.example`,
      name: text(index),
      redirect_uris: ["http://127.0.0.1/callback"],
      tokens_epoch: text(index),
      since: now,
      fetched_at: now,
      fresh_until: now + HOUR,
      ...(index % 2 === 0 && { granted_until: now + HOUR }),
    }),
    DOCUMENT_BLOCK.record({ blocked: `https://blocked${index}.example`, blocked_at: 1, epoch: text(index) }),
    REMOVAL.record({ of: "account", id: `gone-${index}`, due: now + index }),
    REFUSED_MAIL.record({ recipient: `recipient-${index}`, reason: "refused", at: now }),
    NOTICE_COUNT.record({ sub, kind: "new-browser", count: 1, endsAt: now + HOUR }),
    ...(index === 0 ? [SERVICE_KEY.record({ name: "cookie-keys", sealed: text(1) })] : []),
    ...(index === 0
      ? [SEALING_SECRETS.record({ secrets: [{ id: "0123456789ab", known_since: 1, needed: true }] })]
      : []),
    ...(index < 6 ? [signingKey(index)] : []),
    ...(index === 0 ? [SIGNING_KEY_SET.record({ kids: ["kid 0", "kid 1"] })] : []),
    AUDIT.record(
      {
        action: "account.deleted",
        actor: { kind: "system" },
        subject: text(index),
        detail: { index },
        order: now * 1_000 + index,
      },
      { key: `audit ${index}`, expiresAt: now + HOUR + index },
    ),
    DELIVERY.record(delivery(index, now)),
    PAYLOAD.record({ id: delivery(index, now).id, payload: text(index + 2) }),
    ...(index % DELIVERIES_IN_LANE === 0
      ? [
          LANE.record({
            ...laneOf(index),
            lastSequence: index + 9,
            lastPosition: now * 1_000 + index + 9,
            isEmpty: false,
            lastDelivered: 1,
            flight: null,
          }),
        ]
      : []),
    MAIL.record(waitingMail(index, now)),
    CONFIRMATION.record(confirmation(index, now)),
    FAILED_SIGN_INS.record({ source: "form", subject: text(index), failures: index, expiresAt: now + HOUR }),
    SIGNED_IN_BEFORE.record({ sub, last: text(index) }),
    ...factors(index, now),
    ...(index < 7 ? [RECEIVER.record({ receiver: `service:${index}`, ...untouchedReceiver })] : []),
  ];
}

async function putAll(store: RecordStore, records: readonly RecordData[]): Promise<void> {
  const deadline = Date.now() + 30_000;
  await store.commit({ id: randomUUID(), deadline, put: records });
}

/** How many of each are written at once. */
const STEP = 25;

/** Fills an empty storage. @param size how many accounts, clients, deliveries … there are. */
export async function fillWith(
  { storage, artifacts: away }: Stores,
  size: number,
  now: number,
): Promise<void> {
  for (let at = 0; at < size; at += STEP) {
    const indexes = Array.from({ length: Math.min(STEP, size - at) }, (_, index) => at + index);
    await putAll(
      storage,
      indexes.flatMap((index) => mainRecords(index, now)),
    );
    await putAll(
      away,
      indexes.flatMap((index) => artifacts(index, now)),
    );
  }
  for (const { declaration } of KINDS.all) {
    if (declaration.counter !== undefined) await storage.next(declaration.counter, 2 * size + 1);
  }
}
