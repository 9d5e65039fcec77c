/**
 * Carries out a Dockerfile without Docker: each step in folders that stand for the file systems of its stages. What needs a
 * container is not tested by it: the base image, users, and the file system that can't be written.
 */
import { execFileSync } from "node:child_process";
import { cpSync, globSync, mkdirSync, readFileSync, statSync } from "node:fs";
import { basename, join, matchesGlob, relative } from "node:path";

/** What a container of the image runs, with the paths of this machine. */
export interface BuiltImage {
  readonly env: Readonly<Record<string, string>>;
  readonly workdir: string;
  readonly command: readonly string[];
  readonly healthcheck: readonly string[];
  readonly user: string;
  readonly stopSignal: string;
}

interface Instruction {
  readonly name: string;
  readonly text: string;
}

/** The instructions, without comments and with continued lines joined. */
export function instructionsOf(file: string): Instruction[] {
  return readFileSync(file, "utf8")
    .replaceAll(/^\s*#.*\n/gm, "")
    .replaceAll(/\\\n/g, " ")
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map((line) => {
      const [, name = "", text = ""] = /^\s*([A-Z]+)\s+(.*)$/.exec(line) ?? [];
      return { name, text: text.trim() };
    });
}

/**
 * Whether Docker sends a file of the build context to the build: the last line of .dockerignore that matches decides.
 * @param ignored the file with the lines. Default: that of the context.
 */
export function isInContext(
  context: string,
  path: string,
  ignored = join(context, ".dockerignore"),
): boolean {
  const [top = ""] = path.split("/");
  return readFileSync(ignored, "utf8")
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map((line) => ({ isIncluded: line.startsWith("!"), pattern: line.replace(/^!/, "") }))
    .reduce(
      // Docker's `*` matches names that begin with a dot, too.
      (isIncluded, { isIncluded: then, pattern }) =>
        pattern === "*" || matchesGlob(path, pattern) || matchesGlob(top, pattern) ? then : isIncluded,
      true,
    );
}

/** Absolute paths that the steps use. */
const OF_IMAGE = /(?<![\w./])\/(opt|data)\b/g;

/**
 * @param context the folder of the build context.
 * @param folder an empty folder.
 */
export function buildImage(file: string, context: string, folder: string): BuiltImage {
  const stages = new Map<string, string>();
  let root = "";
  let workdir = "";
  let env: Record<string, string> = {};
  let image = { command: [] as string[], entrypoint: [] as string[], healthcheck: [] as string[] };
  let user = "";
  let stopSignal = "";
  const here = (text: string): string => text.replaceAll(OF_IMAGE, `${root}/$1`);
  const list = (text: string): string[] => (JSON.parse(text) as string[]).map(here);

  const steps: Readonly<Record<string, (text: string) => void>> = {
    ARG: () => undefined,
    LABEL: () => undefined,
    EXPOSE: () => undefined,
    FROM(text) {
      const [, name = "final"] = / AS (\w+)$/.exec(text) ?? [];
      root = join(folder, name);
      mkdirSync(root);
      stages.set(name, root);
      [workdir, env] = [root, {}];
    },
    WORKDIR(text) {
      workdir = here(text);
      mkdirSync(workdir, { recursive: true });
    },
    ENV(text) {
      for (const [, name = "", value = ""] of text.matchAll(/(\w+)=(\S+)/g)) env[name] = value;
    },
    COPY(text) {
      const words = text.split(/\s+/).filter((word) => !word.startsWith("--"));
      const [, stage] = /--from=(\w+)/.exec(text) ?? [];
      const [from = "", to = ""] = words;
      const source = stage === undefined ? join(context, from) : join(stages.get(stage) ?? "", from);
      const target = to.startsWith("/") ? here(to) : join(workdir, to);
      const found = globSync(source).filter(
        (path) => stage !== undefined || isInContext(context, relative(context, path)),
      );
      if (found.length !== 1) throw new Error(`COPY ${text}: ${found.length} files`);
      const [only = ""] = found;
      const isFolder = statSync(only).isDirectory() || !to.endsWith("/");
      cpSync(only, isFolder ? target : join(target, basename(only)), { recursive: true });
    },
    RUN(text) {
      execFileSync("sh", ["-euc", here(text)], {
        cwd: workdir,
        // How npm reaches its registry is this machine's business.
        env: { ...process.env, ...env },
        stdio: ["ignore", "pipe", "pipe"],
        timeout: 120_000,
      });
    },
    USER: (text) => void (user = text),
    STOPSIGNAL: (text) => void (stopSignal = text),
    HEALTHCHECK: (text) => void (image.healthcheck = list(text.slice(text.indexOf("CMD ") + 4))),
    ENTRYPOINT: (text) => void (image.entrypoint = list(text)),
    CMD: (text) => void (image.command = list(text)),
  };
  for (const { name, text } of instructionsOf(file)) {
    const step = steps[name];
    if (step === undefined) throw new Error(`an instruction that this test does not know: ${name} ${text}`);
    step(text);
  }
  const command = [...image.entrypoint, ...image.command];
  return { env, workdir, command, healthcheck: image.healthcheck, user, stopSignal };
}
