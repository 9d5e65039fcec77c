/** A storage that is filled past the service is like one that the service has filled, and the same work touches few pages of it. */
import { dirname } from "node:path";
import { describe, expect, it } from "@jest/globals";
import { filler } from "../../bench/growth/fill.ts";
import { costTable, readFigures } from "../../bench/growth/figures.ts";
import { preparedOperations } from "../../bench/growth/operations.ts";
import { addressOf, openGrowing } from "../../bench/growth/storage.ts";
import { KINDS } from "../../records/all-kinds.ts";
import { kindChecks } from "../../records/record-check.ts";
import { closing } from "../closing.ts";
import { DatabaseFiles } from "../adapters/sqlite/database-files.ts";

const ACCOUNTS = 400;
/** Kibibytes that one call writes at most. What only reads writes nothing, but the service may write something at the same time. */
const MOST_WRITTEN = {
  exchange: 48,
  "account change, two receivers": 120,
  "claim and finish": 32,
  userinfo: 8,
  "due receivers": 8,
  "a page of the console": 8,
};

describe("a storage that has grown", () => {
  it("is as the service would have left it, and the same work writes few pages [D-GROW-1]", async () => {
    const address = await addressOf("SQLite", "grown", {
      folder: dirname(new DatabaseFiles().next()),
      postgres: undefined as never,
    });
    const empty = await openGrowing(address);
    const fill = await filler(empty, ACCOUNTS);
    await empty.close();
    await fill(await address.bulk());

    const place = closing(await openGrowing(address));
    const stores = { storage: place.store, artifacts: place.store };
    for (const check of kindChecks(KINDS, stores, { now: Date.now }))
      expect({ [`${check.part}: ${check.problem}`]: await check.find(3) }).toEqual({
        [`${check.part}: ${check.problem}`]: [],
      });

    const costs = await (await preparedOperations(place, ACCOUNTS))(30);
    const excess = Object.entries(MOST_WRITTEN).filter(
      ([name, most]) => (costs[name]?.written ?? Infinity) > most * 1_024,
    );
    expect(excess).toEqual([]);
    const { structures, kinds } = await address.structures();
    expect(structures.find(({ name }) => name === "Records")?.depth).toBe(3);
    expect(kinds["account"]?.records).toBe(ACCOUNTS + 1);
  });

  /** A backlog of dead index entries: a larger table is vacuumed later. */
  const LONGER_UNTIL_VACUUM = "due receivers";

  it("costs no more with a hundred times the accounts, by the last figures [D-GROW-2]", () => {
    for (const [backend, all] of Object.entries(readFigures())) {
      const [small, large] = [all[0], all.at(-1)];
      expect(large?.accounts).toBeGreaterThanOrEqual(100 * (small?.accounts ?? Infinity));
      // A page or block more for each level of the trees, and those that others have split.
      const compared = Object.entries(large?.costs ?? {}).map(([name, { used }]) => ({
        name,
        isMore: used > 2 * (small?.costs[name]?.used ?? 0) + 16 && name !== LONGER_UNTIL_VACUUM,
      }));
      expect({ backend, more: compared.filter(({ isMore }) => isMore) }).toEqual({ backend, more: [] });
      expect(costTable(backend as "SQLite", all)).toContain("Userinfo");
    }
  });
});
