/**
 * The page for the code of a device (RFC 8628 section 3.3): a person who is signed in types the code, compares it with
 * what the device shows, and connects the device or refuses it. The page always asks, because somebody else may have
 * sent the person here.
 */
import { z } from "zod";
import { hasSecondFactor, needsSecondFactor } from "../../accounts/factors/factor.ts";
import { type Attempt, noteLimited } from "../../accounts/limits/attempt-limits.ts";
import { section } from "../../config/documented-schema.ts";
import { ConditionFailed } from "../../core/errors.ts";
import type { Translator } from "../../core/texts.ts";
import { isShutOut, type RequestedApi, requestedApis } from "../../provider/apis.ts";
import { hasShownFactorAt } from "../../provider/authentication.ts";
import { ALL_FIELDS } from "../../provider/claims.ts";
import { shownUserCode, typedUserCode, type WaitingDevice } from "../../provider/grants/device-codes.ts";
import { assignServices } from "../../provider/grants/grant.ts";
import { shortenedAddress } from "../../records/audit/origin.ts";
import type { ClientRecord } from "../../records/directory/directory.ts";
import { moments } from "../look/moments.ts";
import type { Locals } from "../look/views.ts";
import { allowedApis, clientLook, consentApi, consentFields } from "../protocol.ts";
import { apiLists, fieldLabels } from "../steps/description.ts";
import type { ConsentApi } from "../steps/running-sign-in.ts";
import type { Problem } from "../steps/step.ts";
import type { Reply } from "../reply.ts";
import type { PersonPage, PersonServices, PersonVisit } from "./person-pages.ts";
import {
  apisMember,
  apisOf,
  HOME,
  limited,
  type PersonLocals,
  type PersonView,
  personView,
} from "./person-view.ts";

/** Below the base URL. */
export const DEVICE_PATH = "/device";

/** A wrong code is shown again up to this many characters. */
const MAX_SHOWN = 64;

/** `device`: a form with the code. */
interface CodeLocals extends PersonLocals {
  /** What the field contains. */
  readonly value: string;
}

/** `device-compare`: what asks for access, and a form for the answer. */
interface CompareLocals extends PersonLocals {
  readonly client: Pick<ClientRecord, "name">;
  /** Path of its logo. */
  readonly logo: string | undefined;
  readonly userCode: string;
  /** The fields that it would get. */
  readonly fields: readonly string[];
  /** What it would be allowed to do in APIs. */
  readonly apis: readonly ConsentApi[];
  /** Milliseconds since the epoch. */
  readonly askedAt: number;
  readonly now: number;
  /** The networks of the device and of this browser. */
  readonly network: string | undefined;
  readonly ownNetwork: string | undefined;
}

/** These pages stand alone: they link to nothing but the account. */
const ownLocals = (t: Translator, locals: PersonLocals): Locals => ({
  layout: "",
  navigation: [],
  back: "",
  account: t("consent.account", { account: locals.person.email }),
});

/** A form sends `user_code`, and as `action` what the person has decided: nothing yet, `connect` or `refuse`. */
export const deviceView: PersonView<CodeLocals> = personView({
  name: "device",
  view: "device",
  takes: { submit: ["user_code"] },
  content(t, { value }) {
    return {
      title: t("device.title"),
      texts: [t("device.text")],
      fields: [
        {
          name: "user_code",
          type: "text",
          // Not `one-time-code`: the script would send that as soon as it has eight letters, and a person who then
          // presses "Continue" would answer the next page without having read it.
          autocomplete: "off",
          required: true,
          label: t("device.code"),
          hint: t("device.hint"),
          value,
        },
      ],
      actions: [{ name: "submit", label: t("device.submit") }],
    };
  },
  locals: (t, locals) => ({ ...ownLocals(t, locals), lead: t("device.text") }),
});

