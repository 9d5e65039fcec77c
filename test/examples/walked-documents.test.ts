/** Follows "The first hour", what can be built on it, "Day two" and "Backup and restore" command by command, in an empty folder, and compares what is printed. */
import { generateKeyPairSync } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "@jest/globals";
import { Browser } from "../../testing/browser/browser.ts";
import { blocksOf, namedBlock, ROOT } from "./documents.ts";
import { type Start, start } from "./processes.ts";
import { Reader, stepsOf } from "./reader.ts";
import { newFolder } from "../closing.ts";

let work: string;
let reader: Reader;

beforeAll(async () => {
  work = newFolder();
  // installed-documents.test.ts installs the package; here, its program runs from source.
  reader = await Reader.at(work, {
    npm: "exit 0",
    npx: `shift; exec "${process.execPath}" "${join(ROOT, "cli/main.ts")}" "$@"`,
  });
  writeFileSync(join(reader.folder, "password.txt"), "a password of the first hour\n", { mode: 0o600 });
});
afterAll(async () => {
  await reader?.end();
});

it("The first hour ends with a person signed in at a client", async () => {
  const steps = stepsOf("run-the-server");
  expect(steps.length).toBeGreaterThan(8);
  for (const step of steps) {
    if (step.command.includes("code=CODE")) {
      const browser = new Browser({ stopAt: reader.filled("http://localhost:3001/callback") });
      await browser.get(
        reader.filled("http://localhost:3000/oauth2/authorize?client_id=news&response_type=code&state=abc"),
      );
      const password = "a password of the first hour";
      await browser.submit(browser.form("password"), { username: "ada", password });
      reader.values.set("CODE", browser.location?.searchParams.get("code") ?? "none");
    }
    await reader.follow(step);
  }
  expect([...reader.values.keys()].toSorted()).toEqual(["ACCESS_TOKEN", "CLIENT_SECRET", "CODE", "SUB"]);
}, 60_000);

/** Signs Ada in. @returns where the client's answer goes. */
async function signedIn(address: string, stopAt: string): Promise<URL> {
  const browser = await new Browser({ stopAt }).get(address);
  const password = "a password of the first hour";
  await browser.submit(browser.form("password"), { username: "ada", password });
  return browser.location!;
}

/** The settings and arguments of a program of the repository that a document starts as `as`. */
function startOf(document: string, as: string): Start {
  const line = blocksOf(document)
    .filter(({ language }) => language === "sh")
    .flatMap(({ code }) => code.split("\n"))
    .find((each) => each.includes(`npx node ${as}`));
  const [before = "", after = ""] = reader.filled(line ?? "").split(`npx node ${as}`);
  const env = Object.fromEntries(
    [...before.matchAll(/([A-Z_]+)=(\S+)/gu)].map(([, name, value]) => [name, value]),
  );
  return {
    env: env as Record<string, string>,
    args: after
      .trim()
      .split(" ")
      .filter((each) => each !== ""),
  };
}

it("A page, an API, a job, an MCP server and a command-line program are clients of that service", async () => {
  for (const document of ["browser-applications", "protect-an-api", "agents", "native-applications"]) {
    const steps = stepsOf(document);
    expect([document, steps.length > 0]).toEqual([document, true]);
    for (const step of steps) await reader.follow(step);
  }
  const page = reader.filled("http://localhost:5173/");
  const challenge = `code_challenge=${"x".repeat(43)}&code_challenge_method=S256`;
  const request = `client_id=spa&response_type=code&${challenge}&redirect_uri=${encodeURIComponent(page)}`;
  const url = reader.filled(`http://localhost:3000/openid/oauth2/authorize?scope=openid&${request}`);
  expect((await signedIn(url, page)).searchParams.has("code")).toBe(true);

  const { env, ...rest } = startOf("protect-an-api", "main.ts");
  const PORT = reader.filled("3001");
  const api = start("examples/api/main.ts", { env: { ...env, PORT }, ...rest });
  reader.keep(api);
  await api.until(/Listening/);
  const job = start("examples/machine/job.ts", startOf("protect-an-api", "job.ts"));
  expect([await job.ended, job.output()]).toEqual([0, expect.stringMatching(/^200 .*First article/)]);

  // Both have the port 3001.
  await api.stop();
  const mcp = start("examples/mcp/server.ts", startOf("agents", "server.ts"));
  reader.keep(mcp);
  const [, address = ""] = await mcp.until(/The MCP server is at (\S+)/);
  expect((await fetch(address, { method: "POST" })).status).toBe(401);

  const program = start("examples/cli-login/loopback.ts", startOf("native-applications", "loopback.ts"));
  reader.keep(program);
  const [location = ""] = await program.until(/http:\S+/);
  const { searchParams } = new URL(location);
  await fetch(await signedIn(location, searchParams.get("redirect_uri") ?? ""));
  expect([await program.ended, program.output()]).toEqual([
    0,
    expect.stringContaining("Signed in as ada@example.com"),
  ]);
}, 60_000);

it("A client with FAPI 2.0 is registered as Clients with high security says [D-FAPI-1]", async () => {
  const { code: command } = namedBlock("register-a-fapi-client");
  const jwk = generateKeyPairSync("ec", { namedCurve: "P-256" }).publicKey.export({ format: "jwk" });
  writeFileSync(join(reader.folder, "bank.jwks.json"), JSON.stringify({ keys: [jwk] }));
  const printed = await reader.type(`npx ${command}`);
  const id = /client_id +(\S+)/u.exec(printed)?.[1] ?? "";
  expect(await reader.type(`npx sign-in-service clients find ${id} --json`)).toMatch(
    /"profile":"fapi2".*"dpop":"required"|"dpop":"required".*"profile":"fapi2"/su,
  );
}, 60_000);

it("The runbooks go on where the first hour ended", async () => {
  const steps = ["help-a-person", "a-receiver-fails", "configure", "something-has-leaked"].flatMap(stepsOf);
  expect(steps.length).toBeGreaterThan(12);
  for (const step of steps) await reader.follow(step);
}, 60_000);

it("A backup of it is restored as Backup and restore says", async () => {
  const steps = stepsOf("backup");
  expect(steps.length).toBeGreaterThan(6);
  for (const step of steps) await reader.follow(step);
}, 60_000);
