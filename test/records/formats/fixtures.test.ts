/** The storage of every release since 0.3.0, opened by this version: nothing that was valid has ended, and nothing is damaged. */
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, it } from "@jest/globals";
import { currentFormat, formerFormat } from "../../../core/storage-formats.ts";
import { KINDS } from "../../../records/all-kinds.ts";
import type { Browser } from "../../../testing/browser/browser.ts";
import { JsonVisitor } from "../../interactions/json-visitor.ts";
import { type Held, Mails, type Stage, startStage, whatIsValid } from "../../cli/renewal-stage.ts";
import { clientAt } from "../../flows/clients.ts";
import { NEWS } from "../../flows/running-service.ts";
import { here } from "../../cli/here.ts";
import { atEnd, newFolder } from "../../closing.ts";
import { rounds } from "../../rounds.ts";
import {
  clockFrom,
  factsOf,
  FIXTURES,
  GROUNDS,
  makeFixture,
  NOT_KEPT,
  PORT,
  reader,
  RECEIVER,
  settingsOf,
  type StorageFacts,
} from "./fixture.ts";

if (process.env["MAKE_FIXTURE"] === "yes")
  it("makes the fixture of this version", async () => makeFixture(newFolder()), 300_000);

it("every format has a fixture of the release that introduced it [D-UP-5]", () => {
  const { format, since } = currentFormat();
  const made = FIXTURES.map((version) => factsOf(version)).find((facts) => facts.format === format);
  if (made === undefined)
    throw new Error(
      `the format is ${format}, and no fixture has it: run MAKE_FIXTURE=yes npm test -- test/records/formats/fixtures.test.ts, and commit test/records/formats/fixtures/${since}`,
    );
  expect(made.version).toBe(since);
});

const { since } = currentFormat();
it.each(FIXTURES.filter((version) => version === since))(
  "the fixture of %s has a record of every kind on each storage [D-UP-12]",
  (version) => {
    for (const [name, { kinds }] of Object.entries(factsOf(version).storages)) {
      const missing = KINDS.all.map((kind) => kind.name).filter((kind) => !kinds.includes(kind));
      // A new kind needs no new fixture once the release is out: name it in NOT_KEPT with the release that it came with.
      expect([name, missing]).toEqual([name, missing.filter((kind) => Object.hasOwn(NOT_KEPT, kind))]);
    }
  },
);

/** The releases that this version can read. */
const readable = FIXTURES.filter((version) =>
  [currentFormat().format, formerFormat()?.format].includes(factsOf(version).format),
);

interface StoredCookie {
  readonly name: string;
  readonly value: string;
  readonly path: string;
  readonly domain: string;
}

/** What was valid, with browsers that have their cookies again. */
async function heldBy({ held }: StorageFacts, { running }: Stage): Promise<Held> {
  const browserWith = (name: "session" | "running" | "remembered"): Browser => {
    const browser = clientAt(running, "openid", NEWS).browser();
    for (const { name: cookie, value, path, domain } of held[name] as StoredCookie[])
      browser.jar.take(new URL(`http://${domain}/`), [`${cookie}=${value}; Path=${path}`]);
    return browser;
  };
  return {
    ...(held as unknown as Held),
    session: browserWith("session"),
    running: await browserWith("running").get(String(held["form"])),
    remembered: new JsonVisitor(browserWith("remembered")),
  };
}

for (const version of readable)
  describe(`the storage of ${version}`, () => {
    const facts = factsOf(version);
    it.each(Object.keys(GROUNDS).slice(0, rounds(2, 4)))(
      "on %s: sessions, tokens, codes, links and cookies work, what waited is delivered, and storage check finds nothing [D-UP-5, D-UP-6, D-UP-7]",
      async (name) => {
        const stored = facts.storages[name]!;
        const folder = newFolder();
        mkdirSync(join(folder, "storage"));
        const ground = await GROUNDS[name]!(join(folder, "storage"));
        atEnd(() => ground.close());
        await ground.load(reader(version));
        const file = join(folder, "sign-in.json");
        writeFileSync(file, JSON.stringify(ground.config), { mode: 0o600 });
        const clock = clockFrom(stored.made_at);
        const checked = await here(["storage", "check", "--config", file], { clock });
        expect(checked).toMatchObject({ code: 0, out: expect.stringContaining("No problems found") });

        const received = new Set<unknown>();
        const receiver = createServer((request, response) => {
          received.add(request.headers["webhook-id"]);
          request.resume().once("end", () => response.writeHead(204).end());
        }).listen(0, "127.0.0.1");
        await once(receiver, "listening");
        atEnd(() => receiver.close().closeAllConnections());
        const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`;
        const stage = await startStage(settingsOf(ground.config, url, clock), new Mails(), PORT);
        const { notifications } = stage.running.service;
        const waiting = (await notifications.list({ receiver: RECEIVER, state: "waiting" })).items;
        expect(waiting.length).toBeGreaterThan(0);
        await notifications.resume(RECEIVER, {});
        const valid = await whatIsValid(stage, await heldBy(stored, stage));
        // Not a pushed request: oidc-provider compares its minute with the clock of the system.
        const { "pushed-authorization-request": _pushed, ...others } = valid;
        expect(Object.entries(others).filter(([, isValid]) => !isValid)).toEqual([]);
        while (waiting.some(({ id }) => !received.has(id))) await pause(50);
        await stage.running.close();
      },
      120_000,
    );
  });
