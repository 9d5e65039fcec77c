/** The built-in pages, for applications that replace some of them. */
export type { Interactions } from "./own-routes.ts";
export type { Pages } from "./page.ts";
export { createPages, type PageSettings } from "./pages.ts";
export type {
  DescribedAction,
  DescribedField,
  DescribedProblem,
  StepDescription,
} from "./steps/described-step.ts";
