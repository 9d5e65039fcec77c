/** Tables and facts of the pages that are made by hand, as `console-table.ejs` and `console-facts.ejs` print them. */
import { shownValue, type ShownValue } from "./derived/values.ts";
import type { ConsoleRequest } from "./request.ts";

/** A cell of a table. */
export interface Cell {
  readonly value: ShownValue;
  readonly href?: string;
  /** What the link is about, for people who hear it alone. */
  readonly about?: string;
  readonly tag?: string;
  readonly note?: string;
  /** The note says what is wrong. */
  readonly isBad?: boolean;
}

export interface Column {
  readonly label: string;
  readonly look?: string;
  /** The heading is only heard. */
  readonly isUnseen?: boolean;
  /** Where the list is in the order of this column, or in the other order of it. */
  readonly sort?:
    | { readonly href: string; readonly order: "ascending" | "descending" | undefined }
    | undefined;
}

export interface Row {
  readonly cells: readonly Cell[];
  /** The heading of a day, before its first row. */
  readonly day?: string;
}

export interface Table {
  readonly caption: string;
  readonly heading?: string;
  readonly columns: readonly Column[];
  readonly rows: readonly Row[];
  /** Notes stand below what they are about, if there is room. */
  readonly hasTwoLines?: true;
  /** Instead of a table without rows. */
  readonly empty: string;
}

/** What a page says first: what is wrong, since when, and what helps. */
export interface Verdict {
  readonly tone: "bad" | "warning";
  readonly title: string;
  readonly texts: readonly string[];
  readonly help?: { readonly href: string; readonly label: string };
}

export interface Fact {
  readonly label: string;
  readonly value: ShownValue;
  readonly note?: string;
}

/** A part of a record's page. */
export interface Section {
  readonly id: string;
  readonly title: string;
  readonly link?: { readonly href: string; readonly label: string };
  readonly tables?: readonly Table[];
  readonly facts?: readonly Fact[];
  readonly texts?: readonly string[];
}

/** A text of ours, or of people. */
export const text = (words: string): Cell => ({ value: { kind: "text", text: words } });

/** A text that is cut to one line. */
export const clip = (words: string): Cell => ({ value: { kind: "clip", text: words } });

/** Nothing to see. */
export const nothing: Cell = { value: { kind: "quiet", text: "" } };

/** A time in seconds since the epoch, or a word for never. */
export function time({ moments }: ConsoleRequest, at: number | null, never: string): Cell {
  if (at === null) return { value: { kind: "quiet", text: never } };
  const { iso, relative, text: exact } = moments(at * 1000);
  return { value: { kind: "time", iso, relative, text: exact } };
}

/** A member of a record as every page of the console shows it. */
export const member = ({ t, moments, opens }: ConsoleRequest, name: string, value: unknown): ShownValue =>
  shownValue({ t, moments, opens }, name, value);
