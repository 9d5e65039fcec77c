/** The Dockerfile, the compose file, the unit of systemd and the configuration of Prometheus, checked by the tools for them. */
import { execFileSync, spawnSync } from "node:child_process";
import { copyFileSync, cpSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "@jest/globals";
import { parse, parseAllDocuments } from "yaml";
import { namedBlock, ROOT, textOf } from "../examples/documents.ts";
import { METRICS } from "../../core/metric-catalog.ts";
import { programFor } from "../machine.mjs";
import { administration, compose } from "./compose.ts";
import { isInContext } from "./dockerfile.ts";
import { newFolder } from "../closing.ts";

const folder = newFolder();

/** What a program says of a file, and its exit code. */
function said(command: string, args: readonly string[]): readonly [status: number | null, output: string] {
  const { status, stdout, stderr } = spawnSync(command, args, { encoding: "utf8" });
  return [status, stdout + stderr];
}

/** A copy of a file of `deploy/` with a mistake. */
function spoiled(file: string, from: string, to: string): string {
  const text = textOf(`deploy/${file}`);
  expect(text).toContain(from);
  const name = join(folder, file.slice(file.lastIndexOf("/") + 1));
  writeFileSync(name, text.replace(from, to));
  return name;
}

describe("the Dockerfile", () => {
  const hadolint = programFor("hadolint");

  it("has nothing that hadolint finds", () => {
    for (const file of ["deploy/Dockerfile", "examples/cluster/Dockerfile"])
      expect(said(hadolint, [join(ROOT, file)])).toEqual([0, ""]);
    const [status, output] = said(hadolint, [spoiled("Dockerfile", "RUN tar", "RUN cd /tmp && tar")]);
    expect([status, output]).toEqual([1, expect.stringContaining("DL3003")]);
  });

  it("runs as a user without rights, stops as the service does, and is built from the Node.js of this project", () => {
    const text = textOf("deploy/Dockerfile");
    const { devDependencies } = JSON.parse(textOf("package.json")) as {
      devDependencies: Record<string, string>;
    };
    expect(text).toContain(`ARG NODE_VERSION=${devDependencies["node"]}\n`);
    expect(text).toMatch(/^USER 1000:1000$/m);
    expect(text).toMatch(/^STOPSIGNAL SIGTERM$/m);
    expect(text).not.toMatch(/curl|wget|apt-get/);
  });
});

describe("the ports of the image", () => {
  const [, exposed = ""] = /^EXPOSE (.+)$/mu.exec(textOf("deploy/Dockerfile")) ?? [];
  const { code } = namedBlock("who-may-connect");
  const policy = parse(code) as {
    readonly spec: {
      readonly ingress: readonly {
        readonly from: readonly object[];
        readonly ports: readonly { readonly port: number }[];
      }[];
    };
  };

  it("are those that the compose files use", () => {
    const used = [...Object.values(compose.services), ...Object.values(administration.services)].flatMap(
      ({ environment = {} }) =>
        Object.entries(environment).flatMap(([name, value]) => (name.endsWith("_PORT") ? [value] : [])),
    );
    expect(new Set(["3000", ...used])).toEqual(new Set(exposed.split(" ")));
  });

  it("each have neighbors of their own in the policy of docs/operate/set-up/deploying.md", () => {
    const { ingress } = policy.spec;
    expect(ingress.flatMap(({ ports }) => ports.map(({ port }) => String(port)))).toEqual(exposed.split(" "));
    expect(new Set(ingress.map(({ from }) => JSON.stringify(from))).size).toBe(ingress.length);
  });
});

describe("the file for Kubernetes", () => {
  interface Container {
    readonly image: string;
    readonly ports: readonly { readonly name: string; readonly containerPort: number }[];
    readonly securityContext: Readonly<Record<string, unknown>>;
    readonly readinessProbe: { readonly httpGet: { readonly path: string; readonly port: string } };
    readonly livenessProbe?: { readonly httpGet: { readonly path: string } };
  }
  interface Manifest {
    readonly kind: string;
    readonly apiVersion: string;
    readonly metadata: { readonly name: string };
    readonly data?: Readonly<Record<string, string>>;
    readonly spec?: {
      readonly selector: { readonly matchLabels?: object };
      readonly template?: {
        readonly metadata: { readonly labels: object };
        readonly spec: {
          readonly securityContext: object;
          readonly terminationGracePeriodSeconds: number;
          readonly containers: readonly Container[];
        };
      };
    };
  }
  const all = parseAllDocuments(textOf("examples/cluster/kubernetes.yaml")).map(
    (each) => each.toJS() as Manifest,
  );

  // No schema of Kubernetes is here: what is wrong with the form of a member is found by kubectl only.
  it("has what each kind needs, and its names belong together [D-AVAIL-2]", () => {
    expect(all.map(({ kind, apiVersion }) => `${apiVersion} ${kind}`)).toEqual([
      "v1 ConfigMap",
      "v1 Service",
      "policy/v1 PodDisruptionBudget",
      "apps/v1 Deployment",
      "apps/v1 Deployment",
    ]);
    for (const { spec } of all.slice(3)) {
      const { metadata, spec: pod } = spec!.template!;
      expect(metadata.labels).toEqual(spec!.selector.matchLabels);
      expect(pod).toMatchObject({
        securityContext: { runAsNonRoot: true },
        automountServiceAccountToken: false,
      });
      expect(pod.terminationGracePeriodSeconds).toBeGreaterThan(35);
      for (const { readinessProbe, ports, securityContext, livenessProbe } of pod.containers) {
        expect(readinessProbe.httpGet.path).toBe("/health");
        expect(ports.map(({ name }) => name)).toContain(readinessProbe.httpGet.port);
        // Whoever is restarted because a store is away helps nobody.
        expect(livenessProbe?.httpGet.path ?? "/health/live").toBe("/health/live");
        expect(securityContext).toMatchObject({
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ["ALL"] },
        });
      }
    }
    // Like the compose file, so that the service reads it the same way.
    const names = Object.keys(compose.services["server"]?.environment ?? {});
    for (const name of Object.keys(all[0]?.data ?? {})) expect(names).toContain(name);
  });
});

