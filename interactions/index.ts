/** The pages, and what a team needs to build its own on the same flow. */
export { createAnswers, sendPage } from "./answers.ts";
export type { AnswerContext, Answers, ErrorAnswer, PageAnswer } from "./answers.ts";
export type { LanguageWishes } from "./choose-locale.ts";
export type {
  Credentials,
  InteractionContext,
  InteractionFlow,
  InteractionState,
  RunningInteraction,
  SignInOutcome,
} from "./flow.ts";
export { createInteractionHandlers } from "./handlers.ts";
export type { InteractionHandlers, InteractionParts } from "./handlers.ts";
export type { Form } from "./readable-form.ts";
export type {
  AccountLocals,
  ConsentLocals,
  ErrorLocals,
  LastPageLocals,
  LoggedOutLocals,
  LoginField,
  LoginLocals,
  LoginProblem,
  LogoutLocals,
  PageLocals,
  StartAgainLocals,
} from "./page-locals.ts";
export type { FormOutcome, Interactions } from "./own-pages.ts";
export { createPages } from "./pages.ts";
export type { Pages, PageSettings } from "./pages.ts";
export { isFromHere, isSameToken } from "./forgery.ts";
export type { FormOrigin } from "./forgery.ts";
