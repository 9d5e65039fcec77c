/** The adapter over a storage in memory, with a manual clock. */
import type { Adapter } from "oidc-provider";
import { artifactKey, createOidcAdapter } from "../../provider/adapter.ts";
import { createUnitsOfWork, type Unit, type UnitsOfWork } from "../../provider/unit-of-work.ts";
import type { Artifact } from "../../records/artifacts/artifact.ts";
import { openStorage, type Storage } from "../../records/storage.ts";
import { ManualClock } from "../records/rules/stage.ts";

/** Seconds. */
export const HOUR = 3_600;

export interface OidcStage {
  readonly clock: ManualClock;
  readonly storage: Storage;
  readonly units: UnitsOfWork;
  readonly adapter: (model: string) => Adapter;
  /** Runs a request, which commits at its end. */
  readonly request: <T>(work: (unit: Unit) => Promise<T>) => Promise<T>;
  /** Reads from the storage without the adapter. */
  readonly stored: (model: string, id: string) => Promise<Artifact | undefined>;
}

export async function openOidcStage(): Promise<OidcStage> {
  const clock = new ManualClock();
  const storage = await openStorage({ storage: "sqlite::memory:", artifacts: "sqlite::memory:", clock });
  const { artifacts } = storage;
  const units = createUnitsOfWork(artifacts, clock);
  return {
    clock,
    storage,
    units,
    adapter: createOidcAdapter({
      sessionMax: 7_776_000,
      units,
      clock,
      userCodeDigest: (userCode) => `digest of ${userCode}`,
      clientMetadata: async (id) => (id === "known" ? { client_id: id } : undefined),
    }),
    request(work) {
      const times = { underWaySince: performance.now(), deadline: clock.now() + 4_500 };
      return units.run(times, async (unit) => {
        const result = await work(unit);
        await unit.commit();
        return result;
      });
    },
    stored: async (model, id) => (await artifacts.find(model, artifactKey(id)))?.artifact,
  };
}
