import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { beforeAll, describe, expect, it } from "@jest/globals";
import { KINDS } from "../../../records/all-kinds.ts";
import { ENTRIES } from "../../../records/directory/directory-kinds.ts";
import { createSignInService } from "../../../lib/service.ts";
import { ROOT } from "../../examples/documents.ts";
import type { Running } from "../../examples/processes.ts";
import { rounds } from "../../rounds.ts";
import { type OwnRedis, openOwnRedis } from "../../servers/redis.ts";
import { fillWith } from "../samples.ts";
import {
  type Addresses,
  copyThroughKills,
  copyWords,
  type Everything,
  copiedFrom,
  lostEntries,
  markIn,
  runHere,
  untilFurther,
  untilMarked,
  withStores,
  Workshop,
} from "../stage.ts";
import { closing } from "../../closing.ts";

const workshop = new Workshop();
// More than a page of the copy holds of each kind.
const SIZE = rounds(120, 1000);
const KILLS = rounds(2, 5);
const big = workshop.sqlite();
let inBig: Everything;
let redis: OwnRedis;

beforeAll(async () => {
  redis = closing(await openOwnRedis());
  await withStores(big, (stores) => fillWith(stores, SIZE, Date.now()));
  inBig = await copiedFrom(big);
}, 120_000);

/** The records of the artifacts store. */
function artifactsIn(all: Everything): unknown[] {
  return KINDS.all
    .filter(({ declaration }) => declaration.store === "artifacts")
    .flatMap(({ name }) => all[name] ?? []);
}

function isPasswordIn(said: string): boolean {
  return said.includes("w%2Ford") || said.includes("w/ord");
}

/** A place with a few records. */
async function small(): Promise<Addresses> {
  const place = workshop.sqlite();
  await withStores(place, (stores) => fillWith(stores, 10, Date.now()));
  return place;
}

const pathOf = ({ storage }: Addresses): string => storage.slice("sqlite:".length);

/** The outcome of starting a service on a storage. */
async function startOn(place: Addresses): Promise<unknown> {
  const service = await createSignInService({
    ...place,
    deployments: { oauth2: { url: "http://127.0.0.1:3000" } },
    keys: { secrets: [Buffer.alloc(32, 7).toString("base64")] },
  });
  await service.close();
  return undefined;
}

/** A copy of the big storage that SIGINT has interrupted. If the copy ended before that, it is repeated. */
async function interrupted(): Promise<{ readonly to: Addresses; readonly running: Running }> {
  for (;;) {
    const to = workshop.sqlite();
    const running = workshop.start(copyWords(big, to));
    await untilFurther(() => markIn(pathOf(to)), running);
    if ((await running.stop("SIGINT")) !== 0) return { to, running };
  }
}

