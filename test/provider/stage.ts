/** The adapter over a storage in memory, with a manual clock. */
import type { Adapter } from "oidc-provider";
import { artifactKey, createOidcAdapter } from "../../provider/adapter.ts";
import { createUnitsOfWork, type Unit, type UnitsOfWork } from "../../provider/unit-of-work.ts";
import { openArtifact } from "../../records/artifacts/sealed-artifact.ts";
import type { Artifact } from "../../records/artifacts/artifact.ts";
import { openStorage, type Storage } from "../../records/storage.ts";
import { readConfiguration } from "../../config/read.ts";
import { createSealer, type Sealer } from "../../core/sealing.ts";
import { ManualClock } from "../records/rules/stage.ts";

export const SEALER: Sealer = createSealer([Buffer.alloc(32, 7).toString("base64")]);

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
  const configuration = readConfiguration({
    deployments: { openid: { url: "http://127.0.0.1:1" } },
    storage: "sqlite::memory:",
    clock,
  });
  const storage = await openStorage(configuration);
  const { artifacts } = storage;
  const units = createUnitsOfWork(storage, SEALER, clock);
  return {
    clock,
    storage,
    units,
    adapter: createOidcAdapter(
      { configuration, units },
      {
        userCodeDigest: (userCode) => `digest of ${userCode}`,
        clientMetadata: async (id) => (id === "known" ? { client_id: id } : undefined),
      },
    ),
    request(work) {
      const times = { receivedAt: performance.now(), deadline: clock.now() + 4_500 };
      return units.run(times, async (unit) => {
        const result = await work(unit);
        await unit.commit();
        return result;
      });
    },
    async stored(model, id) {
      const found = await artifacts.find(model, artifactKey(id));
      return found && openArtifact(found.artifact, SEALER);
    },
  };
}
