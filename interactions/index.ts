/** The built-in pages, for applications that replace some of them. */
export { createAnswers } from "./answers.ts";
export type { Interactions } from "./own-pages.ts";
export { createPages, type Pages, type PageSettings } from "./pages.ts";
