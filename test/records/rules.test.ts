import { openStorage } from "../../records/storage.ts";
import type { Clock } from "../../core/clock.ts";
import { DatabaseFiles } from "../adapters/sqlite/database-files.ts";
import { describeRules } from "./rules/suite.ts";
import { BACKENDS, newStorage } from "../servers/storage.ts";

const files = new DatabaseFiles();

let address: { readonly storage: string; readonly artifacts: string };

describeRules(BACKENDS.join(" and "), {
  async open(clock: Clock) {
    const { storage, artifacts } = await newStorage();
    const main = storage === "sqlite::memory:" ? `sqlite:${files.next()}` : storage;
    address = { storage: main, artifacts: artifacts ?? main };
    return openStorage({ ...address, clock });
  },
  reopen: (clock) => openStorage({ ...address, clock }),
});