export const compareView: PersonView<CompareLocals> = personView({
  name: "device-compare",
  view: "device-compare",
  takes: { connect: ["user_code"], refuse: ["user_code"] },
  members: {
    client: section({ name: z.string(), logo: z.string().exactOptional() }),
    user_code: z.string().describe("The person compares it with what the device shows."),
    shares: z.array(z.string()).readonly().describe("What the device would get, in words."),
    apis: apisMember,
    asked_at: z.int().describe("Seconds since the epoch."),
    network: z.string().exactOptional().describe("Of the device."),
    elsewhere: z.boolean().describe("Whether the device is in another network than this browser."),
  },
  content(t, locals) {
    const { client, logo, fields, apis, network, ownNetwork, askedAt } = locals;
    const userCode = shownUserCode(locals.userCode);
    const isElsewhere = network !== ownNetwork;
    const hidden = { type: "hidden", autocomplete: "off", required: true, label: "" } as const;
    return {
      title: t("device.compare.title", { client: client.name }),
      texts: [
        t("device.compare.code"),
        t("device.compare.warning"),
        ...(isElsewhere ? [t("device.compare.elsewhere")] : []),
      ],
      fields: [{ ...hidden, name: "user_code", value: userCode }],
      actions: [
        { name: "connect", label: t("device.compare.submit") },
        { name: "refuse", label: t("device.compare.cancel"), look: "second" },
      ],
      members: {
        client: { name: client.name, ...(logo !== undefined && { logo }) },
        user_code: userCode,
        shares: fieldLabels(t, fields),
        apis: apisOf(apis),
        asked_at: Math.floor(askedAt / 1000),
        ...(network !== undefined && { network }),
        elsewhere: isElsewhere,
      },
    };
  },
  locals(t, locals) {
    const { client, logo = "", userCode, fields, apis, network, ownNetwork, now, askedAt } = locals;
    return {
      ...ownLocals(t, locals),
      client: client.name,
      clientLogo: logo,
      userCode: shownUserCode(userCode),
      fields: fieldLabels(t, fields),
      apis: apiLists(t, client.name, apis),
      asked: moments({ locale: t.locale, now })(askedAt),
      network: network ?? "",
      isElsewhere: network !== ownNetwork,
    };
  },
});

/** `device-done`: the person has decided. */
export const deviceDoneView: PersonView<PersonLocals & { readonly isConnected: boolean }> = personView({
  name: "device-done",
  view: "device-done",
  members: { connected: z.boolean() },
  content(t, { isConnected }) {
    const decision = isConnected ? "connected" : "refused";
    return {
      title: t(`device.${decision}.title`),
      texts: [t(`device.${decision}.text`)],
      members: { connected: isConnected },
    };
  },
  locals: (t, locals) => ({
    ...ownLocals(t, locals),
    layout: "end",
    accountUrl: locals.base + HOME,
  }),
});

/** The form with the code, and what is wrong with it. */
function ask(visit: PersonVisit, value: string, problem?: Problem): Reply {
  const code = typedUserCode(value);
  return visit.show(deviceView, {
    ...visit.locals,
    value: code === undefined ? value : shownUserCode(code),
    ...(problem && { problems: [problem] }),
  });
}

/** @param code why the typed code has no effect. */
const wrong = (code: string): Problem => ({ code, fields: ["user_code"] });

/** The outcome of entering a code. */
type Outcome =
  | { readonly kind: "connected" | "refused" }
  | {
      readonly kind: "waiting";
      readonly device: WaitingDevice;
      readonly client: ClientRecord;
      readonly apis: readonly RequestedApi[];
    }
  /** The device asks for APIs that this person can't open. It was refused. */
  | { readonly kind: "unavailable" }
  /** The client needs a second factor, and the session has none. Nothing was decided. */
  | { readonly kind: "secondFactor" }
  | { readonly kind: "unknown" | "used" | "expired" }
  /** The session has ended meanwhile. */
  | { readonly kind: "ended" };

export const devicePage: PersonPage = {
  path: DEVICE_PATH,
  // Wrong codes have their own limits.
  isUnlimited: true,
  views: [deviceView, compareView, deviceDoneView],
  show(visit) {
    const { notice, ...locals } = visit.locals;
    if (notice === "device" || notice === "deviceRefused")
      return visit.show(deviceDoneView, { ...locals, isConnected: notice === "device" });
    // Anybody can make a link, so it fills in nothing but a code.
    const linked = typedUserCode(visit.query.get("user_code") ?? "");
    return ask(visit, linked ?? "");
  },
  async submit(visit, { action, values }, services) {
    const typed = values.get("user_code") ?? "";
    const userCode = typedUserCode(typed);
    if (userCode === undefined)
      return ask(visit, typed.slice(0, MAX_SHOWN), wrong(typed.trim() === "" ? "required" : "unknown"));
    const { account } = visit.person;
    const attempt = await services.limits.deviceCode({
      sub: account.sub,
      address: visit.ctx.exchange.address,
    });
    if (!attempt.allowed) {
      noteFailure(visit, services, attempt);
      return ask(visit, typed, limited(attempt.retryAfter));
    }
    const outcome = await enter(visit, services, userCode, action).catch(async (error: unknown) => {
      await attempt.withdraw();
      throw error;
    });
    if (outcome.kind === "unknown") noteFailure(visit, services, attempt);
    else await attempt.succeed();
    return answer(visit, services, userCode, outcome);
  },
};

