/** The arguments of the example receiver. */
import { parseArgs } from "node:util";
import { MISUSED, StartFailure } from "../server/start-failure.ts";
import type { Trouble } from "./trouble.ts";

/** What the command line asks for. */
export interface CommandLine {
  readonly help: boolean;
  /** 0 to 65535; 0: a free one. */
  readonly port: number;
  readonly client_id: string;
  readonly client_secret: string;
  /** Without one signatures are not checked. */
  readonly signing_secret: string | undefined;
  readonly trouble: Trouble;
}

/** What `--help` prints. */
export const USAGE = `Usage: node examples/receiver/main.ts [options]

Takes notifications at every path, prints them, and makes the trouble that it is asked for.

  --port N                the port on 127.0.0.1; default 4000, 0 for a free one
  --client-id TEXT        the Basic credentials that it expects; default: receiver
  --client-secret TEXT    default: receiver-secret
  --signing-secret TEXT   whsec_ and Base64; without it signatures are not checked

  --fail N        the first N requests meet trouble; default: all, when a trouble is named
  --status S      trouble: they are answered with this status; default 503
  --slow SECONDS  trouble: they wait so long, and then for their answer or the other trouble
  --close         trouble: their connection is closed without an answer
  --help          this text
`;

/** @throws StartFailure with exit code 2. */
export function readCommandLine(args: readonly string[]): CommandLine {
  const values = parse(args);
  const { status, slow, close = false } = values;
  const named = status !== undefined || slow !== undefined || close;
  const slowly = slow === undefined ? 0 : toNumber("--slow", slow, 3600);
  const answer = status === undefined ? undefined : toWhole("--status", status, [200, 599]);
  return {
    help: values.help ?? false,
    port: toWhole("--port", values.port ?? "4000", [0, 65_535]),
    client_id: values["client-id"] ?? "receiver",
    client_secret: values["client-secret"] ?? "receiver-secret",
    signing_secret: values["signing-secret"],
    trouble: {
      times: values.fail === undefined ? (named ? Infinity : 0) : toWhole("--fail", values.fail, [0, 1e9]),
      seconds: slowly,
      close,
      status: answer ?? (named ? undefined : 503),
    },
  };
}

interface Values {
  help?: boolean;
  port?: string;
  "client-id"?: string;
  "client-secret"?: string;
  "signing-secret"?: string;
  fail?: string;
  status?: string;
  slow?: string;
  close?: boolean;
}

function parse(args: readonly string[]): Values {
  const text = { type: "string" } as const;
  const flag = { type: "boolean" } as const;
  try {
    return parseArgs({
      args: [...args],
      options: {
        help: { ...flag, short: "h" },
        port: text,
        "client-id": text,
        "client-secret": text,
        "signing-secret": text,
        fail: text,
        status: text,
        slow: text,
        close: flag,
      },
    }).values;
  } catch (cause) {
    const [sentence = ""] = (cause as Error).message.split(/\.\s|\n/);
    throw misused(sentence, cause);
  }
}

function toNumber(name: string, text: string, most: number): number {
  const value = Number(text);
  if (/^\d+(?:\.\d+)?$/.test(text) && value <= most) return value;
  throw misused(`${name} must be a number from 0 to ${most}`);
}

function toWhole(name: string, text: string, [least, most]: readonly [number, number]): number {
  const value = Number(text);
  if (/^\d{1,10}$/.test(text) && value >= least && value <= most) return value;
  throw misused(`${name} must be a whole number from ${least} to ${most}`);
}

function misused(sentence: string, cause?: unknown): StartFailure {
  return new StartFailure(`${sentence}. See --help.`, MISUSED, { cause });
}
