import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "@jest/globals";
import { openStorage } from "../../records/storage.ts";
import { ManualClock } from "./rules/stage.ts";
import { type MongoServer, openMongoServer } from "../servers/mongodb.ts";

const clock = new ManualClock();
const open = (storage: string, artifacts = storage) => openStorage({ storage, artifacts, clock });

it("opens SQLite at a path and in memory", async () => {
  const folder = await mkdtemp(join(tmpdir(), "sign-in-open-"));
  const storage = await open(`sqlite:${join(folder, "a:b?mode=memory.db")}`);
  await storage.directory.ensureServiceKey("cookie-keys", "value");
  await expect(readdir(folder)).resolves.toContain("a:b?mode=memory.db");
  await storage.close();
  await rm(folder, { recursive: true });
  const [one, two] = [await open("sqlite::memory:"), await open("sqlite::memory:")];
  await one.directory.ensureServiceKey("cookie-keys", "value");
  await expect(two.directory.findServiceKey("cookie-keys")).resolves.toBeUndefined();
  await Promise.all([one.close(), two.close()]);
});

it.each([
  ["sqlite:", "config.storage: has no path after `sqlite:`"],
  [
    "/var/secret.db",
    "config.storage: must be `sqlite:PATH`, `sqlite::memory:`, `postgresql://…`, `mongodb://…` or `mongodb+srv://…`",
  ],
  [
    "toString:secret",
    "config.storage: must be `sqlite:PATH`, `sqlite::memory:`, `postgresql://…`, `mongodb://…` or `mongodb+srv://…`",
  ],
])("says in one sentence why %s is not opened, without repeating it", async (address, problem) => {
  const error = await open(address).catch((reason: unknown) => reason);
  expect(error).toMatchObject({ code: "invalid_configuration", problems: [problem] });
  expect(JSON.stringify(error)).not.toContain("secret");
});

describe("MongoDB", () => {
  let server: MongoServer;
  beforeAll(async () => {
    server = await openMongoServer();
  });
  afterAll(() => server.close());

  it("is opened at its address, for all parts", async () => {
    const url = server.nextUrl();
    const storage = await open(url);
    await storage.directory.ensureServiceKey("cookie-keys", "value");
    await expect(storage.deliveries.list({ limit: 1 })).resolves.toEqual([]);
    const again = await open(url);
    await expect(again.directory.findServiceKey("cookie-keys")).resolves.toBe("value");
    expect(again.parts.map(({ name }) => name)).toEqual(["storage"]);
    await Promise.all([storage.close(), again.close()]);
  });
});

it("says that artifacts move to Redis or not at all", async () => {
  for (const other of ["sqlite:./other.db", "mongodb://:secret@a/b", "secret"]) {
    await expect(open("sqlite::memory:", other)).rejects.toMatchObject({
      problems: [
        "config.artifacts: must be `redis://…`, `rediss://…`, `redis+sentinel://…` or `redis+cluster://…`",
      ],
    });
  }
});