describe("the build context of examples/cluster", () => {
  const ignored = join(ROOT, "examples/cluster/Dockerfile.dockerignore");

  it("is what the processes run, and nothing else of the repository", () => {
    const top = readdirSync(ROOT).filter((name) => isInContext(ROOT, name, ignored));
    for (const name of [".git", "node_modules", "data", ".cache", ".env", "sign-in.db", "sign-in.db.keys"])
      expect([name, isInContext(ROOT, name, ignored)]).toEqual([name, false]);
    const image = join(folder, "cluster");
    for (const name of top) cpSync(join(ROOT, name), join(image, name), { recursive: true });
    symlinkSync(join(ROOT, "node_modules"), join(image, "node_modules"));
    for (const program of ["cli/main.ts", "examples/client/main.ts", "examples/receiver/main.ts"])
      expect([program, said(process.execPath, [join(image, program), "--help"])]).toEqual([
        program,
        [0, expect.stringMatching(/^Usage/mu)],
      ]);
    const config = `import(${JSON.stringify(join(image, "examples/cluster/write-config.ts"))})`;
    expect(said(process.execPath, ["--eval", config])).toEqual([0, ""]);
  });
});

describe("the compose file", () => {
  /** The order of keys and services follows the reader, not the alphabet. */
  const ORDER = ["service-keys-order", "services-alphabetical-order", "top-level-properties-order"];
  const lint = (file: string, off: readonly string[] = []): readonly [number | null, string] => {
    const rules = [...ORDER, "require-quotes-in-ports", ...off].flatMap((rule) => ["--disable-rule", rule]);
    const program = join(ROOT, "node_modules/dclint/bin/dclint.cjs");
    return said(process.execPath, [program, file, "--max-warnings", "0", ...rules]);
  };

  it("fits the schema of the Compose specification, and has nothing that dclint finds", () => {
    expect(lint(join(ROOT, "deploy/compose.yml"))).toEqual([0, expect.not.stringContaining("error")]);
    expect(lint(join(ROOT, "examples/cluster/compose.yaml"))).toEqual([0, expect.any(String)]);
    // The suite's own file, to which it is added, has the name.
    const added = lint(join(ROOT, "examples/conformance/compose.yaml"), ["require-project-name-field"]);
    expect(added).toEqual([0, expect.any(String)]);
    const [status, output] = lint(spoiled("compose.yml", "read_only: true", "read_only: [1]"));
    expect([status, output]).toEqual([1, expect.stringContaining("invalid-schema")]);
  });

  it.each(Object.entries(compose.services))("gives %s no more rights than it needs", (_name, service) => {
    expect(service).toMatchObject({
      read_only: true,
      cap_drop: ["ALL"],
      security_opt: ["no-new-privileges:true"],
      restart: "unless-stopped",
    });
    // Our own image has a user of its own.
    if (!service.image.startsWith("sign-in-service:")) expect(service.user).toMatch(/^[1-9]\d*:[1-9]\d*$/);
    expect(service.image).toMatch(/:(?!latest)[\w.-]+$/);
    for (const port of service.ports ?? []) expect(port).toMatch(/^127\.0\.0\.1:/);
    for (const secret of service.secrets) expect(Object.keys(compose.secrets)).toContain(secret);
  });

  it("has a second file that adds administration to the server, on a port of its own", () => {
    expect(lint(join(ROOT, "deploy/compose.admin.yml"))).toEqual([0, expect.not.stringContaining("error")]);
    const { server, ...others } = administration.services;
    expect([administration.name, Object.keys(others)]).toEqual([
      parse(textOf("deploy/compose.yml")).name,
      [],
    ]);
    const port = server?.environment["SIGN_IN_ADMIN_PORT"];
    expect(server?.ports).toEqual([`127.0.0.1:${port}:${port}`]);
    const names = Object.keys(server?.environment ?? {});
    // Nothing of the first file is replaced.
    expect(names.filter((name) => name in (compose.services["server"]?.environment ?? {}))).toEqual([]);
  });

  it("keeps secrets out of the environment, and the storage on a network of its own", () => {
    const texts = Object.values(compose.services).flatMap(({ environment = {} }) =>
      Object.entries(environment),
    );
    for (const [name, value] of texts) {
      if (/SECRET|PASSWORD|TOKEN|STORAGE|ARTIFACTS|QUEUE/.test(name)) expect(name).toMatch(/_FILE$/);
      if (name.endsWith("_FILE")) expect(value).toMatch(/^\/run\/secrets\//);
    }
    expect(compose.networks["storage"]).toEqual({ internal: true });
    for (const name of ["postgres", "redis"]) expect(compose.services[name]?.networks).toEqual(["storage"]);
  });
});

describe("the unit of systemd", () => {
  const analyze = programFor("systemd-analyze");

  const FILE = "systemd/sign-in-service.service";
  /** The programs are where they are on this machine. */
  function unit(): string {
    const name = join(folder, "sign-in-service.service");
    const text = readFileSync(join(ROOT, "deploy", FILE), "utf8");
    writeFileSync(name, text.replace("ExecStart=/usr/bin/node", `ExecStart=${process.execPath}`));
    return name;
  }

  it("is valid", () => {
    expect(said(analyze, ["verify", unit()])).toEqual([0, ""]);
    const [, output] = said(analyze, [
      "verify",
      spoiled(FILE, "ProtectSystem=strict", "ProtectSystem=planted"),
    ]);
    expect(output).toContain("Failed to parse protect system value");
  });

  it("leaves the service little that it could harm", () => {
    const output = execFileSync(analyze, ["security", "--offline=true", "--threshold=15", unit()], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "pipe"],
    });
    expect(output).toMatch(/Overall exposure level for sign-in-service\.service: 1\.\d OK/);
  });

  it("reloads with SIGHUP, and gives requests the time that the service gives them", () => {
    const text = textOf(`deploy/${FILE}`);
    expect(text).toContain("ExecReload=/bin/kill -HUP $MAINPID\n");
    expect(text).toContain("TimeoutStopSec=40\n");
  });
});

