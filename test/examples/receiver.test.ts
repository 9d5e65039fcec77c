/** The demo receiver, and the one in the documentation. */
import { execFileSync } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, describe, expect, it } from "@jest/globals";
import { exampleEvent } from "../../accounts/events/event-types.ts";
import { BODY, deliverer, OLD_SECRET, options, SECRET, target } from "../notifier/attempts.ts";
import { namedBlock, ROOT } from "./documents.ts";
import { programFor } from "../machine.mjs";
import { rounds } from "../rounds.ts";
import { freePorts, type Running, start, startProgram } from "./processes.ts";

/** Inside the repository, so that packages are found. Ignored by git. */
const FOLDER = ".cache/receiving";
const EXPECTED = { client_id: "receiver", client_secret: "receiver-secret-1843" };

afterAll(() => rmSync(join(ROOT, FOLDER), { recursive: true, force: true }));

async function received(
  args: readonly string[],
  test: (url: string, running: Running) => Promise<void>,
): Promise<void> {
  const running = start("examples/receiver/main.ts", { args: ["--port", "0", ...args] });
  try {
    const [, url = ""] = await running.until(/receiving notifications at (\S+)/);
    await test(url, running);
    expect(await running.stop()).toBe(0);
  } finally {
    await running.stop("SIGKILL");
  }
}

describe("the demo receiver", () => {
  it("prints each notification once, and refuses unexpected requests [NOTIFY-1, NOTIFY-5]", async () => {
    await received(["--signing-secret", SECRET], async (url, running) => {
      const { attempt } = deliverer();
      for (const id of ["one", "one"]) {
        expect(await attempt(target(`${url}any`, EXPECTED), BODY, options(id))).toMatchObject({
          status: 200,
        });
      }
      expect(await attempt(target(url), BODY, options("two"))).toMatchObject({ status: 401 });
      await running.until(/401 .*credentials/);
      expect(
        running.output().match(/PROFILE_CHANGED  łucja@example\.com  .*  webhook-id one$/gm),
      ).toHaveLength(1);
      expect(running.output()).not.toContain("webhook-id two");
    });
  });

  it("fails as often as the arguments say, and then succeeds", async () => {
    await received(["--fail", "2", "--status", "500"], async (url) => {
      const { attempt } = deliverer();
      const statuses: unknown[] = [];
      for (let i = 0; i < 3; i += 1) {
        statuses.push(await attempt(target(url, EXPECTED), BODY, options("one")));
      }
      expect(statuses).toMatchObject([{ status: 500 }, { status: 500 }, { status: 200 }]);
    });
  });

  it("closes connections and waits, every time without --fail", async () => {
    await received(["--close"], async (url) => {
      const { attempt } = deliverer();
      for (let i = 0; i < 2; i += 1) {
        expect(await attempt(target(url, EXPECTED), BODY, options())).toMatchObject({ code: "ECONNRESET" });
      }
    });
    await received(["--slow", "20"], async (url, running) => {
      const { attempt } = deliverer({ timeouts: { connect: 5, total: 0.2 } });
      expect(await attempt(target(url, EXPECTED), BODY, options())).toMatchObject({ code: "timeout_total" });
      await running.until(/request 1 at \/, msg_1: waiting 20 s/);
    });
  });

  it("has --help, and reports invalid arguments", async () => {
    const help = start("examples/receiver/main.ts", { args: ["--help"] });
    expect(await help.ended).toBe(0);
    for (const option of ["--fail", "--status", "--slow", "--close", "--port"]) {
      expect(help.output()).toContain(option);
    }
    for (const args of [
      ["--fail", "x"],
      ["--status", "99"],
      ["--slow", "-1"],
      ["--port", "65536"],
      ["--client-id", "a:b"],
      ["--client-id", ""],
      ["--client-secret", ""],
      ["--signing-secret", "whsec_"],
      ["--signing-secret", "c2VjcmV0"],
      ["--what"],
      ["x"],
    ]) {
      const wrong = start("examples/receiver/main.ts", { args });
      expect([args, await wrong.ended]).toEqual([args, 2]);
      expect(wrong.output()).toContain("See --help.");
    }
  });
});

