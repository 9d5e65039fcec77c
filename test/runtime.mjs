// How jest loads the tests: with Node's own loader. jest's would compile every package anew for every file, which takes
// more of the processor than most of the tests, and runs them in a context of `node:vm`, where globals are slow.
// A test file gets its own instances of all modules in `test/`. It shares the product and its packages with the files
// that run before and after it in the same process: they keep no state in modules, which the architecture test checks. Only a
// file that changes the product's tables gets the product for itself.
import { createRequire, registerHooks } from "node:module";
import { relative } from "node:path";
import { pathToFileURL } from "node:url";
import Runtime from "jest-runtime";

const TESTS = pathToFileURL(`${import.meta.dirname}/`).href;
const PROJECT = new URL("..", TESTS).href;
const PACKAGES = new URL("node_modules/", PROJECT).href;
/** They change the product. */
const CHANGING = new Set(["administration/planted.test.ts"]);
const GLOBALS = "jest:globals";
const require = createRequire(import.meta.url);

/** What `@jest/globals` exports, by test file. */
const globals = new Map();

/** The test file that a module in `test/` was loaded for. */
const testFileOf = (url) => new URL(url).searchParams.get("for");

/** Whether the test file has an instance of its own of a module. */
const isOwn = (file, url) =>
  CHANGING.has(file) ? url.startsWith(PROJECT) && !url.startsWith(PACKAGES) : url.startsWith(TESTS);

const instanceFor = (file, url) => `${url}?${new URLSearchParams({ for: file })}`;

registerHooks({
  resolve(specifier, context, nextResolve) {
    const file = context.parentURL?.startsWith(PROJECT) ? testFileOf(context.parentURL) : null;
    if (file === null) return nextResolve(specifier, context);
    if (specifier === "@jest/globals")
      return { url: instanceFor(file, GLOBALS), format: "module", shortCircuit: true };
    const resolved = nextResolve(specifier, context);
    return isOwn(file, resolved.url) ? { ...resolved, url: instanceFor(file, resolved.url) } : resolved;
  },
  load(url, context, nextLoad) {
    if (!url.startsWith(GLOBALS)) return nextLoad(url, context);
    const file = testFileOf(url);
    const names = Object.keys(globals.get(file));
    return {
      format: "module",
      shortCircuit: true,
      source: `import { globals } from ${JSON.stringify(import.meta.url)};
export const { ${names.join(", ")} } = globals.get(${JSON.stringify(file)});`,
    };
  },
});
export { globals };

export default class NativeRuntime extends Runtime {
  /** Whether `unstable_importModule` loads a test file, rather than `requireModule`. */
  unstable_shouldLoadAsEsm() {
    return true;
  }

  /** Loads a test file. */
  async unstable_importModule(path) {
    const file = relative(import.meta.dirname, path);
    globals.set(file, this.jestGlobals.cjsGlobals(path));
    return import(instanceFor(file, pathToFileURL(path).href));
  }

  /** Loads jest's own test runner, which keeps the state of the file in it. */
  requireInternalModule(path) {
    delete require.cache[path];
    return require(path);
  }

  /** jest would put the built-in modules of its context in the place of Node's. */
  installGetBuiltinModule() {}
}
