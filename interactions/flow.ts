/** The machine of the steps: finds the step that a person is at, checks the token of what is submitted, and commits. */
import type { ServiceContext } from "../provider/exchange.ts";
import { ConditionFailed } from "../core/errors.ts";
import { type RunningSignIn, STEP_NAMES, type StepName } from "./steps/running-sign-in.ts";
import {
  type Field,
  isAppCode,
  LATE_SECONDS,
  MORE_TIME,
  type Outcome,
  type PresentStep,
  type Problem,
  type StepServices,
  type Values,
} from "./steps/step.ts";
import { type Arrival, arrive } from "./steps/provider.ts";
import { firstStep, STEPS } from "./steps/steps.ts";
import type { EndedTrip } from "./trips.ts";

/** A submission by a person or a program. */
export interface Submission {
  /** The hidden field of the form. */
  readonly csrf: string;
  readonly action: string;
  readonly values: Values;
  /** The language of the page. */
  readonly locale: string;
}

/** The outcome of a submission. */
export type Answer =
  | Extract<Outcome, { kind: "done" | "gone" }>
  /** The sign-in is at this step now. */
  | { readonly kind: "next"; readonly step: PresentStep }
  /** Something is wrong with what was entered. */
  | { readonly kind: "invalid"; readonly step: PresentStep }
  /** Too many attempts. Seconds until the next one can succeed. */
  | { readonly kind: "limited"; readonly step: PresentStep; readonly retryAfter: number }
  /** The token is not that of this sign-in. */
  | { readonly kind: "forged" }
  /** The step has no such action. */
  | { readonly kind: "unusable" };

/** The running sign-ins. Storage faults reject with `StorageUnavailable`, which the endpoint answers. */
export interface SignInFlow {
  /** The step at the address of a GET, if this browser has the sign-in: the present one, or one that it can go to. */
  find(ctx: ServiceContext): Promise<PresentStep | undefined>;
  /** The step that a POST to this address is for; `isOpen` is false if the sign-in is already at another one. */
  target(ctx: ServiceContext): Promise<SubmittedTo | undefined>;
  submit(ctx: ServiceContext, target: SubmittedTo, submission: Submission): Promise<Answer>;
  /** Somebody comes back from a provider to the sign-in whose id is in the exchange. It is no form: the trip was checked. */
  arrive(
    ctx: ServiceContext,
    trip: Pick<EndedTrip, "provider" | "owner" | "startedAt">,
    arrival: Arrival,
    localeOf: (signIn: RunningSignIn) => string,
  ): Promise<Answer>;
}

/** The step that something is submitted to. */
export interface SubmittedTo {
  readonly step: PresentStep;
  readonly isOpen: boolean;
}

/** The steps on the way to the console: nobody makes an account there, chooses a password or adds a factor. */
const CONSOLE_STEPS: ReadonlySet<StepName> = new Set(["login", "second-factor", "review-methods", "terms"]);

