/** A user of the console's pages. */
import type { Browser } from "../../testing/browser/browser.ts";
import type { Form } from "../../testing/browser/forms.ts";
import { tagsNamed } from "../../testing/browser/html.ts";

/** The deliveries in the table. */
export function listed(browser: Browser): string[] {
  return tagsNamed(browser.html, "a")
    .map(({ attributes }) => attributes.get("href") ?? "")
    .flatMap((href) => /\/(msg_\w+)$/.exec(href)?.[1] ?? []);
}

/** The result on a page. */
export function resultOf(browser: Browser): string | undefined {
  return tagsNamed(browser.html, "p").find(({ attributes }) => attributes.get("role") === "status")?.text;
}

/** The form of an action, optionally for one receiver. */
export function formOf(browser: Browser, action: string, receiver?: string): Form {
  const found = browser.forms().find(({ fields }) => {
    const values = new Map(fields);
    return values.get("action") === action && (receiver === undefined || values.get("receiver") === receiver);
  });
  if (found === undefined) throw new Error(`no form ${action}`);
  return found;
}
