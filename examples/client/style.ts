/** Style sheet of the demo client. Follows the light or dark mode of the system and loads nothing else. */
export const STYLE = `
:root { color-scheme: light dark; --line: light-dark(#d9dde3, #333a45); --muted: light-dark(#565e6b, #a6adb8);
  --paper: light-dark(#f5f7f6, #111514); --card: light-dark(#fff, #191f1d); --ink: light-dark(#18201d, #e8ecea);
  --accent: light-dark(#0b6e4f, #63cfa6); --on-accent: light-dark(#fff, #06241a); }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 1rem/1.55 system-ui, sans-serif; }
header, main { max-width: 44rem; margin: 0 auto; padding: 1rem 1.25rem; }
header a { font-weight: 700; color: inherit; text-decoration: none; }
header span, .muted { color: var(--muted); font-size: .9rem; }
main { width: calc(100% - 2rem); margin-bottom: 2rem; background: var(--card); border: 1px solid var(--line); border-radius: .6rem; padding: 1.5rem; }
h1 { margin: 0 0 .75rem; font-size: 1.6rem; line-height: 1.2; }
h2 { margin: 0 0 .5rem; font-size: 1.2rem; line-height: 1.2; }
section { margin-top: 2rem; padding-top: 1.25rem; border-top: 1px solid var(--line); }
a { color: var(--accent); }
table { width: 100%; border-collapse: collapse; margin: 1.25rem 0; }
caption { text-align: left; font-weight: 600; padding-bottom: .35rem; }
th, td { text-align: left; vertical-align: top; padding: .4rem .5rem .4rem 0; border-top: 1px solid var(--line);
  overflow-wrap: anywhere; }
th { width: 11rem; font-weight: 500; color: var(--muted); }
.actions { display: flex; flex-wrap: wrap; gap: .6rem; margin: 1.25rem 0; }
.button, button { font: inherit; display: inline-block; padding: .55rem 1rem; border: 1px solid var(--accent);
  border-radius: .4rem; background: var(--accent); color: var(--on-accent); text-decoration: none; cursor: pointer; }
form button { background: transparent; color: var(--accent); }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
code { font-size: .85rem; overflow-wrap: anywhere; }
`;
