/** Loaded before anything else of a process (`--import`): says at its end which packages and modules it has loaded. */
import { registerHooks } from "node:module";

const packages = new Set<string>();
const modules = new Set<string>();
const ROOT = new URL("../../", import.meta.url).href;

registerHooks({
  load(url, context, next) {
    const name = /\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(url)?.[1];
    if (name !== undefined) packages.add(name);
    else if (url.startsWith(ROOT)) modules.add(url.slice(ROOT.length));
    return next(url, context);
  },
});

process.once("exit", () => {
  // `fetch` and WebSocket are a package that Node brings along.
  const own = Reflect.get(process, "moduleLoadList") as readonly string[];
  if (own.some((name) => name.includes("deps/undici"))) packages.add("undici");
  console.log(`loaded: ${[...packages].toSorted().join(" ")}.`);
  console.log(`modules: ${[...modules].join(" ")}`);
});
