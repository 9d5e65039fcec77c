/** The machine of the steps: finds the step that a person is at, checks the token of what is submitted, and commits. */
import { ConditionFailed } from "../lib/errors.ts";
import {
  type Field,
  type InteractionContext,
  minutes,
  type Outcome,
  type PresentStep,
  type Problem,
  STEP_NAMES,
  type StepServices,
  type Values,
} from "./steps/step.ts";
import { firstStep, STEPS } from "./steps/steps.ts";

/** What a person or a program submits. */
export interface Submission {
  /** The hidden field of the form. */
  readonly csrf: string;
  readonly action: string;
  readonly values: Values;
}

/** What became of a submission. */
export type Answer =
  | Extract<Outcome, { kind: "done" | "gone" }>
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
  /** The step that this browser may continue with, if it has this sign-in. */
  find(ctx: InteractionContext): Promise<PresentStep | undefined>;
  submit(ctx: InteractionContext, step: PresentStep, submission: Submission): Promise<Answer>;
}

export function createSignInFlow(services: StepServices): SignInFlow {
  const { protocol, units, configuration } = services;

  async function submitTo(
    ctx: InteractionContext,
    present: PresentStep,
    { action, values }: Submission,
  ): Promise<Answer> {
    const { name, signIn } = present;
    const missing = action === "submit" ? missingValues(present.fields, values) : [];
    // An incomplete form is no guess and takes no rate-limit point.
    if (missing.length > 0) return { kind: "invalid", step: again(present, values, missing) };
    const outcome = await STEPS[name].submit({ ctx, signIn, values, action }, services);
    if (outcome.kind === "invalid")
      return { kind: "invalid", step: again(present, values, outcome.problems) };
    if (outcome.kind === "limited") {
      const { retryAfter } = outcome;
      const problem = { code: "limited", fields: [], values: { minutes: minutes(retryAfter) } };
      return { kind: "limited", step: again(present, values, [problem]), retryAfter };
    }
    // Now rather than after the answer: a lost race is an answer of its own.
    await units.current()?.commit();
    return outcome;
  }

  return {
    async find(ctx) {
      const { interactionUid, interactionStep } = ctx.state;
      const signIn = await protocol.find(ctx, interactionUid);
      if (signIn === undefined) return undefined;
      const wanted = STEP_NAMES.find((name) => name === interactionStep);
      const first = firstStep(signIn);
      const name = wanted !== undefined && STEPS[wanted].isOpen(signIn) ? wanted : first;
      return {
        name,
        signIn,
        path: name === first ? signIn.path : `${signIn.path}/${name}`,
        fields: STEPS[name].fields(signIn),
        actions: STEPS[name].actions,
        problems: [],
        expiresIn: Math.max(0, Math.floor((signIn.expiresAt - configuration.clock.now()) / 1_000)),
      };
    },
    async submit(ctx, present, submission) {
      if (!protocol.isOwnForm(present.signIn, submission.csrf)) return { kind: "forged" };
      if (!present.actions.includes(submission.action)) return { kind: "unusable" };
      try {
        return await submitTo(ctx, present, submission);
      } catch (error) {
        if (error instanceof ConditionFailed) return { kind: "gone" };
        throw error;
      }
    },
  };
}

/** The same step, with what the person entered and what is wrong with it. */
function again(step: PresentStep, values: Values, problems: readonly Problem[]): PresentStep {
  const fields = step.fields.map((field) =>
    field.type === "password" ? field : { ...field, value: values.get(field.name) ?? "" },
  );
  return { ...step, fields, problems };
}

function missingValues(fields: readonly Field[], values: Values): readonly Problem[] {
  return fields.flatMap(({ name, type, required }) => {
    const value = values.get(name) ?? "";
    const isEmpty = (type === "password" ? value : value.trim()) === "";
    return required && isEmpty ? [{ code: "required", fields: [name] }] : [];
  });
}
