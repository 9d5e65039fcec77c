/** One algorithm's signing keys, among those of all algorithms. */
import { setTimeout as pause } from "node:timers/promises";
import type { JWK } from "oidc-provider";
import type { RecordStore } from "../../../adapters/record-store.ts";
import type { SigningKeys } from "../../../accounts/keys/signing-keys.ts";
import type { SigningKey } from "../../../accounts/operations/keys.ts";

/** The keys of one algorithm. All algorithms are treated alike. */
export type KeyChain = Omit<SigningKeys, "rotate"> & {
  rotate(...parameters: Parameters<SigningKeys["rotate"]>): Promise<SigningKey>;
};

export function chainOf(algorithm: string, keys: SigningKeys): KeyChain {
  const chains = new WeakMap<readonly JWK[], readonly JWK[]>();
  const isOfChain = ({ alg }: { readonly alg?: string | undefined }): boolean => alg === algorithm;
  return {
    inForce() {
      const all = keys.inForce();
      const chain = chains.get(all) ?? all.filter(isOfChain);
      chains.set(all, chain);
      return chain;
    },
    list: async () => (await keys.list()).filter(isOfChain),
    rotate: async (options) => (await keys.rotate(options)).find(isOfChain) as SigningKey,
    retire: (kid, options) => keys.retire(kid, options),
    refresh: () => keys.refresh(),
    start: (outage) => keys.start(outage),
    stop: () => keys.stop(),
  };
}

/** The names of the published keys, the signing one first. */
export const published = (keys: KeyChain): unknown[] => keys.inForce().map(({ kid }) => kid);

/** Waits for the given number of keys. @returns the actual number. */
export async function untilPublished(keys: KeyChain, count: number): Promise<number> {
  const end = performance.now() + 10_000;
  while (published(keys).length !== count && performance.now() < end) await pause(20);
  return published(keys).length;
}

export const states = async (keys: KeyChain): Promise<string[]> =>
  (await keys.list()).map(({ state }) => state);

/** Everything in the storage, as text. */
export async function kept(store: RecordStore): Promise<string> {
  const pages = await Promise.all(
    ["signing-key", "signing-key-set", "setting", "audit"].map((kind) => store.scan(kind, undefined, 1_000)),
  );
  return JSON.stringify(pages);
}