export function createSignInFlow(services: StepServices): SignInFlow {
  const { protocol, units, configuration, offers, links, devices } = services;

  /** @param wanted the step to show, if it is open. */
  function present(signIn: RunningSignIn, wanted: StepName | undefined): PresentStep {
    const first = firstStep(signIn, offers);
    const isOpen = (name: StepName): boolean =>
      (signIn.operatorsOnly !== true || CONSOLE_STEPS.has(name)) && STEPS[name].isOpen(signIn, offers);
    const name = [wanted, signIn.state.step].find((each) => each !== undefined && isOpen(each)) ?? first;
    const pathOf = (each: StepName): string => (each === first ? signIn.path : `${signIn.path}/${each}`);
    const step = STEPS[name];
    const passkey = step.passkey?.(signIn, services);
    const expiresIn = Math.max(0, Math.floor((signIn.expiresAt - configuration.clock.now()) / 1_000));
    // Showing the step again would lose new recovery codes.
    const extendable = signIn.extendable === true && signIn.state.step !== "recovery-codes";
    return {
      name,
      signIn,
      path: pathOf(name),
      fields: step.fields(signIn, offers),
      actions: [
        ...step.actions(signIn, offers),
        ...(extendable && expiresIn <= LATE_SECONDS ? [MORE_TIME] : []),
      ],
      ...(extendable && { extendable }),
      ...(passkey && { passkey }),
      alternatives: step
        .alternatives(signIn)
        .filter(isOpen)
        .map((each) => ({ name: each, path: `${signIn.path}/${each}` })),
      offers,
      problems: [],
      expiresIn,
    };
  }

  async function find(ctx: ServiceContext): Promise<RunningSignIn | undefined> {
    const signIn = await protocol.find(ctx, ctx.exchange.uid ?? "");
    const link = links.read(ctx);
    return (
      signIn && {
        ...signIn,
        ...(link !== undefined && { link }),
        ...devices.lastWay(ctx),
      }
    );
  }

  /** The step with what it lists. */
  async function listed(step: PresentStep): Promise<PresentStep> {
    const methods = await STEPS[step.name].methods?.(step.signIn, services);
    return methods === undefined ? step : { ...step, methods };
  }

  /** Stores what the step needs before it is shown. */
  async function prepared(step: PresentStep): Promise<PresentStep> {
    const state = await STEPS[step.name].prepare?.(step.signIn, services);
    if (state === undefined) return listed(step);
    protocol.keep(step.signIn, state);
    return listed(present({ ...step.signIn, state }, step.name));
  }

  /** The same step with more time, and with what was typed, except for secrets. */
  async function moreTime(ctx: ServiceContext, current: PresentStep, values: Values): Promise<Answer> {
    // Another tab has asked for it.
    if (!current.actions.includes(MORE_TIME)) return { kind: "next", step: withEntries(current, values) };
    const signIn = await protocol.extend(ctx, current.signIn);
    const step = await prepared(present(signIn, current.name));
    try {
      await units.current()?.commit();
    } catch (error) {
      // The sign-in has changed meanwhile: the person sees its step again.
      if (error instanceof ConditionFailed) return { kind: "next", step: current };
      throw error;
    }
    return { kind: "next", step: withEntries(step, values) };
  }

  async function submitTo(
    ctx: ServiceContext,
    current: PresentStep,
    { action, values, locale }: Submission,
  ): Promise<Answer> {
    const { name, signIn } = current;
    const missing = action === "submit" ? missingValues(current.fields, values) : [];
    // An incomplete form is no guess and takes no rate-limit point.
    if (missing.length > 0) return { kind: "invalid", step: again(current, values, missing) };
    const outcome = await STEPS[name].submit({ ctx, signIn, values, action, locale }, services);
    return settle(current, values, outcome);
  }

  /** Stores what comes of it. */
  async function settle(current: PresentStep, values: Values, outcome: Outcome): Promise<Answer> {
    const { signIn } = current;
    if (outcome.kind === "invalid")
      return { kind: "invalid", step: again(current, values, outcome.problems) };
    if (outcome.kind === "limited") {
      const { retryAfter, whose = "" } = outcome;
      const problem = { code: "limited", fields: [], values: { retryAfter, whose } };
      return { kind: "limited", step: again(current, values, [problem]), retryAfter };
    }
    let answer: Answer;
    if (outcome.kind === "next") {
      protocol.keep(signIn, outcome.state);
      const { link: _used, ...rest } = signIn;
      const step = await prepared(present({ ...rest, state: outcome.state }, undefined));
      const { recoveryCodes } = outcome;
      answer = { kind: "next", step: recoveryCodes === undefined ? step : { ...step, recoveryCodes } };
    } else answer = outcome;
    // Commit now rather than after the answer, because a lost race has an answer of its own.
    await units.current()?.commit();
    return answer;
  }

  return {
    async find(ctx) {
      const signIn = await find(ctx);
      return signIn && prepared(present(signIn, stepNamed(ctx.exchange.step)));
    },
    async target(ctx) {
      const signIn = await find(ctx);
      if (signIn === undefined) return undefined;
      // Without a name it is the step that the sign-in began with, wherever another tab has gone since.
      const wanted = stepNamed(ctx.exchange.step) ?? firstStep(signIn, offers);
      const step = await listed(present(signIn, wanted));
      return { step, isOpen: step.name === wanted };
    },
    async submit(ctx, { step, isOpen }, submission) {
      if (!protocol.isOwnForm(step.signIn, submission.csrf)) return { kind: "forged" };
      if (!isOpen) return { kind: "next", step };
      const { action, values } = submission;
      const isMoreTime = action === MORE_TIME && step.extendable === true;
      if (!isMoreTime && !step.actions.includes(action)) return { kind: "unusable" };
      try {
        if (isMoreTime) return await moreTime(ctx, step, values);
        return await submitTo(ctx, step, submission);
      } catch (error) {
        if (error instanceof ConditionFailed) return { kind: "gone" };
        throw error;
      }
    },
    async arrive(ctx, trip, arrival, localeOf) {
      const signIn = await find(ctx);
      if (signIn === undefined) return { kind: "gone" };
      const values: Values = new Map();
      const entry = { ctx, signIn, values, action: "provider", locale: localeOf(signIn) };
      try {
        const outcome = await arrive(entry, services, trip, arrival);
        return await settle(present(signIn, undefined), values, outcome);
      } catch (error) {
        if (error instanceof ConditionFailed) return { kind: "gone" };
        throw error;
      }
    },
  };
}

const stepNamed = (text: string | undefined): StepName | undefined =>
  STEP_NAMES.find((name) => name === text);

/** The same step, with what the person entered and what is wrong with it. */
function again(step: PresentStep, values: Values, problems: readonly Problem[]): PresentStep {
  const fields = step.fields.map((field): Field => {
    const value = values.get(field.name) ?? "";
    // The app shows another code by now.
    if (field.type === "password" || isAppCode(step.name, field)) return field;
    return field.type === "checkbox" ? { ...field, checked: value === field.value } : { ...field, value };
  });
  return { ...step, fields, problems };
}

const withEntries = (step: PresentStep, values: Values): PresentStep => ({
  ...again(step, values, []),
  hasEntries: true,
});

function missingValues(fields: readonly Field[], values: Values): readonly Problem[] {
  return fields.flatMap(({ name, type, required }) => {
    const value = values.get(name) ?? "";
    const isEmpty = (type === "password" ? value : value.trim()) === "";
    return required && isEmpty ? [{ code: "required", fields: [name] }] : [];
  });
}
