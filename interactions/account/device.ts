/**
 * The page for the code of a device (RFC 8628 section 3.3): a person who is signed in types the code, compares it with
 * what the device shows, and connects the device or refuses it. The page always asks, because somebody else may have
 * sent the person here.
 */
import type { AccountInternals } from "../../accounts/account.ts";
import { hasSecondFactor, needsSecondFactor } from "../../accounts/factors/factor.ts";
import type { ClientInternals } from "../../accounts/clients/client.ts";
import { type Attempt, type AttemptLimits, noteLimited } from "../../accounts/limits/attempt-limits.ts";
import type { Configuration } from "../../config/configuration.ts";
import type { Clock } from "../../core/clock.ts";
import { ConditionFailed } from "../../core/errors.ts";
import type { Translator } from "../../core/texts.ts";
import { isShutOut, type RequestedApi, requestedApis } from "../../provider/apis.ts";
import { hasShownSecondFactor } from "../../provider/authentication.ts";
import { ALL_FIELDS } from "../../provider/claims.ts";
import {
  type DeviceCodes,
  shownUserCode,
  typedUserCode,
  type WaitingDevice,
} from "../../provider/grants/device-codes.ts";
import { assignServices } from "../../provider/grants/grant.ts";
import type { UnitsOfWork } from "../../provider/unit-of-work.ts";
import type { AuditCollector } from "../../records/audit/collector.ts";
import { shortenedAddress } from "../../records/audit/origin.ts";
import type { DirectoryRecords } from "../../records/directory/directory-records.ts";
import type { ClientRecord } from "../../records/directory/directory.ts";
import { seeOther } from "../answers.ts";
import type { FormProblem } from "../forms.ts";
import { moments, waitText } from "../look/moments.ts";
import type { Locals } from "../look/views.ts";
import type { Page } from "../page.ts";
import { allowedApis, clientLook, consentApi, consentFields } from "../protocol.ts";
import { apiLists, fieldLabels } from "../steps/description.ts";
import type { ConsentApi } from "../steps/step.ts";
import { personLocals, type PersonLocals, type PersonPage, type PersonVisit } from "./person-pages.ts";

/** Below the base URL. */
export const DEVICE_PATH = "/device";

/** A wrong code is shown again up to this many characters. */
const MAX_SHOWN = 64;

/** A problem with a code. */
type CodeProblem =
  | { readonly reason: "required" | "unknown" | "used" | "expired" | "unavailable" | "secondFactor" }
  /** Seconds. */
  | { readonly reason: "limited"; readonly retryAfter: number };

