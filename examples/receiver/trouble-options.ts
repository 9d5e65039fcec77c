/** The options that make a receiver fail: `--fail`, `--status`, `--slow`, `--close`, or with a prefix. */
import { toNumber, toWhole } from "../arguments.ts";
import type { Trouble } from "./trouble.ts";

/** The values on the command line. */
interface TroubleValues {
  readonly fail?: string | undefined;
  readonly status?: string | undefined;
  readonly slow?: string | undefined;
  readonly close?: boolean | undefined;
}

/**
 * @param prefix Start of each option, such as `--`.
 * @throws CommandFailure with exit code 2.
 */
export function readTrouble(prefix: string, { fail, status, slow, close = false }: TroubleValues): Trouble {
  const named = status !== undefined || slow !== undefined || close;
  const seconds = slow === undefined ? 0 : toNumber(`${prefix}slow`, slow, 3600);
  const answer = status === undefined ? undefined : toWhole(`${prefix}status`, status, [200, 599]);
  return {
    times: fail === undefined ? (named ? Infinity : 0) : toWhole(`${prefix}fail`, fail, [0, 1e9]),
    seconds,
    close,
    status: answer ?? (named ? undefined : 503),
  };
}
