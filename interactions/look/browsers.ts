/** Browsers in words and icons. */
import type { Translator } from "../../core/texts.ts";

/** Missing or `null` if unknown. */
interface Families {
  readonly browser?: string | null | undefined;
  readonly system?: string | null | undefined;
}

/** The icon of a system. */
export function deviceOf({ system }: Families): "phone" | "tablet" | "computer" {
  if (system === "iPhone" || system === "Android") return "phone";
  return system === "iPad" ? "tablet" : "computer";
}

/** A browser as people know it, such as "Firefox on Windows". */
export function browserName(t: Translator, { browser, system }: Families): string {
  const named = !browser || browser === "other" ? t("sessions.otherBrowser") : browser;
  return !system ? named : t("sessions.browserOn", { browser: named, system });
}