describe("a copy", () => {
  it("has every record of every kind, and prints how many", async () => {
    const to = workshop.sqlite();
    const { code, said } = await workshop.run(copyWords(big, to));
    expect([code, said]).toEqual([0, expect.stringContaining("both storages hold the same")]);
    for (const { name, declaration } of KINDS.all) {
      if (!declaration.exported) continue;
      expect(inBig[name]?.length).toBeGreaterThan(0);
      expect(said).toMatch(new RegExp(`^${name} +${inBig[name]?.length}$`, "m"));
    }
    expect(said).toContain(`copy those in ${pathOf(big)}.keys (or in the old configuration) to`);
    expect(markIn(pathOf(to))).toBeUndefined();
    await expect(copiedFrom(to)).resolves.toEqual(inBig);
    await expect(lostEntries(to)).resolves.toEqual([]);
    // Nothing was changed in the source.
    await expect(copiedFrom(big)).resolves.toEqual(inBig);
  }, 120_000);

  it("continues where it was after each SIGKILL", async () => {
    for (let kills = 0; kills < KILLS;) {
      const to = workshop.sqlite();
      kills += await copyThroughKills(
        () => workshop.start(copyWords(big, to)),
        12,
        async (running, earlier) => {
          await untilFurther(() => markIn(pathOf(to)), running);
          await pause(earlier * 3);
        },
      );
      await expect(copiedFrom(to)).resolves.toEqual(inBig);
    }
  }, 240_000);

  it("ends cleanly with SIGINT and says how to go on; no service starts before it is complete", async () => {
    const { to, running } = await interrupted();
    await expect(running.ended).resolves.toBe(130);
    expect(running.output()).toContain(
      "Stopped. Run the same command again, and it continues where it stopped.",
    );
    await expect(startOn(to)).rejects.toMatchObject({
      code: "invalid_configuration",
      problems: [expect.stringContaining("a copy into this storage is not finished")],
    });
    // An unfinished copy is neither a valid source, nor mistaken for a copy of another storage.
    const other = await small();
    await expect(workshop.run(copyWords(to, workshop.sqlite()))).resolves.toMatchObject({
      code: 1,
      said: expect.stringContaining("FROM is the target of an unfinished copy."),
    });
    await expect(workshop.run(copyWords(other, to))).resolves.toMatchObject({
      code: 1,
      said: expect.stringContaining("TO holds an unfinished copy of another storage."),
    });
    await expect(workshop.run(copyWords(big, to))).resolves.toMatchObject({ code: 0 });
    await expect(copiedFrom(to)).resolves.toEqual(inBig);
  }, 120_000);

  it("detects that copied records have changed since, and reports failure", async () => {
    const from = workshop.sqlite();
    await withStores(from, (stores) => fillWith(stores, 250, Date.now()));
    const to = workshop.sqlite();
    await expect(runHere(copyWords(from, to), /copying group/)).resolves.toMatchObject({
      code: 130,
      said: expect.stringContaining("Stopped."),
    });
    await withStores(from, async ({ storage }) => {
      const [first] = (await storage.scan("group", undefined, 1)).records;
      const put = [ENTRIES.group.restore({ ...first!, value: { ...first!.value, name: "changed" } })];
      await storage.commit({ id: "changed", deadline: Date.now() + 5_000, put });
    });
    const { code, said } = await workshop.run(copyWords(from, to));
    expect(code).toBe(1);
    expect(said).toContain("FROM and TO differ in group.");
    expect(said).toMatch(/^group +250  1 differ$/m);
    expect(said).toMatch(/^account +250$/m);
    await expect(startOn(to)).rejects.toMatchObject({ code: "invalid_configuration" });
  }, 120_000);

  it("refuses a target that is not empty, an empty source, and a missing file", async () => {
    const [from, to] = [await small(), await small()];
    const before = await copiedFrom(to);
    await expect(workshop.run(copyWords(from, to))).resolves.toMatchObject({
      code: 1,
      said: expect.stringContaining(
        "TO must be empty, but it already contains group, service, portal, client,",
      ),
    });
    await expect(copiedFrom(to)).resolves.toEqual(before);
    const empty = workshop.sqlite();
    await withStores(empty, () => Promise.resolve());
    await expect(workshop.run(copyWords(empty, workshop.sqlite()))).resolves.toMatchObject({
      code: 1,
      said: expect.stringContaining("FROM is empty."),
    });
    const missing = workshop.sqlite();
    await expect(workshop.run(copyWords(missing, workshop.sqlite()))).resolves.toMatchObject({
      code: 3,
      said: expect.stringContaining("can't be opened: ENOENT"),
    });
    await expect(workshop.run(copyWords(from, missing))).resolves.toMatchObject({ code: 0 });
  }, 60_000);
});