describe("the receiver of account events", () => {
  it("prints each event once, and refuses what is not signed [D-EVENT-6]", async () => {
    const running = start("examples/events/main.ts", {
      args: ["--port", "0"],
      env: { SIGNING_SECRET: SECRET },
    });
    try {
      const [, url = ""] = await running.until(/receiving events at (\S+)/);
      const { attempt } = deliverer();
      const body = JSON.stringify(exampleEvent("account.updated", 1_767_225_600));
      const crm = { url, signing_secrets: [SECRET] };
      for (const id of ["one", "one"])
        expect(await attempt(crm, body, options(id))).toMatchObject({ status: 200 });
      const stranger = { url, signing_secrets: [OLD_SECRET] };
      expect(await attempt(stranger, body, options("two"))).toMatchObject({ status: 401 });
      await running.until(/account\.updated/);
      expect(running.output().match(/account\.updated .*"fields":\["surname"\]/g)).toHaveLength(1);
    } finally {
      await running.stop();
    }
  });
});

describe("the receiver in docs/notifications/receive.md", () => {
  it("starts, and accepts the notifications of this service", async () => {
    const block = namedBlock("receive-with-koa");
    const port = await freePorts();
    const [, secret = ""] = /"(whsec_[^"]*)"/.exec(block.code) ?? [];
    const code = block.code
      .replace('"sign-in-service/notifier"', '"../../notifier/index.ts"')
      .replaceAll("3000", String(port));
    mkdirSync(join(ROOT, FOLDER), { recursive: true });
    writeFileSync(join(ROOT, FOLDER, "receiver.ts"), code);
    const running = start(`${FOLDER}/receiver.ts`);
    try {
      await running.until(/ready/);
      const shop = {
        client_id: "shop",
        client_secret: "the secret prepared for the shop",
        signing_secrets: [secret],
      };
      const there = target(`http://127.0.0.1:${port}/notify`, shop);
      const { attempt } = deliverer();
      expect(await attempt(there, BODY, options("one"))).toMatchObject({ status: 200 });
      await running.until(/received PROFILE_CHANGED b5c6ab5e\S* one/);
      expect(await attempt({ ...there, client_secret: "another" }, BODY, options("two"))).toMatchObject({
        status: 401,
      });
    } finally {
      await running.stop();
    }
  });
});

/** Waits a moment. @returns whether the process is still there. */
async function isRunning({ ended }: Running): Promise<boolean> {
  return Promise.race([pause(100, true), ended.then(() => false)]);
}

/** What runs each program. */
const PROGRAMS: Readonly<Record<string, (file: string) => readonly string[]>> = {
  py: (file) => [programFor("Authlib"), file],
  go(file) {
    const program = join(ROOT, FOLDER, "receiver");
    execFileSync(programFor("Go"), ["build", "-o", program, file]);
    return [program];
  },
};
/** The first compilation of Go takes half a minute of a core. */
const LANGUAGES = rounds(0, 1) === 1 ? ["py", "go"] : ["py"];

describe("the receivers in other languages", () => {
  it.each(LANGUAGES)(
    "receiver.%s handles each notification of this service once, and refuses others",
    async (language) => {
      const port = await freePorts();
      mkdirSync(join(ROOT, FOLDER), { recursive: true });
      const [command = "", ...args] = PROGRAMS[language]!(
        join(ROOT, "examples/receivers", `receiver.${language}`),
      );
      const running = startProgram(command, {
        args,
        env: {
          CREDENTIALS: "shop:the secret prepared for the shop",
          SIGNING_SECRET: SECRET,
          PORT: String(port),
        },
      });
      const shop = { client_id: "shop", client_secret: "the secret prepared for the shop" };
      const there = target(`http://127.0.0.1:${port}/`, shop);
      const { attempt } = deliverer();
      try {
        let first: object;
        do first = await attempt(there, BODY, options("one"));
        while ("code" in first && first.code === "ECONNREFUSED" && (await isRunning(running)));
        expect(first).toMatchObject({ status: 200 });
        expect(await attempt(there, BODY, options("one"))).toMatchObject({ status: 200 });
        const refused = [
          await attempt({ ...there, client_secret: "another secret of the shop" }, BODY, options("two")),
          await attempt({ ...there, signing_secrets: [OLD_SECRET] }, BODY, options("three")),
          await attempt({ ...there, signing_secrets: [] }, BODY, options("four")),
          await attempt(there, `${BODY}${" ".repeat(65_536)}`, options("five")),
        ];
        expect(refused).toMatchObject(refused.map(() => ({ status: 401 })));
        expect(await attempt(there, BODY, options("six"))).toMatchObject({ status: 200 });
        const printed = /^PROFILE_CHANGED b5c6ab5e-0e4c-4d7c-8f0a-4f3e8d9f2c11$/gm;
        expect(running.output().match(printed)).toHaveLength(2);
      } finally {
        await running.stop("SIGKILL");
      }
    },
    240_000,
  );
});
