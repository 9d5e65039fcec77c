/** `doctor --against`: whether a storage and a configuration can go to another version. */
import { randomUUID } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "@jest/globals";
import type { PublishedFormats } from "../../cli/doctor/upgrade-checks.ts";
import { STORAGE_FORMAT, type StoredFormat } from "../../records/formats/format.ts";
import { doctor, folder, write } from "./doctor-stage.ts";
import { here } from "./here.ts";
import { withStores } from "./stage.ts";

const ROOT = join(import.meta.dirname, "../..");
const storage = `sqlite:${join(folder, "upgraded.db")}`;
const path = join(folder, "sign-in.json");
const deployments = {
  oauth2: { url: "http://127.0.0.1:39997" },
  openid: { url: "http://127.0.0.1:39997/openid" },
};

it("says before an upgrade whether the storage and the configuration can go there [D-UP-8]", async () => {
  write({ deployments, storage });
  await withStores({ storage }, async () => undefined);
  const published = JSON.parse(readFileSync(join(ROOT, "docs/formats.json"), "utf8")) as PublishedFormats;
  const file = join(folder, "formats.json");
  const next = { ...published, version: "999.0.0" };
  const { format, configuration } = published;
  const against = async (to: object): Promise<readonly (string | undefined)[]> => {
    writeFileSync(file, JSON.stringify(to));
    const { code, lines } = await doctor(["--config", path, "--against", file]);
    const found = lines.filter(({ check }) => check === "upgrade").map((line) => line.code);
    return [String(code), ...found];
  };
  const both = [format, format + 1];
  const step = { ...next, format: format + 1, reads: both, path: "in one step" };
  const others = configuration.filter((key) => !key.startsWith("deployments.openid"));
  for (const [to, ...found] of [
    [next, "0", undefined],
    [{ ...step, path: "expand and contract" }, "0", "upgrade_migrates"],
    [step, "0", "upgrade_stops"],
    [{ ...next, format: format + 2, reads: [format + 1, format + 2] }, "1", "upgrade_format"],
    [{ ...next, version: "0.0.9" }, "1", "upgrade_backwards"],
    [{ ...next, node: 99 }, "1", "upgrade_node"],
    [{ ...next, configuration: others }, "1", "upgrade_key"],
  ] as const)
    expect([to, await against(to)]).toEqual([to, found]);
  const change = (stored: object): Promise<void> =>
    withStores({ storage }, ({ storage: store }) =>
      store.commit({
        id: randomUUID(),
        deadline: Date.now() + 30_000,
        put: [STORAGE_FORMAT.record(stored as StoredFormat, { key: "current" })],
      }),
    );
  await change({ format, from: format - 1, progress: { since: 1, done: 0 } });
  expect(await against(step)).toEqual(["1", "upgrade_unfinished"]);
  await change({ format });

  // Hostile, missing and other files.
  await expect(doctor(["--config", path, "--against", ROOT])).resolves.toMatchObject({ code: 0 });
  for (const wrong of [
    "{",
    "[]",
    JSON.stringify({ ...next, version: "1.0.0\u001b[31m" }),
    " ".repeat(1_000_001),
  ]) {
    writeFileSync(file, wrong);
    const { code, err } = await here(["doctor", "--config", path, "--against", file]);
    expect([code, err]).toEqual([2, expect.stringContaining("names no version of sign-in-service")]);
  }
  const missing = await here(["doctor", "--config", path, "--against", join(folder, "nothing")]);
  expect(missing.code).toBe(2);
});
