/** The sidebar: sections and their entries, in order. An entry is shown where a page of the console has its address. */
import type { Translator } from "../../core/texts.ts";

/** An entry of the sidebar. Its icon is a name of `icon.ejs`. */
interface Entry {
  /** The address, without the slash. */
  readonly name: string;
  readonly icon: string;
}

interface Section {
  readonly name: string;
  readonly entries: readonly Entry[];
}

export const SECTIONS: readonly Section[] = [
  {
    name: "people",
    entries: [
      { name: "people", icon: "profile" },
      { name: "invitations", icon: "email" },
    ],
  },
  {
    name: "applications",
    entries: [
      { name: "clients", icon: "window" },
      { name: "apis", icon: "code" },
      { name: "documents", icon: "question" },
    ],
  },
  {
    name: "directory",
    entries: [
      { name: "services", icon: "services" },
      { name: "groups", icon: "folder" },
      { name: "portals", icon: "door" },
    ],
  },
  {
    name: "notifications",
    entries: [
      { name: "deliveries", icon: "deliveries" },
      { name: "receivers", icon: "inbox" },
    ],
  },
  {
    name: "service",
    entries: [
      { name: "audit", icon: "list" },
      { name: "keys", icon: "key" },
      { name: "health", icon: "pulse" },
    ],
  },
];

/** The entries that need a row above to have a place of their own: the others stand at the end. */
const PLACED: ReadonlySet<string> = new Set(
  SECTIONS.flatMap(({ entries }) => entries.map(({ name }) => name)),
);

/** A larger number says no more to anybody. */
export const MOST_TODO = 99;

/** A section of the sidebar as the view prints it. */
export interface ShownSection {
  readonly name: string;
  readonly label: string;
  readonly entries: readonly {
    readonly href: string;
    readonly label: string;
    readonly icon: string;
    readonly current: boolean;
    /** Waiting work. */
    readonly todo: { readonly count: string; readonly label: string } | undefined;
  }[];
}

/** What is called so: a word in the language, or the name itself for a new kind of record. */
export const nameOf = (t: Translator, entry: string): string =>
  t.has(`admin.entry.${entry}`) ? t(`admin.entry.${entry}`) : entry;

/**
 * The sidebar of an operator.
 * @param open the entries that this operator can open.
 * @param current the entry of the page.
 * @param todo waiting work, by entry.
 */
export function sidebar(
  t: Translator,
  open: ReadonlySet<string>,
  current: string | undefined,
  todo: ReadonlyMap<string, number>,
): readonly ShownSection[] {
  const others = [...open].filter((name) => !PLACED.has(name)).map((name) => ({ name, icon: "list" }));
  return SECTIONS.map(({ name, entries }) => ({
    name,
    label: t(`admin.section.${name}`),
    entries: [...entries, ...(name === "service" ? others : [])]
      .filter((entry) => open.has(entry.name))
      .map((entry) => {
        const count = todo.get(entry.name) ?? 0;
        return {
          href: `/${entry.name}`,
          label: nameOf(t, entry.name),
          icon: entry.icon,
          current: entry.name === current,
          todo:
            count > 0
              ? {
                  count: count > MOST_TODO ? `${MOST_TODO}+` : String(count),
                  label: t(`admin.todo.${entry.name}`),
                }
              : undefined,
        };
      }),
  })).filter(({ entries }) => entries.length > 0);
}