/** Looks the code up and does what the person decided, in one unit of work. */
async function enter(
  visit: PersonVisit,
  services: PersonServices,
  userCode: string,
  action: string,
): Promise<Outcome> {
  const { exchange } = visit.ctx;
  const {
    deviceCodes,
    units,
    clients,
    storage: { directory },
    configuration: { profile },
  } = services;
  try {
    return await units.run(exchange, async (unit) => {
      const found = await deviceCodes.find(userCode);
      if (found.kind !== "waiting") return found;
      const { device } = found;
      const client = await clients.record(device.client_id);
      const hasEnded = client === undefined || client.disabled || client.tokens_epoch !== device.epoch;
      if (hasEnded) return { kind: "unknown" };
      const apis = await requestedApis(client, device, directory);
      const { account } = visit.person;
      const isUnavailable =
        (device.resource.length > 0 && apis.length === 0) ||
        apis.some(({ api }) => isShutOut(account, client, api));
      const needsFactor = needsSecondFactor(
        client,
        profile,
        apis.map(({ api }) => api),
      );
      const isWeak = needsFactor && !hasShownFactorAt(client, visit.person, account);
      if (isWeak && action !== "refuse" && !isUnavailable) return { kind: "secondFactor" };
      if (action !== "connect" && action !== "refuse" && !isUnavailable)
        return { kind: "waiting", device, client, apis };
      const connects = action === "connect" && !isUnavailable;
      if (connects) await connect(visit, services, { device, client, apis });
      else deviceCodes.refuse(device);
      await unit.commit();
      if (isUnavailable && action !== "refuse") return { kind: "unavailable" };
      return { kind: connects ? "connected" : "refused" };
    });
  } catch (error) {
    if (!(error instanceof ConditionFailed)) throw error;
    // Somebody else has just decided about the code, or the session or the account has ended.
    const { kind } = await units.run(exchange, () => deviceCodes.find(userCode));
    return { kind: kind === "waiting" ? "ended" : kind };
  }
}

async function connect(
  { person, caller }: PersonVisit,
  { deviceCodes, accounts, claims }: PersonServices,
  { device, client, apis }: Omit<Extract<Outcome, { kind: "waiting" }>, "kind">,
): Promise<void> {
  const { account } = person;
  const { sub, sessions_generation: sessionsGeneration } = account;
  await deviceCodes.connect(device, client, person, apis);
  const access = { scopes: device.scope.split(" "), claims: [] };
  const attributes = claims.readBy(client).attributesIn(access);
  const consent = client.first_party
    ? undefined
    : { ...access, attributes, ...(apis.length > 0 && { apis: allowedApis(apis) }) };
  await accounts.connectDevice(sub, { client, consent, sessionsGeneration }, caller);
  const opened = apis.map(({ api }) => api);
  await assignServices(accounts, account, client, opened, caller);
}

function noteFailure({ person, caller }: PersonVisit, { audit }: PersonServices, attempt: Attempt): void {
  const event = { ...caller, action: "device.code_entered", subject: person.account.sub } as const;
  if (attempt.allowed) audit.note({ ...event, outcome: "failure", reason: "credentials" });
  else noteLimited(audit, event, attempt);
}

function answer(visit: PersonVisit, services: PersonServices, userCode: string, outcome: Outcome): Reply {
  const { ctx, locals, person, caller } = visit;
  const { audit, clock } = services;
  switch (outcome.kind) {
    case "connected":
      return visit.done(DEVICE_PATH, "device");
    case "refused":
      audit.note({ ...caller, action: "device.refused", subject: person.account.sub });
      return visit.done(DEVICE_PATH, "deviceRefused");
    case "ended": {
      const query = new URLSearchParams({ user_code: shownUserCode(userCode) });
      return visit.leave(`${DEVICE_PATH}?${query}`);
    }
    case "waiting": {
      const { device, client, apis } = outcome;
      // A token for an API never opens the profile, not even for a first-party client.
      const opensAll = client.first_party && device.resource.length === 0;
      return visit.show(compareView, {
        ...locals,
        client,
        logo: clientLook(client, locals.base).logo,
        userCode,
        fields: consentFields(
          { ...services, claims: services.claims.readBy(client) },
          [...device.scope.split(" "), ...(opensAll ? [ALL_FIELDS] : [])],
          [],
        ),
        apis: apis.map(consentApi),
        askedAt: device.askedAt * 1000,
        now: clock.now(),
        network: device.network,
        ownNetwork: shortenedAddress(ctx.exchange.address),
      });
    }
    case "unavailable":
      audit.note({ ...caller, action: "device.refused", subject: person.account.sub });
      return ask(visit, userCode, wrong("unavailable"));
    case "secondFactor":
      if (hasSecondFactor(person.account))
        return visit.stepUp(DEVICE_PATH, { user_code: shownUserCode(userCode) });
      return ask(visit, userCode, wrong("second-factor"));
    case "unknown":
    case "used":
    case "expired":
      break;
  }
  return ask(visit, userCode, wrong(outcome.kind));
}
