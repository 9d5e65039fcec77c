/** What the log says of a storage that fails under the worker, and that comes back. */
import { afterEach, expect, it } from "@jest/globals";
import { pino } from "pino";
import { openStorage } from "../../records/storage.ts";
import { StorageUnavailable } from "../../core/errors.ts";
import { createSignInServiceOver, type SignInService } from "../../lib/service.ts";
import { WatchedStorage } from "../faults/watched-storage.ts";
import { until } from "./bullmq/stage.ts";

let service: SignInService | undefined;
afterEach(() => service?.close());

it("a storage that fails at every look is two lines: that it fails, and that it works again", async () => {
  const lines: string[] = [];
  let looks = 0;
  let watched: WatchedStorage | undefined;
  service = await createSignInServiceOver(
    {
      deployments: { oauth2: { url: "http://127.0.0.1:3999" } },
      storage: "sqlite::memory:",
      notifications: { poll: 0.005 },
      logger: pino({}, { write: (line: string) => void lines.push(line) }),
    },
    async (configuration, onWarning) => {
      watched = new WatchedStorage(await openStorage(configuration, onWarning));
      return watched.storage;
    },
  );
  // The first upkeep is over after it: the next one is a minute away.
  const purged = watched!.hold("deliveries.purge", { at: "after" });
  await purged.reached;
  purged.release();
  await new Promise(setImmediate);
  // What the start says.
  lines.length = 0;
  watched!.fail = ({ name }) => {
    if (!name.startsWith("deliveries.")) return;
    looks += 1;
    throw new StorageUnavailable("mongodb://user:hunter2@host is gone");
  };
  await until(() => looks > 50);
  const told = (): unknown[] => lines.map((line) => JSON.parse(line) as unknown);
  expect(told()).toEqual([
    expect.objectContaining({
      level: 50,
      work: "looking for deliveries that are due",
      defect: { kind: "StorageUnavailable" },
    }),
  ]);
  expect(lines.join("")).not.toContain("hunter2");
  watched!.fail = () => undefined;
  await until(() => lines.length > 1);
  expect(told()[1]).toMatchObject({ level: 40, msg: "work in the background works again" });
  const before = looks;
  await until(async () => (await service!.health()).ok);
  expect([looks, lines.length]).toEqual([before, 2]);
});