describe("what the documents have for Prometheus", () => {
  const promtool = programFor("promtool");

  it("has a configuration in docs/operate/runbooks/alerts.md, which is valid beside the rules, and names the job that the rules expect", () => {
    const token = "/etc/prometheus/sign-in-metrics-token";
    const { code } = namedBlock("scrape-and-alert");
    expect(code).toContain(token);
    const file = join(folder, "prometheus.yml");
    writeFileSync(file, code.replace(token, join(folder, "token")));
    writeFileSync(join(folder, "token"), "the token of the metrics port");
    copyFileSync(join(ROOT, "deploy/prometheus/alerts.yml"), join(folder, "alerts.yml"));
    const check = ["check", "config", file];
    expect(said(promtool, check)).toEqual([0, expect.stringContaining("is valid prometheus config file")]);
    const [, job = ""] = /job_name: (\S+)/u.exec(code) ?? [];
    expect(textOf("deploy/prometheus/alerts.yml")).toContain(`job="${job}"`);
    // A missing token is found, so the paths are looked at.
    rmSync(join(folder, "token"));
    expect(said(promtool, check)[0]).toBe(1);
  });

  it("has the queries of docs/reference/metrics.md, which are valid and about metrics that exist", () => {
    const { code } = namedBlock("queries-of-a-dashboard");
    const queries = code.trimEnd().split("\n");
    const known = new Set(METRICS.map(({ name }) => `sign_in_${name}`));
    const named = [...code.matchAll(/\bsign_in_\w+/gu)].map(([name]) => name);
    expect(named.filter((name) => !known.has(name))).toEqual([]);
    expect(named.length).toBeGreaterThanOrEqual(queries.length);
    const file = join(folder, "queries.json");
    const rules = queries.map((expr, index) => ({ record: `query_${index}`, expr }));
    writeFileSync(file, JSON.stringify({ groups: [{ name: "documented", rules }] }));
    expect(said(promtool, ["check", "rules", file])).toEqual([
      0,
      expect.stringContaining(`${queries.length} rules found`),
    ]);
  });
});
