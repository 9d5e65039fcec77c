/** Accounts of the storages that are compared, when nobody says otherwise. */
export const SIZES: readonly number[] = [10_000, 100_000, 1_000_000];
