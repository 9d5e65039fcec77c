// The generator's theme with the fonts of the reader's system, our colors, and landmarks on the pages that have none.
import { h } from "vue";
import { useData } from "vitepress";
import theme, { VPHomeFeatures, VPHomeHero } from "vitepress/theme-without-fonts";
import "./style.css";

const home = { render: () => h("main", { class: "VPHome" }, [h(VPHomeHero), h(VPHomeFeatures)]) };

const notFound = {
  setup() {
    const { site } = useData();
    return () =>
      h("main", { class: "not-found" }, [
        h("h1", "There is no such page"),
        h("p", ["Search for it, or begin at ", h("a", { href: site.value.base }, "the first page"), "."]),
      ]);
  },
};

export default {
  extends: theme,
  Layout: () => h(theme.Layout, null, { "not-found": () => h(notFound) }),
  enhanceApp: ({ app }) => app.component("home", home),
};
