/** What only Redis can have wrong, and what a user of it has to be allowed. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { ROOT } from "../examples/documents.ts";
import { type OwnRedis, openOwnRedis } from "../servers/redis.ts";
import { fillWith } from "./samples.ts";
import { type Addresses, runHere, withStores, Workshop } from "./stage.ts";

const workshop = new Workshop();
let redis: OwnRedis;
let place: Required<Addresses>;

beforeAll(async () => {
  redis = await openOwnRedis();
  place = { ...workshop.sqlite(), artifacts: redis.url };
  await withStores(place, (stores) => fillWith(stores, 10, Date.now()));
});
afterAll(async () => {
  await redis.close();
  workshop.remove();
});

/** The rules that a page of the documentation has in this place. */
function rightsIn(page: string, where: RegExp): string[] {
  const text = readFileSync(join(ROOT, "docs", page), "utf8");
  return where.exec(text)?.[1]?.split(" ") ?? [];
}

describe("storage check with artifacts in Redis", () => {
  it("needs of a user what the documentation says", async () => {
    const service = rightsIn("redis.md", /^ACL SETUSER sign-in (.+)$/mu);
    const allow = (...rules: string[]) => redis.client.call("ACL", "SETUSER", "sign-in", ...rules);
    await allow(...service);
    const artifacts = redis.url.replace("//", "//sign-in:password@");
    const words = ["storage", "check", place.storage, "--artifacts", artifacts];
    expect((await runHere(words)).said).not.toContain("NOPERM");
    await allow("-scan");
    const { code, said } = await runHere(words);
    expect([code, said]).toEqual([1, expect.stringContaining("Redis does not let this user SCAN")]);
    expect(said).not.toContain("password");
  });

  it("names a Redis that forgets keys when its memory is full", async () => {
    await redis.client.config("SET", "maxmemory-policy", "allkeys-lru");
    const words = ["storage", "check", place.storage, "--artifacts", place.artifacts, "--repair"];
    const { code, said } = await runHere(words);
    await redis.client.config("SET", "maxmemory-policy", "noeviction");
    expect(code).toBe(1);
    expect(said).toMatch(/artifacts: 1 unsuitable settings \(.*maxmemory-policy allkeys-lru/);
  });
});
