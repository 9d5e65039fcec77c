/** Keycloak as the provider. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { Browser } from "../../testing/index.ts";
import { freePorts } from "../examples/processes.ts";
import { programFor } from "../machine.mjs";
import { CALLBACK, createStage, type Stage } from "./stage.ts";

const CLIENT = { client_id: "sign-in", client_secret: "a-secret-of-this-client-at-keycloak" };
const PASSWORD = "the password of ada";
const ADMIN = { username: "admin", password: "the-password-of-the-admin" };

/** Longer than a Java program takes to start beside others. */
const START_MS = 300_000;

const REALM = {
  realm: "corp",
  enabled: true,
  sslRequired: "none",
  clients: [
    {
      clientId: CLIENT.client_id,
      secret: CLIENT.client_secret,
      redirectUris: [CALLBACK],
      attributes: { "pkce.code.challenge.method": "S256" },
    },
  ],
  users: [
    {
      username: "ada",
      enabled: true,
      email: "ada@corp.example",
      emailVerified: true,
      firstName: "Ada",
      lastName: "Lovelace",
      credentials: [{ type: "password", value: PASSWORD }],
    },
  ],
};

let origin: string;
let stop: () => Promise<unknown>;

async function start(): Promise<void> {
  const port = await freePorts(1);
  origin = `http://127.0.0.1:${port}`;
  const options = ["--optimized", "--cache=local", "--http-enabled=true", "--hostname-strict=false"];
  const child = spawn(
    programFor("Keycloak"),
    ["start", ...options, "--http-host=127.0.0.1", `--http-port=${port}`],
    {
      // Its script starts a process of its own.
      detached: true,
      stdio: ["ignore", "pipe", "ignore"],
      env: {
        ...process.env,
        JAVA_OPTS_KC_HEAP: "-Xms64m -Xmx512m",
        KC_BOOTSTRAP_ADMIN_USERNAME: ADMIN.username,
        KC_BOOTSTRAP_ADMIN_PASSWORD: ADMIN.password,
      },
    },
  );
  const ended = once(child, "close");
  stop = () => {
    process.kill(-child.pid!, "SIGKILL");
    return ended;
  };
  const lines = createInterface(child.stdout);
  await Promise.race([
    new Promise<void>((resolve) => {
      lines.on("line", (line) => {
        if (line.includes("Listening on")) resolve();
      });
    }),
    ended.then(() => Promise.reject(new Error("Keycloak ended"))),
  ]);
}

beforeAll(async () => {
  await start();
  const form = new URLSearchParams({ grant_type: "password", client_id: "admin-cli", ...ADMIN });
  const token = await fetch(`${origin}/realms/master/protocol/openid-connect/token`, {
    method: "POST",
    body: form,
  });
  const { access_token } = (await token.json()) as { access_token: string };
  const made = await fetch(`${origin}/admin/realms`, {
    method: "POST",
    headers: { authorization: `Bearer ${access_token}`, "content-type": "application/json" },
    body: JSON.stringify(REALM),
  });
  expect(made.status).toBe(201);
}, START_MS);

afterAll(() => stop());

async function withStage<T>(
  client: typeof CLIENT,
  issuer: string,
  work: (stage: Stage) => Promise<T>,
): Promise<T> {
  const stage = await createStage({ provider: { ...client, issuer, name: "Keycloak", trustsEmail: true } });
  try {
    return await work(stage);
  } finally {
    await stage.close();
  }
}

it("says who has signed in, when, and that the address is verified [D-PROV-37]", async () => {
  const issuer = `${origin}/realms/corp`;
  await withStage(CLIENT, issuer, async ({ upstream, clock }) => {
    const { url, trip } = await upstream.begin("test", {
      redirectUri: CALLBACK,
      loginHint: "ada",
      fresh: true,
    });
    const browser = new Browser({ stayAt: [origin] });
    await browser.get(url);
    await browser.submit(browser.form("password"), { username: "ada", password: PASSWORD });
    // Keycloak has the time of the system.
    clock.advance(Math.max(0, (Date.now() - clock.now()) / 1000));
    expect(await upstream.finish(trip, browser.location!.searchParams)).toEqual({
      provider: "test",
      issuer,
      subject: expect.stringMatching(/^[\da-f-]{36}$/),
      email: "ada@corp.example",
      vouched: true,
      name: "Ada",
      surname: "Lovelace",
      auth_time: expect.any(Number),
      mfa: false,
    });
  });
});

it.each<[what: string, client: typeof CLIENT, path: string, callback: string, problem: RegExp | undefined]>([
  ["nothing", CLIENT, "/realms/corp", CALLBACK, undefined],
  ["client_id", { ...CLIENT, client_id: "sing-in" }, "/realms/corp", CALLBACK, /does not accept client_id/],
  [
    "client_secret",
    { ...CLIENT, client_secret: "wrong" },
    "/realms/corp",
    CALLBACK,
    /does not accept client_id/,
  ],
  ["the realm", CLIENT, "/realms/crop", CALLBACK, /There is no discovery document/],
  ["the end of the issuer", CLIENT, "/realms/corp/", CALLBACK, /that of the issuer/],
  ["the redirect address", CLIENT, "/realms/corp", `${CALLBACK}s`, /does not accept the redirect address/],
])("is examined with a typing error in %s [D-PROV-36]", async (_what, client, path, callback, problem) => {
  const found = await withStage(client, `${origin}${path}`, ({ upstream }) =>
    upstream.examine("test", [callback]),
  );
  expect(found.map((each) => each.problem)).toEqual(
    problem === undefined ? [] : [expect.stringMatching(problem)],
  );
});
