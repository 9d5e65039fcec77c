/** The Dockerfile, the compose file and the unit of systemd, checked by the tools for them. */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { randomBytes } from "node:crypto";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "@jest/globals";
import { parse } from "yaml";
import { blocks, ROOT, textOf } from "../examples/documents.ts";
import { freePorts, type Running, start } from "../examples/processes.ts";
import { openOwnPostgres } from "../servers/postgresql.ts";
import { openOwnRedis } from "../servers/redis.ts";
import { programFor } from "../machine.mjs";

const folder = mkdtempSync(join(tmpdir(), "sign-in-deploy-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** What a program says of a file, and its exit code. */
function said(command: string, args: readonly string[]): readonly [status: number | null, output: string] {
  const { status, stdout, stderr } = spawnSync(command, args, { encoding: "utf8" });
  return [status, stdout + stderr];
}

const byText = (one: string, other: string): number => (one < other ? -1 : 1);

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
    expect(said(hadolint, [join(ROOT, "deploy/Dockerfile")])).toEqual([0, ""]);
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

interface ComposeService {
  readonly image: string;
  readonly read_only?: boolean;
  readonly cap_drop?: readonly string[];
  readonly security_opt?: readonly string[];
  readonly user?: string;
  readonly restart?: string;
  readonly networks: readonly string[];
  readonly ports?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly secrets: readonly string[];
}

const compose = parse(textOf("deploy/compose.yml"), { merge: true }) as {
  readonly services: Readonly<Record<string, ComposeService>>;
  readonly secrets: Readonly<Record<string, { readonly file: string }>>;
  readonly networks: Readonly<Record<string, { readonly internal?: boolean }>>;
};

describe("the compose file", () => {
  /** The order of keys and services follows the reader, not the alphabet. */
  const ORDER = ["service-keys-order", "services-alphabetical-order", "top-level-properties-order"];
  const lint = (file: string): readonly [number | null, string] => {
    const rules = [...ORDER, "require-quotes-in-ports"].flatMap((rule) => ["--disable-rule", rule]);
    const program = join(ROOT, "node_modules/dclint/bin/dclint.cjs");
    return said(process.execPath, [program, file, "--max-warnings", "0", ...rules]);
  };

  it("fits the schema of the Compose specification, and has nothing that dclint finds", () => {
    expect(lint(join(ROOT, "deploy/compose.yml"))).toEqual([0, expect.not.stringContaining("error")]);
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

  it("finds each secret that the commands of docs/deploying.md make", () => {
    const commands = blocks().find(({ name, code }) => /deploying/.test(name) && code.startsWith("mkdir"));
    const where = join(folder, "documented");
    mkdirSync(where);
    execFileSync("sh", ["-euc", commands?.code ?? "false"], {
      cwd: where,
      stdio: ["ignore", "pipe", "pipe"],
    });
    const wanted = Object.values(compose.secrets).map(({ file }) => file.replace("./secrets/", ""));
    expect(readdirSync(join(where, "secrets")).toSorted(byText)).toEqual(wanted.toSorted(byText));
    expect(statSync(join(where, "secrets")).mode & 0o777).toBe(0o700);
    const made = (name: string): string => readFileSync(join(where, "secrets", name), "utf8").trim();
    expect(Buffer.from(made("keys"), "base64")).toHaveLength(32);
    expect(new URL(made("storage-url")).password).toBe(made("postgres-password"));
    expect(made("redis.conf")).toContain(`requirepass ${new URL(made("redis-url")).password}\n`);
  });

  it("configures a server and a worker that are well, with PostgreSQL and Redis", async () => {
    const secrets = join(folder, "secrets");
    mkdirSync(secrets);
    const [postgres, redis] = await Promise.all([openOwnPostgres(), openOwnRedis()]);
    const running: Running[] = [];
    try {
      const values: Readonly<Record<string, string>> = {
        "storage-url": await postgres.newDatabase(),
        "redis-url": redis.url,
        keys: randomBytes(32).toString("base64"),
        "metrics-token": randomBytes(32).toString("hex"),
      };
      for (const [name, value] of Object.entries(values)) writeFileSync(join(secrets, name), `${value}\n`);
      for (const [name, words] of [
        ["server", ["serve"]],
        ["worker", ["worker"]],
      ] as const) {
        const port = await freePorts(2);
        const env = {
          ...Object.fromEntries(
            Object.entries(compose.services[name]?.environment ?? {}).map(([key, value]) => [
              key,
              value
                .replace("/run/secrets", secrets)
                .replace(/^\$\{SIGN_IN_URL:.*\}$/, "https://login.example")
                .replace(/^\$\{SIGN_IN_NAME:.*\}$/, "Example"),
            ]),
          ),
          PORT: String(port),
          SIGN_IN_METRICS_PORT: String(port + 1),
        };
        const process = start("cli/main.ts", { args: words, env });
        running.push(process);
        await process.until(/health and metrics on port/);
        if (name === "server") await process.until(/listening on/);
        const check = (args: readonly string[]): Promise<number | string> =>
          start("deploy/healthcheck.mjs", { args, env }).ended;
        expect(await check(name === "server" ? [] : ["metrics"])).toBe(0);
        // The other port: nobody listens there, or it wants the token.
        if (name === "worker") expect(await check([])).toBe(1);
      }
      expect(await Promise.all(running.map((each) => each.stop()))).toEqual([0, 0]);
    } finally {
      await Promise.all(running.map((each) => each.stop("SIGKILL")));
      await Promise.all([postgres.close(), redis.close()]);
    }
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