describe("artifacts in Redis", () => {
  const password = "pass%3Aw%2Ford-of-redis";

  it("move there and back without a change", async () => {
    const [there, back] = [{ ...workshop.sqlite(), artifacts: `${redis.url}/3` }, workshop.sqlite()];
    await expect(workshop.run(copyWords(big, there))).resolves.toMatchObject({ code: 0 });
    await expect(redis.client.select(3)).resolves.toBe("OK");
    await expect(redis.client.dbsize()).resolves.toBeGreaterThan(artifactsIn(inBig).length);
    expect(artifactsIn(await copiedFrom({ storage: there.storage }))).toEqual([]);
    await expect(workshop.run(copyWords(there, back))).resolves.toMatchObject({ code: 0 });
    await expect(copiedFrom(back)).resolves.toEqual(inBig);
    await expect(lostEntries(there)).resolves.toEqual([]);
    // What the same Redis holds for another storage is not in the way.
    const beside = { ...workshop.sqlite(), artifacts: there.artifacts };
    await expect(workshop.run(copyWords(big, beside))).resolves.toMatchObject({ code: 0 });
    for (const place of [there, beside]) await expect(copiedFrom(place)).resolves.toEqual(inBig);
  }, 240_000);

  it("continue after SIGKILL", async () => {
    for (let kills = 0, place = 0; kills < KILLS; place += 1) {
      const to = { ...workshop.sqlite(), artifacts: `${redis.url}?prefix=killed${place}:` };
      const mark = (): string | undefined => markIn(pathOf(to));
      kills += await copyThroughKills(
        () => workshop.start(copyWords(big, to)),
        3,
        async (running) => {
          await untilMarked(mark, running, (text) => text.includes("session"));
          await untilFurther(mark, running);
        },
      );
      expect(artifactsIn(await copiedFrom(to))).toEqual(artifactsIn(inBig));
    }
  }, 240_000);

  it("continue when an unavailable Redis is back", async () => {
    const kept = await openOwnRedis(["--appendonly", "yes", "--appendfsync", "always"]);
    const to = { ...workshop.sqlite(), artifacts: kept.url };
    const running = workshop.start(copyWords(big, to));
    await untilMarked(
      () => markIn(pathOf(to)),
      running,
      (text) => text.includes("group"),
    );
    await kept.stop();
    await expect(running.ended).resolves.toBe(3);
    expect(running.output()).toMatch(
      /Redis.*\. Run the same command again, and it continues where it stopped\.\n$/,
    );
    await kept.start();
    await expect(workshop.run(copyWords(big, to))).resolves.toMatchObject({ code: 0 });
    await kept.close();
  }, 120_000);

  it("need a password that is never printed", async () => {
    const documented = readFileSync(join(ROOT, "docs/operate/set-up/redis.md"), "utf8");
    const rights = /ACL SETUSER .* (\+@connection .*)/.exec(documented)![1]!.split(" ");
    await redis.client.call("ACL", "SETUSER", "copier", "on", ">pass:w/ord-of-redis", "~*", ...rights);
    const { host } = new URL(redis.url);
    const url = `redis://copier:${password}@${host}?prefix=secret:`;
    const from = await small();
    const said: string[] = [];
    const run = async (words: string[], env: Record<string, string> = {}): Promise<number | string> => {
      const outcome = await workshop.run(words, env);
      said.push(outcome.said);
      return outcome.code;
    };
    await expect(
      run(copyWords(from, { ...workshop.sqlite(), artifacts: "env:THE_REDIS" }), { THE_REDIS: url }),
    ).resolves.toBe(0);
    await redis.client.call("ACL", "SETUSER", "copier", "-scan");
    const other = url.replace("secret:", "other:");
    await expect(run(copyWords(from, { ...workshop.sqlite(), artifacts: other }))).resolves.toBe(3);
    expect(said.pop()).toMatch(/^Redis does not let this user SCAN\./mu);
    const wrong = url.replace("copier:", "copier:x");
    await expect(run(copyWords(from, { ...workshop.sqlite(), artifacts: wrong }))).resolves.toBe(3);
    await expect(run(copyWords(from, { ...workshop.sqlite(), artifacts: `${url}&x=1` }))).resolves.toBe(2);
    await expect(run(copyWords(from, { storage: `redis://u:${password}@127.0.0.1` }))).resolves.toBe(2);
    await expect(run([...copyWords(from, { storage: url }), url])).resolves.toBe(2);
    await expect(
      run(copyWords(from, { ...workshop.sqlite(), artifacts: `redis://u:${password}@h:1:2` })),
    ).resolves.toBe(2);
    const down = `redis://u:${password}@127.0.0.1:1`;
    await expect(run(copyWords(from, { ...workshop.sqlite(), artifacts: down }))).resolves.toBe(3);
    expect(said.filter(isPasswordIn)).toEqual([]);
    expect(said[0]).toContain(`redis://${host}/0?prefix=secret:`);
    const WARNING = "warning: other users of this machine can read the password in the artifacts of TO";
    expect(said[0]).not.toContain("warning");
    expect(said[1]).toContain(WARNING);
    expect(said[1]).toContain("WRONGPASS");
  }, 120_000);
});