/** `device`: a form with the code. */
interface CodeLocals extends PersonLocals {
  /** What the field contains. */
  readonly value: string;
  readonly problem?: CodeProblem;
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
function ownLocals(
  t: Translator,
  locals: PersonLocals,
  heading: string,
  problems: readonly FormProblem[] = [],
): Locals {
  return {
    ...personLocals(t, locals, heading, problems),
    layout: "",
    places: [],
    back: "",
    account: t("consent.account", { account: locals.person.email }),
  };
}

export const deviceView: Page<CodeLocals> = {
  view: "device",
  locals(t, locals) {
    const { value, problem } = locals;
    const wait = problem?.reason === "limited" ? waitText(t.locale, problem.retryAfter) : "";
    const problems = problem && [
      { fields: ["user_code"], text: t(`device.problem.${problem.reason}`, { wait }) },
    ];
    return {
      ...ownLocals(t, locals, t("device.title"), problems),
      lead: t("device.text"),
      field: {
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
    };
  },
};

export const compareView: Page<CompareLocals> = {
  view: "device-compare",
  locals(t, locals) {
    const { client, logo = "", userCode, fields, apis, network, ownNetwork, now, askedAt } = locals;
    const asked = moments({ locale: t.locale, now })(askedAt);
    return {
      ...ownLocals(t, locals, t("device.compare.title", { client: client.name })),
      client: client.name,
      clientLogo: logo,
      userCode: shownUserCode(userCode),
      fields: fieldLabels(t, fields),
      apis: apiLists(t, client.name, apis),
      asked,
      network: network ?? "",
      isElsewhere: network !== ownNetwork,
    };
  },
};

/** `device-done`: the person has decided. */
export const deviceDoneView: Page<PersonLocals & { readonly isConnected: boolean }> = {
  view: "device-done",
  locals(t, locals) {
    const answer = locals.isConnected ? "connected" : "refused";
    const { notice: _done, ...rest } = locals;
    return {
      ...ownLocals(t, rest, t(`device.${answer}.title`)),
      layout: "end",
      text: t(`device.${answer}.text`),
      accountUrl: `${locals.base}/account`,
    };
  },
};

/** The form with the code, and what is wrong with it. */
function ask(visit: PersonVisit, value: string, problem?: CodeProblem): void {
  const status = problem === undefined ? 200 : problem.reason === "limited" ? 429 : 400;
  const retryAfter = problem?.reason === "limited" && { retryAfter: problem.retryAfter };
  const shown = typedUserCode(value);
  visit.send(
    deviceView,
    {
      ...visit.locals,
      value: shown === undefined ? value : shownUserCode(shown),
      ...(problem && { problem }),
    },
    { status, ...retryAfter },
  );
}

/** What the page is built from. */
export interface DevicePageParts {
  readonly deviceCodes: Pick<DeviceCodes, "find" | "connect" | "refuse">;
  readonly units: UnitsOfWork;
  readonly accounts: Pick<AccountInternals, "assignAtSignIn" | "connectDevice">;
  readonly clients: Pick<ClientInternals, "record">;
  readonly directory: Pick<DirectoryRecords, "findApi">;
  readonly limits: Pick<AttemptLimits, "deviceCode">;
  readonly audit: Pick<AuditCollector, "note" | "noteRefusal">;
  readonly clock: Clock;
  readonly profile: Configuration["profile"];
}

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

/** A form sends `user_code`, and as `action` what the person has decided: nothing yet, `connect` or `refuse`. */
export function devicePage(parts: DevicePageParts): PersonPage {
  const { deviceCodes, units, accounts, clients, directory, limits, audit, clock, profile } = parts;

  /** Looks the code up and does what the person decided, in one unit of work. */
  async function enter(visit: PersonVisit, userCode: string, action: string): Promise<Outcome> {
    const { exchange } = visit.ctx;
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
        const isWeak = needsSecondFactor(client, profile) && !hasShownSecondFactor(visit.person.acr, account);
        if (isWeak && action !== "refuse" && !isUnavailable) return { kind: "secondFactor" };
        if (action !== "connect" && action !== "refuse" && !isUnavailable)
          return { kind: "waiting", device, client, apis };
        const connects = action === "connect" && !isUnavailable;
        if (connects) await connect(visit, device, client, apis);
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
    device: WaitingDevice,
    client: ClientRecord,
    apis: readonly RequestedApi[],
  ): Promise<void> {
    const { account } = person;
    const { sub, sessions_generation: sessionsGeneration } = account;
    await deviceCodes.connect(device, client, person, apis);
    const consent = client.first_party
      ? undefined
      : { scopes: device.scope.split(" "), claims: [], ...(apis.length > 0 && { apis: allowedApis(apis) }) };
    await accounts.connectDevice(sub, { client, consent, sessionsGeneration }, caller);
    const opened = apis.map(({ api }) => api);
    await assignServices(accounts, account, client, opened, caller);
  }

  function noteFailure({ person, caller }: PersonVisit, attempt: Attempt): void {
    const event = { ...caller, action: "device.code_entered", subject: person.account.sub } as const;
    if (attempt.allowed) audit.note({ ...event, outcome: "failure", reason: "credentials" });
    else noteLimited(audit, event, attempt);
  }

  return {
    path: DEVICE_PATH,
    // Wrong codes have their own limits.
    isUnlimited: true,
    show(visit) {
      const { notice } = visit.locals;
      if (notice === "device" || notice === "deviceRefused")
        return visit.send(deviceDoneView, { ...visit.locals, isConnected: notice === "device" });
      // Anybody can make a link, so it fills in nothing but a code.
      const linked = typedUserCode(visit.query.get("user_code") ?? "");
      return ask(visit, linked ?? "");
    },
    async submit(visit, form) {
      const typed = form.get("user_code") ?? "";
      const userCode = typedUserCode(typed);
      if (userCode === undefined)
        return ask(visit, typed.slice(0, MAX_SHOWN), {
          reason: typed.trim() === "" ? "required" : "unknown",
        });
      const { account } = visit.person;
      const attempt = await limits.deviceCode({ sub: account.sub, address: visit.ctx.exchange.address });
      if (!attempt.allowed) {
        noteFailure(visit, attempt);
        return ask(visit, typed, { reason: "limited", retryAfter: attempt.retryAfter });
      }
      const outcome = await enter(visit, userCode, form.get("action") ?? "").catch(async (error: unknown) => {
        await attempt.withdraw();
        throw error;
      });
      if (outcome.kind === "unknown") noteFailure(visit, attempt);
      else await attempt.succeed();
      return answer(visit, userCode, outcome);
    },
  };

  function answer(visit: PersonVisit, userCode: string, outcome: Outcome): void {
    const { ctx, locals, person, caller } = visit;
    switch (outcome.kind) {
      case "connected":
        return visit.done(DEVICE_PATH, "device");
      case "refused":
        audit.note({ ...caller, action: "device.refused", subject: person.account.sub });
        return visit.done(DEVICE_PATH, "deviceRefused");
      case "ended": {
        const query = new URLSearchParams({ user_code: shownUserCode(userCode) });
        return seeOther(ctx, `${ctx.exchange.deployment.url}${DEVICE_PATH}?${query}`);
      }
      case "waiting": {
        const { device, client, apis } = outcome;
        // A token for an API never opens the profile, not even for a first-party client.
        const opensAll = client.first_party && device.resource.length === 0;
        return visit.send(compareView, {
          ...locals,
          client,
          logo: clientLook(client, locals.base).logo,
          userCode,
          fields: consentFields(opensAll ? [ALL_FIELDS] : device.scope.split(" "), []),
          apis: apis.map(consentApi),
          askedAt: device.askedAt * 1000,
          now: clock.now(),
          network: device.network,
          ownNetwork: shortenedAddress(ctx.exchange.address),
        });
      }
      case "unavailable":
        audit.note({ ...caller, action: "device.refused", subject: person.account.sub });
        return ask(visit, userCode, { reason: "unavailable" });
      case "secondFactor":
        if (hasSecondFactor(person.account))
          return visit.stepUp(DEVICE_PATH, { user_code: shownUserCode(userCode) });
        return ask(visit, userCode, { reason: "secondFactor" });
      case "unknown":
      case "used":
      case "expired":
        return ask(visit, userCode, { reason: outcome.kind });
    }
  }
}
