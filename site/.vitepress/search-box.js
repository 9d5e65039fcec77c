// The search box of the generator, with roles that a screen reader can use: a dialog with a field and a list of options.

/** What stands in its template → what should. */
const CHANGES = [
  [
    `role="button"
      :aria-owns="results?.length ? 'localsearch-list' : undefined"
      aria-expanded="true"
      aria-haspopup="listbox"`,
    `role="dialog"
      aria-modal="true"`,
  ],
  // An option can't have a link in it. Here, the link is the option.
  [
    `:id="'localsearch-item-' + index"
            :aria-selected="selectedIndex === index ? 'true' : 'false'"
            role="option"`,
    `role="none"`,
  ],
  // Its text is its name.
  [
    `:aria-label="[...p.titles, p.title].join(' > ')"`,
    `:id="'localsearch-item-' + index"
              :aria-selected="selectedIndex === index ? 'true' : 'false'"
              role="option"`,
  ],
];

export const searchBox = {
  name: "search-box",
  enforce: "pre",
  transform(code, id) {
    if (!id.endsWith("/VPLocalSearchBox.vue")) return undefined;
    return CHANGES.reduce((text, [from, to]) => {
      if (!text.includes(from)) throw new Error(`the search box has changed: ${from}`);
      return text.replace(from, to);
    }, code);
  },
};
