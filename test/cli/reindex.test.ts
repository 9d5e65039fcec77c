/** `storage reindex`: builds the index of the search beside a running service, and after a SIGKILL. */
import { randomUUID } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import { expect, it } from "@jest/globals";
import { pino } from "pino";
import type { RecordStore } from "../../adapters/record-store.ts";
import { createSignInService, type SignInService } from "../../lib/service.ts";
import { ACCOUNT } from "../../records/directory/directory-kinds.ts";
import { CURRENT_INDEX, SEARCH_WORDS, type StoredSearchIndex } from "../../records/directory/search-kinds.ts";
import { account } from "../records/rules/stage.ts";
import { configFile, DEPLOYMENTS, newPlace } from "./backup-stage.ts";
import { here } from "./here.ts";
import { withStores, Workshop } from "./stage.ts";

const workshop = new Workshop();
/** Of these, a run of the command does 100 in a commit. */
const MANY = 4_000;
const TRIES = 5;

const commit = (store: RecordStore, parts: object): Promise<void> =>
  store.commit({ id: randomUUID(), deadline: Date.now() + 60_000, ...parts });

it("storage reindex continues after SIGKILL, beside a service that says so until it is done [D-ADM-176, D-ADM-177, D-ADM-179]", async () => {
  const { folder, storage } = newPlace(workshop);
  const config = { storage };
  const file = configFile(folder, config);
  const warnings: string[] = [];
  const start = (): Promise<SignInService> =>
    createSignInService({
      ...config,
      deployments: DEPLOYMENTS,
      notifications: { worker: false },
      logger: pino({ level: "warn" }, { write: (line: string) => void warnings.push(line) }),
    });
  const doctor = async (): Promise<string> => (await here(["doctor", "--json", "--config", file])).out;
  await (await start()).close();
  expect([warnings.join("").includes("reindex"), (await doctor()).includes("search_incomplete")]).toEqual([
    false,
    false,
  ]);
  // As an earlier version has left it.
  await withStores(config, async ({ storage: store }) => {
    for (let at = 1; at <= MANY; at += 500)
      await commit(store, {
        put: Array.from({ length: 500 }, (_each, index) => ACCOUNT.record(account(at + index))),
      });
    await commit(store, { remove: [CURRENT_INDEX] });
  });
  const service = await start();
  try {
    expect(warnings.join("")).toContain("run sign-in-service storage reindex");
    expect(await doctor()).toContain("search_incomplete");
    const indexNow = (): Promise<StoredSearchIndex | undefined> =>
      withStores(config, async ({ storage: store }) => {
        const [found] = await store.get([CURRENT_INDEX]);
        return found?.value as StoredSearchIndex | undefined;
      });
    let begun: StoredSearchIndex | undefined;
    for (let tries = 0; begun?.after === undefined; tries += 1) {
      expect(tries).toBeLessThan(TRIES);
      await withStores(config, ({ storage: store }) => commit(store, { remove: [CURRENT_INDEX] }));
      const running = workshop.start(["storage", "reindex", "--config", file]);
      const state = { isOver: false };
      void running.ended.then(() => (state.isOver = true));
      while (!state.isOver && (await indexNow())?.after === undefined) await pause(2);
      await running.stop("SIGKILL");
      begun = await indexNow();
    }
    await expect(service.accounts.list({ search: "person7" })).rejects.toMatchObject({
      code: "search_incomplete",
    });
    const shown: string[] = [];
    const done = await here(["storage", "reindex", "--json", "--config", file], {
      err: { isTTY: true, write: (text: string) => void shown.push(text) },
    });
    expect(JSON.parse(done.out)).toEqual({ accounts: MANY });
    expect(shown.join("")).toContain(" of 4,000");
    expect((await service.accounts.list({ search: "person3999" })).items).toMatchObject([{ user_id: 3999 }]);
    expect(await doctor()).not.toContain("search_incomplete");
    await withStores(config, async ({ storage: store }) => {
      const [last] = await store.get([SEARCH_WORDS.ref("sub-4000")]);
      expect(last?.value).toMatchObject({ user_id: 4000 });
    });
  } finally {
    await service.close();
  }
}, 120_000);
