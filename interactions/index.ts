/** The built-in pages, for applications that replace some of them. */
export { createAnswers } from "./answers.ts";
export type { Interactions } from "./own-routes.ts";
export { createPages, type Pages, type PageSettings } from "./pages.ts";
export type {
  DescribedAction,
  DescribedField,
  DescribedProblem,
  StepDescription,
} from "./steps/description.ts";
