/** The meanings of the codes of notifications, in words for operators. */
import { STATUS_CODES } from "node:http";
import type { Translator } from "../../core/texts.ts";
import type { ShownAttempt } from "../../notifier/operations.ts";
import type { DeliveryFilter } from "../../records/deliveries/delivery.ts";
import type { Locals } from "../look/views.ts";

/** A text in the language of the page, or the code itself if there is none. */
function localized(t: Translator, group: "reason" | "error", code: string): string {
  return t.has(`console.${group}.${code}`) ? t(`console.${group}.${code}`) : code;
}

/** Why a delivery was parked or discarded, or why it waits; empty if there is no reason. */
export function reasonText(t: Translator, reason: string | null): string {
  return reason === null ? "" : localized(t, "reason", reason);
}

/** The outcome of an attempt: the status with its name, or why there was no response, with the code to search for. */
export function attemptText(
  t: Translator,
  { status, error }: Pick<ShownAttempt, "status" | "error">,
): { readonly text: string; readonly code: string } {
  if (status !== null) return { text: `${status} ${STATUS_CODES[status] ?? ""}`.trim(), code: "" };
  const code = error ?? "unknown";
  const text = localized(t, "error", code);
  return { text, code: text === code ? "" : code };
}

/** Why the list is empty, and whether the whole list may have something. */
export function emptyText(
  t: Translator,
  {
    filter,
    hasNext,
    isLater,
    hasReceivers,
  }: {
    readonly filter: DeliveryFilter;
    readonly hasNext: boolean;
    /** Whether it is not the first page. */
    readonly isLater: boolean;
    readonly hasReceivers: boolean;
  },
): Locals {
  if (hasNext) return { title: t("console.noneSoFar"), text: "", isFiltered: false };
  const { state, ...others } = filter;
  const isFiltered = isLater || state !== undefined || Object.keys(others).length > 0;
  if (!isFiltered && !hasReceivers)
    return { title: t("console.noReceivers"), text: t("console.noReceivers.text"), isFiltered };
  if (!isFiltered) return { title: t("console.empty"), text: t("console.empty.text"), isFiltered };
  const isQuiet = !isLater && Object.keys(others).length === 0 && (state === "waiting" || state === "parked");
  return isQuiet
    ? { title: t(`console.empty.${state}`), text: t(`console.empty.${state}.text`), isFiltered }
    : { title: t("console.none"), text: t("console.none.text"), isFiltered };
}
