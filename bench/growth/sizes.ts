/** The default sizes: number of accounts of the storages that are compared. */
export const SIZES: readonly number[] = [10_000, 100_000, 1_000_000];
